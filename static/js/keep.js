// Says when what is typed could not be kept; the next try follows the next key.
"use strict";

let isDeleted = false; // what the form is about: no try would find it again

function describeFailure(status) {
  if (status === 404 || status === 409) return "Not kept: this draft was deleted. What you typed is on this page alone.";
  if (status >= 400 && status < 500) return "Not kept: Tare refuses it. What you typed is on this page alone.";
  return "Not kept: Tare does not answer. It is tried again when you go on typing.";
}

for (const name of ["htmx:sendError", "htmx:responseError", "htmx:timeout"]) {
  document.addEventListener(name, ({ target, detail }) => {
    if (target.id !== "kept") return;
    const status = name === "htmx:responseError" ? detail.xhr.status : 0;
    isDeleted = status === 404 || status === 409;
    const message = document.createElement("span");
    message.className = "problem";
    message.textContent = describeFailure(status);
    target.replaceChildren(message);
  });
}

// The job script is fetched where it is looked at, and again whenever the cost beside it was.
function refreshScript() {
  const script = document.getElementById("script");
  if (script?.closest("details").open) window.htmx.trigger(script, "refresh");
}
document.addEventListener("toggle", (event) => {
  if (event.target.id === "job-script-panel") refreshScript();
}, true);
document.addEventListener("htmx:afterSwap", (event) => {
  if (event.target.id === "consequences") refreshScript(); // and not each field that came with it
});

// A form that was sent is not kept any more: it would come back as one that nobody has saved.
let isSent = false;
document.addEventListener("submit", (event) => {
  const kept = event.target.querySelector("#kept");
  if (!kept || event.defaultPrevented) return;
  isSent = true;
  window.htmx.trigger(kept, "htmx:abort");
});
document.addEventListener("htmx:beforeRequest", (event) => {
  if ((isSent || isDeleted) && event.target.id === "kept") event.preventDefault();
});
addEventListener("pageshow", () => { isSent = false; }); // by the button Back

// Where no answer comes, as without a network, the page stays, and is the only place of what was typed.
const ANSWER_MS = 20000;
document.addEventListener("submit", (event) => {
  const kept = event.target.querySelector("#kept");
  if (!kept || event.defaultPrevented) return;
  setTimeout(() => {
    if (!isSent) return;
    isSent = false;
    window.htmx.trigger(kept, "unanswered");
  }, ANSWER_MS);
});
document.addEventListener("input", (event) => { // what is typed later is not in what was sent
  if (event.target.closest?.("form")?.querySelector("#kept")) isSent = false;
}, true);
