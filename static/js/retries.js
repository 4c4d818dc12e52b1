// A part that is fetched once (data-retry: what it is) is fetched again where that failed, after waits that
// grow; a sentence says so. Parts that are asked for every few seconds say when they are out of date.
"use strict";

{
  const FIRST_WAIT = 5; // seconds, doubled each time
  const LONGEST_WAIT = 300;
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  const parts = new Map(); // by id or element: {failed, timer, note}

  const nameOf = (part) => part.id || part;
  const isFollowed = (part) => part?.matches?.("[data-retry], [data-live]");
  const isRepeated = (part) => !part.hasAttribute("data-retry"); // it asks by itself

  // The region is there before its text is, so that it is read out, and politely.
  function say(part, state, sentence) {
    if (!state.note?.isConnected) {
      state.note = document.createElement("p");
      state.note.className = "note no-print fetch-failed";
      state.note.setAttribute("role", "status");
      if (part.matches("td, th")) part.append(state.note);
      else part.before(state.note);
    }
    requestAnimationFrame(() => { state.note.textContent = sentence; });
  }

  function forget(part) {
    const state = parts.get(nameOf(part));
    if (!state) return;
    clearTimeout(state.timer);
    state.note?.remove();
    parts.delete(nameOf(part));
  }

  function fetchAgain(part) {
    const current = part.id ? document.getElementById(part.id) : part;
    if (!current?.isConnected || !current.hasAttribute("hx-get")) forget(part);
    else window.htmx.ajax("GET", current.getAttribute("hx-get"), { source: current });
  }

  function schedule(part, state, wait) {
    clearTimeout(state.timer);
    state.timer = setTimeout(() => fetchAgain(part), 1000 * wait);
  }

  function take(part) {
    const state = parts.get(nameOf(part)) ?? { failed: 0, timer: null, note: null };
    parts.set(nameOf(part), state);
    return state;
  }

  for (const name of ["htmx:sendError", "htmx:responseError", "htmx:timeout"]) {
    document.addEventListener(name, ({ target: part }) => {
      if (!isFollowed(part)) return;
      const state = take(part);
      state.failed += 1;
      if (isRepeated(part)) {
        if (state.failed > 1) return; // it is said
        const since = clock.format(new Date());
        say(part, state, `Not up to date since ${since}: Tare does not answer. This page asks again every few seconds.`);
        return;
      }
      const wait = Math.min(FIRST_WAIT * 2 ** (state.failed - 1), LONGEST_WAIT);
      const next = clock.format(new Date(Date.now() + 1000 * wait));
      say(part, state, `${part.dataset.retry} could not be fetched. Next try in ${wait} s, at ${next}.`);
      schedule(part, state, wait);
    });
  }

  // Nobody looks, or somebody types in it (js/page.js): what is asked for once is asked for later.
  document.addEventListener("htmx:beforeRequest", (event) => {
    const part = event.target;
    if (event.defaultPrevented && isFollowed(part) && !isRepeated(part)) {
      schedule(part, take(part), FIRST_WAIT);
    }
  });
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { requestConfig, shouldSwap, xhr } = event.detail;
    const part = requestConfig.elt;
    if (!isFollowed(part) || xhr.status >= 400) return;
    if (!shouldSwap && xhr.status === 200 && !isRepeated(part)) schedule(part, take(part), FIRST_WAIT);
    else forget(part);
  });
}
