// Draws the figures that the page carries as JSON; colours are the page's own, light or dark.
"use strict";

const CONFIG = { displayModeBar: false, responsive: true, doubleClick: "reset" };
const EXPORT_SCALE = 2; // pixels of a PNG for one on the page
const ENVIRONMENTS = 8;
const PAPER = 824; // pixels between the margins of an A4 page as the style sheet prints it
const ZOOM = 0.8; // of what is too wide for it
const FORMULA = /^[=+\-@\t\r]/; // a spreadsheet would run a text that begins like this

const token = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// dashboard/charts/__init__.py says which parts of a figure take which colour.
function dressed(figure) {
  const { data, layout } = structuredClone(figure);
  const ground = token("--tare-surface");
  const muted = token("--tare-muted");
  layout.font = { ...layout.font, color: token("--tare-ink") };
  layout.hoverlabel = {
    bgcolor: ground, bordercolor: token("--tare-edge"), font: { color: token("--tare-ink") },
  };
  for (const [name, axis] of Object.entries(layout)) {
    if (/^[xy]axis\d*$/.test(name)) axis.gridcolor = token("--tare-line");
  }
  for (const shape of layout.shapes ?? []) {
    if (shape.name === "band") shape.fillcolor = token("--band");
    if (shape.name === "reference") shape.line.color = muted;
  }
  for (const annotation of layout.annotations ?? []) {
    if (annotation.bgcolor) annotation.bgcolor = ground;
    if (annotation.name === "muted") annotation.font = { ...annotation.font, color: muted };
  }
  for (const trace of data) {
    const index = trace.meta?.environment;
    const colour =
      index !== undefined ? token(`--env-${index % ENVIRONMENTS}`)
      : trace.meta?.role === "muted" ? muted
      : trace.meta?.role === "ink" ? token("--tare-ink") : null;
    if (colour === null) continue;
    if (trace.line) trace.line.color = colour;
    if (trace.marker) {
      trace.marker.color = colour;
      // An open tick is all rim; any other symbol has a rim in the colour of the ground.
      if (trace.marker.line && !/-open$/.test(trace.marker.symbol)) trace.marker.line.color = ground;
      else if (trace.marker.line) trace.marker.line.color = colour;
    }
  }
  return { data, layout };
}

function figureOf(place) {
  return JSON.parse(document.getElementById(place.dataset.chart).textContent);
}

function draw(place, width) {
  const { data, layout } = dressed(figureOf(place));
  if (width) layout.width = width;
  Plotly.react(place, data, layout, CONFIG);
  if (place.dataset.drawn) return;
  place.dataset.drawn = "yes";
  place.on("plotly_click", ({ points }) => {
    const run = points[0]?.customdata;
    if (typeof run === "string" && place.dataset.runs) {
      window.location.assign(place.dataset.runs.replace("UID", encodeURIComponent(run)));
    }
  });
}

function fit(place) {
  if (place.offsetParent) Plotly.Plots.resize(place);
}

// What is folded away is drawn when it is opened.
function drawAll(which) {
  for (const place of document.querySelectorAll(which)) {
    if (!place.closest("details:not([open])")) draw(place);
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
  for (const place of document.querySelectorAll("[data-chart]")) {
    draw(place, place.closest(".wide") ? PAPER / ZOOM : PAPER);
  }
});
window.addEventListener("afterprint", () => {
  for (const fold of document.querySelectorAll("details.panel[data-for-paper]")) {
    fold.open = false;
    delete fold.dataset.forPaper;
  }
  drawAll("[data-chart]");
  // A plot without a width keeps its last one until it is told to look again.
  for (const place of document.querySelectorAll("[data-chart]")) fit(place);
});
document.addEventListener("toggle", (event) => {
  // Folded away in the meantime, a plot does not know how wide it may be.
  for (const place of event.target.querySelectorAll("[data-chart]")) {
    if (place.dataset.drawn) fit(place);
    else if (!place.closest("details:not([open])")) draw(place);
  }
}, true);

// A figure's names are plotly's pseudo-HTML.
function plain(text) {
  const page = new DOMParser().parseFromString(text.replaceAll("<br>", ", "), "text/html");
  return page.body.textContent;
}

// One row a point. On an axis that has names instead of a title, the nearest one is the value.
function pointsOf({ data, layout }) {
  const { x: title, rows } = layout.meta ?? {};
  const { xaxis, yaxis } = layout;
  const on = (axis, words) => (value) => {
    if (axis.title.text) return value;
    const distances = axis.tickvals.map((tick) => Math.abs(tick - value));
    return plain(words[distances.indexOf(Math.min(...distances))]);
  };
  const x = on(xaxis, xaxis.ticktext);
  const y = on(yaxis, rows ?? yaxis.ticktext);
  const headings = [title ?? xaxis.title.text, yaxis.title.text].map((text) => plain(text) || "of");
  const points = data.flatMap((trace) =>
    trace.x.flatMap((value, i) =>
      value === null ? []
      : [[plain(trace.name), x(value), y(trace.y[i]), trace.customdata?.[i] ?? ""]]));
  return [["series", ...headings, "run"], ...points];
}

function cell(value) {
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
  const place = button.closest("figure").querySelector("[data-chart]");
  const filename = place.dataset.name ?? "tare";
  if (button.dataset.save === "csv") {
    const lines = pointsOf(figureOf(place)).map((row) => row.map(cell).join(",") + "\r\n");
    download(lines.join(""), `${filename}.csv`);
    return;
  }
  Plotly.downloadImage(place, {
    format: button.dataset.save,
    filename,
    width: place.clientWidth,
    height: place.clientHeight,
    scale: button.dataset.save === "png" ? EXPORT_SCALE : 1,
  });
});
