"""What reading docker-compose.yml and both Dockerfiles tells; `make compose-proof` runs them."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import pytest

from tests.compose import base_images, runc_here
from tests.compose.composed_site import SERVICES
from tests.source_tree import BASE

COMPOSE = (BASE / "docker-compose.yml").read_text()
EXACT = re.compile(r".+:\d+\.\d+(\.\d+)?(-[a-z-]+)?")
ENDS_BY_ITSELF = {"migrate"}
CHECK = r"^ +healthcheck:|^HEALTHCHECK "


def read_services() -> dict[str, str]:
    """Return the text of each service by its name."""
    services = COMPOSE.partition("\nservices:\n")[2].partition("\nnetworks:\n")[0]
    parts = re.split(r"^  (\w+):\n", services, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_the_proof_expects_what_the_file_starts() -> None:
    services = read_services()
    assert set(services) - ENDS_BY_ITSELF == set(SERVICES)
    for name, text in services.items():
        replicas = re.search(r"replicas: (\d+)", text)
        number = int(replicas[1]) if replicas else 1
        assert name in ENDS_BY_ITSELF or SERVICES[name] == number


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_that_stays_has_a_health_check(name: str) -> None:
    text = read_services()[name]
    if built_from := re.search(r"^    build: (\S+)", text, re.MULTILINE):
        text += (BASE / built_from[1] / "Dockerfile").read_text()
    assert re.search(CHECK, text, re.MULTILINE)


@pytest.mark.parametrize("name", sorted(base_images.list_base_images(BASE)))
def test_base_images_have_exact_versions_and_stand_ins(name: str) -> None:
    assert EXACT.fullmatch(name)
    kind = name.partition(":")[0].rpartition("/")[2]
    assert kind == "debian" or (base_images.RECIPES / f"{kind}.Dockerfile").exists()


def test_scripts_that_images_start_may_be_executed() -> None:
    for script in ("lab/cluster/healthy.sh", "tests/compose/runc_here.py"):
        assert (BASE / script).stat().st_mode & stat.S_IXUSR


@pytest.mark.parametrize("is_exec", [False, True])
def test_capabilities_that_a_machine_lacks_are_not_asked_for(is_exec: bool, tmp_path: Path) -> None:
    process = {"args": ["true"], "capabilities": {"bounding": ["CAP_KILL", "CAP_SYS_RESOURCE"]}}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(process if is_exec else {"process": process, "root": {}}))
    runc_here.remove_capabilities(path, {"CAP_SYS_RESOURCE"})
    written = json.loads(path.read_text())
    kept = written if is_exec else written["process"]
    assert kept == {"args": ["true"], "capabilities": {"bounding": ["CAP_KILL"]}}


def test_a_process_without_capabilities_of_its_own_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "process.json"
    path.write_text('{"args": ["true"], "capabilities": null}')
    runc_here.remove_capabilities(path, {"CAP_SYS_RESOURCE"})
    assert json.loads(path.read_text()) == {"args": ["true"], "capabilities": None}
