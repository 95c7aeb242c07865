const charts = JSON.parse(document.getElementById("charts").textContent);
const options = {actions: false, renderer: "svg", ast: true, mode: "vega-lite"};
for (const [id, chart] of Object.entries(charts)) {
  const place = document.getElementById(id);
  const beside = document.createElement("div");
  vegaEmbed(beside, chart.spec, options).then(() => {
    const svg = beside.querySelector("svg");
    for (const part of svg.querySelectorAll("[role], [aria-label], [aria-roledescription]")) {
      for (const name of ["role", "aria-label", "aria-roledescription", "aria-hidden"]) part.removeAttribute(name);
    }
    svg.removeAttribute("aria-roledescription");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", chart.title);
    svg.setAttribute("viewBox", `0 0 ${svg.getAttribute("width")} ${svg.getAttribute("height")}`);
    place.replaceChildren(beside);
  });
}
