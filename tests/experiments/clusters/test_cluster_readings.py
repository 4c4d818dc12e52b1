"""Readings that somebody has asked for: made once, of what was asked, by who may, and answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments import execution
from experiments.execution import cluster_readings
from experiments.models import Cluster, ClusterDraft, ClusterReading, Credential, User
from experiments.models.cluster_draft import compute_access_digest
from runners.cluster_reading import Found, Reading
from runners.errors import TryAgain
from runners.preflight import Check
from runners.transports import SSH
from tests.factories import (
    AdminFactory,
    ClusterFactory,
    CredentialFactory,
    PartitionFactory,
    UserFactory,
)

pytestmark = pytest.mark.django_db

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDLJHbEtm7+rtjp1pPZQFglu9+WS2kMZJ3yJUNzbx1Ej"
FINE = Reading([Check("Login node", "Shell", "ok", "bash")], Found("slurm", "24.11.5"))
Asked = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def admin() -> User:
    made: User = AdminFactory()
    return made


@pytest.fixture
def stored(admin: User, tmp_path: Path) -> Cluster:
    """A cluster that is this machine."""
    made: Cluster = ClusterFactory(work_directory=str(tmp_path))
    return made


@pytest.fixture
def draft() -> ClusterDraft:
    """A draft with a confirmed host key, and a credential of its owner."""
    key: Credential = CredentialFactory()
    return ClusterDraft.objects.create(
        owner=key.owner,
        name="horeka",
        host="login.example",
        port=2222,
        user_name="jo",
        host_key=KEY,
        credential=key,
        scheduler="slurm",
        work_directory="/scratch/jo",
    )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Where was logged in, with what was asked; the answer is that all is well."""
    calls: Asked = []

    def answer(transport: Any, **options: Any) -> Reading:
        calls.append((transport.address.host if isinstance(transport, SSH) else "", options))
        return FINE

    monkeypatch.setattr(cluster_readings, "ask_cluster", answer)
    return calls


def of_stored(cluster: Cluster, by: User | None, **columns: Any) -> ClusterReading:
    digest = compute_access_digest(cluster)
    about = {"kind": "offer", "cluster": cluster, "owner": by, "digest": digest}
    return ClusterReading.objects.create(**about | columns)


def of_draft(draft: ClusterDraft, **columns: Any) -> ClusterReading:
    about = {"kind": "offer", "draft": draft, "owner": draft.owner, "digest": draft.access_digest}
    return ClusterReading.objects.create(**about | columns)


def read(row: ClusterReading) -> str:
    """Have the reading made, and return its outcome."""
    outcome = execution.read_cluster(row.pk)
    row.refresh_from_db()
    return outcome


def words(row: ClusterReading) -> str:
    (check,) = row.checks
    assert (check.area, check.outcome) == ("Connection", "failed")
    return f"{check.name}: {check.found} {check.cure}".strip()


def test_this_machine_is_read_once_and_no_other_reading_begins(
    stored: Cluster, admin: User
) -> None:
    row = of_stored(stored, admin)
    other = of_stored(ClusterFactory(), admin)
    outcome = read(row)
    assert row.outcome == outcome
    assert row.began_at
    assert row.ended_at
    assert row.began_at <= row.ended_at
    assert row.offer
    assert row.offer.work_directory == stored.work_directory
    assert {check.area for check in row.checks} >= {"Login node"}
    assert row.key == ""
    assert read(row) == "begun already"
    other.refresh_from_db()
    assert (other.began_at, other.ended_at) == (None, None)


def test_a_stored_cluster_is_asked_for_what_it_has_and_what_is_known_of_it(
    stored: Cluster, admin: User, asked: Asked
) -> None:
    PartitionFactory(cluster=stored, name="gpu")
    PartitionFactory(name="of another")
    row = of_stored(stored, admin)
    assert read(row) == "ok"
    ((host, options),) = asked
    assert host == ""
    assert options == {
        "scheduler": "direct",
        "known_partitions": {"gpu"},
        "work_directory": stored.work_directory,
    }
    assert (row.outcome, row.checks, row.offer) == ("ok", FINE.checks, FINE.found)


def test_who_may_not_change_a_stored_cluster_any_more_is_told_nothing_of_it(
    stored: Cluster, asked: Asked
) -> None:
    for by in (UserFactory(), None):
        row = of_stored(stored, by)
        assert read(row) == "failed"
        assert words(row) == (
            "Entry: The person who asked for this may no longer use the keys on the way to this "
            "cluster. Ask again as somebody who may."
        )
        assert row.found == {}
    assert not asked


