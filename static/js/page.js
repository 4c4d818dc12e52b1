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

// A picture that is wider than its box begins where what was asked for stands.
for (const box of document.querySelectorAll(".scroll[data-middle]")) {
  box.scrollLeft = box.dataset.middle - box.clientWidth / 2;
}

// Nobody looks, nobody asks; and what somebody is about to do is not swept away.
const BUSY = "details.menu[open], input:focus, select:focus";
document.addEventListener("htmx:beforeRequest", (event) => {
  if (!event.target.hasAttribute("data-live")) return;
  if (document.hidden || event.target.querySelector(BUSY)) event.preventDefault();
});

// It says what it shows (dashboard/middleware.py): where that is all there is, it is left as it is.
// Its mark (dashboard/live_parts.py) says of which rows that is, also where they have changed and it has not.
const SHOWN = "X-Shown";
const MARK = "X-Mark";
const SEEN = "X-Seen";
const shown = new Map(); // what each live part was last replaced by, by its id
const marks = new Map();
function rememberMark(part, xhr) {
  const mark = xhr.getResponseHeader(MARK);
  if (mark) marks.set(part.id, mark);
}
document.addEventListener("htmx:configRequest", (event) => {
  const live = event.target;
  if (live.hasAttribute("data-live") && shown.has(live.id)) {
    event.detail.headers[SHOWN] = shown.get(live.id);
  }
  if (live.hasAttribute("data-live") && marks.has(live.id)) event.detail.headers[MARK] = marks.get(live.id);
  // The part beside it is larger, and fetched when it is behind: that is found by what it says it shows.
  const beside = live.dataset.beside && document.getElementById(live.dataset.beside);
  if (beside) event.detail.headers[SEEN] = beside.dataset.seen;
});

// A part that is replaced leaves the focus where it was: on what has taken the place of what had it, or
// else on the part itself, so that Tab goes on from there.
const FOCUSABLE = "a[href], button, summary, input, select, textarea, [tabindex]";
const labelOf = (element) => element.getAttribute("aria-label") || element.textContent.trim();
function rememberFocus(part) {
  const element = document.activeElement;
  if (!part.contains(element) || element === document.body) return null;
  const all = [...part.querySelectorAll(FOCUSABLE)];
  const isLike = (other) => other.tagName === element.tagName && labelOf(other) === labelOf(element);
  const place = { label: all.filter(isLike).indexOf(element), index: all.indexOf(element), count: all.length };
  return { element, isLike, ...place };
}
function restoreFocus(part, { element, isLike, label, index, count }) {
  if (document.activeElement && document.activeElement !== document.body) return;
  const all = [...part.querySelectorAll(FOCUSABLE)];
  const byPlace = all.length === count && all[index]?.tagName === element.tagName ? all[index] : null;
  const isSameLink = (other) => element.href && other.href === element.href;
  const byId = element.id && document.getElementById(element.id);
  const successor = byId || all.filter(isLike)[label] || all.find(isSameLink) || byPlace || part;
  if (successor === part && !part.hasAttribute("tabindex")) part.tabIndex = -1;
  successor.focus({ preventScroll: true });
}

// A live part is replaced quietly: sideways scrolling stays where it was, too.
let replaced = null;
document.addEventListener("htmx:beforeSwap", (event) => {
  const part = event.detail.target;
  if (!event.detail.shouldSwap) {
    const seen = event.detail.xhr.getResponseHeader(SEEN);
    if (event.detail.xhr.status !== 204) return;
    if (seen) part.dataset.seen = seen; // it shows that already
    rememberMark(part, event.detail.xhr);
    return;
  }
  const isLive = part.hasAttribute("data-live");
  if (isLive && part.querySelector(BUSY)) { // it was begun while the answer was under way
    event.detail.shouldSwap = false;
    return;
  }
  if (isLive) {
    shown.set(part.id, event.detail.xhr.getResponseHeader(SHOWN));
    rememberMark(part, event.detail.xhr);
  }
  replaced = {
    id: part.id,
    isLive,
    focus: rememberFocus(part),
    scrolled: isLive ? [...part.querySelectorAll(".scroll")].map((box) => box.scrollLeft) : [],
  };
});
document.addEventListener("htmx:afterSwap", (event) => {
  if (!replaced) return;
  const { id, isLive, focus, scrolled } = replaced;
  replaced = null;
  const part = (id && document.getElementById(id)) || event.target;
  if (focus) restoreFocus(part, focus);
  if (!isLive) return;
  part.querySelectorAll(".scroll").forEach((box, index) => {
    box.scrollLeft = scrolled[index] ?? 0;
  });
  announceEnd(part);
});

// A table that is wider than its box, and holds nothing that takes the focus, takes it itself: so the arrow
// keys scroll it. Any other would only be one more press of Tab.
function letScrollingBoxesTakeFocus() {
  for (const box of document.querySelectorAll(".scroll:not([tabindex]), .scroll[data-scrolls]")) {
    const isWide = box.scrollWidth > box.clientWidth && !box.querySelector(FOCUSABLE);
    box.toggleAttribute("data-scrolls", isWide);
    if (isWide) box.tabIndex = 0;
    else if (box !== document.activeElement) box.removeAttribute("tabindex");
  }
}
letScrollingBoxesTakeFocus();
window.addEventListener("load", letScrollingBoxesTakeFocus);
window.addEventListener("resize", letScrollingBoxesTakeFocus);
document.addEventListener("htmx:afterSettle", letScrollingBoxesTakeFocus);
document.addEventListener("toggle", letScrollingBoxesTakeFocus, true); // what was folded has a width now
document.addEventListener("tare:drawn", letScrollingBoxesTakeFocus); // and a chart once it is drawn

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
      // Charts that have no picture, and pictures, are drawn for paper also where nobody has seen them yet.
      if (document.querySelector("[data-chart]:not(.no-print *)")) await window.loadPlotly?.();
      await window.loadPictures?.();
    } catch {
      // They cannot be fetched: the rest is printed without them.
    }
    window.print();
  }
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

// Going on by Tab leaves a menu behind, which would cover what has the focus now.
document.addEventListener("focusin", (event) => {
  if (event.target.closest("[popover], dialog")) return; // opened from within one
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
