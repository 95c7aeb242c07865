// Headings of tables sort them; without scripts the tables stay as they are. The words of a heading
// stand beside its button: Chromium repeats no heading on the next printed page that is a button.
"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  if (body.rows.length < 2) continue;
  table.querySelectorAll("thead th").forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-label", `Sort by ${heading.textContent}`);
    const words = heading.textContent.split(" ");
    const last = document.createElement("span");  // no line break parts the button from it
    last.className = "last";
    last.append(words.pop(), button);
    heading.replaceChildren(...words.map((word) => `${word} `), last);
    heading.addEventListener("click", () => {
      const up = heading.getAttribute("aria-sort") !== "ascending";
      for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", up ? "ascending" : "descending");
      const number = heading.classList.contains("number");
      const key = (row) => row.cells[column].dataset.key ?? "";
      const rows = [...body.rows].sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        if (x === "" || y === "") return (x === "") - (y === "");  // empty cells stay below
        const order = number ? Number(x) - Number(y) : x.localeCompare(y);
        return up ? order : -order;
      });
      body.append(...rows);
    });
  });
}
