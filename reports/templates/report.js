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
if (dialog) {
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
}

// Switches: what is not chosen is hidden on the screen, never on paper. The choice stands in the
// address behind the name of the part (#scores&variable=z500), so that a link keeps it.
const form = document.querySelector("form.switches");
if (form) {
  const dark = document.getElementById("dark");
  const systemTheme = dark.media;
  const boxes = [...form.querySelectorAll("input[name=methods]")];
  const selects = [...form.querySelectorAll("select")];
  const themeButton = form.querySelector(".theme");
  let theme = "";  // as the system has it

  const isDark = () => theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const paint = () => {
    dark.media = { dark: "screen", light: "not all" }[theme] ?? systemTheme;
    document.documentElement.style.colorScheme = theme;
    themeButton.setAttribute("aria-pressed", isDark());
  };

  const value = (name) => selects.find((select) => select.name === name)?.value ?? "";
  const show = () => {
    const members = value("members");
    const fits = (box) => box.checked && (!members || ["", members].includes(box.dataset.members));
    const hidden = new Set(boxes.filter((box) => !fits(box)).map((box) => box.value));
    const off = (name, own) => own !== undefined && value(name) !== "" && own !== value(name);
    for (const part of document.querySelectorAll("[data-variable], [data-method], [data-methods]")) {
      const data = part.dataset;
      part.classList.toggle("off", off("variable", data.variable) || off("lead", data.lead)
        || hidden.has(data.method)
        || (data.methods !== undefined && JSON.parse(data.methods).every((m) => hidden.has(m))));
    }
    for (const note of document.querySelectorAll(".none")) {
      const parts = [...note.parentElement.querySelectorAll("figure, .scroll")];
      note.hidden = parts.length === 0 || parts.some((part) => !part.closest(".off"));
    }
    const told = selects.map((select) => `${select.name}: ${select.selectedOptions[0].text}`);
    const shown = boxes.length - hidden.size;
    if (boxes.length) told.push(`${shown} of ${boxes.length} methods`);
    form.querySelector("output").textContent = told.join(", ");
  };

  const stateParts = () => {
    const parts = selects.filter((select) => select.value)
      .map((select) => `${select.name}=${encodeURIComponent(select.value)}`);
    const kept = boxes.filter((box) => box.checked);
    if (kept.length < boxes.length) {
      parts.push(`methods=${kept.map((box) => encodeURIComponent(box.value)).join(",")}`);
    }
    if (theme) parts.push(`theme=${theme}`);
    return parts;
  };
  const addressParts = () => location.hash.slice(1).split("&");
  const write = () => {
    const anchor = addressParts().find((part) => !part.includes("=")) ?? "";
    const hash = [anchor, ...stateParts()].join("&").replace(/^&/, "");
    history.replaceState(null, "", `${location.pathname}${location.search}${hash && `#${hash}`}`);
  };
  const decoded = (text) => {
    try { return decodeURIComponent(text); } catch { return ""; }
  };
  const read = (parts) => {
    const found = new Map(parts.filter((part) => part.includes("="))
      .map((part) => [part.slice(0, part.indexOf("=")), part.slice(part.indexOf("=") + 1)]));
    for (const select of selects) {
      select.value = decoded(found.get(select.name) ?? "");
      if (select.selectedIndex < 0) select.selectedIndex = 0;
    }
    const kept = found.has("methods") ? found.get("methods").split(",").map(decoded) : null;
    for (const box of boxes) box.checked = !kept || kept.includes(box.value);
    theme = ["dark", "light"].includes(found.get("theme")) ? found.get("theme") : "";
    paint();
    show();
  };

  form.hidden = false;
  form.addEventListener("change", () => { show(); write(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    for (const select of selects) select.selectedIndex = 0;
    for (const box of boxes) box.checked = true;
    show();
    write();
  });
  themeButton.addEventListener("click", () => {
    theme = isDark() ? "light" : "dark";
    paint();
    write();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  addEventListener("hashchange", () => {
    const parts = addressParts();
    if (parts.some((part) => part.includes("="))) read(parts);
    else write();  // a link to a part: the choice stays
  });
  read(addressParts());
  const anchor = addressParts()[0];
  if (addressParts().length > 1) document.getElementById(decoded(anchor))?.scrollIntoView();
}

// Paper shows everything: folded parts are opened for printing and folded again.
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  folded.forEach((part) => { part.open = true; });
});
addEventListener("afterprint", () => folded.forEach((part) => { part.open = false; }));
