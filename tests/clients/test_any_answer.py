"""Whatever JSON a site sends: values, tables and screens are made of it, or a TareError says no."""

from __future__ import annotations

import contextlib
import io
import re
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from tare_client.commands.following import PlainLines, list_screen_lines
from tare_client.commands.launching import list_problems
from tare_client.commands.numbers import print_comparison, print_runs, write_csv
from tare_client.errors import FieldProblem, UnexpectedAnswer
from tare_client.terminal import clean_text, format_table
from tare_client.values import Check, Comparison, Experiment, Person, Progress, Series

from tests.clients.contract_server import ROW, RUN, describe_experiment, describe_progress

NAMES = sorted(
    {*ROW, *RUN, *describe_experiment(1), *describe_progress(True), "exit_word", "comparison",
        "problems", "verdict",
     "username", "scopes", "plan", "blocks", "gpu_hours_at_most", "line", "field",
     "all_configurations", "step", "of_steps", "output_tail", "message", "planned", "succeeded"}
)  # fmt: skip
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(NAMES) | st.text(), inner, max_size=6)
    ),
    max_leaves=20,
)
documents = st.dictionaries(st.sampled_from(NAMES), values, max_size=12)


@given(document=documents)
@example(document={"id": 1, "page": 3, "created_at": [1]})
@example(document={**describe_progress(True), "runs": {"running": -1, "succeeded": 1}})
@example(document={**describe_progress(True), "seconds_left": 1e308, "running": [{"step": 1e300}]})
@example(document={"is_alive": True, "seconds_left": float(10**300), "runs": {"x": 10**400}})
@example(document={"is_alive": True, "seconds_left": 10**400})
@example(document={"exit_word": "\x1b[2J", "comparison": [{"ratio": 1, "ci90_low": "x"}]})
def test_any_document_is_shown_or_refused(document: dict[str, Any]) -> None:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        with contextlib.suppress(UnexpectedAnswer):
            Person.read(document)
        with contextlib.suppress(UnexpectedAnswer):
            Experiment.read(document)
        with contextlib.suppress(UnexpectedAnswer):
            print_comparison(Comparison.read(1, document))
        with contextlib.suppress(UnexpectedAnswer):
            progress = Progress.read(document)
            PlainLines().show(progress)
            for line in list_screen_lines(progress, with_tail=True):
                assert not CONTROL.search(line)
        with contextlib.suppress(UnexpectedAnswer):
            Series.read("1", document)
        for problem in list_problems(document):
            assert problem.locate("study.yaml").startswith("study.yaml")
        print_runs([document], ["step_time"])
    Check(True, document, document).describe_plan()
    write_csv([document, {}], io.StringIO())
    assert not CONTROL.search(shown.getvalue())


@given(text=st.text())
def test_no_text_obeys_a_terminal(text: str) -> None:
    assert clean_text(text).isprintable()


@given(rows=st.lists(st.tuples(values, values, values), max_size=5), width=st.integers(28, 200))
def test_a_table_is_no_wider_than_its_terminal(rows: list[Any], width: int) -> None:
    table = format_table(("first", "second", "third"), rows, width)
    assert all(len(line) <= width for line in table.split("\n"))
    assert len(table.split("\n")) == len(rows) + 1


@given(field=st.text(), message=st.text(), line=st.integers() | st.none())
def test_a_problem_without_a_line_has_no_column(field: str, message: str, line: int | None) -> None:
    place = FieldProblem(field, message, line, 3).locate("a").split(": ")[0]
    assert place.startswith("a" if line is None else f"a:{line}:3")
