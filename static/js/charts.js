// Draws the figures that the page carries as JSON; colours are the page's own, light or dark.
"use strict";

const CONFIG = { displayModeBar: false, responsive: true, doubleClick: "reset" };
const EXPORT_SCALE = 2; // pixels of a PNG for one on the page
const ENVIRONMENTS = 8;

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
    if (annotation.name === "muted") annotation.font = { ...annotation.font, color: muted };
  }
  for (const trace of data) {
    const index = trace.meta?.environment;
    const colour =
      index !== undefined ? token(`--env-${index % ENVIRONMENTS}`)
      : trace.meta?.role === "muted" ? muted : null;
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

function draw(place) {
  const { data, layout } = dressed(figureOf(place));
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

function drawAll(which) {
  for (const place of document.querySelectorAll(which)) draw(place);
}

document.addEventListener("DOMContentLoaded", () => drawAll("[data-chart]"));
document.addEventListener("htmx:afterSwap", () => drawAll("[data-chart]:not([data-drawn])"));
document.addEventListener("tare:theme", () => drawAll("[data-chart]"));

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-save]");
  if (!button) return;
  const place = button.closest("figure").querySelector("[data-chart]");
  Plotly.downloadImage(place, {
    format: button.dataset.save,
    filename: place.dataset.name ?? "tare",
    width: place.clientWidth,
    height: place.clientHeight,
    scale: button.dataset.save === "png" ? EXPORT_SCALE : 1,
  });
});
