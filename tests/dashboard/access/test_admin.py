"""Administration: secrets go in and never come out, and what cannot work is refused."""

from __future__ import annotations

import html
import json
from datetime import timedelta
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from experiments.images.signatures import compute_key_fingerprint
from experiments.models import (
    AuditEntry,
    Cluster,
    Environment,
    Event,
    Image,
    TrustedKey,
    User,
    Workload,
)
from tests.dashboard.conftest import People, Site
from tests.factories import (
    ClusterFactory,
    ContainerFactory,
    CredentialFactory,
    EventFactory,
    JobFactory,
    LaunchedFactory,
    StagedImageFactory,
    UserFactory,
)
from tests.runners.signatures import make_key, write_public

pytestmark = pytest.mark.django_db


@pytest.fixture
def as_admin(people: People) -> Client:
    return people.client("admin")


def test_credentials_are_only_listed(as_admin: Client) -> None:
    """Keys are imported on their own pages, and in one place only."""
    row = CredentialFactory()
    assert as_admin.get(reverse("admin:experiments_credential_add")).status_code == 403
    page = as_admin.get(reverse("admin:experiments_credential_change", args=[row.pk]))
    assert "<textarea" not in page.content.decode()
    assert "not a key, but secret all the same" not in page.content.decode()


def test_a_program_that_is_not_sent_is_refused_here_too(as_admin: Client) -> None:
    sent = {"name": "mine", "kind": "command", "time_limit_seconds": "60", "visibility": "members"}
    files = {"train.py": "0" * 64}
    sent["parameters"] = json.dumps({"argv": ["{python}", "trian.py"], "files": files})
    sent["owner"] = str(User.objects.get(username="admin").pk)
    answer = as_admin.post(reverse("admin:experiments_workload_add"), sent)
    assert answer.status_code == 200
    messages = answer.context["adminform"].form.errors["parameters"]
    assert any("the nearest is train.py" in message for message in messages)
    assert not Workload.objects.exists()


def test_the_page_of_a_cluster_speaks_as_all_pages_do(as_admin: Client) -> None:
    row = ClusterFactory(name="far", last_error="Slurm does not answer", last_error_kind="busy")
    ClusterFactory(name="door")
    answer = as_admin.get(reverse("admin:experiments_cluster_change", args=[row.pk]))
    soup = BeautifulSoup(answer.content, "html.parser")
    text = " ".join(soup.get_text(" ").split())
    for words in ("Live jobs at most", "Seconds between status calls", "Set-up lines"):
        assert words in text
    for words in ("Max live jobs", "Setup lines", "Last error kind", "busy"):
        assert words not in text
    assert "no usable answer" in text
    hops = [option.text for option in soup.select("select[name=jump_host] option")]
    assert "door" in hops
    assert "far" not in hops, "no cluster is its own jump host"
    changes = as_admin.get(reverse("admin:experiments_cluster_changelist")).content.decode()
    assert "no usable answer" in changes


def test_jump_hosts_in_a_circle_are_refused(as_admin: Client) -> None:
    inner = ClusterFactory(name="inner", transport="ssh", host="inner.example")
    outer = ClusterFactory(name="outer", transport="ssh", host="outer.example", jump_host=inner)
    sent = cluster(name="inner", transport="ssh", host="inner.example", jump_host=outer.pk)
    answer = as_admin.post(reverse("admin:experiments_cluster_change", args=[inner.pk]), sent)
    assert "The jump hosts lead in a circle: inner → outer → inner." in answer.content.decode()


def cluster(**changes: Any) -> dict[str, Any]:
    empty = {
        f"{prefix}-{name}": "0"
        for prefix in ("partitions", "runtimes")
        for name in ("TOTAL_FORMS", "INITIAL_FORMS")
    }
    return {
        "name": "forhlr2",
        "enabled": "on",
        "transport": "ssh",
        "host": "login.example.org",
        "port": "22",
        "scheduler": "slurm",
        "work_directory": "/scratch/tare",
        "max_live_jobs": "4",
        "poll_seconds": "15",
        **empty,
        **changes,
    }


def test_whoever_adds_a_cluster_owns_it(as_admin: Client, people: People) -> None:
    answer = as_admin.post(reverse("admin:experiments_cluster_add"), cluster())
    assert answer.status_code == 302
    assert Cluster.objects.get().owner == people.admin


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"host": ""}, "SSH needs a host"),
        ({"host_key": "SHA256:abc"}, "no ed25519, ECDSA or RSA public key"),
        ({"work_directory": "tare"}, "absolute path"),
    ],
)
def test_a_cluster_that_cannot_be_reached_is_refused(
    changes: dict[str, str], words: str, as_admin: Client
) -> None:
    page = as_admin.post(reverse("admin:experiments_cluster_add"), cluster(**changes))
    assert words in page.content.decode()
    assert not Cluster.objects.exists()


