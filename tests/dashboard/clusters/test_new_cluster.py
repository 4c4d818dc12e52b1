"""A cluster is added step by step: address, host key, credential, test, confirmation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from paramiko import ECDSAKey

from experiments import execution
from experiments.clusters import cluster_drafts, visit_requests
from experiments.models import (
    AuditEntry,
    CheckReport,
    Cluster,
    ClusterDraft,
    ClusterReading,
    Credential,
    HostKey,
    Role,
    User,
)
from experiments.models.checks import compute_fingerprint, name_key_type
from runners.cluster_reading import Found, FoundPartition, FoundRuntime
from runners.preflight.checks import Check
from tests.factories import ClusterFactory, CredentialFactory, UserFactory
from tests.runners.sshd import Server, make_key, serve

pytestmark = pytest.mark.django_db

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDLJHbEtm7+rtjp1pPZQFglu9+WS2kMZJ3yJUNzbx1Ej"
FOUND = Found(
    "slurm",
    "24.11.5",
    "/home/tare",
    "/home/tare/tare",
    (
        FoundPartition("gpu", "up", 2, 4, "h100", "gpu", 32, 256000, 60, True, ("physics",)),
        FoundPartition("cpu", "up", 10, cpus_per_node=64),
        FoundPartition("old", "drain", 3, 2, "v100", cpus_per_node=16),
    ),
    runtimes=(FoundRuntime("apptainer", "Apptainer", "apptainer", "1.4.5"),),
    max_live_jobs=8,
    poll_seconds=3,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def person() -> User:
    made: User = UserFactory(role=Role.CLUSTER_ADMINISTRATOR)
    return made


@pytest.fixture
def client(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


@pytest.fixture
def draft(person: User) -> ClusterDraft:
    """A draft whose cluster has been read."""
    key = CredentialFactory(owner=person)
    row = ClusterDraft.objects.create(
        owner=person,
        name="horeka",
        host="login.example",
        user_name=key.user_name,
        host_key=KEY,
        credential=key,
    )
    keep(row)
    return row


def keep(draft: ClusterDraft, found: Found = FOUND, **columns: Any) -> ClusterReading:
    """A reading of the draft as a worker leaves it."""
    columns = {"owner": draft.owner, "outcome": "ok", "found": found.as_json()} | columns
    return ClusterReading.objects.create(
        draft=draft, kind="offer", digest=draft.access_digest, ended_at=timezone.now(), **columns
    )


def keep_key(draft: ClusterDraft, key: str) -> ClusterReading:
    """The answer of a host that was asked for its key, as a worker leaves it."""
    return ClusterReading.objects.create(
        draft=draft,
        kind="host key",
        digest=draft.address_digest,
        owner=draft.owner,
        outcome="ok",
        key=key,
        ended_at=timezone.now(),
    )


def work() -> None:
    """Make the readings that wait for a worker."""
    for pk in ClusterReading.objects.filter(began_at=None, ended_at=None).values_list("pk"):
        execution.read_cluster(*pk)


def page(client: Client, step: str, draft: ClusterDraft) -> str:
    answer = client.get(reverse(f"cluster_draft_{step}", args=[draft.pk]))
    assert answer.status_code == 200, answer
    return " ".join(answer.content.decode().split())


def post(client: Client, step: str, draft: ClusterDraft, **data: Any) -> Any:
    return client.post(reverse(f"cluster_draft_{step}", args=[draft.pk]), data)


def choices(draft: ClusterDraft, **changes: Any) -> dict[str, Any]:
    """What the last step's form sends as it is shown."""
    return {
        "name": draft.name,
        "reading": draft.readings.get().pk,
        "visibility": "members",
        "max_live_jobs": 8,
        "poll_seconds": 3,
        "runtimes": ["apptainer"],
        "partition-0-chosen": "on",
        "partition-0-time_limit_minutes": 60,
        "partition-0-cpus_per_run": 8,
        "partition-0-account": "physics",
    } | changes


