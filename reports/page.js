// Draws the page's figures in the reader's colour scheme, swaps percentiles, sorts tables. Nothing is fetched.
"use strict";
(() => {
  const darkForms = JSON.parse(document.getElementById("dark-forms").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const config = { responsive: true, displayModeBar: false };

  const hex = (parts) => "#" + parts.map((p) => Number(p).toString(16).padStart(2, "0")).join("");

  function darkForm(colour) {
    if (darkForms[colour]) return darkForms[colour];
    const rgba = /^rgba\((\d+), (\d+), (\d+), ([\d.]+)\)$/.exec(colour);
    const form = rgba && darkForms[hex(rgba.slice(1, 4))];
    if (!form) return colour;
    const channels = [1, 3, 5].map((at) => parseInt(form.slice(at, at + 2), 16));
    return `rgba(${channels.join(", ")}, ${rgba[4]})`;
  }

  // Only values under a key that names a colour are mapped: an arm may be called "#0072b2".
  function themed(value, key) {
    if (Array.isArray(value)) return value.map((item) => themed(item, key));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, themed(v, k)]));
    }
    return typeof value === "string" && /color$/.test(key) ? darkForm(value) : value;
  }

  function draw(block) {
    const place = block.querySelector(".plot");
    const variants = JSON.parse(block.querySelector(".plot-data").textContent);
    const picked = block.closest("section").querySelector(".selector input:checked");
    const name = picked ? picked.value : Object.keys(variants)[0];
    if (!(name in variants)) {
      window.Plotly.purge(place);
      place.textContent = "Not known for this choice.";
      return;
    }
    if (!place.classList.contains("js-plotly-plot")) place.textContent = "";
    let figure = variants[name];
    if (dark.matches) figure = themed(figure, "");
    figure.layout.autosize = true;
    window.Plotly.react(place, figure.data, figure.layout, config);
  }

  function drawAll(root) {
    root.querySelectorAll(".figure").forEach(draw);
  }

  function sortKey(row, column) {
    const key = row.cells[column].dataset.sort;
    if (key === undefined) return null;
    return Number.isNaN(Number(key)) ? key : Number(key);
  }

  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b));
  }

  // Unknown values go last whichever way the column is sorted.
  function sortBy(button) {
    const head = button.closest("th");
    const body = head.closest("table").tBodies[0];
    const column = Number(button.dataset.column);
    const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    const rows = [...body.rows].map((row) => [sortKey(row, column), row]);
    rows.sort(([a], [b]) => (a === null) - (b === null) || (a === null ? 0 : sign * compare(a, b)));
    head.parentElement.querySelectorAll("th").forEach((th) => th.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
    body.append(...rows.map(([, row]) => row));
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-column]");
    if (button) sortBy(button);
  });
  document.addEventListener("change", (event) => {
    if (event.target.closest(".selector")) drawAll(event.target.closest("section"));
  });
  dark.addEventListener("change", () => drawAll(document));
  drawAll(document);
})();
