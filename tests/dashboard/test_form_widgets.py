"""Widgets that are drawn without a template are those of Django's templates, to the letter."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django import forms
from django.forms.renderers import DjangoTemplates
from django.utils.safestring import mark_safe
from hypothesis import given
from hypothesis import strategies as st

from dashboard.form_styles import Renderer
from dashboard.form_widgets import DRAWN

TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.sampled_from(["<b>", '"', "'", "&amp;", mark_safe("&amp;"), "None", ""]),
)
VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS)
ATTRIBUTES = st.dictionaries(
    st.one_of(st.sampled_from(["id", "class", "data-x"]), TEXTS.filter(bool)), VALUES, max_size=3
)
WIDGETS: tuple[type[forms.Widget], ...] = (
    *(forms.TextInput, forms.NumberInput, forms.EmailInput, forms.URLInput, forms.PasswordInput),
    *(forms.HiddenInput, forms.CheckboxInput, forms.Textarea, forms.FileInput, forms.DateInput),
)
CHOOSERS: tuple[type[Any], ...] = (
    *(forms.Select, forms.SelectMultiple, forms.RadioSelect, forms.CheckboxSelectMultiple),
)
CHOICES = st.lists(
    st.one_of(
        st.tuples(VALUES, TEXTS),
        st.tuples(TEXTS.filter(bool), st.lists(st.tuples(VALUES, TEXTS), max_size=2)),
    ),
    max_size=4,
)
OURS, DJANGOS = Renderer(), DjangoTemplates()


def squeeze(text: str) -> str:
    """Return markup without the blanks behind tags."""
    return re.sub(r">\s+", ">", text)


@given(kind=st.sampled_from(WIDGETS), name=TEXTS, value=VALUES, attributes=ATTRIBUTES)
def test_a_widget_is_drawn_as_by_its_template(
    kind: type[forms.Widget], name: str, value: Any, attributes: dict[str, Any]
) -> None:
    widget = kind()
    assert widget.template_name in DRAWN or kind is forms.FileInput
    drawn = widget.render(name, value, attributes, renderer=OURS)
    assert drawn == widget.render(name, value, attributes, renderer=DJANGOS)


@given(
    kind=st.sampled_from(CHOOSERS),
    name=TEXTS,
    value=VALUES,
    attributes=ATTRIBUTES,
    choices=CHOICES,
)
def test_choices_are_drawn_as_by_their_templates(
    kind: type[Any], name: str, value: Any, attributes: dict[str, Any], choices: list[Any]
) -> None:
    widget = kind(choices=choices)
    value = [value] if widget.allow_multiple_selected else value
    drawn = widget.render(name, value, attributes, renderer=OURS)
    assert squeeze(drawn) == squeeze(widget.render(name, value, attributes, renderer=DJANGOS))


def test_a_choice_alone_has_its_label_only_where_that_is_asked_for() -> None:
    class Form(forms.Form):
        size = forms.ChoiceField(choices=[("a<", "A & B")], widget=forms.RadioSelect)

    ours, djangos = Form(renderer=OURS)["size"], Form(renderer=DJANGOS)["size"]
    assert [squeeze(str(option)) for option in ours] == [squeeze(str(option)) for option in djangos]
    assert [option.tag() for option in ours] == [option.tag() for option in djangos]
    assert "<label" not in ours[0].tag()


@pytest.mark.parametrize("name", sorted(DRAWN))
def test_no_template_of_ours_is_passed_over(name: str) -> None:
    """Whoever changes how a widget looks changes `form_widgets`."""
    assert not (Path(__file__).parents[2] / "templates" / name).exists()