def test_all_steps_against_a_real_server(client: Client, person: User, server: Server) -> None:
    at = server.address
    begun = client.post(
        reverse("cluster_new"),
        {"name": "here", "host": at.host, "port": at.port, "user_name": at.user},
    )
    draft = ClusterDraft.objects.get()
    assert begun["Location"] == reverse("cluster_draft_host_key", args=[draft.pk])
    assert "Tare asks the host for its key" in page(client, "host_key", draft)
    work()
    (fetched,) = draft.readings.all()
    assert fetched.fingerprint in page(client, "host_key", draft)
    post(client, "host_key", draft, confirm=fetched.fingerprint)
    made = {"make-name": "here", "make-user_name": at.user}
    post(client, "credential", draft, action="make", **made)
    credential = Credential.objects.get()
    assert f"{credential.public_key} tare-here" in page(client, "credential", draft)
    server.authorize(f"{credential.public_key} tare-here\n")
    where = f"{server.directory}/work"
    post(client, "test", draft, work_directory=where)
    assert "waiting" in page(client, "test", draft)
    work()
    shown = page(client, "test", draft)
    assert "is let in" in shown
    assert "No Slurm and no Grid Engine answers" in shown
    shown = page(client, "confirm", draft)
    assert "machine" in shown
    last = draft.readings.filter(kind="offer").get()
    answer = post(
        client,
        "confirm",
        draft,
        **{
            "name": "here",
            "reading": last.pk,
            "visibility": "private",
            "max_live_jobs": 4,
            "poll_seconds": 2,
            "partition-0-chosen": "on",
            "partition-0-time_limit_minutes": 30,
            "partition-0-cpus_per_run": 1,
        },
    )
    cluster = Cluster.objects.get()
    assert answer["Location"] == reverse("cluster", args=[cluster.pk])
    assert (cluster.scheduler, cluster.work_directory) == ("direct", where)
    assert (cluster.owner, cluster.credential) == (person, credential)
    assert (cluster.host_key, cluster.visibility) == (fetched.key, "private")
    assert cluster.partitions.get().time_limit_minutes == 30
    assert HostKey.objects.get().pinned_by == person
    assert CheckReport.objects.get().cluster == cluster
    assert not ClusterDraft.objects.exists()
    assert cluster.readings.get().offer
    assert execution.tick(cluster.pk) == "done"


