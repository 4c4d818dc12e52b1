"""What a key needs on login nodes: lines for authorized_keys, and the forced command's script."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import models

from experiments.models import Cluster, Credential
from runners import gate

GATE_VERSION = gate.VERSION


def read_gate_script() -> str:
    """Return the script of the forced command: no secret, and the same for every key."""
    return gate.render_script()


def compute_gate_digest() -> str:
    """Return the SHA-256 of the script in hexadecimal digits."""
    return gate.hash_script()


@dataclass(frozen=True)
class Line:
    """A line to append to authorized_keys on one machine."""

    where: str  # empty: wherever the key is to be used
    text: str
    runs_jobs: bool = False  # whether the script has to be there, too
    problem: str = ""  # why there is none


def make_lines(credential: Credential, public_key: str) -> list[Line]:
    """Return the lines that install a public key: with a forced command, one for each machine."""
    key = f"{public_key} {make_comment(credential)}"
    if not credential.forced_command:
        return [Line("", key)]
    authorized_lines = [_make_line(cluster, key) for cluster in _machines(credential)]
    if not any(line.runs_jobs for line in authorized_lines) and credential.work_directory:
        where = "" if not authorized_lines else "the next cluster"
        authorized_lines.append(
            _gated(where, key, credential.work_directory, credential.scheduler, [])
        )
    return authorized_lines


def _machines(credential: Credential) -> models.QuerySet[Cluster]:
    used = credential.clusters.filter(transport="ssh")
    return used.prefetch_related("behind").order_by("name")


def _make_line(cluster: Cluster, key: str) -> Line:
    """Return the line for one cluster. A mere jump host runs nothing, and only forwards."""
    forwards = [(inner.host, inner.port) for inner in cluster.behind.all()]
    if forwards and not cluster.enabled:
        return _only_forwards(str(cluster), key, forwards)
    return _gated(str(cluster), key, cluster.work_directory, cluster.scheduler, forwards)


def _only_forwards(where: str, key: str, forwards: list[tuple[str, int]]) -> Line:
    try:
        return Line(where, gate.format_authorized_line(key, forwards=forwards))
    except ValueError as problem:
        return Line(where, "", problem=str(problem))


def _gated(
    where: str, key: str, work_directory: str, scheduler: str, forwards: list[tuple[str, int]]
) -> Line:
    try:
        text = gate.format_authorized_line(
            key, work_directory=work_directory, scheduler=scheduler, forwards=forwards
        )
    except ValueError as problem:
        return Line(where, "", problem=str(problem))
    return Line(where, text, runs_jobs=True)


def make_comment(credential: Credential) -> str:
    """Return the comment by which the key's line in authorized_keys is recognised."""
    return "tare-" + "".join(
        character if character.isalnum() or character in "-_." else "-"
        for character in credential.name
    )
