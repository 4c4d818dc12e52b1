// Hides fields that mean nothing with the values chosen; without this script they are simply shown.
"use strict";

function chosenValue(form, name) {
  const field = form.elements[name];
  if (!field) return "";
  return field.type === "checkbox" ? (field.checked ? "yes" : "no") : field.value;
}

function showFieldsThatApply() {
  for (const form of document.forms) {
    const fields = [...form.querySelectorAll("[data-field]")];
    const byName = new Map(fields.map((field) => [field.dataset.field, field]));
    const applies = (name) => {
      const { when, values } = byName.get(name)?.dataset ?? {};
      return !when || (JSON.parse(values).includes(chosenValue(form, when)) && applies(when));
    };
    for (const field of fields) {
      // What is wrong is never out of sight.
      field.hidden = !applies(field.dataset.field) && !field.querySelector(".problem");
    }
    for (const group of form.querySelectorAll("fieldset.group")) {
      const ofGroup = [...group.querySelectorAll("[data-field]")];
      group.hidden = ofGroup.length > 0 && ofGroup.every((field) => field.hidden);
    }
  }
}

showFieldsThatApply();
document.addEventListener("change", showFieldsThatApply);
document.addEventListener("htmx:afterSettle", showFieldsThatApply);