class TestAddress:
    def test_another_address_forgets_the_key_that_was_confirmed(
        self, client: Client, draft: ClusterDraft
    ) -> None:
        same = {"name": "other", "port": 22, "user_name": "me"}
        post(client, "address", draft, host="login.example", **same)
        draft.refresh_from_db()
        assert (draft.name, draft.host_key) == ("other", KEY)
        post(client, "address", draft, host="evil.example", **same)
        draft.refresh_from_db()
        assert draft.host_key == ""
        assert post(client, "confirm", draft)["Location"].endswith("/test/")
        assert post(client, "test", draft)["Location"].endswith("/host-key/")

    @pytest.mark.parametrize(
        "wrong",
        [
            {"name": "taken"},
            {"host": "a host"},
            {"host": "-oProxyCommand=x"},
            {"port": 0},
            {"port": 70000},
            {"user_name": "me you"},
            {"jump_host": 999},
            {"scheduler": "cron"},
        ],
    )
    def test_what_cannot_be_is_refused_in_words(
        self, client: Client, wrong: dict[str, Any]
    ) -> None:
        ClusterFactory(name="taken")
        data = {"name": "new", "host": "login.example", "port": 22, "user_name": "me"} | wrong
        answer = client.post(reverse("cluster_new"), data)
        assert answer.status_code == 200
        assert "To be filled in or corrected" in answer.content.decode()
        assert not ClusterDraft.objects.exists()

    def test_a_jump_host_is_one_whose_key_one_may_use(self, client: Client, person: User) -> None:
        there = {"transport": "ssh", "host": "gate.example", "host_key": KEY}
        theirs = ClusterFactory(credential=CredentialFactory(), **there)
        mine = ClusterFactory(credential=CredentialFactory(owner=person), **there)
        data = {"name": "new", "host": "login.example", "port": 22, "user_name": "me"}
        client.post(reverse("cluster_new"), data | {"jump_host": theirs.pk})
        assert not ClusterDraft.objects.exists()
        client.post(reverse("cluster_new"), data | {"jump_host": mine.pk})
        assert ClusterDraft.objects.get().jump_host == mine

    def test_many_jump_hosts_take_few_statements(self, client: Client, person: User) -> None:
        """Forty in a row, and two that lead through one whose key is not theirs, in a circle."""
        known = {"transport": "ssh", "host": "a.example.org", "host_key": KEY}
        own, theirs = CredentialFactory(owner=person), CredentialFactory()
        rows = [ClusterFactory(**known, credential=theirs)]
        for credential in (own, *[own] * 41):
            rows.append(ClusterFactory(**known, credential=credential, jump_host=rows[-1]))
        Cluster.objects.filter(pk=rows[0].pk).update(jump_host=rows[2])
        Cluster.objects.filter(pk=rows[3].pk).update(jump_host=None)
        with CaptureQueriesContext(connection) as statements:
            page = client.get(reverse("cluster_new"))
        assert len(statements) <= 15
        offered = {row.pk for row in page.context["form"].fields["jump_host"].queryset}
        assert offered == {row.pk for row in rows[3:]}

    def test_a_person_has_so_many_drafts_at_most(self, client: Client, draft: ClusterDraft) -> None:
        many = range(cluster_drafts.MOST_DRAFTS - 1)
        for number in many:
            ClusterDraft.objects.create(owner=draft.owner, name=f"d{number}", host="h.example")
        data = {"name": "new", "host": "login.example", "port": 22, "user_name": "me"}
        answer = client.post(reverse("cluster_new"), data)
        assert "unfinished clusters" in answer.content.decode()
        assert "horeka" in answer.content.decode()


class TestHostKey:
    def test_another_key_than_the_confirmed_one_is_said_and_does_not_go_on(
        self, client: Client, person: User
    ) -> None:
        row = ClusterDraft.objects.create(
            owner=person, name="horeka", host="login.example", user_name="me", host_key=KEY
        )
        keep_key(row, KEY)
        shown = page(client, "host_key", row)
        assert "The host shows the key that you have confirmed" in shown
        assert ">Continue</a>" in shown
        made = ECDSAKey.generate()
        other = f"{made.get_name()} {made.get_base64()}"
        keep_key(row, other)
        shown = page(client, "host_key", row)
        assert "another key than the one that you have confirmed" in shown
        assert f"{row.fingerprint}</code> (ED25519)" in shown
        assert f"{compute_fingerprint(other)}</code> (ECDSA)" in shown
        assert ">Continue</a>" not in shown, "a machine with another key is not logged in to"

    @pytest.mark.parametrize(
        ("key", "name"),
        [
            ("ssh-rsa AAAA", "RSA"),
            ("ecdsa-sha2-nistp256 AAAA", "ECDSA"),
            ("", ""),
            (KEY, "ED25519"),
        ],
    )
    def test_types_are_named_as_ssh_keygen_does(self, key: str, name: str) -> None:
        assert name_key_type(key) == name

    def test_nobody_listening_is_said_with_what_to_do(
        self, client: Client, draft: ClusterDraft
    ) -> None:
        ClusterDraft.objects.update(host="127.0.0.1", port=1, host_key="")
        post(client, "host_key", draft, fetch="yes")
        work()
        shown = page(client, "host_key", draft)
        assert "Nobody listens on 127.0.0.1 port 1." in shown
        assert "Correct the" in shown

    def test_a_key_that_changed_since_it_was_shown_is_not_confirmed(
        self, client: Client, draft: ClusterDraft, server: Server
    ) -> None:
        at = server.address
        ClusterDraft.objects.update(host=at.host, port=at.port, host_key="")
        post(client, "host_key", draft, fetch="yes")
        work()
        answer = post(client, "host_key", draft, confirm="SHA256:older")
        assert "A newer key was fetched meanwhile" in answer.content.decode()
        draft.refresh_from_db()
        assert draft.host_key == ""

    def test_a_host_that_shows_another_key_later_is_red_and_nobody_logs_in(
        self, client: Client, draft: ClusterDraft, server: Server
    ) -> None:
        at = server.address
        CredentialFactory(name="x")
        ClusterDraft.objects.update(host=at.host, port=at.port)
        Credential.objects.filter(pk=draft.credential_id).update(private_key=at.private_key)
        post(client, "test", draft, work_directory="")
        work()
        shown = page(client, "test", draft)
        assert "is not the host that was pinned" in shown
        assert "confirm its new key in step 2" in shown
        assert "The cluster could not be read." in shown
        assert post(client, "confirm", draft)["Location"].endswith("/test/")

    def test_a_pasted_line_is_as_good_if_it_is_about_this_host(
        self, client: Client, draft: ClusterDraft
    ) -> None:
        ClusterDraft.objects.update(host_key="")
        answer = post(client, "host_key", draft, paste="yes", line=f"other.example {KEY}")
        assert "This line is about another host" in answer.content.decode()
        post(client, "host_key", draft, paste="yes", line=f"login.example {KEY} comment")
        draft.refresh_from_db()
        assert draft.host_key == KEY


