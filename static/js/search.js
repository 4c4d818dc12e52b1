// The search that answers while one types: Ctrl-K, "/" or the box in the header.
// Without it, the box leads to the page of the search.
"use strict";

(() => {
  const template = document.getElementById("search-template");
  const box = document.querySelector("[data-search]");
  if (!template || !box) return;

  const PAUSE = 120; // milliseconds without a key before the server is asked
  const isMac = /Mac|iPhone|iPad/.test(navigator.platform);
  let parts = null; // of the dialog, once it was opened
  let active = null; // the option that Enter opens
  let answered = ""; // the text that the list answers
  let waiting = 0;
  let request = null;

  for (const key of document.querySelectorAll("[data-search-key]")) {
    key.textContent = isMac ? "⌘K" : "Ctrl K";
    key.hidden = false;
  }
  box.setAttribute("aria-keyshortcuts", isMac ? "Meta+K" : "Control+K");

  function makeDialog() {
    document.body.append(template.content.cloneNode(true));
    const dialog = document.querySelector("dialog.search");
    parts = {
      dialog,
      form: dialog.querySelector("form"),
      input: dialog.querySelector("input"),
      list: dialog.querySelector("[role=listbox]"),
      status: dialog.querySelector("[role=status]"),
    };
    parts.input.addEventListener("input", askSoon);
    parts.input.addEventListener("keydown", useKey);
    parts.list.addEventListener("pointermove", (event) => {
      const option = event.target.closest("[role=option]");
      if (option && option !== active) activate(option);
    });
    // The focus stays in the field, so that one may go on typing.
    parts.list.addEventListener("mousedown", (event) => event.preventDefault());
    parts.list.addEventListener("click", (event) => {
      const isElsewhere = event.ctrlKey || event.metaKey || event.shiftKey;
      if (event.target.closest("[role=option]") && !isElsewhere) dialog.close();
    });
    dialog.querySelector("[data-close]").addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog) dialog.close(); // beside it
    });
    dialog.addEventListener("close", forget);
  }

  function open(text) {
    if (!parts) makeDialog();
    if (parts.dialog.open) return;
    parts.dialog.showModal();
    if (text) parts.input.value = text;
    parts.input.focus();
    if (!text) parts.input.select();
    if (parts.input.value.trim() !== answered) ask();
  }

  function forget() {
    clearTimeout(waiting);
    request?.abort();
    request = null;
  }

  function askSoon() {
    clearTimeout(waiting);
    waiting = setTimeout(ask, PAUSE);
  }

  // Only the answer to the last question is shown: any earlier one is given up.
  async function ask() {
    forget();
    const text = parts.input.value.trim();
    if (!text) return show("", "");
    const mine = new AbortController();
    request = mine;
    try {
      const address = `${parts.dialog.dataset.results}?q=${encodeURIComponent(text)}`;
      const answer = await fetch(address, { signal: mine.signal });
      const content = answer.ok && !answer.redirected ? await answer.text() : null;
      if (request !== mine) return;
      if (answer.redirected) fail("You are logged out. Press Enter to log in.");
      else if (content === null) fail("The search failed. Press Enter to try its page.");
      else show(text, content);
    } catch {
      if (request === mine) fail("Tare does not answer. Press Enter to try again.");
    }
  }

  function show(text, content) {
    answered = text;
    parts.list.innerHTML = content;
    const options = listOptions();
    activate(options[0] ?? null);
    parts.list.scrollTop = 0;
    parts.input.setAttribute("aria-expanded", String(options.length > 0));
    const count = options.length - 1; // the last one leads to the page
    if (!text) say("");
    else if (!options.length) say("Nothing found.");
    else say(`${count} ${count === 1 ? "result" : "results"}`);
  }

  function fail(message) {
    show("", "");
    say(message);
  }

  function say(message) {
    parts.status.textContent = message;
  }

  function listOptions() {
    return [...parts.list.querySelectorAll("[role=option]")];
  }

  function activate(option) {
    active?.setAttribute("aria-selected", "false");
    active = option;
    if (!option) {
      parts.input.removeAttribute("aria-activedescendant");
      return;
    }
    option.setAttribute("aria-selected", "true");
    parts.input.setAttribute("aria-activedescendant", option.id);
  }

  function move(steps) {
    const options = listOptions();
    if (!options.length) return;
    const place = options.indexOf(active) + steps;
    activate(options[(place + options.length) % options.length]);
    active.scrollIntoView({ block: "nearest" });
    // The heading of the first of its kind is seen with it.
    if (active === options[0]) parts.list.scrollTop = 0;
  }

  function useKey(event) {
    if (event.isComposing) return;
    const steps = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (steps) {
      event.preventDefault();
      move(steps);
    } else if (event.key === "Enter") {
      // Before the answer is here, the page of the search gives it.
      const isAnswered = active && parts.input.value.trim() === answered;
      if (!isAnswered) return;
      event.preventDefault();
      if (event.ctrlKey || event.metaKey) window.open(active.href, "_blank", "noopener");
      else active.click();
    }
  }

  function isEditable(element) {
    return element.isContentEditable || element.matches("input, textarea, select");
  }

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || event.altKey) return;
    const hasModifier = event.ctrlKey || event.metaKey;
    const isShortcut = hasModifier && !event.shiftKey && event.key.toLowerCase() === "k";
    const isSlash = event.key === "/" && !hasModifier && !isEditable(event.target);
    if (!isShortcut && !isSlash) return;
    if (document.querySelector("dialog[open]:not(.search)")) return;
    event.preventDefault();
    open("");
  });

  // Not when it gets the focus: going through the page by Tab passes it.
  box.addEventListener("click", () => open(box.value));
  box.addEventListener("input", (event) => {
    if (!event.isComposing && box.value) open(box.value);
  });
})();
