// Draws in the end every figure that the server draws: a busy one answers 503 and says when to ask
// again, which a picture alone never does. While it waits a sentence says so, and a button asks anew.
"use strict";

// A block, so that its names are no other script's.
{
  const MOST_ASKED = 12; // in a row; then a person decides
  const PICTURES = "figure.printed img";
  const BUSY = 503;
  const MOST_WAITED = 60_000;
  const MOST_BROUGHT = 3; // files in a row that were not shown: to ask again mends nothing more
  const NOT_YET = "This figure could not be drawn yet.";
  const waiting = new WeakSet();
  const brought = new WeakMap(); // how often the server had a file of it, which was not shown yet

  function say(image, sentence, action) {
    forget(image);
    const note = document.createElement("p");
    note.className = "note figure-waits"; // printed, too: paper says what it lacks
    note.setAttribute("role", "status");
    note.textContent = sentence;
    if (action) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "btn btn-quiet btn-sm no-print";
      button.textContent = "Draw again";
      button.addEventListener("click", () => {
        brought.delete(image);
        ask(image, true);
      });
      note.append(" ", button);
    }
    // Above it: below, a tall figure would leave the sentence out of sight.
    image.closest("picture").before(note);
  }

  function forget(image) {
    const previous = image.closest("picture").previousElementSibling;
    if (previous?.classList.contains("figure-waits")) previous.remove();
  }

  // Ask until the file is there, then have the picture take it. A little more or less than the pause
  // that the server names, so that the figures of a page do not all come back at once.
  async function ask(image, isAgain) {
    if (waiting.has(image)) return;
    waiting.add(image);
    say(image, isAgain ? "This figure is being drawn." : "This figure waits until others are drawn.");
    const problem = await draw(image, isAgain).catch(() => NOT_YET);
    waiting.delete(image);
    if (!image.isConnected) return;
    if (problem) {
      say(image, problem, true);
    } else {
      brought.set(image, (brought.get(image) ?? 0) + 1);
      forget(image);
      image.src = image.getAttribute("src");
    }
  }

  // Return why there is no file; "" where there is one. A figure that took too long is drawn once more only
  // where a person asks for it.
  async function draw(image, isAgain) {
    const address = new URL(image.currentSrc || image.src, document.baseURI);
    if (isAgain) address.searchParams.set("again", "1");
    for (let asked = 1; image.isConnected; asked += 1) {
      const answer = await fetch(address);
      const text = await answer.text();
      if (answer.ok) return "";
      const pause = Number(answer.headers.get("Retry-After") ?? NaN);
      if (answer.status !== BUSY) return NOT_YET;
      if (Number.isNaN(pause)) return text.trim();
      if (asked === MOST_ASKED) return NOT_YET;
      await new Promise((resolve) => setTimeout(resolve, 1000 * pause * (0.75 + Math.random() / 2)));
    }
    return NOT_YET;
  }

  // A picture whose file was there may be refused for now: where nothing is kept, it takes a turn of its own.
  function notice(image) {
    if ((brought.get(image) ?? 0) < MOST_BROUGHT) ask(image);
    else say(image, "This figure could not be shown.", true);
  }

  // For paper all pictures are fetched, and light: a minute at most, since some may have to wait for their turn.
  window.loadPictures = async () => {
    const pictures = [...document.querySelectorAll("figure.printed picture:not(.for-dark, .only-narrow) img")];
    for (const image of pictures) image.loading = "eager";
    const isOnItsWay = (image) => image.isConnected && !image.naturalWidth && (!image.complete || waiting.has(image));
    for (const end = Date.now() + MOST_WAITED; pictures.some(isOnItsWay) && Date.now() < end;) {
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  };

  // Errors of pictures do not bubble; one may have failed before this file was there.
  document.addEventListener("error", ({ target }) => target.matches?.(PICTURES) && notice(target), true);
  document.addEventListener("load", ({ target }) => {
    if (target.matches?.(PICTURES)) brought.delete(target);
  }, true);
  for (const image of document.querySelectorAll(PICTURES)) {
    if (image.complete && image.currentSrc && !image.naturalWidth) notice(image);
  }
}
