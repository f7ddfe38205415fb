
"use strict";

// Tables: a head sorts by its column, a second time the other way round.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = (row) => row.cells[column].dataset.order;
    const order = (a, b) => {
      if (a === "" || b === "") return (a === "") - (b === "");  // nothing to sort by: last
      const difference = isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b;
      return up ? difference : -difference;
    };
    const body = table.tBodies[0];
    body.append(...[...body.rows].sort((a, b) => order(key(a), key(b))));
  }));
}

// Figures: a click or Enter enlarges, Escape, the button or a click beside the image closes.
const dialog = document.querySelector("dialog");
const large = dialog.querySelector("img");
for (const button of document.querySelectorAll("button.zoom")) {
  button.addEventListener("click", () => {
    const image = button.querySelector("img");
    large.src = image.src;
    large.alt = image.alt;
    dialog.className = button.closest("figure").className;
    dialog.showModal();
  });
}
dialog.addEventListener("click", (event) => {
  if (event.target !== large) dialog.close();
});
dialog.addEventListener("close", () => large.removeAttribute("src"));

// Paper shows everything: folded parts are opened for printing and folded again.
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  folded.forEach((part) => { part.open = true; });
});
addEventListener("afterprint", () => folded.forEach((part) => { part.open = false; }));