def test_a_changed_cluster_is_visited_without_a_wait(as_admin: Client) -> None:
    """What kept visits away, such as a limit or a wrong host, may have been changed."""
    row = ClusterFactory(retry_at=timezone.now() + timedelta(minutes=5), failures=9)
    answer = as_admin.post(
        reverse("admin:experiments_cluster_change", args=[row.pk]), cluster(name=row.name)
    )
    assert answer.status_code == 302
    row.refresh_from_db()
    assert row.retry_at is None


@pytest.mark.parametrize(("state", "answer"), [("running", 200), ("planned", 302), ("done", 302)])
def test_another_scheduler_waits_for_the_end_of_what_this_one_has(
    as_admin: Client, state: str, answer: int
) -> None:
    """The other one would know none of these jobs, and each of them would be called lost."""
    row = ClusterFactory(scheduler="slurm")
    JobFactory(experiment=LaunchedFactory(cluster=row), state=state, scheduler_id="7")
    address = reverse("admin:experiments_cluster_change", args=[row.pk])
    said = as_admin.post(address, cluster(name=row.name, scheduler="grid_engine"))
    assert said.status_code == answer
    assert ("1 job there is known to Slurm alone" in said.content.decode()) == (answer == 200)
    row.refresh_from_db()
    assert row.scheduler == ("slurm" if answer == 200 else "grid_engine")
    same = cluster(name=row.name, scheduler=row.scheduler, max_live_jobs="1")
    assert as_admin.post(address, same).status_code == 302


def partition(**changes: Any) -> dict[str, Any]:
    fields = {
        "name": "gpu",
        "nodes": "2",
        "gpus_per_node": "4",
        "gpu_model": "",
        "gres": "gpu",
        "cpus_per_node": "8",
        "cpus_per_run": "2",
        "memory_mb": "",
        "time_limit_minutes": "60",
        "account": "",
        "qos": "",
        "directives": "",
        "srun_options": "",
        "mpirun_options": "",
        **changes,
    }
    sent = {f"partitions-0-{name}": value for name, value in fields.items()}
    return {**cluster(), **sent, "partitions-TOTAL_FORMS": "1"}


def test_a_partitions_options_are_lines(as_admin: Client) -> None:
    typed = "--exclusive\r\n\r\n  --gpus-per-node=a100:{gpus}\r\n"
    answer = as_admin.post(
        reverse("admin:experiments_cluster_add"), partition(directives=typed, qos="short")
    )
    assert answer.status_code == 302
    made = Cluster.objects.get()
    options = ["--exclusive", "--gpus-per-node=a100:{gpus}"]
    assert made.partitions.get().directives == options
    page = as_admin.get(reverse("admin:experiments_cluster_change", args=[made.pk]))
    assert "--exclusive\n--gpus-per-node=a100:{gpus}</textarea>" in page.content.decode()


def test_launchers_options_are_lines_that_are_kept_as_typed(as_admin: Client) -> None:
    typed = {"srun_options": "--mpi=pmix", "mpirun_options": "--mca btl ^openib\r\n-x A={gpus}"}
    answer = as_admin.post(reverse("admin:experiments_cluster_add"), partition(**typed))
    assert answer.status_code == 302
    made = Cluster.objects.get().partitions.get()
    assert made.srun_options == ["--mpi=pmix"]
    assert made.mpirun_options == ["--mca btl ^openib", "-x A={gpus}"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"directives": "exclusive"}, "begins with a dash, this does not: exclusive"),
        ({"directives": "--gpus={gpu}"}, "names {gpu}; known are {gpus}, {cpus}"),
        ({"mpirun_options": "mca btl"}, "begins with a dash, this does not: mca btl"),
        ({"srun_options": "--x='a"}, "cannot be split into words: No closing quotation"),
        ({"scheduler": "grid_engine"}, "needs a parallel environment"),
        (
            {"scheduler": "grid_engine", "directives": "-pe smp {cpus}", "qos": "short"},
            "Grid Engine has no QOS",
        ),
    ],
)
def test_a_partition_that_no_job_could_ask_for_is_refused(
    changes: dict[str, str], words: str, as_admin: Client
) -> None:
    kind = {"scheduler": changes.pop("scheduler", "slurm")}
    sent = {**partition(**changes), **kind}
    page = as_admin.post(reverse("admin:experiments_cluster_add"), sent).content.decode()
    assert words in html.unescape(page)
    assert not Cluster.objects.exists()