def test_what_was_changed_since_it_was_asked_for_is_not_read(
    stored: Cluster, admin: User, draft: ClusterDraft, asked: Asked
) -> None:
    for row in (of_stored(stored, admin, digest="before"), of_draft(draft, digest="before")):
        assert read(row) == "failed"
        assert words(row).startswith("Entry: The address, host key or credential was changed")
    assert not asked


def test_a_draft_is_read_at_its_address_with_its_key(draft: ClusterDraft, asked: Asked) -> None:
    row = of_draft(draft)
    assert read(row) == "ok"
    options = {"scheduler": "slurm", "work_directory": "/scratch/jo"}
    assert asked == [("login.example", options)]
    assert row.offer == FINE.found


def test_a_draft_with_the_key_of_somebody_else_is_not_read(
    draft: ClusterDraft, asked: Asked
) -> None:
    ClusterDraft.objects.update(credential=CredentialFactory())
    draft.refresh_from_db()
    row = of_draft(draft)
    assert read(row) == "failed"
    assert words(row) == (
        "Entry: A key on the way to this cluster is not yours to use. Choose another jump host in "
        "step 1, or another credential in step 3."
    )
    assert not asked


def test_an_entry_that_is_not_complete_is_said_with_its_cure(
    draft: ClusterDraft, asked: Asked
) -> None:
    ClusterDraft.objects.update(host_key="")
    draft.refresh_from_db()
    row = of_draft(draft)
    assert read(row) == "failed"
    assert words(row).startswith("Entry: horeka has no pinned host key yet. Fetch its host key")
    assert not asked


def test_a_failure_of_tares_own_ends_the_reading_and_is_raised(
    draft: ClusterDraft, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_readings, "ask_cluster", lambda *_, **__: 1 / 0)
    row = of_draft(draft)
    with pytest.raises(ZeroDivisionError):
        execution.read_cluster(row.pk)
    row.refresh_from_db()
    assert (row.outcome, bool(row.ended_at)) == ("failed", True)
    assert words(row).startswith("Worker: Tare itself failed.")


class TestHostKey:
    """The key that a draft's host shows, for a person to compare."""

    @pytest.fixture(autouse=True)
    def scanned(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, str]]:
        """Where a key was asked for, and over which jump host."""
        calls: list[tuple[str, int, str]] = []

        def scan(host: str, port: int, jump_host: Cluster | None) -> str:
            calls.append((host, port, str(jump_host or "")))
            if host == "silent":
                raise TryAgain("nobody\x00 listens", kind="unreachable")
            return KEY

        monkeypatch.setattr(cluster_readings, "scan_key", scan)
        return calls

    def ask(self, draft: ClusterDraft, **columns: Any) -> ClusterReading:
        return of_draft(draft, **{"kind": "host key", "digest": draft.address_digest} | columns)

    def test_is_kept_as_it_was_shown(
        self, draft: ClusterDraft, scanned: list[tuple[str, int, str]]
    ) -> None:
        row = self.ask(draft)
        assert read(row) == "fetched"
        assert (row.key, row.rows, row.found) == (KEY, [], {})
        assert row.ended_at
        assert scanned == [("login.example", 2222, "")]

    def test_of_another_address_than_today_is_not_kept(self, draft: ClusterDraft) -> None:
        row = self.ask(draft, digest="before")
        read(row)
        assert (row.key, row.outcome) == ("", "failed")
        assert "was changed after this was asked for" in words(row)

    def test_that_nobody_shows_is_said_without_odd_characters(self, draft: ClusterDraft) -> None:
        draft.host = "silent"
        draft.save()
        row = self.ask(draft)
        assert read(row) == "failed"
        assert row.key == ""
        assert words(row).startswith("Host key: nobody")
        assert words(row).endswith(" listens")
        assert "\x00" not in words(row)

    def test_behind_a_jump_host_is_fetched_with_ones_own_key_alone(
        self, draft: ClusterDraft, scanned: list[tuple[str, int, str]]
    ) -> None:
        draft.jump_host = ClusterFactory(
            name="gate", transport="ssh", host_key=KEY, credential=CredentialFactory()
        )
        draft.save()
        row = self.ask(draft)
        assert read(row) == "failed"
        assert "A key on the way to this cluster is not yours to use." in words(row)
        assert not scanned
        Credential.objects.get(clusters=draft.jump_host).users.add(draft.owner)
        again = self.ask(draft)
        assert read(again) == "fetched"
        assert scanned == [("login.example", 2222, "gate")]
