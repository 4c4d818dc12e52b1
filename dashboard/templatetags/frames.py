"""Template tags for the frames that many pages share: panels, tables, menus, buttons that post."""

from __future__ import annotations

from typing import Any

from django import template
from django.template import Context
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()


@register.simple_block_tag
def panel(
    content: SafeString,
    heading: str = "",
    *,
    css: str = "",
    id: str = "",  # noqa: A002  (the attribute's own name)
    label: str = "",
    folded: bool = False,
    count: int = 0,
    noun: str = "configuration",
) -> SafeString:
    """Return a panel: `{% panel "Events" css="flush" %}...{% endpanel %}`.

    One without a heading has a `label` for screen readers. A folded one is opened by who wants it;
    beside its heading stands how many `noun`s it has.
    """
    attributes = _attributes(id=id, aria_label=label)
    if not folded:
        title = format_html("<h2>{}</h2>", heading) if heading else ""
        classes = _classes("panel", css)
        return format_html(
            '<section class="{}"{}>{}{}</section>', classes, attributes, title, content
        )
    plural = "" if count == 1 else "s"
    size = format_html(' <span class="small muted">{} {}{}</span>', count, noun, plural)
    return format_html(
        '<details class="{}"{}><summary><h2>{}</h2>{}</summary>{}</details>',
        _classes("panel", css, "more"),
        attributes,
        heading,
        size if count else "",
        content,
    )


@register.simple_block_tag
def table(content: SafeString, css: str = "", *, box: str = "", label: str = "") -> SafeString:
    """Return a table that scrolls inside its own box: `{% table "dense" %}...{% endtable %}`.

    A box that is `tall` scrolls upwards too, and the keyboard reaches it.
    """
    return format_html(
        '<div class="{}"{}><table class="{}"{}>{}</table></div>',
        _classes("scroll", box),
        SafeString(' tabindex="0"') if box == "tall" else "",
        _classes("table", css),
        _attributes(aria_label=label),
        content,
    )


@register.simple_block_tag
def export_menu(content: SafeString) -> SafeString:
    """Return a menu of files: `{% export_menu %}<tr>...</tr>{% endexport_menu %}`.

    A row has a name of what can be exported, and a link for each format.
    """
    return format_html(
        '<details class="menu no-print"><summary class="btn btn-quiet">Export</summary>'
        '<div class="export-menu"><table class="table data-files">'
        '<caption class="visually-hidden">What can be exported, and in which formats</caption>'
        "<tbody>{}</tbody></table></div></details>",
        content,
    )


@register.simple_block_tag
def empty_state(content: SafeString, heading: str) -> SafeString:
    """Return what stands on a page that has nothing to show yet."""
    return format_html('<div class="panel empty"><h2>{}</h2>{}</div>', heading, content)


@register.simple_block_tag
def confirm(content: SafeString, text: str, css: str = "btn-danger") -> SafeString:
    """Return a button that opens what is to be read, and pressed, before something happens."""
    return format_html(
        '<details class="menu"><summary class="btn {}">{}</summary>'
        '<div class="confirm">{}</div></details>',
        css,
        text,
        content,
    )


@register.simple_tag(takes_context=True)
def post_button(
    context: Context, text: str, view: str, *args: Any, css: str = "btn-quiet btn-sm", **hidden: Any
) -> SafeString:
    """Return a button that posts to a view: `{% post_button "Verify" "staged_verify" row.pk %}`.

    Further names and values travel in hidden fields.
    """
    fields = "".join(
        format_html('<input type="hidden" name="{}" value="{}">', name, value)
        for name, value in {"csrfmiddlewaretoken": context.get("csrf_token", ""), **hidden}.items()
    )
    return format_html(
        '<form method="post" action="{}">{}<button type="submit" class="btn {}">{}</button></form>',
        reverse(view, args=args),
        SafeString(fields),
        css,
        text,
    )


@register.simple_tag
def progress_bar(percent: int, label: str) -> SafeString:
    """Return a bar of a work that is under way."""
    return format_html(
        '<div class="track is-running" role="progressbar" aria-label="{}" aria-valuemin="0"'
        ' aria-valuemax="100" aria-valuenow="{}"><span style="width:{}%"></span></div>',
        label,
        percent,
        percent,
    )


@register.simple_tag(takes_context=True)
def refreshed_every(context: Context, seconds: int, address: str = "") -> SafeString:
    """Return the attributes of a part that fetches itself anew while something is alive."""
    return format_html(
        ' hx-get="{}" hx-trigger="every {}s" hx-swap="outerHTML" data-live',
        address or context["request"].path,
        seconds,
    )


@register.simple_tag
def refreshed_on(event: str, address: str) -> SafeString:
    """Return the attributes of a part that fetches itself anew when an event is heard."""
    return format_html(
        ' hx-get="{}" hx-trigger="{} from:body" hx-swap="outerHTML" data-live', address, event
    )


def _classes(*names: str) -> str:
    return " ".join(filter(None, names))


def _attributes(**values: str) -> SafeString:
    """Return attributes that have a value, each after a blank."""
    return SafeString(
        "".join(
            format_html(' {}="{}"', name.replace("_", "-"), value)
            for name, value in values.items()
            if value
        )
    )
