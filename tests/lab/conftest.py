"""One running lab for all tests that need no other, and its rows in the database."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest
from django_webtest import DjangoTestApp

from experiments import demo, notify
from experiments.models import Cluster
from lab.client import Lab, ensure_lab, stop_lab
from tests.factories import AdminFactory
from tests.lab.by_forms import Person, Workers

FIRST_BUILD_SECONDS = 1400  # its root file system and images, where the cache has none


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("lab"):
            item.add_marker(pytest.mark.timeout(FIRST_BUILD_SECONDS))


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    directory = tmp_path_factory.mktemp("lab")
    yield ensure_lab(directory, images=("numpy", "tensorflow"))
    stop_lab(directory)
    shutil.rmtree(directory)


@pytest.fixture
def person(django_app: DjangoTestApp, monkeypatch: pytest.MonkeyPatch) -> Person:
    """An administrator before the pages, and workers that do at once what they ask for."""
    workers = Workers()
    monkeypatch.setattr(notify, "enqueue", workers.take)
    return Person(django_app, workers, AdminFactory(username="ada").username)


@pytest.fixture
def registered(lab: Lab, db: None) -> Cluster:
    """The lab in the catalogue, as `make demo` registers it."""
    owner = AdminFactory(username="demo")
    facts = json.loads((lab.directory / "lab.json").read_text())
    cluster = demo.register_lab(facts, owner)
    for image in ("numpy", "tensorflow"):
        demo.register_image(cluster, facts["images"][image], owner)
    Cluster.objects.update(poll_seconds=0)
    cluster.refresh_from_db()
    return cluster
