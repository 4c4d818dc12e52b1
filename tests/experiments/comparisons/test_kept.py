"""A kept comparison equals the computed one, is stale by itself, and never stops a page."""

from __future__ import annotations

import ast
import gc
import json
import random
import zlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.comparisons import (
    compare_experiment,
    comparison_keys,
    keep_comparison,
    kept,
    list_comparison_rows,
    packed_json,
    read_comparison,
    read_kept_verdicts,
)
from experiments.comparisons.comparison_keys import list_method_files
from experiments.comparisons.plain_values import write_plain
from experiments.execution import excluded_runs, lifecycle, tasks
from experiments.models import (
    Environment,
    Event,
    Experiment,
    KeptComparison,
    Measurement,
    Run,
    User,
    Workload,
    kept_comparison,
)
from experiments.models.database_time import database_now
from experiments.statistics import Verdict
from tests.experiments.planning.test_stages import SLOW, end, end_all, fail, launched
from tests.factories import EventFactory, ExperimentFactory, UserFactory, WorkloadFactory
from tests.starts import FOUND, started

pytestmark = pytest.mark.django_db
NAN = float("nan")


def fresh(experiment: Experiment) -> Experiment:
    return Experiment.objects.get(pk=experiment.pk)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The experiments whose comparisons pages had to compute, in their order."""
    pks: list[int] = []

    def compute(experiment: Experiment) -> Any:
        pks.append(experiment.pk)
        return compare_experiment(experiment)

    monkeypatch.setattr(kept, "compare_experiment", compute)
    return pks


def is_kept(experiment: Experiment, computed: list[int]) -> bool:
    """Return whether a page finds the comparison kept."""
    before = len(computed)
    read_comparison(fresh(experiment))
    return len(computed) == before


def ended(repeats: int = 5, ratios: tuple[float, ...] = SLOW, **columns: Any) -> Experiment:
    experiment = launched(repeats=repeats, looks=1, **columns)
    end_all(experiment, ratios[:repeats])
    return experiment


def with_values(*values: float) -> Experiment:
    experiment = ended()
    for value, run in zip(values, experiment.runs.order_by("pk"), strict=False):
        Measurement.objects.filter(run=run).update(value=value)
    return experiment


def with_hundreds_of_runs() -> Experiment:
    draw = random.Random(1)
    workloads = [WorkloadFactory(), WorkloadFactory()]
    experiment = launched(repeats=60, looks=3, workloads=workloads, scales=["1x0", "1x1"])
    end_all(experiment, tuple(draw.lognormvariate(0.05, 0.01) for _ in range(60)))
    return experiment


def with_failures() -> Experiment:
    experiment = launched(repeats=5, looks=1)
    end_all(experiment, SLOW[:3])
    fail(experiment, 4)
    fail(experiment, 5)
    return experiment


def with_exclusions() -> Experiment:
    experiment = ended()
    person = UserFactory(username="ada")
    for run in experiment.runs.filter(repeat=2):
        assert excluded_runs.exclude(run, person, "the fan was broken")
    return experiment


def stopped_early() -> Experiment:
    experiment = launched(repeats=10, looks=2)
    end_all(experiment, SLOW[:4])
    lifecycle.cancel(experiment, experiment.owner)
    return experiment


KINDS: dict[str, Callable[[], Experiment]] = {
    "two blocks only": lambda: ended(repeats=2),
    "five blocks": ended,
    "independent": lambda: ended(design=Experiment.Design.INDEPENDENT),
    "hundreds of runs": with_hundreds_of_runs,
    "not a number": lambda: with_values(NAN),
    "infinite": lambda: with_values(float("inf"), -0.0),
    "zero": lambda: with_values(0.0, 1e-300, 1e300),
    "no verdict yet": lambda: ended(repeats=10, ratios=SLOW),
    "failed runs": with_failures,
    "excluded runs": with_exclusions,
    "stopped early": stopped_early,
    "steps, fixed warm-up": lambda: started().experiment,
    "steps, detected warm-up": lambda: started(**FOUND).experiment,
}


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_the_kept_comparison_equals_the_computed_one(
    make: Callable[[], Experiment], computed: list[int]
) -> None:
    experiment = make()
    wanted = compare_experiment(fresh(experiment))
    assert keep_comparison(experiment.pk) == "kept"
    computed.clear()
    found = read_comparison(fresh(experiment))
    assert computed == []
    assert repr(found) == repr(wanted)
    assert repr([*found.groups[0].samples]) == repr(wanted.groups[0].samples), "not a number, too"
    assert json.dumps(list_comparison_rows(found)) == json.dumps(list_comparison_rows(wanted))
    assert repr(found.everywhere) == repr(wanted.everywhere)


CHANGES: dict[str, Callable[[Experiment], object]] = {
    "an event": lambda row: EventFactory(experiment=row, what="anything"),
    "an exclusion": lambda row: excluded_runs.exclude(
        row.runs.filter(state="succeeded").latest("pk"), row.owner, "why not"
    ),
    "a state without an event": lambda row: row.runs.filter(repeat=1).update(state="failed"),
    "a run deleted": lambda row: row.runs.latest("pk").delete(),
    "a cancellation": lambda row: lifecycle.cancel(row, row.owner),
    "the margin": lambda row: Experiment.objects.filter(pk=row.pk).update(margin=0.3),
    "the metric": lambda row: Experiment.objects.filter(pk=row.pk).update(primary_metric="gflops"),
    "the warm-up": lambda row: Experiment.objects.filter(pk=row.pk).update(warm_up="found"),
    "the plan": lambda row: Experiment.objects.filter(pk=row.pk).update(plan_hash="1" * 64),
    "the baseline": lambda row: Experiment.objects.filter(pk=row.pk).update(
        baseline=row.environments.exclude(pk=row.baseline_id).get()
    ),
    "an environment's name": lambda row: Environment.objects.filter(pk=row.baseline_id).update(
        name="another name"
    ),
    "a workload's name": lambda row: Workload.objects.update(name="another name"),
    "a workload's parameters": lambda row: Workload.objects.update(parameters={"burn_in": 7}),
    "a person's name": lambda row: User.objects.filter(username="ada").update(username="eve"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_changes_it_makes_it_stale(
    change: Callable[[Experiment], object], computed: list[int]
) -> None:
    experiment = with_exclusions()
    Event.objects.filter(experiment=experiment, what="excluded after a verdict").delete()
    keep_comparison(experiment.pk)
    assert is_kept(experiment, computed)
    change(experiment)
    assert not is_kept(experiment, computed)


def test_what_another_version_has_computed_is_stale(
    computed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = ended()
    keep_comparison(experiment.pk)
    monkeypatch.setattr(comparison_keys, "identify_method", lambda: "the next version")
    assert not is_kept(experiment, computed)


def test_all_code_of_the_runners_that_comparisons_call_is_part_of_their_key() -> None:
    files = {path.relative_to(comparison_keys.BASE) for path in list_method_files()}
    rooms = [comparison_keys.BASE / "experiments" / room for room in ("comparisons", "statistics")]
    called = set()
    for path in (path for room in rooms for path in room.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("runners."):
                called.add(Path(*str(node.module).split(".")))
    assert called, "comparisons read results by what runners know of workloads"
    missing = [
        name for name in called if not {name.with_suffix(".py"), name / "__init__.py"} & files
    ]
    assert missing == []


def test_steps_that_are_summarised_again_make_it_stale(computed: list[int]) -> None:
    experiment = started().experiment
    keep_comparison(experiment.pk)
    assert is_kept(experiment, computed)
    call_command("find_steady_state", again=True, verbosity=0)
    assert not is_kept(experiment, computed)


def test_the_question_is_read_from_the_experiment(computed: list[int]) -> None:
    """Whoever renames it sees the new name at once, and nothing is computed for it."""
    experiment = ended()
    keep_comparison(experiment.pk)
    Experiment.objects.filter(pk=experiment.pk).update(question="What does a name cost?")
    assert read_comparison(fresh(experiment)).question == "What does a name cost?"


def test_an_event_that_is_committed_late_makes_it_stale(computed: list[int]) -> None:
    """Its key is smaller than that of the last one: the number of events tells."""
    experiment = ended()
    EventFactory(pk=10**9, experiment=experiment, what="last")
    keep_comparison(experiment.pk)
    assert is_kept(experiment, computed)
    EventFactory(experiment=experiment, what="earlier")
    assert not is_kept(experiment, computed)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut off": lambda content: content[:-10],
    "too long": lambda content: content + b"x",
    "a byte": lambda content: content[:60] + bytes([content[60] ^ 1]) + content[61:],
    "the check sum alone": lambda content: content[:32],
    "text": lambda content: b"<script>" * 50,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_one_is_computed_anew_and_kept_again(
    damage: Callable[[bytes], bytes], computed: list[int]
) -> None:
    experiment = ended()
    keep_comparison(experiment.pk)
    row = KeptComparison.objects.get()
    KeptComparison.objects.update(content=damage(bytes(row.content)))
    assert not is_kept(experiment, computed)
    assert keep_comparison(experiment.pk) == "kept"
    assert is_kept(experiment, computed)


def put(row: KeptComparison, content: Any) -> None:
    """Keep content of another kind, with a check sum that is right."""
    packed = zlib.compress(json.dumps(content).encode())
    row.content = packed_json._sum_up(packed, row.key) + packed
    row.save()


def list_places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    places = [place] if place else []
    for key, part in parts if isinstance(value, dict | list) else ():
        places += (
            list_places(part, (*place, key)) if isinstance(part, dict | list) else [(*place, key)]
        )
    return places


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(
    data=st.data(),
    odd=st.sampled_from([None, True, -1, 1.5, "", "x" * 5_000, [], {}, [[]], {"keys": 1}, "1x1"]),
)
def test_an_odd_one_is_never_an_error(
    data: st.DataObject, odd: Any, odd_row: tuple[Experiment, KeptComparison, Any]
) -> None:
    """Any part of it of another type: it is read as it is, or computed anew."""
    experiment, row, content = odd_row
    known = json.loads(json.dumps(content))
    *way, last = data.draw(st.sampled_from(list_places(known)))
    inner = known
    for key in way:
        inner = inner[key]
    inner[last] = odd
    put(row, known)
    assert read_comparison(experiment).has_numbers in (True, False)


@pytest.fixture
def odd_row() -> tuple[Experiment, KeptComparison, Any]:
    experiment = ended(repeats=2)
    keep_comparison(experiment.pk)
    row = KeptComparison.objects.get()
    return fresh(experiment), row, json.loads(zlib.decompress(bytes(row.content)[32:]))


def test_deep_nesting_is_no_error(computed: list[int]) -> None:
    experiment = ended()
    keep_comparison(experiment.pk)
    row = KeptComparison.objects.get()
    packed = zlib.compress(b"[" * 100_000)
    row.content = packed_json._sum_up(packed, row.key) + packed
    row.save()
    assert not is_kept(experiment, computed)


def test_what_unpacks_to_too_much_is_not_read(
    computed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = ended()
    keep_comparison(experiment.pk)
    monkeypatch.setattr(packed_json, "MOST_BYTES", 100)
    assert not is_kept(experiment, computed)


class TestKeeping:
    def test_the_task_keeps_it_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tasks, "close_old_connections", connection.ensure_connection)
        experiment = ended()
        assert tasks.keep(experiment.pk) == "kept"
        assert tasks.keep(experiment.pk) == "kept before"
        row = KeptComparison.objects.get()
        assert (row.pk, row.verdicts) == (experiment.pk, {Verdict.SLOWER: 1})

    def test_what_is_gone_or_has_no_number_is_not_kept(self) -> None:
        assert keep_comparison(10**9) == "gone"
        assert keep_comparison(ExperimentFactory().pk) == "nothing to keep"
        assert keep_comparison(launched().pk) == "nothing to keep"
        assert not KeptComparison.objects.exists()

    def test_a_live_one_is_not_computed_after_each_job(self) -> None:
        experiment = launched(repeats=10, looks=1)
        end(experiment, 1, 1.0)
        assert keep_comparison(experiment.pk) == "kept"
        end(experiment, 2, 1.0)
        assert keep_comparison(experiment.pk) == "put off"
        KeptComparison.objects.update(kept_at=database_now() - timedelta(seconds=31))
        assert keep_comparison(experiment.pk) == "kept"
        end(experiment, 3, 1.0)
        KeptComparison.objects.update(kept_at=database_now() - timedelta(seconds=31), seconds=2)
        assert keep_comparison(experiment.pk) == "put off"
        end_all(experiment, (1.0,) * 7, first=4)
        assert keep_comparison(experiment.pk) == "kept"

    def test_it_goes_with_its_experiment(self) -> None:
        experiment = ended()
        keep_comparison(experiment.pk)
        assert write_plain(KeptComparison.objects.get().verdicts) == {"SLOWER": 1}
        experiment.runs.all().delete()
        experiment.jobs.all().delete()
        experiment.delete()
        assert not KeptComparison.objects.exists()


class TestAsking:
    @pytest.fixture
    def asked(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        pks: list[int] = []
        monkeypatch.setattr(kept, "enqueue_keep", pks.append)
        monkeypatch.setattr("experiments.execution.moves.enqueue_keep", pks.append)
        return pks

    def test_a_page_that_had_to_compute_asks(self, asked: list[int]) -> None:
        experiment = ended()
        read_comparison(fresh(experiment))
        assert asked == [experiment.pk]
        keep_comparison(experiment.pk)
        read_comparison(fresh(experiment))
        assert asked == [experiment.pk]

    def test_no_page_asks_again_and_again_while_runs_live(self, asked: list[int]) -> None:
        experiment = launched(repeats=10, looks=1)
        end(experiment, 1, 1.0)
        keep_comparison(experiment.pk)
        end(experiment, 2, 1.0)
        asked.clear()
        read_comparison(fresh(experiment))
        assert asked == []

    def test_without_a_number_nobody_asks(self, asked: list[int]) -> None:
        read_comparison(fresh(launched()))
        assert asked == []

    def test_jobs_that_end_ask_once_an_experiment(self, asked: list[int]) -> None:
        experiment = launched(repeats=10, looks=1)
        lifecycle.cancel(experiment, experiment.owner)
        assert asked == [experiment.pk]

    def test_a_run_that_is_excluded_asks(self, asked: list[int]) -> None:
        experiment = ended()
        run = Run.objects.filter(experiment=experiment).latest("pk")
        excluded_runs.exclude(run, experiment.owner, "why not")
        assert asked == [experiment.pk]


def test_reading_takes_as_many_statements_for_hundreds_of_runs() -> None:
    counts = []
    for experiment in (ended(repeats=2), with_hundreds_of_runs()):
        keep_comparison(experiment.pk)
        row = fresh(experiment)
        with CaptureQueriesContext(connection) as queries:
            read_comparison(row)
        counts.append(len(queries))
    assert counts == [2, 2]


@pytest.mark.parametrize(
    "odd", [[], 5, "x" * 5_000, {"<b>": 1}, {"SLOWER": -1}, {"SLOWER": True}, {"SLOWER": {}}]
)
def test_odd_numbers_of_verdicts_are_left_out(odd: Any) -> None:
    experiment = ended()
    keep_comparison(experiment.pk)
    assert read_kept_verdicts([fresh(experiment)]) == {experiment.pk: {"SLOWER": 1}}
    KeptComparison.objects.update(verdicts=odd)
    assert read_kept_verdicts([fresh(experiment)]) == {}


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 1234])
def test_contents_come_in_pieces_and_are_whole(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One without any is a row as well: it says that computing failed."""
    monkeypatch.setattr(kept_comparison, "BYTES_OF_A_PIECE", 100)
    contents = {
        ExperimentFactory().pk: random.Random(size + number).randbytes(size * number)
        for number in range(3)
    }
    for pk, content in contents.items():
        KeptComparison.objects.create(
            pk=pk, key="k", content=content, seconds=1, kept_at=database_now()
        )
    rows = KeptComparison.objects.filter(pk__in=contents)
    with CaptureQueriesContext(connection) as asked:
        found = rows.read_in_pieces()
        assert {pk: row.content for pk, row in found.items()} == contents
    assert len(asked) == 1
    assert all(row.key == "k" for row in found.values())


def test_reading_does_not_touch_the_search_for_garbage_of_all_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    experiment = ended()
    keep_comparison(experiment.pk)
    for name in ("disable", "enable", "set_threshold"):
        monkeypatch.setattr(gc, name, lambda *_: pytest.fail("This is of the whole process."))
    read_comparison(fresh(experiment))
