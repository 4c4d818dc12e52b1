"""The pages of credentials: secrets go in and never come out, and the public key is at hand."""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.signals import got_request_exception
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.views.debug import ExceptionReporter

from experiments.clusters import authorized_keys
from experiments.clusters import credentials as keys
from experiments.models import AuditEntry, ConnectionTest, Credential, Origin, Role
from runners import gate
from runners.transports import format_public_key, load_private_key
from tests.dashboard.conftest import People
from tests.factories import ClusterFactory, CredentialFactory, UserFactory
from tests.runners.sshd import make_key, sign

pytestmark = pytest.mark.django_db
PHRASE = "open sesame"


@pytest.fixture
def maker(people: People) -> Client:
    """Somebody who looks after clusters."""
    people.other.role = Role.CLUSTER_ADMINISTRATOR
    people.other.save()
    return people.client("other")


def page(client: Client, name: str, *args: Any) -> str:
    answer = client.get(reverse(name, args=args))
    assert answer.status_code == 200
    return html.unescape(answer.content.decode())


def secrets_of(*texts: str) -> list[str]:
    lines = [line for text in texts for line in text.splitlines()]
    return [line for line in lines if len(line) > 10 and not line.startswith("-----")]


def made(owner: Any, **columns: Any) -> Credential:
    row = Credential(name="lab key", user_name="tare", **columns)
    return keys.add(row, keys.make_pair(), Origin.GENERATED, owner)


def test_a_pair_is_made_and_its_public_half_shown_with_the_line(maker: Client) -> None:
    answer = maker.post(reverse("credential_new"), {"name": "FH 2", "user_name": "me"})
    row = Credential.objects.get()
    assert answer["Location"] == row.get_absolute_url()
    private = row.private_key.reveal()
    assert private.startswith("-----BEGIN OPENSSH PRIVATE KEY-----")
    line = format_public_key(load_private_key(private), "tare-FH-2")
    shown = page(maker, "credential", row.pk)
    assert f">{line}</pre>" in shown
    assert row.fingerprint in shown
    assert 'data-copy="line-1"' in shown
    for secret in secrets_of(private):
        assert secret not in shown


@pytest.mark.parametrize("as_file", [True, False])
def test_a_key_is_handed_in_and_never_shown(maker: Client, tmp_path: Path, as_file: bool) -> None:
    private = make_key(tmp_path / "key", passphrase=PHRASE)
    way: dict[str, Any] = (
        {"key_file": SimpleUploadedFile("key", private.encode())}
        if as_file
        else {"private_key": private.strip().replace("\n", "\r\n")}
    )
    sent = {"name": "old key", "user_name": "me", "passphrase": PHRASE, **way}
    assert maker.post(reverse("credential_import"), sent).status_code == 302
    row = Credential.objects.get()
    assert (row.private_key.reveal(), row.passphrase.reveal()) == (private, PHRASE)
    assert row.public_key.split() == (tmp_path / "key.pub").read_text().split()[:2]
    for name, args in (
        ("credential", [row.pk]),
        ("credentials", []),
        ("credential_edit", [row.pk]),
    ):
        shown = page(maker, name, *args)
        for secret in [*secrets_of(private), PHRASE]:
            assert secret not in shown


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"private_key": ""}, "key_file", "A credential is its key"),
        ({"passphrase": ""}, "passphrase", "needs a passphrase"),
        ({"passphrase": "wrong phrase"}, "passphrase", "does not open"),
        ({"private_key": "ssh-ed25519 AAAAC3Nz me"}, "private_key", "the public key"),
        ({"private_key": "", "key_file": b"\xff\x00\x01"}, "key_file", "This file is no text"),
        ({"private_key": "", "key_file": b"x" * 70_000}, "key_file", "too large"),
        ({"key_file": b"both"}, "private_key", "not both"),
        ({"name": ""}, "name", "This field is required"),
    ],
)
def test_after_an_error_the_form_shows_no_secret(
    maker: Client, tmp_path: Path, change: dict[str, Any], field: str, words: str
) -> None:
    private = make_key(tmp_path / "key", passphrase=PHRASE)
    sent: dict[str, Any] = {"name": "n", "user_name": "me", "private_key": private}
    sent |= {"passphrase": PHRASE, **change}
    if "key_file" in change:
        sent["key_file"] = SimpleUploadedFile("key", change["key_file"])
    answer = maker.post(reverse("credential_import"), sent)
    shown = html.unescape(answer.content.decode())
    problems = re.search(rf'id="id_{field}_error".*?</div></div>', shown, re.DOTALL)
    assert problems, shown
    assert words in problems[0]
    for secret in [*secrets_of(sent["private_key"]), *filter(None, [sent["passphrase"]])]:
        assert secret not in shown
    assert not Credential.objects.exists()