class TestCredential:
    def test_a_private_key_is_kept_encrypted_and_shown_nowhere(
        self, client: Client, draft: ClusterDraft, tmp_path: Any
    ) -> None:
        private = make_key(tmp_path / "key")
        given = {"import-name": "mine", "import-user_name": "me", "import-private_key": private}
        post(client, "credential", draft, action="import", **given)
        draft.refresh_from_db()
        assert draft.credential
        assert draft.credential.name == "mine"
        assert draft.credential.private_key.reveal() == private
        shown = page(client, "credential", draft) + repr(dict(client.session.items()))
        assert private.splitlines()[1] not in shown

    def test_a_refused_key_is_not_shown_again(self, client: Client, draft: ClusterDraft) -> None:
        given = {"import-name": "mine", "import-user_name": "me", "import-private_key": "SECRET"}
        answer = post(client, "credential", draft, action="import", **given)
        assert "Nothing was kept" in answer.content.decode()
        assert "SECRET" not in answer.content.decode()

    def test_nobody_chooses_the_key_of_another_person(
        self, client: Client, draft: ClusterDraft
    ) -> None:
        before = draft.credential_id
        post(client, "credential", draft, action="choose", credential=CredentialFactory().pk)
        draft.refresh_from_db()
        assert draft.credential_id == before

    def test_a_forced_command_says_itself_where_it_works(
        self, client: Client, draft: ClusterDraft
    ) -> None:
        key = CredentialFactory(
            owner=draft.owner, forced_command=True, work_directory="/w", scheduler="slurm"
        )
        post(client, "credential", draft, action="choose", credential=key.pk)
        draft.refresh_from_db()
        assert (draft.work_directory, draft.scheduler) == ("/w", "slurm")


class TestTest:
    def test_a_right_that_is_gone_ends_it(self, client: Client, draft: ClusterDraft) -> None:
        Credential.objects.update(owner=UserFactory())
        post(client, "test", draft, work_directory="")
        assert "not yours to use" in page(client, "test", draft)
        assert draft.readings.count() == 1
        answer = post(client, "confirm", draft, **choices(draft))
        assert "not yours to use" in answer.content.decode()
        assert not Cluster.objects.exists()

    def test_two_clicks_ask_once_and_a_lost_request_is_asked_again(
        self, client: Client, draft: ClusterDraft
    ) -> None:
        for _ in range(2):
            post(client, "test", draft, work_directory="")
        (asked,) = draft.readings.filter(ended_at=None)
        ClusterReading.objects.filter(pk=asked.pk).update(
            requested_at=timezone.now() - 2 * visit_requests.LONGEST
        )
        post(client, "test", draft, work_directory="")
        assert draft.readings.filter(ended_at=None).get() != asked

    def test_what_was_changed_meanwhile_is_not_read(
        self, client: Client, draft: ClusterDraft
    ) -> None:
        post(client, "test", draft, work_directory="")
        ClusterDraft.objects.update(host="elsewhere.example")
        work()
        row = ClusterReading.objects.latest("pk")
        assert (row.outcome, row.found) == ("failed", {})

    def test_what_fails_is_said_in_red_words_without_markup(
        self, client: Client, draft: ClusterDraft
    ) -> None:
        odd = Check("Login node", "Disk", "failed", "<script>alert(1)</script>", "Make room.")
        keep(draft, outcome="failed", rows=[odd.as_json()])
        shown = page(client, "test", draft)
        assert "Make room." in shown
        assert "<script>alert" not in shown


