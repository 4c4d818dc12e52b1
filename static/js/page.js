// Small comforts; every page works without them.
"use strict";

const minutes = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit",
});
const ofThisYear = {
  month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit",
};
const seconds = new Intl.DateTimeFormat(undefined, ofThisYear);
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const earlier = new Intl.DateTimeFormat(undefined, { ...ofThisYear, year: "numeric" });

// The page says UTC; the reader's own zone is shown instead, and UTC on hover.
function showLocalTimes(root) {
  for (const time of root.querySelectorAll("time[data-when]:not([title])")) {
    time.title = time.textContent;
    const moment = new Date(time.dateTime);
    const exact = moment.getFullYear() === new Date().getFullYear() ? seconds : earlier;
    const form = { seconds: exact, clock }[time.dataset.when] ?? minutes;
    time.textContent = form.format(moment);
  }
}

showLocalTimes(document);
document.addEventListener("htmx:afterSwap", () => showLocalTimes(document));

// Nobody looks, nobody asks; and what somebody is about to do is not swept away.
const BUSY = "details.menu[open], input:focus, select:focus";
document.addEventListener("htmx:beforeRequest", (event) => {
  if (!event.target.hasAttribute("data-live")) return;
  if (document.hidden || event.target.querySelector(BUSY)) event.preventDefault();
});

// It says what it shows (dashboard/middleware.py): where that is all there is, it is left as it is.
const SHOWN = "X-Shown";
const shown = new Map(); // what each live part was last replaced by, by its id
document.addEventListener("htmx:configRequest", (event) => {
  const live = event.target;
  if (live.hasAttribute("data-live") && shown.has(live.id)) {
    event.detail.headers[SHOWN] = shown.get(live.id);
  }
});

// A live part is replaced quietly: focus and sideways scrolling stay where they were.
const FOCUSABLE = "a, button, summary";
let replaced = null;
document.addEventListener("htmx:beforeSwap", (event) => {
  const live = event.detail.target;
  if (!live.hasAttribute("data-live") || !event.detail.shouldSwap) return;
  if (live.querySelector(BUSY)) { // it was begun while the answer was under way
    event.detail.shouldSwap = false;
    return;
  }
  shown.set(live.id, event.detail.xhr.getResponseHeader(SHOWN));
  replaced = {
    id: live.id,
    focused: [...live.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement),
    scrolled: [...live.querySelectorAll(".scroll")].map((box) => box.scrollLeft),
  };
});
document.addEventListener("htmx:afterSwap", () => {
  if (!replaced) return;
  const live = document.getElementById(replaced.id);
  live.querySelectorAll(FOCUSABLE)[replaced.focused]?.focus({ preventScroll: true });
  live.querySelectorAll(".scroll").forEach((box, index) => {
    box.scrollLeft = replaced.scrolled[index] ?? 0;
  });
  announceEnd(live);
  replaced = null;
});

// A live part that has ended says so, once: it is not asked for again.
function announceEnd(live) {
  const announcement = document.getElementById("announcement");
  const text = live.dataset.ended;
  if (text && announcement.textContent !== text) announcement.textContent = text;
}

// How many rows are selected; without this script their boxes alone say it.
function countSelected() {
  const text = document.querySelector("[data-selected]");
  if (!text) return;
  const all = document.querySelector("#selection [name='all']");
  const count = document.querySelectorAll("tbody input[form='selection']:checked").length;
  text.textContent = all?.checked ? "All selected" : `${count} selected`;
}

countSelected();
document.addEventListener("change", countSelected);
document.addEventListener("reset", () => setTimeout(countSelected)); // after the boxes
window.addEventListener("pageshow", countSelected);

document.addEventListener("click", async (event) => {
  const copy = event.target.closest("[data-copy]");
  if (copy) {
    await navigator.clipboard.writeText(document.getElementById(copy.dataset.copy).textContent);
    copy.textContent = "Copied";
  }
  if (event.target.closest("[data-print]")) {
    try {
      await window.loadPlotly?.(); // charts that have not been seen yet are drawn for paper too
    } catch {
      // They cannot be fetched: the rest is printed without them.
    }
    window.print();
  }
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (menu.contains(document.activeElement)) menu.querySelector("summary").focus();
    menu.open = false;
  }
});

// A field whose problems were replaced by a preview is marked, or no longer.
document.addEventListener("htmx:afterSettle", () => {
  for (const problems of document.querySelectorAll(".problems[id$='_error']")) {
    const field = document.getElementById(problems.id.replace(/_error$/, ""));
    if (problems.childElementCount) {
      field?.setAttribute("aria-invalid", "true");
      problems.closest("details")?.setAttribute("open", ""); // what is wrong is never out of sight
    }
    else field?.removeAttribute("aria-invalid");
  }
});

// A second click on a button that is at work does nothing. After this event, so that the
// button's own name and value are still sent.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post" || event.defaultPrevented) return;
  setTimeout(() => {
    for (const button of form.querySelectorAll("button[type=submit]")) button.disabled = true;
  });
});
window.addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  for (const button of document.querySelectorAll("button[type=submit]")) button.disabled = false;
});

// A file that no page would take is not sent first to be refused afterwards.
document.addEventListener("input", (event) => {
  const { mostBytes, tooLarge } = event.target.dataset;
  if (!mostBytes) return;
  const problem = event.target.closest(".field").querySelector(".problems");
  const isTooLarge = [...event.target.files].some((file) => file.size > Number(mostBytes));
  problem.innerHTML = "";
  if (!isTooLarge) return;
  event.stopPropagation();
  event.target.value = "";
  const message = document.createElement("div");
  message.className = "problem";
  message.textContent = tooLarge;
  problem.append(message);
}, true);

// How much of a file has been sent, where the form has a bar for it.
document.addEventListener("htmx:xhr:progress", (event) => {
  const form = event.target.closest?.("form[data-progress]");
  if (!form || !event.detail.lengthComputable) return;
  const { loaded, total } = event.detail;
  const progress = form.querySelector(".sending");
  progress.hidden = false;
  progress.querySelector("progress").value = loaded / total;
  const text = loaded < total ? `${Math.floor((100 * loaded) / total)} % sent` : "all sent; being kept";
  progress.querySelector("span").textContent = text;
});
