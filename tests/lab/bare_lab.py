"""A lab of a test file's own, without any image of other tests, and its entry; to be imported."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest

from experiments import demo
from experiments.models import Cluster
from lab.client import Lab, ensure_lab, stop_lab
from tests.factories import AdminFactory


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    directory = tmp_path_factory.mktemp("lab")
    yield ensure_lab(directory)
    stop_lab(directory)
    shutil.rmtree(directory)


@pytest.fixture
def registered(lab: Lab, db: None) -> Cluster:
    """The lab in the catalogue, with bare metal alone."""
    facts = json.loads((lab.directory / "lab.json").read_text())
    cluster = demo.register_lab(facts, AdminFactory(username="demo"))
    Cluster.objects.update(poll_seconds=0)
    cluster.refresh_from_db()
    return cluster