class TestConfirm:
    def test_the_default_partition_and_all_runtimes_are_proposed(
        self, client: Client, draft: ClusterDraft
    ) -> None:
        shown = page(client, "confirm", draft)
        assert shown.count("checked") == 2
        assert 'value="8"' in shown, "the share of one of four GPUs, and the live jobs"
        assert "24.11.5" in shown
        assert "250 GiB" in shown

    def test_what_is_chosen_is_stored_with_its_audit_entries(
        self, client: Client, draft: ClusterDraft
    ) -> None:
        answer = post(client, "confirm", draft, **choices(draft))
        cluster = Cluster.objects.get()
        assert answer["Location"] == cluster_page(cluster)
        row = cluster.partitions.get()
        assert (row.name, row.nodes, row.gpus_per_node, row.gpu_model) == ("gpu", 2, 4, "h100")
        assert (row.cpus_per_node, row.cpus_per_run, row.account) == (32, 8, "physics")
        assert (row.time_limit_minutes, row.memory_mb) == (60, None)
        runtime = cluster.runtimes.get()
        assert (runtime.kind, runtime.executable, runtime.version) == (
            *("apptainer", "apptainer"),
            "1.4.5",
        )
        entries = AuditEntry.objects.filter(what="added", cluster_pk=cluster.pk)
        assert {entry.kind for entry in entries} == {"cluster", "partition", "runtime"}

    def test_a_failure_in_the_middle_keeps_nothing(
        self, client: Client, draft: ClusterDraft, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> None:
            raise RuntimeError

        monkeypatch.setattr(cluster_drafts, "_keep_host_key", fail)
        with pytest.raises(RuntimeError):
            post(client, "confirm", draft, **choices(draft))
        assert not Cluster.objects.exists()
        assert ClusterDraft.objects.get() == draft
        assert not AuditEntry.objects.filter(kind="cluster").exists()

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"partition-0-chosen": ""}, "Choose at least one partition"),
            ({"partition-0-time_limit_minutes": 61}, "have to be corrected"),
            ({"partition-0-time_limit_minutes": ""}, "A number is needed"),
            ({"partition-0-cpus_per_run": 33}, "have to be corrected"),
            ({"partition-0-cpus_per_run": "nan"}, "have to be corrected"),
            ({"partition-0-account": "chemistry"}, "have to be corrected"),
            ({"partition-1-chosen": "on"}, "A number is needed"),
            ({"runtimes": ["docker"]}, "not one of the available choices"),
            ({"reading": 0}, "was read again meanwhile"),
            ({"name": "taken"}, "of this name already"),
            ({"max_live_jobs": 0}, "greater than or equal to 1"),
            ({"poll_seconds": "nan"}, "Enter a number"),
            ({"visibility": "public"}, "not one of the available choices"),
        ],
    )
    def test_what_was_not_found_or_cannot_be_is_refused(
        self, client: Client, draft: ClusterDraft, changes: dict[str, Any], words: str
    ) -> None:
        ClusterFactory(name="taken")
        answer = post(client, "confirm", draft, **choices(draft, **changes))
        assert words in answer.content.decode()
        assert not Cluster.objects.exclude(name="taken").exists()

    def test_a_second_tab_adds_nothing_twice(self, client: Client, draft: ClusterDraft) -> None:
        data = choices(draft)
        post(client, "confirm", draft, **data)
        assert post(client, "confirm", draft, **data).status_code == 404
        assert Cluster.objects.count() == 1

    def test_a_damaged_finding_leads_back_to_the_test(
        self, client: Client, draft: ClusterDraft
    ) -> None:
        ClusterReading.objects.update(found={"scheduler": "slurm", "partitions": 5})
        assert post(client, "confirm", draft)["Location"].endswith("/test/")


