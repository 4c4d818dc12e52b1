"""The audit log keeps what was changed, refuses to be rewritten, and holds no secret."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction

from experiments.access import audit
from experiments.demo import register_here
from experiments.models import AuditEntry, Credential, User
from tests.factories import (
    AdminFactory,
    ClusterFactory,
    CredentialFactory,
    PartitionFactory,
    UserFactory,
)
from tests.source_tree import module_name, modules

pytestmark = pytest.mark.django_db

# Its pages save a row in several methods, all of them in one transaction of Django's.
SAVES_IN_PARTS = "experiments.admin.base"


def truncate() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; TRUNCATE experiments_auditentry")


@pytest.mark.parametrize(
    "rewrite",
    [
        lambda: AuditEntry.objects.update(why="nothing happened"),
        lambda: AuditEntry.objects.all().delete(),
        truncate,
    ],
)
def test_the_database_refuses_to_rewrite_the_log(rewrite: Callable[[], Any]) -> None:
    with connection.cursor() as cursor:  # the one that the tests themselves need off
        cursor.execute("ALTER TABLE experiments_auditentry ENABLE TRIGGER audit_refuses_truncation")
    audit.note(None, "looked at", ClusterFactory())
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        rewrite()
    assert AuditEntry.objects.get().why == ""


def test_changes_and_their_entries_go_together_through_the_helper() -> None:
    """Comparing states and writing the entry by hand is how an entry was lost."""
    parts = {"state", "saved", "deleted"}
    users = {
        module_name(path)
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in parts
        if isinstance(node.value, ast.Name) and node.value.id == "audit"
    }
    assert users == {SAVES_IN_PARTS}


def test_an_entry_says_what_changed_and_outlives_its_object() -> None:
    by, cluster = AdminFactory(), ClusterFactory(name="forhlr2", host="old.example")
    before = audit.read_values(cluster)
    cluster.host, cluster.last_error = "new.example", "no matter"
    cluster.save()
    entry = audit.saved(by, cluster, before, why="moved")
    assert entry is not None
    assert (entry.actor, entry.what, entry.why) == (by, "changed", "moved")
    assert entry.changes == {"host": ["old.example", "new.example"]}
    pk = cluster.pk
    audit.deleted(by, cluster)
    cluster.delete()
    entries = AuditEntry.objects.filter(kind="cluster", object_pk=str(pk), cluster_pk=pk)
    assert [entry.what for entry in entries] == ["deleted", "changed"]
    assert {entry.name for entry in entries} == {"forhlr2"}
    assert entries[0].changes["host"] == ["new.example", None]


def test_what_has_not_changed_is_not_written() -> None:
    cluster = ClusterFactory()
    assert audit.saved(None, cluster, audit.read_values(cluster)) is None
    assert not AuditEntry.objects.exists()


def test_of_a_secret_it_is_said_only_that_it_changed() -> None:
    credential = CredentialFactory(private_key="hush, the old one", fingerprint="SHA256:old")
    audit.saved(None, credential, {})
    before = audit.read_values(credential)
    assert "hush" not in repr(before)
    credential.private_key, credential.passphrase = "hush, the new one", "hush too"
    credential.fingerprint = "SHA256:new"
    credential.save()
    entry = audit.saved(None, credential, before)
    assert entry is not None
    assert entry.changes == {
        "fingerprint": ["SHA256:old", "SHA256:new"],
        "passphrase": "changed",
        "private_key": "changed",
    }
    audit.deleted(None, Credential.objects.get())
    kept = list(AuditEntry.objects.values())
    assert len(kept) == 3
    assert "hush" not in repr(kept)


def test_a_password_is_a_secret_and_groups_are_told_by_name() -> None:
    person = UserFactory()
    before = audit.read_values(person)
    person.set_password("correct horse")
    person.save()
    person.groups.create(name="neurophysics")
    entry = audit.saved(None, person, before)
    assert entry is not None
    assert entry.changes == {"groups": [[], ["neurophysics"]], "password": "changed"}
    assert User.objects.get(pk=person.pk).password not in repr(entry.changes)


def test_what_hangs_on_a_cluster_is_found_by_it() -> None:
    partition = PartitionFactory()
    entry = audit.note(None, "added", partition)
    assert entry.cluster_pk == partition.cluster_id


def test_what_a_command_keeps_is_told_once() -> None:
    owner = UserFactory()
    for work_directory in ("/home/tare", "/home/tare", "/scratch"):
        register_here(Path(work_directory), Path("/usr/bin/python3"), {}, owner)
    told = [(entry.kind, entry.what, entry.why) for entry in AuditEntry.objects.order_by("pk")]
    why = "the demo sets itself up"
    assert told == [
        ("cluster", "added", why),
        ("environment", "added", why),
        ("environment", "added", why),
        ("cluster", "changed", why),
    ]
    changed = AuditEntry.objects.get(what="changed")
    assert changed.changes == {"work_directory": ["/home/tare", "/scratch"]}


def test_turning_the_keys_of_all_secrets_is_told() -> None:
    credential = CredentialFactory()
    call_command("rotate_credentials")
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.name, entry.what) == (None, credential.name, "encrypted anew")
    assert entry.why == "manage.py rotate_credentials"


def test_a_long_text_is_told_by_its_hash() -> None:
    cluster = ClusterFactory()
    before = audit.read_values(cluster)
    cluster.setup_lines = "module load python\n" * 1000
    entry = audit.saved(None, cluster, before)
    assert entry is not None
    old, new = entry.changes["setup_lines"]
    assert old == ""
    assert "characters, sha256:" in new
    assert len(new) < 200