def test_an_error_report_shows_no_secret(
    maker: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Django would write or mail about a crash in the middle of it."""
    private = make_key(tmp_path / "key")
    reports: list[str] = []

    def crash(*_: Any, **__: Any) -> None:
        raise RuntimeError("the database is away")

    def report(request: Any, **_: Any) -> None:
        reports.append(ExceptionReporter(request, *sys.exc_info()).get_traceback_html())

    monkeypatch.setattr(Credential, "save", crash)
    got_request_exception.connect(report, weak=False)
    sent = {"name": "n", "user_name": "me", "private_key": private, "passphrase": PHRASE}
    try:
        with pytest.raises(RuntimeError):
            maker.post(reverse("credential_import"), sent)
    finally:
        got_request_exception.disconnect(report)
    (text,) = reports
    assert "hand_in" in text
    assert "the database is away" in text
    for secret in [*secrets_of(private), PHRASE]:
        assert secret not in text


def test_a_certificate_is_kept_and_renewed_and_must_belong(
    maker: Client, people: People, tmp_path: Path
) -> None:
    row = made(people.other)
    address = reverse("certificate_add", args=[row.pk])
    make_key(tmp_path / "authority")
    make_key(tmp_path / "other")
    (tmp_path / "key.pub").write_text(row.public_key)
    good = sign(tmp_path / "authority", tmp_path / "key", "-n", "me", "-V", "-1h:+52w")
    assert maker.post(address, {"certificate": good}).status_code == 302
    shown = page(maker, "credential", row.pk)
    assert "Tare's test, signed by SHA256:" in re.sub(r"</?code>", "", shown)
    assert Credential.objects.get().certificate == good.strip()
    late = sign(tmp_path / "authority", tmp_path / "key", "-V", "20200101:20200102")
    for text, words in (
        (sign(tmp_path / "authority", tmp_path / "other"), "belongs to another key"),
        (late, "has expired: valid from 2020-01-0"),
        ((tmp_path / "other").read_text(), "This is a private key, not a certificate"),
        ("", "No certificate was given"),
    ):
        shown = html.unescape(maker.post(address, {"certificate": text}).content.decode())
        assert words in shown
        assert Credential.objects.get().certificate == good.strip()
        for secret in secrets_of(text) if "PRIVATE" in text else []:
            assert secret not in shown


def test_who_may_use_it_is_chosen(maker: Client, people: People) -> None:
    row, group = made(people.other), Group.objects.create(name="vision")
    friend = UserFactory(username="friend")
    cluster = ClusterFactory(transport="ssh", credential=row)
    assert not cluster.usable_by(friend)
    sent = {"users": [friend.pk], "groups": [group.pk]}
    assert maker.post(reverse("credential_share", args=[row.pk]), sent).status_code == 302
    assert cluster.usable_by(friend)
    assert "vision" in page(maker, "credentials")
    assert AuditEntry.objects.filter(what="changed", changes__has_key="users").exists()


def test_it_is_not_deleted_while_a_cluster_uses_it(maker: Client, people: People) -> None:
    row = made(people.other)
    cluster = ClusterFactory(name="forhlr", credential=row)
    address = reverse("credential_delete", args=[row.pk])
    answer = html.unescape(maker.post(address, follow=True).content.decode())
    assert "lab key opens forhlr" in answer
    assert Credential.objects.exists()
    cluster.delete()
    maker.post(address)
    assert not Credential.objects.exists()
    assert AuditEntry.objects.filter(kind="credential", what="deleted", name="lab key").exists()


def test_a_rotation_is_begun_and_given_up(maker: Client, people: People) -> None:
    row = made(people.other)
    maker.post(reverse("credential_rotate", args=[row.pk]))
    waits = Credential.objects.get()
    assert waits.is_rotating
    assert waits.fingerprint == row.fingerprint
    shown = page(maker, "credential", row.pk)
    assert f">{waits.next_public_key} tare-lab-key</pre>" in shown
    for secret in secrets_of(waits.next_private_key.reveal(), waits.private_key.reveal()):
        assert secret not in shown
    again = maker.post(reverse("credential_rotate", args=[row.pk]), follow=True)
    assert "A new key waits already" in again.content.decode()
    assert Credential.objects.get().next_fingerprint == waits.next_fingerprint
    maker.post(reverse("credential_give_up", args=[row.pk]))
    after = Credential.objects.get()
    assert not after.is_rotating
    assert not after.next_private_key
    assert after.private_key == row.private_key


def test_a_test_is_asked_for_once(maker: Client, people: People) -> None:
    row = made(people.other)
    cluster = ClusterFactory(credential=row, transport="ssh", host="login.example")
    for _ in range(2):
        maker.post(reverse("credential_test", args=[row.pk]))
    (test,) = ConnectionTest.objects.all()
    assert (test.tried, test.cluster) == (row.fingerprint, None)
    assert 'hx-trigger="every 1s"' in page(maker, "credential", row.pk)
    assert 'hx-trigger="every 1s"' in page(maker, "cluster", cluster.pk)


GATED = {
    "name": "lab key",
    "user_name": "me",
    "forced_command": "on",
    "work_directory": "/scratch/my own",
    "scheduler": "slurm",
}


def test_a_forced_command_is_shown_with_its_script_and_line(maker: Client, people: People) -> None:
    missing = {**GATED, "work_directory": ""}
    assert (
        "A forced command is told this"
        in maker.post(reverse("credential_new"), missing).content.decode()
    )
    assert (
        "A forced command is told this"
        in maker.post(
            reverse("credential_edit", args=[made(people.other).pk]), missing
        ).content.decode()
    )
    Credential.objects.all().delete()
    maker.post(reverse("credential_new"), GATED)
    row = Credential.objects.get()
    shown = page(maker, "credential", row.pk)
    line = (
        "restrict,command=\"python3 -I ~/.ssh/tare-gate.py '/scratch/my own' slurm\" "
        f"{row.public_key} tare-lab-key"
    )
    assert f">{line}</pre>" in shown
    assert gate.hash_script() in shown
    script = maker.get(reverse("gate_script"))
    assert script.content.decode() == gate.render_script()


def test_each_machine_gets_its_own_line(maker: Client, people: People) -> None:
    maker.post(reverse("credential_new"), GATED)
    row = Credential.objects.get()
    columns = {"transport": "ssh", "credential": row, "scheduler": "slurm"}
    gateway = ClusterFactory(name="gateway", host="gw.example", enabled=False, **columns)
    ClusterFactory(
        name="inner", host="in.example", jump_host=gateway, work_directory="/scratch/in", **columns
    )
    first, second = authorized_keys.make_lines(row, row.public_key)
    assert (first.where, first.runs_jobs) == ("gateway", False)
    assert first.text.startswith('restrict,port-forwarding,permitopen="in.example:22",command=')
    assert "tare-gate.py /scratch/in slurm" in second.text
    shown = page(maker, "credential", row.pk)
    assert first.text in shown
    assert second.text in shown
    maker.post(reverse("credential_rotate", args=[row.pk]))
    waits = Credential.objects.get()
    assert f'slurm" {waits.next_public_key} tare-lab-key</pre>' in page(maker, "credential", row.pk)


GET = ("credential", "credential_edit")
POST = (
    *("credential_share", "certificate_add", "credential_test", "credential_rotate"),
    *("credential_give_up", "credential_delete", "credential_edit"),
)


@pytest.mark.parametrize("role", [Role.VIEWER, Role.RESEARCHER, Role.CLUSTER_ADMINISTRATOR])
def test_others_neither_see_nor_change_it(people: People, role: Role) -> None:
    row = made(people.owner)
    people.other.role = role
    people.other.save()
    client = people.client("other")
    refused = 404 if role == Role.CLUSTER_ADMINISTRATOR else 403
    for name in GET:
        assert client.get(reverse(name, args=[row.pk])).status_code == refused
    for name in POST:
        assert client.post(reverse(name, args=[row.pk])).status_code == refused
    if refused == 403:
        for name in ("credentials", "credential_new", "credential_import"):
            assert client.get(reverse(name)).status_code == refused
    else:
        assert "lab key" not in page(client, "credentials")


def test_whoever_may_use_it_may_test_but_not_change_it(people: People) -> None:
    row = made(people.owner)
    people.other.role = Role.CLUSTER_ADMINISTRATOR
    people.other.save()
    row.users.add(people.other)
    client = people.client("other")
    assert "Rotate" not in page(client, "credential", row.pk)
    assert client.post(reverse("credential_test", args=[row.pk])).status_code == 302
    new = client.post(reverse("credential_test", args=[row.pk]), {"new": "yes"})
    assert new.status_code == 403
    for name in ("credential_rotate", "credential_delete", "certificate_add"):
        assert client.post(reverse(name, args=[row.pk])).status_code == 403


def test_the_list_costs_as_many_queries_however_long(people: People) -> None:
    client = people.client("admin")

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            page(client, "credentials")
        return len(captured)

    for row in CredentialFactory.create_batch(2):
        ClusterFactory(credential=row)
    few = queries()
    for row in CredentialFactory.create_batch(20):
        ClusterFactory(credential=row)
    assert queries() == few <= 12
