"""Who knows a table of a paper finds it again on the comparison page, with intervals."""

from __future__ import annotations

import math

import pytest
from django.test import Client

from dashboard.comparisons.scaling_table import make_scaling_table
from experiments.comparisons.scales import Scaling
from experiments.statistics import Measured
from experiments.statistics.scaling import (
    Batch,
    Level,
    compute_gains,
    make_level_from_moments,
    make_level_from_runs,
)
from experiments.statistics.values import Better
from tests.dashboard.published_tables import TABLE_3, kept

MARKS = {"bare metal": 0, "udocker": 1}
SHORT_RUNS = """gpus,environment,images_per_second
1,lsdf,56
2,lsdf,103
4,lsdf,205
1,forhlr,118
2,forhlr,225
4,forhlr,426
"""


def found(levels: list[Level], better: Better = "higher", batch: Batch = "per GPU") -> Scaling:
    metric = Measured("images_per_second", "images/s", better, "Throughput")
    return Scaling("", metric, batch, levels, compute_gains(levels, better=better, batch=batch))


def test_a_cell_is_the_value_with_its_speed_up_and_below_it_the_interval() -> None:
    runs = {1: [55.8, 56.0, 56.2], 4: [204.0, 205.0, 206.0]}
    table = make_scaling_table(
        found([make_level_from_runs("bare metal", gpus, values) for gpus, values in runs.items()]),
        MARKS,
    )
    assert [row.gpus for row in table.rows] == [1, 4]
    one, four = (row.cells[0] for row in table.rows)
    assert (one.value, one.speed_up, one.small) == ("56.00", "", "[55.51, 56.50], n = 3")
    assert four.value == "205.0"
    assert four.speed_up.startswith("x 3.66 [")
    assert not table.by_scale


def test_scales_are_named_where_gpus_do_not_say_it_all() -> None:
    levels = [
        make_level_from_runs("udocker", 1, [10.0, 11.0], scale="1x1"),
        make_level_from_runs("udocker", 2, [19.0, 20.0], scale="1x2"),
        make_level_from_runs("udocker", 2, [17.0, 18.0], scale="2x1 mpirun"),
    ]
    table = make_scaling_table(found(levels), MARKS)
    assert table.by_scale
    assert [row.scale for row in table.rows] == ["1x1", "1x2", "2x1 mpirun"]


def test_what_was_not_measured_is_an_empty_cell() -> None:
    levels = [
        make_level_from_moments("bare metal", 1, 3710, 10 * math.sqrt(3), 3),
        make_level_from_moments("bare metal", 2, 2390, 30 * math.sqrt(3), 3),
        make_level_from_moments("udocker", 1, 3730, None, 0),
    ]
    table = make_scaling_table(found(levels, "lower", "total"), MARKS)
    assert [cell.value for cell in table.rows[1].cells] == ["2390", ""]
    assert table.rows[0].cells[1].small == "n not stated"


@pytest.mark.django_db
def test_table_3_is_found_again_with_its_speed_up(as_owner: Client) -> None:
    row = kept(as_owner, TABLE_3)
    page = as_owner.get(row.get_absolute_url() + "?scaling=strong").content.decode()
    assert "3710<br>" in page
    assert "1880 (x 1.9" in page


@pytest.mark.django_db
def test_the_overview_of_short_runs_is_found_again_as_it_was_printed(as_owner: Client) -> None:
    row = kept(as_owner, SHORT_RUNS)
    page = as_owner.get(row.get_absolute_url() + "?scaling=weak").content.decode()
    for cell in ("205 (x 3.7)", "426 (x 3.6)", "103 (x 1.8)", "225 (x 1.9)"):
        assert cell in page
