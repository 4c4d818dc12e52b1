// A field that means nothing with the values chosen is put away; without this it is simply there.
"use strict";

function said(form, name) {
  const field = form.elements[name];
  if (!field) return "";
  return field.type === "checkbox" ? (field.checked ? "yes" : "no") : field.value;
}

function showWhatMatters() {
  for (const form of document.forms) {
    const places = [...form.querySelectorAll("[data-field]")];
    const byName = new Map(places.map((place) => [place.dataset.field, place]));
    const matters = (name) => {
      const { when, values } = byName.get(name)?.dataset ?? {};
      return !when || (JSON.parse(values).includes(said(form, when)) && matters(when));
    };
    for (const place of places) {
      // What is wrong is never out of sight.
      place.hidden = !matters(place.dataset.field) && !place.querySelector(".problem");
    }
    for (const group of form.querySelectorAll("fieldset.group")) {
      const inside = [...group.querySelectorAll("[data-field]")];
      group.hidden = inside.length > 0 && inside.every((place) => place.hidden);
    }
  }
}

showWhatMatters();
document.addEventListener("change", showWhatMatters);
document.addEventListener("htmx:afterSettle", showWhatMatters);
