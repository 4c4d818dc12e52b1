// Draws in the end every figure that the server draws: a busy one answers 503 and says when to ask
// again, which a picture alone never does. While it waits a sentence says so, and a button asks anew.
"use strict";

// A block, so that its names are no other script's.
{
  const MOST_ASKED = 12; // in a row; then a person decides
  const PICTURES = "figure.printed img";
  const BUSY = 503;
  const waiting = new WeakSet();
  const brought = new WeakSet(); // of which the server has a file: to ask again mends nothing more

  function say(image, sentence, action) {
    forget(image);
    const note = document.createElement("p");
    note.className = "note no-print figure-waits";
    note.setAttribute("role", "status");
    note.textContent = sentence;
    if (action) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "btn btn-quiet btn-sm";
      button.textContent = "Draw again";
      button.addEventListener("click", () => ask(image));
      note.append(" ", button);
    }
    image.closest("picture").after(note);
  }

  function forget(image) {
    const next = image.closest("picture").nextElementSibling;
    if (next?.classList.contains("figure-waits")) next.remove();
  }

  // Ask until the file is there, then have the picture take it. A little more or less than the pause
  // that the server names, so that the figures of a page do not all come back at once.
  async function ask(image) {
    if (waiting.has(image)) return;
    waiting.add(image);
    say(image, "This figure waits until others are drawn.");
    const isThere = await isDrawn(image).catch(() => false);
    waiting.delete(image);
    if (!image.isConnected) return;
    if (isThere) {
      brought.add(image);
      forget(image);
      image.src = image.getAttribute("src");
    } else {
      say(image, "This figure could not be drawn yet.", true);
    }
  }

  async function isDrawn(image) {
    for (let asked = 1; image.isConnected; asked += 1) {
      const answer = await fetch(image.currentSrc || image.src);
      await answer.arrayBuffer();
      if (answer.ok) return true;
      const pause = Number(answer.headers.get("Retry-After") ?? NaN);
      if (answer.status !== BUSY || Number.isNaN(pause) || asked === MOST_ASKED) return false;
      await new Promise((resolve) => setTimeout(resolve, 1000 * pause * (0.75 + Math.random() / 2)));
    }
    return false;
  }

  function notice(image) {
    if (brought.delete(image)) say(image, "This figure could not be shown.", true);
    else ask(image);
  }

  // Errors of pictures do not bubble; one may have failed before this file was there.
  document.addEventListener("error", ({ target }) => target.matches?.(PICTURES) && notice(target), true);
  document.addEventListener("load", ({ target }) => {
    if (target.matches?.(PICTURES)) brought.delete(target);
  }, true);
  for (const image of document.querySelectorAll(PICTURES)) {
    if (image.complete && image.currentSrc && !image.naturalWidth) notice(image);
  }
}
