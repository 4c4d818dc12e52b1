// Links to an entry of the glossary open it beside the word; without this script they lead to it.
"use strict";

(() => {
  // A result of the search is where somebody wants to go; the rest is read on the way.
  const LINKS = 'main a[href*="/glossary/#"]:not(.doc-results a)';
  const WAITING = 300; // milliseconds after which it says that it waits
  const pages = new Map(); // addresses, and the promised page of each: one, for all entries

  let open = null; // {box, link}
  let asked = 0; // how often an entry was asked for or closed: only the last answer is shown
  let dismissed = null; // the link whose entry this press has closed

  const create = (tag, attributes, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };

  async function readPage(address) {
    const answer = await fetch(address, { signal: AbortSignal.timeout(10_000) });
    if (!answer.ok) throw new Error(`${answer.status}`);
    return new DOMParser().parseFromString(await answer.text(), "text/html");
  }

  async function readEntry(link) {
    const address = link.href.split("#")[0];
    if (!pages.has(address)) {
      const page = readPage(address);
      page.catch(() => pages.delete(address)); // the next one asks again
      pages.set(address, page);
    }
    const entry = (await pages.get(address)).getElementById(decodeURIComponent(link.hash.slice(1)));
    return { term: entry.querySelector("dt"), explanation: entry.querySelector("dd") };
  }

  // It stands below the word, or above it where there is no room below; in the page, to scroll with it.
  function place({ box, link }) {
    const word = [...link.getClientRects()].at(-1);
    if (!word) return;
    const { clientWidth, clientHeight } = document.documentElement;
    const most = Math.max(8, clientWidth - box.offsetWidth - 8);
    const isAbove = word.bottom + box.offsetHeight + 8 > clientHeight && word.top > box.offsetHeight + 8;
    const top = isAbove ? word.top - box.offsetHeight - 6 : word.bottom + 6;
    box.style.left = `${scrollX + Math.min(Math.max(8, word.left), most)}px`;
    box.style.top = `${scrollY + top}px`;
  }

  function show(link, term, ...content) {
    open?.box.remove();
    const close = create("button", { type: "button", class: "icon", "aria-label": "Close" }, "×");
    const box = create(
      "div",
      { class: "entry no-print", popover: "auto", role: "dialog", tabindex: "-1", "aria-labelledby": "entry-term" },
      create("p", { class: "term", id: "entry-term" }, term),
      ...content,
      create("p", { class: "more" }, create("a", { href: link.href }, "In the glossary")),
      close,
    );
    close.addEventListener("click", () => box.hidePopover());
    box.addEventListener("toggle", (event) => {
      if (event.newState === "open") return;
      box.remove();
      if (open?.box !== box) return;
      open = null;
      asked += 1;
    });
    document.body.append(box);
    open = { box, link };
    link.focus({ preventScroll: true }); // where the focus returns to
    box.showPopover({ source: link });
    place(open);
    box.focus({ preventScroll: true });
  }

  async function openEntry(link) {
    const turn = ++asked;
    const sayThatItWaits = () => show(link, link.textContent.trim(), create("p", {}, "Reading the glossary"));
    const waiting = setTimeout(() => turn === asked && sayThatItWaits(), WAITING);
    try {
      const { term, explanation } = await readEntry(link);
      clearTimeout(waiting);
      if (turn !== asked) return;
      const text = create("p", {});
      text.append(...[...explanation.childNodes].map((node) => document.importNode(node, true)));
      show(link, term.textContent, text);
    } catch {
      clearTimeout(waiting);
      if (turn === asked) location.assign(link.href);
    }
  }

  if (!("popover" in HTMLElement.prototype)) return;

  // The browser closes what is open when something else is pressed: then the word closes it, too.
  document.addEventListener("pointerdown", (event) => {
    const link = event.target.closest?.(LINKS);
    dismissed = link && open?.link === link ? link : null;
  }, true);

  document.addEventListener("click", (event) => {
    const link = event.target.closest?.(LINKS);
    const isPlain = event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
    if (!link || !isPlain || event.defaultPrevented) return;
    event.preventDefault();
    if (dismissed !== link) openEntry(link);
    dismissed = null;
  });

  addEventListener("resize", () => open && place(open));
})();
