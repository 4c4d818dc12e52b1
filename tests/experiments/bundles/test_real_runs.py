"""A study that really ran on the direct cluster of the tests: its bundle agrees with itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.models import Experiment
from tests.conftest import finish
from tests.experiments.bundles.studies import make_bundle, unpack, verify

pytestmark = pytest.mark.django_db


def test_what_really_ran_is_proved_by_its_bundle(
    experiment: Callable[..., Experiment], tmp_path: Path
) -> None:
    study = experiment(repeats=3)
    finish(study)
    bundle = make_bundle(study)
    folder = tmp_path / "empty"
    folder.mkdir()
    status, text = verify(bundle, folder, "--all")
    assert status == 0, text
    assert "step_time after its warm-up" in text
    assert text.count("reported step_time") == 6
    files = unpack(bundle)
    runs = [json.loads(files[name]) for name in files if name.endswith("run.json")]
    assert all(run["snapshot"] and run["job_snapshot"] for run in runs)
    assert all(f"data/jobs/{run['job']}/job.sh" in files for run in runs)
    assert all(f"data/runs/{run['run']}/steps.json" in files for run in runs)