def cluster_page(cluster: Cluster) -> str:
    return reverse("cluster", args=[cluster.pk])


def test_a_draft_is_its_owners_alone(draft: ClusterDraft) -> None:
    other = Client()
    other.force_login(UserFactory(role=Role.SITE_ADMINISTRATOR))
    for step in ("address", "host_key", "credential", "test", "confirm"):
        assert other.get(reverse(f"cluster_draft_{step}", args=[draft.pk])).status_code == 404
    assert other.post(reverse("cluster_draft_discard", args=[draft.pk])).status_code == 404
    assert "horeka" not in other.get(reverse("cluster_new")).content.decode()


def test_discarding_leaves_the_credential(client: Client, draft: ClusterDraft) -> None:
    post(client, "discard", draft)
    assert not ClusterDraft.objects.exists()
    assert Credential.objects.exists()


def test_a_corrected_address_is_asked_at_once(draft: ClusterDraft) -> None:
    """The host that was wrong may not answer for a minute: nobody waits for it."""
    wrong = cluster_drafts.request_host_key(draft)
    draft.host = "right.example"
    cluster_drafts.save_draft(draft)
    asked = cluster_drafts.request_host_key(draft)
    assert cluster_drafts.get_latest_key(draft).under_way == asked
    wrong.refresh_from_db()
    assert wrong.rows[0]["found"] == cluster_drafts.CHANGED.found
    assert cluster_drafts.request_host_key(draft) == asked, "one at a time is enough"


def test_no_jump_host_is_used_by_who_may_not_use_its_key(
    draft: ClusterDraft, client: Client
) -> None:
    """Who may when the address is typed may not for ever."""
    jump = ClusterFactory(credential=CredentialFactory(owner=draft.owner))
    ClusterDraft.objects.filter(pk=draft.pk).update(jump_host=jump)
    draft.refresh_from_db()
    asked = cluster_drafts.request_host_key(draft)
    Credential.objects.filter(pk=jump.credential_id).update(owner=UserFactory())
    execution.read_cluster(asked.pk)
    asked.refresh_from_db()
    assert "not yours to use" in asked.rows[0]["found"]
    post(client, "host_key", draft, fetch="yes")
    assert ClusterReading.objects.filter(kind="host key").get() == asked
    assert "not yours to use" in page(client, "host_key", draft)


def test_a_person_who_has_begun_a_cluster_can_be_deleted(draft: ClusterDraft) -> None:
    ClusterDraft.objects.update(credential=None)
    Credential.objects.all().delete()
    draft.owner.delete()
    assert not ClusterReading.objects.exists()


def test_gpus_are_typed_where_the_scheduler_does_not_say_them(
    client: Client, draft: ClusterDraft
) -> None:
    queue = FoundPartition("main.q", "up", 3)
    draft.readings.all().delete()
    keep(draft, Found("grid_engine", partitions=(queue,), work_directory="/home/me/tare"))
    shown = page(client, "confirm", draft)
    assert "does not say how many GPUs a node has" in shown
    assert 'aria-label="GPUs per node of main.q"' in shown
    chosen = {"partition-0-cpus_per_run": 1, "partition-0-account": "", "runtimes": []}
    for wrong in ("-1", "nan", "1001"):
        answer = post(
            client, "confirm", draft, **choices(draft, **chosen), **{GPUS_OF_QUEUE: wrong}
        )
        assert "have to be corrected" in answer.content.decode()
    post(client, "confirm", draft, **choices(draft, **chosen), **{GPUS_OF_QUEUE: 4})
    assert Cluster.objects.get().partitions.get().gpus_per_node == 4


GPUS_OF_QUEUE = "partition-0-gpus_per_node"
