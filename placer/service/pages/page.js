// Follows a search: the page works without it, and then asks again every two seconds.
"use strict";

const progress = document.getElementById("progress");

function number(value) {
  return Number(value).toLocaleString("en", { maximumSignificantDigits: 4 });
}

function gapWords(gap) {
  if (gap === null) return "not known yet";
  return gap > 1 ? "over 100 %" : `${(100 * gap).toLocaleString("en", { maximumFractionDigits: 1 })} %`;
}

function told(best) {
  progress.textContent = `best so far ${number(best.value)} ${best.unit}, gap ${gapWords(best.gap)}`;
  const table = document.getElementById("found");
  const row = table.tBodies[0].insertRow();
  for (const words of [`${number(best.seconds)} s`, `${number(best.value)} ${best.unit}`, gapWords(best.gap)]) {
    row.insertCell().textContent = words;
  }
  table.hidden = false;
}

if (progress) {
  const events = new EventSource(progress.dataset.events);
  events.addEventListener("state", (event) => {
    if (JSON.parse(event.data).state === "queued") progress.textContent = "waiting for a free worker";
  });
  events.addEventListener("better", (event) => told(JSON.parse(event.data)));
  events.addEventListener("done", () => {
    events.close();
    location.reload();
  });
}

if (window.SwaggerUIBundle) {
  SwaggerUIBundle({ url: "/openapi.json", dom_id: "#api", deepLinking: true, validatorUrl: null });
}
