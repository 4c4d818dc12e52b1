"""What was found in the steps of a run is kept with them, once, and can be found again."""

import io
import math
from importlib import import_module

import pytest
from django.core.management import call_command
from django.db import connection

from experiments.comparisons.step_summaries import add_step_summary, read_steady_state
from experiments.models import Series
from experiments.statistics.change_points import FEWEST_BLOCKS, Shape
from tests.factories import SeriesFactory

pytestmark = pytest.mark.django_db
STEPS = [0.03 + 0.0001 * (i % 7) for i in range(70)] + [0.02 + 0.0001 * (i % 7) for i in range(330)]


def test_a_note_stands_beside_the_steps():
    series = add_step_summary(Series(metric="step_time", unit="s", values=STEPS))
    assert (series.shape, series.warm_up, series.steady_from) == ("warm-up", 70, 70)
    assert series.settled_mean == pytest.approx(sum(STEPS[70:]) / 330)
    assert series.tail_means[7] == series.settled_mean
    assert len(series.tail_means) == 40
    found = read_steady_state(series)
    assert found
    assert found.shape is Shape.WARM_UP
    assert "the first 70 steps are slower" in found.sentence


@pytest.mark.parametrize(
    ("metric", "unit"), [("loss", "1"), ("accuracy_time", "s"), ("gflops", "Gflop/s")]
)
def test_only_times_per_step_have_a_start_up(metric, unit):
    series = add_step_summary(Series(metric=metric, unit=unit, values=STEPS))
    assert (series.shape, series.tail_means, read_steady_state(series)) == ("", [], None)


def test_losses_keep_their_ends_and_a_hash_that_the_last_bit_changes():
    series = add_step_summary(Series(metric="loss", unit="1", values=[2.3, 0.1, 0.5]))
    assert (series.first_value, series.last_value) == (2.3, 0.5)
    again = add_step_summary(Series(metric="loss", unit="1", values=[2.3, 0.1, 0.5]))
    other = add_step_summary(
        Series(metric="loss", unit="1", values=[2.3, math.nextafter(0.1, 1), 0.5])
    )
    assert series.digest == again.digest != other.digest
    assert add_step_summary(Series(metric="loss", unit="1", values=[])).digest == ""


def test_losses_of_old_runs_get_what_new_ones_have():
    losses = [2.3, -0.0, 1e-300, 0.1, 1e300]
    rows = [
        SeriesFactory(metric="loss", unit="1", values=losses),
        SeriesFactory(metric="loss", unit="1", values=[0.5]),
        SeriesFactory(metric="loss", unit="1", values=[]),
        SeriesFactory(metric="accuracy", unit="1", values=[0.5]),
    ]
    migration = import_module("experiments.migrations.0019_losses")
    with connection.cursor() as cursor:
        cursor.execute(migration.OLD_ROWS)
    for row in rows:
        expected = add_step_summary(Series(metric=row.metric, unit="1", values=row.values))
        row.refresh_from_db()
        assert (row.first_value, row.last_value, row.digest) == (
            expected.first_value,
            expected.last_value,
            expected.digest,
        )


def test_a_run_too_short_to_tell_says_so():
    series = add_step_summary(
        Series(metric="step_time", unit="s", values=STEPS[: 10 * FEWEST_BLOCKS - 1])
    )
    assert (series.shape, series.warm_up, series.settled_mean) == ("too short to tell", None, None)


def look(*arguments):
    out = io.StringIO()
    call_command("find_steady_state", *arguments, stdout=out)
    return out.getvalue().strip()


def test_the_command_looks_where_nobody_has_looked():
    stored = SeriesFactory(values=STEPS)
    SeriesFactory(run=stored.run, metric="loss", unit="1")
    assert look() == "1 series read."
    stored.refresh_from_db()
    assert (stored.shape, stored.warm_up) == ("warm-up", 70)
    assert look() == "0 series read."
    assert look("--again") == "1 series read."
