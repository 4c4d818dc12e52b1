"""What the demo writes into the catalogue at each start, and what it leaves to people."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from experiments import demo
from experiments.management.commands import demo as command
from experiments.management.commands import prepare_demo
from experiments.management.commands.prepare_demo import PASSWORD_CHANGED
from experiments.models import Cluster, Environment, User
from tests.factories import AdminFactory
from tests.runners.sshd import make_key

pytestmark = pytest.mark.django_db


@pytest.fixture
def facts(tmp_path: Path) -> dict[str, Any]:
    key = tmp_path / "key"
    make_key(key)
    return {
        "private_key": str(key),
        "user": "researcher",
        "host": "127.0.0.1",
        "port": 27000,
        "host_key": "ssh-ed25519 AAAA",
        "work_directory": "/scratch/researcher",
        "partitions": [
            {
                "name": "gpu",
                "nodes": 2,
                "gpus_per_node": 4,
                "gpu_model": "h100",
                "cpus_per_node": 8,
                "time_limit_seconds": 3600,
            }
        ],
        "runtimes": {
            kind: {"executable": f"/usr/bin/{kind}", "version": "1"} for kind in demo.RUNTIMES
        },
    }


def test_a_later_start_keeps_what_a_person_has_set(facts: dict[str, Any]) -> None:
    owner, other = AdminFactory(), AdminFactory()
    cluster = demo.register_lab(facts, owner)
    Cluster.objects.update(max_live_jobs=7, poll_seconds=11, enabled=False, owner=other)
    cluster.partitions.update(memory_mb=123, cpus_per_run=1, time_limit_minutes=9)

    moved = {**facts, "port": 27040, "host_key": "ssh-ed25519 BBBB"}
    again = demo.register_lab(moved, owner)

    assert again.pk == cluster.pk
    assert (again.port, again.host_key) == (27040, "ssh-ed25519 BBBB")
    assert (again.max_live_jobs, again.poll_seconds, again.enabled) == (7, 11, False)
    assert again.owner == other
    partition = again.partitions.get()
    assert (partition.memory_mb, partition.cpus_per_run, partition.time_limit_minutes) == (
        123,
        1,
        9,
    )


def test_images_that_a_person_has_built_beside_the_demos_get_environments(
    facts: dict[str, Any],
) -> None:
    """`lab/lab build torch`, and a later start of the demo."""
    owner = AdminFactory()
    cluster = demo.register_lab(facts, owner)

    def build(package: str, digit: str) -> dict[str, Any]:
        place, sha256 = f"/scratch/{package}", digit * 64
        return {
            "image": {
                "digest": f"sha256:{sha256}",
                "reference": f"tare/{package}:1",
                "recipe": "",
                "os": "Debian",
                "python": "/opt/tare/bin/python",
                "python_version": "3.13.5",
                "packages": {package: "1.0"},
                "bytes": 1,
            },
            "bare_metal": {"python": f"{place}/bin/python"},
            "staged": [{"format": "sandbox", "path": place, "sha256": sha256, "bytes": 1}],
        }

    built = {"tensorflow": build("tensorflow-cpu", "1"), "torch": build("torch", "2")}
    names = ["bare metal", "Apptainer sandbox", "Charliecloud"]
    for _ in range(2):
        rows = demo.register_images(cluster, built, owner)
        assert [row.name for row in rows] == [*names, *(f"{name} (torch 1.0)" for name in names)]
    assert Environment.objects.count() == 6


def test_a_later_start_on_this_machine_keeps_limits_and_owners(tmp_path: Path) -> None:
    owner, other = AdminFactory(), AdminFactory()
    demo.register_here(tmp_path / "work", tmp_path / "python", {}, owner)
    Cluster.objects.update(max_live_jobs=3)
    Environment.objects.update(owner=other)
    again = demo.register_here(tmp_path / "work", tmp_path / "python3", {}, owner)
    assert again.max_live_jobs == 3
    assert set(Environment.objects.values_list("owner", "python")) == {
        (other.pk, str(tmp_path / "python3"))
    }


def prepare(monkeypatch: pytest.MonkeyPatch, password: str) -> str:
    monkeypatch.setenv("TARE_DEMO_PASSWORD", password)
    output = StringIO()
    call_command("prepare_demo", stdout=output)
    return output.getvalue().strip()


def test_the_first_password_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    assert prepare(monkeypatch, "the first") == ""
    assert prepare(monkeypatch, "the first") == ""
    user = User.objects.get(username="demo")
    user.set_password("their own")
    user.save()
    assert prepare(monkeypatch, "the first") == PASSWORD_CHANGED
    user.refresh_from_db()
    assert user.check_password("their own")


def test_the_lab_is_not_asked_before_it_is_back_and_stays_enabled(
    facts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(monkeypatch, "the first")
    owner = User.objects.get(username="demo")
    cluster = demo.register_lab(facts, owner)
    prepare(monkeypatch, "the first")
    cluster.refresh_from_db()
    assert cluster.enabled
    assert cluster.retry_at
    assert cluster.retry_at > timezone.now()
    assert cluster.preparing == "Starting the cluster of this machine"
    demo.register_lab(facts, owner)
    cluster.refresh_from_db()
    assert cluster.retry_at is None


def test_the_lab_is_up_when_it_has_written_so_since_its_last_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then its file is that of the last time, and its sshd may answer already."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        facts = {"host": "127.0.0.1", "port": server.getsockname()[1]}
        (tmp_path / "lab.json").write_text(json.dumps(facts))
        (tmp_path / "pid").touch()
        os.utime(tmp_path / "lab.json", (1, 1))
        waits: list[float] = []

        def wait(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 3:
                (tmp_path / "lab.json").touch()

        monkeypatch.setattr(command.time, "sleep", wait)
        assert command.wait_for_lab(tmp_path) == facts
        assert len(waits) == 3


def test_demos_of_one_checkout_collect_static_files_one_after_the_other(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.STATIC_ROOT = tmp_path / "staticfiles"
    collected = []

    def collect(*args: object, **kwargs: object) -> None:
        other = os.open(settings.STATIC_ROOT, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(other)
        (settings.STATIC_ROOT / "staticfiles.json").touch()
        collected.append(args)

    monkeypatch.setattr(prepare_demo, "call_command", collect)
    prepare_demo.collect_static_files()
    prepare_demo.collect_static_files()  # whoever waited finds them there
    assert collected == [("collectstatic",)]
