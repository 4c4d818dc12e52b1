// Says when what is typed could not be kept; the next try follows the next key.
"use strict";

for (const name of ["htmx:sendError", "htmx:responseError", "htmx:timeout"]) {
  document.addEventListener(name, (event) => {
    if (event.target.id !== "kept") return;
    const message = document.createElement("span");
    message.className = "problem";
    message.textContent = "Not kept: Tare does not answer. It is tried again when you go on typing.";
    event.target.replaceChildren(message);
  });
}
