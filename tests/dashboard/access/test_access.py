"""Who may see and do what with what belongs to others. Of one's own: `test_roles.py`."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from experiments.models import (
    CheckReport,
    Cluster,
    Experiment,
    HostKey,
    Job,
    PublishedTable,
    Role,
    Run,
)
from tests.dashboard.conftest import People, Site, fetch, measured
from tests.factories import (
    CredentialFactory,
    ImageFactory,
    PublishedTableFactory,
    UserFactory,
)

pytestmark = pytest.mark.django_db

FOR_MEMBERS = (
    "overview",
    "search",
    "experiments",
    "experiment_new",
    "experiment_import",
    "bundle_import",
    "definition_import",
    "compare",
    "runs",
    "catalogue",
    "workload_new",
    "environment_new",
    "clusters",
    "table_new",
)
OF_AN_EXPERIMENT = (
    "experiment",
    "comparison",
    "comparison_steps",
    "robustness",
    "comparison_csv",
    "comparison_tex",
    "comparison_json",
    "report",
    "runs_csv",
    "runs_json",
    "comparison_parquet",
    "runs_parquet",
    "measurements_csv",
    "measurements_parquet",
    "series_csv",
    "series_parquet",
)
OF_A_TABLE = (
    "table",
    "table_robustness",
    "table_csv",
    "table_json",
    "table_report",
    "table_tex",
    "table_parquet",
    "table_text",
)
ACTIONS_OF_AN_OWNER = (
    "experiment_launch",
    "experiment_cancel",
    "experiment_pause",
    "experiment_continue",
    "experiment_extend",
    "experiment_stop",
    "experiment_delete",
    "experiment_inspect",
    "experiment_waive",
)


@pytest.mark.parametrize("name", FOR_MEMBERS)
def test_pages_for_members(name: str, people: People) -> None:
    address = reverse(name)
    answer = people.client("anonymous").get(address)
    assert (answer.status_code, answer["Location"]) == (302, f"/login/?next={address}")
    for who in ("owner", "other", "admin"):
        assert people.client(who).get(address).status_code == 200


@pytest.mark.parametrize(
    ("visibility", "who", "status"),
    [
        ("private", "anonymous", 302),
        ("private", "other", 404),
        ("private", "owner", 200),
        ("private", "admin", 200),
        ("members", "anonymous", 302),
        ("members", "other", 200),
        ("public", "anonymous", 302),  # it takes the link: `test_links.py`
        ("public", "other", 200),
    ],
)
def test_an_experiment_shows_to_its_readers(
    visibility: str, who: str, status: int, site: Site, people: People
) -> None:
    experiment = measured(site, people.owner, blocks=2, visibility=visibility)
    run = experiment.runs.all()[0]
    client = people.client(who)
    addresses = [reverse(name, args=[experiment.pk]) for name in OF_AN_EXPERIMENT]
    for address in (*addresses, reverse("run", args=[run.uid])):
        fetch(client, address, status)


@pytest.mark.parametrize(
    ("visibility", "who", "status"),
    [
        ("private", "anonymous", 302),
        ("private", "other", 404),
        ("private", "owner", 200),
        ("private", "admin", 200),
        ("members", "anonymous", 302),
        ("members", "other", 200),
        ("public", "anonymous", 302),
    ],
)
def test_a_published_table_shows_to_its_readers(
    visibility: str, who: str, status: int, people: People
) -> None:
    row = PublishedTableFactory(owner=people.owner, visibility=visibility)
    client = people.client(who)
    for name in OF_A_TABLE:
        assert client.get(reverse(name, args=[row.pk])).status_code == status, name


@pytest.mark.parametrize(
    ("who", "visibility", "status"),
    [
        ("anonymous", "public", 302),
        ("other", "private", 404),
        ("other", "members", 403),
        ("other", "public", 403),
    ],
)
def test_a_published_table_is_changed_and_deleted_by_its_owner_alone(
    who: str, visibility: str, status: int, people: People
) -> None:
    row = PublishedTableFactory(owner=people.owner, visibility=visibility)
    client = people.client(who)
    assert client.get(reverse("table_edit", args=[row.pk])).status_code == status
    assert client.post(reverse("table_edit", args=[row.pk])).status_code == status
    assert client.post(reverse("table_delete", args=[row.pk])).status_code == status
    assert PublishedTable.objects.filter(pk=row.pk).exists()
    mine = people.client("owner")
    assert mine.get(reverse("table_edit", args=[row.pk])).status_code == 200
    assert mine.get(reverse("table_delete", args=[row.pk])).status_code == 405
    assert mine.post(reverse("table_delete", args=[row.pk])).status_code == 302
    assert not PublishedTable.objects.filter(pk=row.pk).exists()


def test_private_and_missing_look_alike_to_anonymous_readers(site: Site, people: People) -> None:
    private = measured(site, people.owner, blocks=1, visibility="private")
    client = people.client("anonymous")
    for name in OF_AN_EXPERIMENT:
        there = client.get(reverse(name, args=[private.pk]))
        missing = client.get(reverse(name, args=[987654]))
        assert there.status_code == missing.status_code == 302


def test_lists_hide_what_is_private(site: Site, people: People) -> None:
    experiment = measured(site, people.owner, question="My secret?", visibility="private")
    run = experiment.runs.all()[0]
    other = people.client("other")
    PublishedTableFactory(owner=people.owner, question="My secret?", visibility="private")
    addresses = ("/", "/experiments/", "/compare/", "/compare/?tab=tables", "/runs/")
    for address in (*addresses, "/search/?q=secret"):
        assert "My secret?" not in other.get(address).content.decode()
    assert run.uid not in other.get(f"/search/?q={run.uid[:10]}").content.decode()
    assert "My secret?" in people.client("owner").get("/experiments/").content.decode()


@pytest.mark.parametrize("name", ACTIONS_OF_AN_OWNER)
def test_only_the_owner_acts(name: str, results: Experiment, people: People) -> None:
    address = reverse(name, args=[results.pk])
    assert people.client("anonymous").post(address)["Location"].startswith("/login/")
    assert people.client("other").post(address).status_code == 403
    assert people.client("owner").get(address).status_code == 405


def test_a_stranger_neither_retries_nor_excludes(results: Experiment, people: People) -> None:
    job, run = results.jobs.all()[0], results.runs.all()[0]
    Job.objects.filter(pk=job.pk).update(state="failed")
    other = people.client("other")
    assert other.post(reverse("job_retry", args=[job.uid])).status_code == 403
    assert other.post(reverse("run_exclude", args=[run.uid]), {"why": "dislike"}).status_code == 403
    run.refresh_from_db()
    assert run.state == Run.State.SUCCEEDED


def test_a_clone_belongs_to_whoever_clones(results: Experiment, people: People) -> None:
    answer = people.client("other").post(reverse("experiment_clone", args=[results.pk]))
    clone = Experiment.objects.get(owner=people.other)
    assert answer["Location"] == reverse("experiment_edit", args=[clone.pk])
    assert clone.is_draft
    assert clone.question == results.question
    assert set(clone.environments.all()) == set(results.environments.all())
    assert (
        people.client("anonymous").post(reverse("experiment_clone", args=[results.pk])).status_code
        == 302
    )


def test_a_launched_experiment_is_not_edited(results: Experiment, people: People) -> None:
    for who in ("owner", "admin", "other"):
        answer = people.client(who).get(reverse("experiment_edit", args=[results.pk]))
        assert answer.status_code == 403


def test_clusters_and_images_show_to_members_alone(site: Site, people: People) -> None:
    image = ImageFactory()
    for name, pk in (("image", image.pk), ("cluster", site.cluster.pk)):
        address = reverse(name, args=[pk])
        assert people.client("anonymous").get(address).status_code == 302
        assert people.client("other").get(address).status_code == 200


def test_a_check_is_for_administrators_and_whoever_may_use_the_cluster(
    site: Site, people: People
) -> None:
    address = reverse("cluster_check", args=[site.cluster.pk])
    key = CredentialFactory(owner=people.owner)
    Cluster.objects.update(transport="ssh", host="x", credential=key)
    assert people.client("anonymous").post(address)["Location"].startswith("/login/")
    assert people.client("other").post(address).status_code == 403
    assert not CheckReport.objects.exists()
    for who in ("owner", "admin"):
        assert people.client(who).get(address).status_code == 405
        assert people.client(who).post(address).status_code == 302
    Cluster.objects.update(enabled=False)
    assert people.client("owner").post(address).status_code == 403
    assert people.client("admin").post(address).status_code == 302


def test_host_keys_are_for_those_who_may_change_clusters(site: Site, people: People) -> None:
    Cluster.objects.update(host="login.example", transport="ssh")
    shown = HostKey.objects.create(
        cluster=site.cluster, host="login.example", port=22, key="no key"
    )
    staff = UserFactory(role=Role.CLUSTER_ADMINISTRATOR)
    clients = [people.client("anonymous"), people.client("owner"), Client()]
    clients[-1].force_login(staff)
    for name, pk in (("host_key_fetch", site.cluster.pk), ("host_key_pin", shown.pk)):
        for client in clients:
            assert client.post(reverse(name, args=[pk])).status_code in (302, 403)
        assert clients[-1].post(reverse(name, args=[pk])).status_code == 403
    assert not Cluster.objects.exclude(host_key="").exists()
    page = reverse("cluster", args=[site.cluster.pk])
    assert "Fetch host key" not in clients[1].get(page).content.decode()
    assert "Fetch host key" in people.client("admin").get(page).content.decode()


def test_the_health_check_needs_nobody(client: object, people: People) -> None:
    answer = people.client("anonymous").get("/healthz/")
    assert (answer.status_code, answer.content) == (200, b"database: ok\nvalkey: ok\n")


def test_logging_out_is_a_post(as_owner: object, people: People) -> None:
    client = people.client("owner")
    assert client.get("/logout/").status_code == 405
    client.post("/logout/")
    assert client.get("/").status_code == 302
