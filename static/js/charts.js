// Draws the figures that the page carries as JSON; colours are the page's own, light or dark.
// plotly.js, which is large, is fetched when the first of them is to be seen.
"use strict";

const PLOTLY = document.currentScript.dataset.plotly;
let loading = null;

function loadPlotly() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.addEventListener("load", resolve);
    script.addEventListener("error", () => {
      loading = null; // the next figure, or Print, tries again
      script.remove();
      reject(new Error("plotly.js could not be fetched"));
    });
    script.src = PLOTLY;
    document.head.append(script);
  });
  return loading;
}

const CONFIG = { displayModeBar: false, responsive: true, doubleClick: "reset" };
const EXPORT_SCALE = 2; // pixels of a PNG for one on the page
const ENVIRONMENTS = 8;
const PAPER = 824; // pixels between the margins of an A4 page as the style sheet prints it
const ZOOM = 0.8; // of what is too wide for it
const MOST_ROWS = 500; // of a figure's table; its CSV has all
const FORMULA = /^[=+\-@\t\r]/; // a spreadsheet would run a text that begins like this

const cssVariable = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// dashboard/charts/__init__.py says which parts of a figure take which colour.
function withThemeColours(figure) {
  const { data, layout } = structuredClone(figure);
  const background = cssVariable("--tare-surface");
  const muted = cssVariable("--tare-muted");
  layout.font = { ...layout.font, color: cssVariable("--tare-ink") };
  layout.hoverlabel = {
    bgcolor: background,
    bordercolor: cssVariable("--tare-edge"),
    font: { color: cssVariable("--tare-ink") },
  };
  for (const [name, axis] of Object.entries(layout)) {
    if (/^[xy]axis\d*$/.test(name)) axis.gridcolor = cssVariable("--tare-line");
  }
  for (const shape of layout.shapes ?? []) {
    if (shape.name === "band") shape.fillcolor = cssVariable("--band");
    if (shape.name === "reference") shape.line.color = muted;
  }
  for (const annotation of layout.annotations ?? []) {
    if (annotation.bgcolor) annotation.bgcolor = background;
    if (annotation.name === "muted") annotation.font = { ...annotation.font, color: muted };
  }
  for (const trace of data) {
    const index = trace.meta?.environment;
    const colour =
      index !== undefined ? cssVariable(`--env-${index % ENVIRONMENTS}`)
      : trace.meta?.role === "muted" ? muted
      : trace.meta?.role === "ink" ? cssVariable("--tare-ink") : null;
    if (colour === null) continue;
    if (trace.line) trace.line.color = colour;
    if (trace.fillcolor) trace.fillcolor = colour;
    if (trace.marker) {
      trace.marker.color = colour;
      // An open tick is all rim; any other symbol has a rim in the colour of the background.
      const isOpen = /-open$/.test(trace.marker.symbol);
      if (trace.marker.line) trace.marker.line.color = isOpen ? colour : background;
    }
  }
  return { data, layout };
}

// What a trace says again and again is sent once: see dashboard/charts/packing.py.
function unpackTrace({ packed_customdata: runs, packed_x: lines, ...trace }) {
  if (runs) trace.customdata = runs.flatMap(([run, count]) => Array(count).fill(run));
  if (lines) {
    const [places, counts] = lines;
    trace.x = counts.flatMap((count) => [...places.slice(0, count), null]);
  }
  return trace;
}

// Large figures are no part of the page (data-source): each is fetched when its chart, table or CSV is opened.
const fetched = new WeakMap();

async function fetchFigure(plot) {
  if (!plot.dataset.source || fetched.has(plot)) return;
  const answer = await fetch(plot.dataset.source);
  if (!answer.ok) throw new Error(`the figure could not be fetched: ${answer.status}`);
  fetched.set(plot, await answer.json());
}

const hasFigure = (plot) => !plot.dataset.source || fetched.has(plot);

function readFigure(plot) {
  const figure = fetched.get(plot) ?? JSON.parse(document.getElementById(plot.dataset.chart).textContent);
  return { ...figure, data: figure.data.map(unpackTrace) };
}

// Fetch the figure of a plot, then call `use`; where it does not come, say so in `place`.
async function withFigure(plot, place, use) {
  place.querySelector(":scope > .not-fetched")?.remove();
  try {
    await fetchFigure(plot);
  } catch {
    const note = document.createElement("p");
    note.className = "note not-fetched";
    note.setAttribute("role", "status");
    note.textContent = "The numbers of this chart could not be fetched. Open it again in a minute.";
    place.prepend(note);
    return;
  }
  use();
}

function draw(plot, width) {
  const { data, layout } = withThemeColours(readFigure(plot));
  if (width) layout.width = width;
  Plotly.react(plot, data, layout, CONFIG);
  plot.dispatchEvent(new Event("tare:drawn", { bubbles: true }));
  const isDrawnAnew = plot.dataset.drawn !== undefined;
  plot.dataset.drawn = document.documentElement.dataset.bsTheme;
  if (isDrawnAnew) return;
  plot.on("plotly_click", ({ points }) => {
    const run = points[0]?.customdata;
    if (typeof run === "string" && plot.dataset.runs) {
      window.location.assign(plot.dataset.runs.replace("UID", encodeURIComponent(run)));
    }
  });
}

function resize(plot) {
  if (plot.offsetParent) Plotly.Plots.resize(plot);
}

// What is folded away is drawn when it is opened.
async function drawAll(selector, within = document) {
  const isShown = (plot) => !plot.closest("details:not([open])");
  if (![...within.querySelectorAll(selector)].some(isShown)) return;
  await loadPlotly();
  for (const plot of [...within.querySelectorAll(selector)].filter(isShown)) {
    withFigure(plot, plot.parentElement, () => isShown(plot) && draw(plot));
  }
}