def environment(site: Site, **changes: Any) -> dict[str, Any]:
    return {
        "name": "new",
        "cluster": site.cluster.pk,
        "python": "python3",
        "binds": "[]",
        "variables": "{}",
        **changes,
    }


def test_an_environment_is_made_of_parts_that_fit(as_admin: Client, site: Site) -> None:
    address = reverse("admin:experiments_environment_add")
    runtime, staged = site.container.runtime, site.container.staged_image
    assert runtime is not None
    assert staged is not None
    foreign = ContainerFactory()
    wrong = StagedImageFactory(
        cluster=site.cluster, image=staged.image, format="udocker", path="it"
    )
    for changes, words in (
        ({"runtime": runtime.pk}, "go together"),
        ({"runtime": runtime.pk, "staged_image": foreign.staged_image_id}, "This is on"),
        ({"runtime": runtime.pk, "staged_image": wrong.pk}, "does not start udocker"),
        ({"mode": "P1"}, "Bare metal has no mode"),
        (
            {"runtime": runtime.pk, "staged_image": staged.pk, "mode": "P1"},
            "its modes: nv, nvccli, binds",
        ),
        ({"binds": '["/a,/b"]'}, "A bind is /path or /outside:/inside"),
    ):
        page = as_admin.post(address, environment(site, **changes))
        assert words in page.content.decode()
    choices = as_admin.get(address).content.decode()
    assert '<optgroup label="Apptainer and Singularity">' in choices
    assert '<option value="R1">R1: runc or crun in a user namespace</option>' in choices
    page = as_admin.post(address, environment(site, mode="P7"))
    assert "P7 is not one of the available choices" in page.content.decode()
    fits = environment(site, runtime=runtime.pk, staged_image=staged.pk)
    assert as_admin.post(address, fits).status_code == 302
    assert Environment.objects.filter(name="new").exists()


def test_a_digest_is_a_digest(as_admin: Client, people: People) -> None:
    empty = {"staged-TOTAL_FORMS": "0", "staged-INITIAL_FORMS": "0"}
    sent = {"reference": "a:latest", "digest": "latest", "packages": "{}", "labels": "{}"}
    page = as_admin.post(reverse("admin:experiments_image_add"), sent | empty).content.decode()
    assert "64 hex digits" in page
    assert not Image.objects.exists()


def test_what_tare_writes_is_read_only(as_admin: Client) -> None:
    event = EventFactory()
    for model in ("event", "run", "job"):
        assert as_admin.get(reverse(f"admin:experiments_{model}_changelist")).status_code == 200
        assert as_admin.get(reverse(f"admin:experiments_{model}_add")).status_code == 403
    address = reverse("admin:experiments_event_delete", args=[event.pk])
    assert as_admin.post(address, {"post": "yes"}).status_code == 403
    assert Event.objects.filter(pk=event.pk).exists()


def test_a_member_is_no_administrator(people: People) -> None:
    CredentialFactory()
    for name in ("credential", "cluster", "image"):
        address = reverse(f"admin:experiments_{name}_changelist")
        assert people.client("owner").get(address).status_code == 302


def test_administration_leads_back(as_admin: Client) -> None:
    page = as_admin.get("/admin/").content.decode()
    assert "Tare administration" in page
    assert '<a href="/">' in page


def test_a_trusted_key_is_entered_by_site_administrators_and_must_be_one(
    as_admin: Client,
) -> None:
    address = reverse("admin:experiments_trustedkey_add")
    sent = {"name": "the lab", "prefix": "Registry.example.org", "pem": "cosign.pub"}
    shown = as_admin.post(address, sent).content.decode()
    assert "This is no public key in PEM" in shown
    assert "in small letters" in shown
    assert not TrustedKey.objects.exists()
    pem = write_public(make_key())
    sent |= {"prefix": "registry.example.org/lab", "pem": pem}
    assert as_admin.post(address, sent).status_code == 302
    row = TrustedKey.objects.get()
    assert row.fingerprint == compute_key_fingerprint(pem)
    assert AuditEntry.objects.filter(kind="trustedkey", what="added").exists()
    keeper = UserFactory(role="cluster_administrator")
    other = Client()
    other.force_login(keeper)
    assert other.get(address).status_code in (302, 403)
