"""The LaTeX export: everything of the comparison is in it, and no text of it is a command."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.urls import reverse
from hypothesis import example, given
from hypothesis import strategies as st

from dashboard.comparisons.latex import escape
from dashboard.comparisons.methods import describe_methods
from dashboard.comparisons.panels import latex_file
from experiments.comparisons import compare_experiment
from experiments.models import Environment, Experiment, Run
from experiments.statistics import numbers
from tests.dashboard.conftest import read_report

# What may stand for one character; anything else must not be special to LaTeX.
ESCAPED = r"\\text[a-z]+\{\}|\\ensuremath\{(?:-|\\pm|\\mu)\}|\\[{}$&#%_]|\{[\[\]*]\}|-\{\}"
PLAIN = r"[^\\{}$&#%_~^<>|\[\]*\x00-\x1f\x7f]"


@given(st.text(alphabet=st.one_of(st.sampled_from("\\{}$&#%_~^<>|[]*-\n\t\r"), st.characters())))
@example("\\input{/etc/passwd}")
@example("50 % of $x_1$ & {y}~^#\n\n\\\\")
def test_escaping_leaves_no_bare_special_character(text: str) -> None:
    escaped = escape(text)
    assert re.fullmatch(f"(?:{ESCAPED}|{PLAIN})*", escaped)
    assert "--" not in escaped


@given(st.text(alphabet="abcÄß 0123456789.,;:()/+=!?'"))
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert escape(text) == " ".join(text.split())


def rows(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.endswith(r"\\") and "&" in line]


@pytest.mark.django_db
def test_the_table_holds_the_numbers_of_the_page(results: Experiment) -> None:
    comparison = compare_experiment(results)
    (pair,) = comparison.pairs
    text = latex_file(comparison)
    heading, baseline, environment = rows(text)
    assert heading.startswith(r"Environment & Data & Mean \ensuremath{\pm} SD")
    assert baseline.startswith(r"bare metal (baseline) &  & 20.060 \ensuremath{\pm} 0.032 ms")
    for number in (
        numbers.ratio(pair.ratio, pair.ci95),
        numbers.p_value(pair.p_difference),
        numbers.standard_error(pair.log_se, pair.df),
        numbers.p_of_bounds(pair.p_lower_bound, pair.p_upper_bound),
        numbers.provable(pair.smallest_margin),
        "5 blocks",
        "SLOWER",
    ):
        assert escape(number) in environment
    columns = re.search(r"\\begin\{tabular\}\{(\w+)\}", text)
    assert columns
    assert {row.count("&") + 1 for row in rows(text)} == {len(columns[1])}
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == 1
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")


@pytest.mark.django_db
def test_a_reservation_is_a_note_below_the_table(results: Experiment) -> None:
    Run.objects.filter(experiment=results, repeat__gt=3).update(state="failed")
    comparison = compare_experiment(results)
    text = latex_file(comparison)
    assert r"\textsuperscript{1} \\" in text
    assert r"\textsuperscript{1}~PROVISIONAL: 3 blocks are few" in text
    assert "6 succeeded, 4 failed" in text


@pytest.mark.django_db
def test_page_and_paper_say_the_same_about_methods(results: Experiment, as_owner: Client) -> None:
    page = read_report(as_owner, results)
    text = latex_file(compare_experiment(results))
    for paragraph in describe_methods(compare_experiment(results)):
        assert f"<p>{paragraph}</p>" in page
        assert escape(paragraph) in text
    assert f"seed {results.order_seed}" in text
    assert "m = 5 \\%" in text
    assert "p of equivalence is the larger of theirs; standard errors are on the log scale" in text
    assert r"slower or faster when the 95 \% interval does not contain 1" in text


@pytest.mark.django_db
def test_names_are_escaped_in_the_file(results: Experiment, as_owner: Client) -> None:
    evil = r"\input{x} & 100 % _#"
    Experiment.objects.filter(pk=results.pk).update(question=evil)
    Environment.objects.filter(name="Apptainer").update(name=evil)
    answer = as_owner.get(reverse("comparison_tex", args=[results.pk]))
    text = answer.content.decode()
    assert answer["Content-Type"] == "application/x-tex; charset=utf-8"
    assert re.fullmatch(
        rf'attachment; filename="tare-{results.pk}-[a-z0-9-]+-comparison\.tex"',
        answer["Content-Disposition"],
    )
    assert r"\input" not in text
    assert text.count(escape(evil)) == 2


@pytest.mark.django_db
def test_the_page_links_to_the_file(results: Experiment, as_owner: Client) -> None:
    page = read_report(as_owner, results)
    assert reverse("comparison_tex", args=[results.pk]) in page
