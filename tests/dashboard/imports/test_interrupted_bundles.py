"""Imports of bundles that end in the middle: nothing of them stays, and the page says why."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.db import connection, connections
from django.test import Client

from experiments.imports.bundle_runs import RowMaker
from experiments.models import Experiment, Run, User, Workload
from runners.scratch_folders import BEGINNING, remove_abandoned_folders
from tests.dashboard.api.requests_by_token import log_in
from tests.dashboard.imports.bundles import forget_all, write
from tests.experiments.bundles.studies import end_runs, launch
from tests.factories import UserFactory
from tests.source_tree import BASE

pytestmark = pytest.mark.django_db(transaction=True)
LOST = "The database was lost in the middle"

KILLED = """
import os, signal, sys
import django
django.setup()
from django.core.management import call_command
from django.db import connection
from experiments.imports.bundle_runs import RowMaker
create_runs = RowMaker.create_runs

def be_killed(self):
    create_runs(self)
    os.kill(os.getpid(), signal.SIGKILL)

RowMaker.create_runs = be_killed
call_command("import_bundle", sys.argv[1], owner=sys.argv[2])
"""


@pytest.fixture
def owner() -> User:
    return UserFactory(username="owner", role="researcher")


@pytest.fixture
def bundle(owner: User) -> bytes:
    """Return the bundle of another site: its experiment is not on this one."""
    experiment = launch(question="What does Apptainer cost there?")
    end_runs(experiment)
    content = write(experiment)
    forget_all(experiment)
    return content


@pytest.fixture
def lose_database(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function after which PostgreSQL ends the connection once all runs are entered."""

    def lose() -> None:
        create_runs = RowMaker.create_runs

        def create_and_lose(self: RowMaker) -> Any:
            differences = create_runs(self)
            monkeypatch.undo()
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
            return differences

        monkeypatch.setattr(RowMaker, "create_runs", create_and_lose)

    return lose


def count_rows() -> tuple[int, ...]:
    return tuple(model.objects.count() for model in (Experiment, Run, Workload))


def test_a_page_says_that_the_database_was_lost_and_nothing_stays(
    bundle: bytes, owner: User, lose_database: Callable[[], None]
) -> None:
    client = Client()
    client.force_login(owner)
    before = count_rows()
    lose_database()
    form = {"bundle": SimpleUploadedFile("study.zip", bundle), "visibility": "private"}
    page = " ".join(client.post("/experiments/import/bundle/", form).content.decode().split())
    assert LOST in page
    assert "no database keeps" not in page
    assert count_rows() == before
    form["bundle"] = SimpleUploadedFile("study.zip", bundle)
    assert client.post("/experiments/import/bundle/", form).status_code == 302
    assert Experiment.objects.get().question == "What does Apptainer cost there?"


def test_a_program_is_told_when_to_try_again(
    bundle: bytes, owner: User, lose_database: Callable[[], None], client: Client
) -> None:
    before, headers = count_rows(), log_in(owner, "experiments")
    lose_database()
    form = {"bundle": SimpleUploadedFile("study.zip", bundle)}
    answer = client.post("/api/v1/bundles", form, headers=headers)
    assert (answer.status_code, answer["Content-Type"]) == (503, "application/problem+json")
    assert int(answer["Retry-After"]) > 0
    assert count_rows() == before


def test_the_command_says_it_too(
    bundle: bytes, owner: User, lose_database: Callable[[], None], tmp_path: Path
) -> None:
    before, path = count_rows(), tmp_path / "study.zip"
    path.write_bytes(bundle)
    lose_database()
    with pytest.raises(CommandError, match=LOST):
        call_command("import_bundle", str(path), owner="owner")
    assert count_rows() == before


def test_of_one_that_is_killed_nothing_stays(bundle: bytes, owner: User, tmp_path: Path) -> None:
    before, path = count_rows(), tmp_path / "study.zip"
    path.write_bytes(bundle)
    settings = connections["default"].settings_dict
    address = os.environ["DATABASE_URL"].rpartition("/")[0] + f"/{settings['NAME']}"
    process = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), "owner"],
        cwd=BASE,
        env={**os.environ, "DATABASE_URL": address, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr
    assert count_rows() == before
    call_command("import_bundle", str(path), owner="owner")
    assert Run.objects.count() > 0


def test_the_folder_of_one_that_is_killed_goes_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    source = (
        "import os, signal\nfrom runners.scratch_folders import open_scratch_folder\n"
        "with open_scratch_folder('bundle') as folder:\n"
        "    (folder / 'bundle.zip').write_bytes(b'x')\n    os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", source], cwd=BASE, env=environment, check=False)
    assert [path.name.startswith(BEGINNING) for path in tmp_path.iterdir()] == [True]
    assert remove_abandoned_folders() == 1
    assert not list(tmp_path.iterdir())
