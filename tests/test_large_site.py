"""The site that the benchmarks measure can be made from today's models."""

from __future__ import annotations

import pytest

from benchmarks.large_site import fill_large_site
from experiments.models import Measurement, Run

RUNS = 400


@pytest.mark.django_db(transaction=True)
def test_a_large_site_is_filled_with_runs_and_their_measurements() -> None:
    person = fill_large_site(RUNS)

    assert person.pk is not None
    assert Run.objects.count() >= RUNS
    assert Measurement.objects.filter(run__state="succeeded", source="").count() >= RUNS // 2
