"""The widgets that most forms are made of, drawn without templates.

The form of an experiment has 70 of them and 300 options. By Django's templates, each of which
includes others for a type and for attributes, they took 40 % of the time of its page. What is drawn
is the same to the letter, but for blanks between options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from django.utils.safestring import SafeData, SafeString

Widget = Mapping[str, Any]
"""What a widget says of itself to its template."""
FOLDER = "django/forms/widgets/"
INPUTS = (
    *("input", "text", "number", "email", "url", "password", "hidden", "date", "datetime"),
    *("checkbox", "file", "color", "search", "tel"),
)


def _escape(value: Any) -> str:
    """Return a value as a template writes it: what is safe stays as it is."""
    return value if isinstance(value, SafeData) else escape(str(value))  # type: ignore[return-value]


def _draw_attributes(attributes: Mapping[str, Any]) -> str:
    return "".join(
        f" {_escape(name)}" if value is True else f' {_escape(name)}="{_escape(value)}"'
        for name, value in attributes.items()
        if value is not False
    )


def draw_input(widget: Widget) -> SafeString:
    """Return a field of one line, a box or a button to choose by."""
    value = "" if widget["value"] is None else f' value="{_escape(widget["value"])}"'
    kind, name = _escape(widget["type"]), _escape(widget["name"])
    attributes = _draw_attributes(widget["attrs"])
    return SafeString(f'<input type="{kind}" name="{name}"{value}{attributes}>')


def draw_choice(widget: Widget) -> SafeString:
    """Return one box or button of several, in its label where that is asked for."""
    drawn = draw_input(widget)
    if not widget.get("wrap_label"):
        return drawn
    identity = widget["attrs"].get("id")
    of_box = f' for="{_escape(identity)}"' if identity else ""
    return SafeString(f"<label{of_box}>{drawn} {_escape(widget['label'])}</label>")


def draw_select(widget: Widget) -> SafeString:
    """Return a menu with its options."""
    parts = [f'<select name="{_escape(widget["name"])}"{_draw_attributes(widget["attrs"])}>\n']
    for group, options, _ in widget["optgroups"]:
        if group:
            parts.append(f'<optgroup label="{_escape(group)}">\n')
        parts += [
            f'<option value="{_escape(option["value"])}"{_draw_attributes(option["attrs"])}>'
            f"{_escape(option['label'])}</option>\n"
            for option in options
        ]
        if group:
            parts.append("</optgroup>")
    parts.append("</select>")
    return SafeString("".join(parts))


def draw_text_area(widget: Widget) -> SafeString:
    """Return a field of several lines."""
    name, attributes = _escape(widget["name"]), _draw_attributes(widget["attrs"])
    text = _escape(widget["value"]) if widget["value"] else ""
    return SafeString(f'<textarea name="{name}"{attributes}>\n{text}</textarea>')


DRAWN: dict[str, Callable[[Widget], SafeString]] = {
    **{f"{FOLDER}{name}.html": draw_input for name in INPUTS},
    **{f"{FOLDER}{name}.html": draw_choice for name in ("radio_option", "checkbox_option")},
    f"{FOLDER}select.html": draw_select,
    f"{FOLDER}textarea.html": draw_text_area,
}
"""The functions that draw widgets, by the templates in whose place they do."""
