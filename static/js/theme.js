// Runs before the page is painted: light or dark by the system's wish, unless the reader chose.
"use strict";

const system = window.matchMedia("(prefers-color-scheme: dark)");

function showTheme() {
  // The administration keeps its choice under the same name, and there it may be "auto".
  const chosen = localStorage.getItem("theme");
  const preferred = system.matches ? "dark" : "light";
  const theme = ["light", "dark"].includes(chosen) ? chosen : preferred;
  if (document.documentElement.dataset.bsTheme === theme) return;
  document.documentElement.dataset.bsTheme = theme;
  document.dispatchEvent(new Event("tare:theme"));
}

showTheme();
system.addEventListener("change", showTheme);

// Paper is white.
window.addEventListener("beforeprint", () => {
  document.documentElement.dataset.bsTheme = "light";
});
window.addEventListener("afterprint", showTheme);

document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-theme-switch]")) return;
  const other = document.documentElement.dataset.bsTheme === "dark" ? "light" : "dark";
  if (other === (system.matches ? "dark" : "light")) localStorage.removeItem("theme");
  else localStorage.setItem("theme", other);
  showTheme();
});