document.addEventListener("DOMContentLoaded", () => drawAll("[data-chart]"));
document.addEventListener("htmx:afterSwap", () => drawAll("[data-chart]:not([data-drawn])"));
document.addEventListener("tare:theme", () => drawAll("[data-chart]"));

window.addEventListener("beforeprint", () => {
  for (const fold of document.querySelectorAll("details.panel:not([open])")) {
    fold.open = true;
    fold.dataset.forPaper = "yes";
  }
  if (!window.Plotly) return; // paper cannot wait for it; the button Print does
  for (const plot of document.querySelectorAll("[data-chart]:not(details:not([open]) *)")) {
    if (hasFigure(plot)) draw(plot, plot.closest(".wide") ? PAPER / ZOOM : PAPER);
  }
});
window.addEventListener("afterprint", () => {
  for (const fold of document.querySelectorAll("details.panel[data-for-paper]")) {
    fold.open = false;
    delete fold.dataset.forPaper;
  }
  for (const plot of document.querySelectorAll("[data-drawn]:not(details:not([open]) *)")) {
    draw(plot);
    resize(plot); // without a width it keeps its last one until it is told to look again
  }
});
document.addEventListener("toggle", (event) => {
  // Folded away in the meantime, a plot does not know how wide it may be.
  for (const plot of event.target.querySelectorAll("[data-drawn]")) resize(plot);
  // Nor does it know that the reader has chosen the other theme.
  drawAll(`[data-chart]:not([data-drawn="${document.documentElement.dataset.bsTheme}"])`, event.target);
}, true);

// A figure's names are plotly's pseudo-HTML.
function plainText(text) {
  const page = new DOMParser().parseFromString(text.replaceAll("<br>", ", "), "text/html");
  return page.body.textContent;
}

// One row a point. On an axis that has names instead of a title, the nearest one is the value.
function tableOfPoints({ data, layout }) {
  const { x: title, rows } = layout.meta ?? {};
  const { xaxis, yaxis } = layout;
  const valueOn = (axis, names) => (value) => {
    if (axis.title.text) return value;
    const distances = axis.tickvals.map((tick) => Math.abs(tick - value));
    return plainText(names[distances.indexOf(Math.min(...distances))]);
  };
  const x = valueOn(xaxis, xaxis.ticktext);
  const y = valueOn(yaxis, rows ?? yaxis.ticktext);
  // The scale of an axis is no part of the heading of its numbers.
  const headings = [title ?? xaxis.title.text, yaxis.title.text].map(
    (text) => plainText(text).replace(", log scale", "") || "of");
  const points = data.flatMap((trace) =>
    trace.x.flatMap((value, i) =>
      value === null ? []
      : [[plainText(trace.name), x(value), y(trace.y[i]), trace.customdata?.[i] ?? ""]]));
  return [["series", ...headings, "run"], ...points];
}

// The table behind a figure, for those who cannot see it: made when it is opened.
function fillTable(plot, box) {
  if (box.querySelector("table")) return;
  const [headings, ...rows] = tableOfPoints(readFigure(plot));
  const hasRuns = rows.some((row) => row.at(-1) !== "");
  const table = document.createElement("table");
  table.className = "table dense";
  const more = rows.length > MOST_ROWS ? `; the CSV has all ${rows.length} rows` : "";
  table.createCaption().textContent = `${rows.slice(0, MOST_ROWS).length} rows${more}`;
  const addRow = (part, cells, tag, scope) => {
    const line = part.insertRow();
    for (const [index, value] of (hasRuns ? cells : cells.slice(0, -1)).entries()) {
      const cell = document.createElement(index === 0 ? "th" : tag);
      if (cell.tagName === "TH") cell.scope = index === 0 && tag === "td" ? "row" : scope;
      const text = typeof value === "number" ? String(Number(value.toPrecision(6))) : value;
      if (typeof value === "number") cell.className = "num";
      if (tag === "td" && index === 3 && text && plot.dataset.runs) {
        const link = document.createElement("a");
        link.href = plot.dataset.runs.replace("UID", encodeURIComponent(text));
        link.textContent = text.slice(0, 8);
        cell.append(link);
      } else cell.textContent = text;
      line.append(cell);
    }
  };
  addRow(table.createTHead(), headings, "th", "col");
  const body = table.createTBody();
  for (const row of rows.slice(0, MOST_ROWS)) addRow(body, row, "td", "row");
  box.append(table);
}

document.addEventListener("toggle", (event) => {
  if (!event.target.matches("details.points[open]")) return;
  const box = event.target.querySelector(".scroll");
  const plot = event.target.closest("figure").querySelector("[data-chart]");
  if (!box.querySelector("table")) withFigure(plot, box, () => fillTable(plot, box));
}, true);

function csvCell(value) {
  if (value === null) return ""; // no finite number
  if (typeof value === "number") return value;
  return `"${(FORMULA.test(value) ? "'" : "") + value.replaceAll('"', '""')}"`;
}

function download(text, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-save]");
  if (!button) return;
  const plot = button.closest("figure").querySelector("[data-chart]");
  const filename = plot.dataset.name ?? "tare";
  if (button.dataset.save === "csv") {
    withFigure(plot, button.closest("details, figure"), () => {
      const lines = tableOfPoints(readFigure(plot)).map((row) => row.map(csvCell).join(",") + "\r\n");
      download(lines.join(""), `${filename}.csv`);
    });
    return;
  }
  Plotly.downloadImage(plot, {
    format: button.dataset.save,
    filename,
    width: plot.clientWidth,
    height: plot.clientHeight,
    scale: button.dataset.save === "png" ? EXPORT_SCALE : 1,
  });
});
