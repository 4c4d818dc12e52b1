"""Links for people without an account: what they open, for how long, and what they do not show."""

from __future__ import annotations

import io
import json
import re
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from bs4 import BeautifulSoup
from django.apps import apps
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from experiments import migrations
from experiments.access.anonymity import Anonymity
from experiments.execution import moves
from experiments.models import (
    AuditEntry,
    Cluster,
    Experiment,
    Job,
    Partition,
    Run,
    ShareLink,
    Snapshot,
    User,
    Workload,
)
from experiments.models.link import compute_token_hash
from tests.dashboard.access.test_access import OF_A_TABLE, OF_AN_EXPERIMENT
from tests.dashboard.conftest import People, Site, fetch, measured
from tests.factories import (
    CredentialFactory,
    PublishedTableFactory,
    SeriesFactory,
    UserFactory,
    link_to,
)

pytestmark = pytest.mark.django_db

MIGRATIONS = Path(migrations.__file__).parent
TABS = ("", "?tab=jobs", "?tab=plan", "?tab=events")


def visitor(address: str) -> Client:
    """Return the browser of somebody without an account who has opened a link."""
    client = Client()
    answer = client.get(address)
    assert answer.status_code == 302, answer.status_code
    return client


def body(answer: Any) -> str:
    """Return all that an answer says; of a Parquet file its columns and rows."""
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    if answer["content-type"] == "application/vnd.apache.parquet":
        table = parquet.read_table(io.BytesIO(content))
        return f"{table.schema.to_string(truncate_metadata=False)} {table.to_pylist()}"
    return str(content.decode())


def addresses_of(experiment: Experiment) -> list[str]:
    pages = [reverse(name, args=[experiment.pk]) for name in OF_AN_EXPERIMENT]
    pages += [experiment.get_absolute_url() + tab for tab in TABS]
    return pages + [run.get_absolute_url() for run in experiment.runs.all()[:2]]


def test_a_link_opens_an_experiment_with_all_that_hangs_on_it(results: Experiment) -> None:
    client = visitor(link_to(results))
    for address in addresses_of(results):
        fetch(client, address)
    software = reverse("experiment_software", args=[results.pk])
    for address in (results.get_absolute_url(), software):
        assert client.get(address, headers={"hx-request": "true"}).status_code == 200


def test_a_link_opens_a_published_table(people: People) -> None:
    row = PublishedTableFactory(owner=people.owner)
    client = visitor(link_to(row))
    for name in OF_A_TABLE:
        assert client.get(reverse(name, args=[row.pk])).status_code == 200, name


def test_a_link_opens_nothing_else(results: Experiment, site: Site, people: People) -> None:
    other = measured(site, people.owner, blocks=1, visibility="public")
    table = PublishedTableFactory(owner=people.owner, visibility="public")
    client = visitor(link_to(results))
    for address in [*addresses_of(other), table.get_absolute_url(), "/", "/runs/", "/experiments/"]:
        assert client.get(address)["Location"].startswith("/login/"), address
    for name in ("experiment_clone", "experiment_cancel", "experiment_delete"):
        assert client.post(reverse(name, args=[results.pk]))["Location"].startswith("/login/"), name


def test_without_the_link_the_address_of_an_experiment_opens_nothing(results: Experiment) -> None:
    link_to(results)
    for address in addresses_of(results):
        assert Client().get(address)["Location"].startswith("/login/"), address


def test_wrong_withdrawn_and_ended_links_look_alike(results: Experiment) -> None:
    ended = link_to(results, expires_at=timezone.now() - timedelta(seconds=1))
    withdrawn = link_to(results, withdrawn_at=timezone.now())
    answers = [Client().get(address) for address in (ended, withdrawn, "/link/wrong/")]
    assert [answer.status_code for answer in answers] == [404] * 3
    assert len({re.sub(r'nonce="[^"]+"', "", body(answer)) for answer in answers}) == 1
    assert len({tuple(sorted(answer.headers.keys())) for answer in answers}) == 1
    for odd in ("x" * 5000, quote("é"), "%00", "9" * 5000):
        assert Client().get(f"/link/{odd}/").status_code in (400, 404)


def test_what_ends_ends_at_once_for_those_who_have_opened_it(results: Experiment) -> None:
    page = results.get_absolute_url()
    for change in (
        {"withdrawn_at": timezone.now()},
        {"expires_at": timezone.now() - timedelta(seconds=1)},
    ):
        client = visitor(link_to(results))
        assert client.get(page).status_code == 200
        ShareLink.objects.update(**change)
        assert client.get(page)["Location"].startswith("/login/")
    client = visitor(link_to(results))
    Experiment.objects.update(visibility="members")
    assert client.get(page)["Location"].startswith("/login/")


def test_a_page_that_asks_for_itself_after_the_end_leads_to_the_log_in(
    results: Experiment, people: People
) -> None:
    client, page = visitor(link_to(results)), results.get_absolute_url()
    polled = {"hx-request": "true", "hx-current-url": f"http://testserver{page}?tab=jobs"}
    ShareLink.objects.update(withdrawn_at=timezone.now())
    for asking in (client, people.client("anonymous")):
        answer = asking.get(page, headers=polled)
        assert answer["HX-Redirect"] == f"/login/?next={page}%3Ftab%3Djobs"
        assert (answer.status_code, answer.content) == (200, b"")
        elsewhere = polled | {"hx-current-url": "https://example.org/"}
        assert asking.get(page, headers=elsewhere)["HX-Redirect"] == f"/login/?next={page}"
        assert asking.get(page)["Location"] == f"/login/?next={page}"


def test_a_token_is_random_kept_as_a_hash_and_encrypted(results: Experiment) -> None:
    tokens = {link_to(results).split("/")[2] for _ in range(20)}
    assert len(tokens) == 20
    assert all(len(token) >= 43 for token in tokens)  # 256 bits
    with connection.cursor() as cursor:
        cursor.execute("SELECT token, token_hash FROM experiments_sharelink")
        kept = cursor.fetchall()
    assert {digest for _, digest in kept} == {compute_token_hash(token) for token in tokens}
    assert not [token for token in tokens for row in kept if token in "".join(row)]


def test_the_token_stays_in_no_address_and_is_told_to_nobody(results: Experiment) -> None:
    address = link_to(results)
    client = Client()
    answer = client.get(address)
    assert answer["Location"] == results.get_absolute_url()
    assert answer["Referrer-Policy"] == "no-referrer"
    for said in (answer, client.get(results.get_absolute_url())):
        assert "noindex" in said["X-Robots-Tag"]
        assert "no-store" in said["Cache-Control"]
    assert address.split("/")[2] not in body(client.get(results.get_absolute_url()))


def test_the_owner_makes_and_withdraws_links(results: Experiment, people: People) -> None:
    owner = people.client("owner")
    readers = reverse("visibility", args=["experiment", results.pk])
    make = reverse("link_make", args=["experiment", results.pk])
    page = owner.post(make, {"days": "30", "hides_names": "on"}, follow=True).content.decode()
    (link,) = ShareLink.objects.all()
    assert link.hides_names
    assert timedelta(days=29) < link.expires_at - timezone.now() < timedelta(days=31)
    assert f"http://testserver{link.get_absolute_url()}" in page
    results.refresh_from_db()
    assert results.visibility == "public"
    for days in ("0", "731", "x", "", "9" * 5000):
        assert "No link" in owner.post(make, {"days": days}, follow=True).content.decode()
    client = visitor(link.get_absolute_url())
    end = reverse("link_withdraw", args=["experiment", results.pk, link.pk])
    assert people.client("other").post(end).status_code == 403
    assert people.client("other").get(readers).status_code == 403
    assert client.get(results.get_absolute_url()).status_code == 200
    assert link.get_absolute_url() not in owner.post(end, follow=True).content.decode()
    assert client.get(results.get_absolute_url()).status_code == 302
    told = list(results.events.values_list("what", flat=True))
    assert told[-2:] == ["link made", "link withdrawn"]
    entries = AuditEntry.objects.filter(what__startswith="link")
    assert [str(entry.actor) for entry in entries] == ["owner", "owner"]
    assert link.token.reveal() not in str(list(entries.values()))


def test_a_link_of_one_row_is_not_withdrawn_by_the_owner_of_another(
    results: Experiment, site: Site, people: People
) -> None:
    theirs = measured(site, people.other, blocks=1)
    link_to(results)
    (link,) = ShareLink.objects.all()
    address = reverse("link_withdraw", args=["experiment", theirs.pk, link.pk])
    assert people.client("other").post(address).status_code == 404
    assert ShareLink.objects.valid().count() == 1


def test_a_link_opens_no_cluster_and_leads_to_none(run: Run) -> None:
    client = visitor(link_to(run.experiment))
    cluster = reverse("cluster", args=[run.job.cluster_id])
    assert cluster not in body(client.get(run.get_absolute_url()))
    assert client.get(cluster)["Location"].startswith("/login/")


# Names and paths

SECRETS = (
    *("grete.hermann", "Grete", "Hermann", "grete@example.org", "emmy_noether", "ab1234"),
    *("tx-31", "tx-32", "login7.hpc.example.org", "10.1.2.3", "haicore-a100", "forhlr2"),
    *("/gpfs/grete", "/home/ab1234", "/lustre/project/x17", "/hpc/home/lise", "lise"),
)
LOG = (
    "reading /home/ab1234/data and /gpfs/grete/set\nhello emmy_noether <grete@example.org>\n"
    "Traceback: File '/hpc/home/lise/venv/x.py' on tx-31.hpc.example.org (haicore-a100)\n"
    "GRETE.HERMANN wrote /lustre/project/x17/a"
)


@pytest.fixture
def told(site: Site, people: People) -> Experiment:
    """An experiment whose rows, logs, scripts and snapshots all say who made it, and where."""
    owner = User.objects.get(pk=people.owner.pk)
    owner.username, owner.first_name, owner.last_name = "grete.hermann", "Grete", "Hermann"
    owner.email = "grete@example.org"
    owner.save()
    helper = UserFactory(username="emmy_noether")
    key = CredentialFactory(owner=owner, user_name="ab1234")
    Cluster.objects.update(
        name="forhlr2", host="login7.hpc.example.org", work_directory="/gpfs/grete", credential=key
    )
    Partition.objects.update(name="haicore-a100")
    experiment = measured(site, owner, blocks=2, question="Asked by Grete Hermann?")
    plan = {
        "environments": {"x": {"python": "/home/ab1234/venv/bin/python", "binds": ["/gpfs/grete"]}}
    }
    Experiment.objects.filter(pk=experiment.pk).update(plan=plan | (experiment.plan or {}))
    Job.objects.update(
        script=f"#!/bin/bash\ncd /gpfs/grete/jobs # {LOG}", directory="/gpfs/grete/j"
    )
    variables = {"USER": "ab1234", "HOME": "/home/ab1234", "SCRATCH": "/lustre/project/x17"}
    variables |= {"SLURM_JOB_PARTITION": "haicore-a100", "SLURM_NODELIST": "tx-[31-32],tx-32"}
    variables |= {"HOSTNAME": "tx-32.hpc.example.org", "SLURM_TOPOLOGY_ADDR": "10.1.2.3"}
    content = {"outside": {"variables": variables}, "inside": {"variables": variables, "note": LOG}}
    Run.objects.update(
        command=f"python {LOG}",
        output_tail=LOG,
        message=LOG,
        node="tx-31",
        snapshot=Snapshot.objects.keep(content),
        spec={"workload": {"parameters": {"folder": "/home/ab1234/set"}}},
    )
    SeriesFactory(run=experiment.runs.all()[0])
    Workload.objects.update(owner=helper)
    moves.record_event(experiment, "excluded by hand", why="says emmy_noether", by=helper)
    return Experiment.objects.get(pk=experiment.pk)


def test_a_link_may_hide_names_and_paths_everywhere(told: Experiment) -> None:
    client = visitor(link_to(told, hides_names=True))
    software = reverse("experiment_software", args=[told.pk])
    for address in [*addresses_of(told), software]:
        for headers in ({}, {"hx-request": "true"}):
            if address == software and not headers:
                continue  # it leads to the experiment's page
            answer = client.get(address, headers=headers)
            assert answer.status_code == 200, address
            said = body(answer).lower() + str(dict(answer.items())).lower()
            assert [secret for secret in SECRETS if secret.lower() in said] == [], address


def test_what_is_hidden_is_the_same_wherever_it_stands(told: Experiment) -> None:
    client = visitor(link_to(told, hides_names=True))
    run = told.runs.all()[0]
    page = body(client.get(run.get_absolute_url()))
    assert "reading /directory-" in page
    open_page = body(visitor(link_to(told)).get(run.get_absolute_url()))
    for secret in ("emmy_noether", "ab1234", "/gpfs/grete"):
        assert secret in open_page  # it is a choice of the link
    hidden = Anonymity({"ab1234", "emmy"}, {"/gpfs/ab1234"})
    assert hidden.hide("ab1234 emmy /gpfs/ab1234/x ab1234") == (
        "account-1 account-2 /directory-1/x account-1"
    )


def test_machines_have_the_same_numbers_on_all_pages(told: Experiment) -> None:
    """The node of the first run is node-1, with its domain and without, whatever comes later."""
    client = visitor(link_to(told, hides_names=True))
    run = told.runs.order_by("pk")[0]
    page = body(client.get(run.get_absolute_url()))
    assert "on node-1 (partition-1)" in page
    assert "<dd>node-1</dd>" in page
    runs = reverse("runs_csv", args=[told.pk])
    assert "node-1" in body(client.get(runs))
    Run.objects.filter(pk=told.runs.order_by("-pk")[0].pk).update(node="a-first-by-name")
    assert "<dd>node-1</dd>" in body(client.get(run.get_absolute_url()))
    assert "cluster-1" in body(client.get(told.get_absolute_url()))


def test_words_that_any_site_uses_stay_and_json_keeps_its_keys(results: Experiment) -> None:
    Partition.objects.update(name="data")
    client = visitor(link_to(results, hides_names=True))
    page = BeautifulSoup(body(client.get(results.get_absolute_url())), "html.parser")
    assert "lab, partition-1" in " ".join(page.get_text(" ").split())
    compared = body(client.get(reverse("comparison", args=[results.pk])))
    for script in BeautifulSoup(compared, "html.parser").select('script[type="application/json"]'):
        assert {"data", "layout"} <= set(json.loads(script.get_text()))


NAMES = st.text("bcdxyz", min_size=2, max_size=6)


@given(st.lists(NAMES, min_size=1, max_size=5, unique=True), st.lists(NAMES, max_size=9))
def test_no_machine_stands_alone_in_what_was_hidden(names: list[str], others: list[str]) -> None:
    words = {name: f"node-{number}" for number, name in enumerate(names, 1)}
    text = "; ".join(f"{name}.b-c.org, {name}." for name in (*names, *others))
    hidden = Anonymity(set(), set(), words).hide(text)
    assert set(names).isdisjoint(re.findall(r"[\w-]+", hidden.replace("b-c.org", "")))
    assert hidden.count("org") == sum(name not in names for name in others)


def test_numbers_and_short_names_stay_readable() -> None:
    hidden = Anonymity({"12", "run", "1000"}, set())
    assert hidden.hide("run 12 of 1000: 0.1212 running 12.5 x1000") == (
        "account-2 account-3 of account-1: 0.1212 running 12.5 x1000"
    )
    assert Anonymity({"gris"}, set()).hide("gris GRIS griſ") == "account-1 account-1 account-1"
    assert hidden.hide("/a" * 50_000) == "/a" * 50_000
    assert hidden.hide_in_page('<a class="run" href="/runs/" title="by run">run</a>') == (
        '<a class="run" href="/runs/" title="by account-2">account-2</a>'
    )


def test_what_was_open_by_its_address_gets_a_link_that_opens_it(site: Site, people: People) -> None:
    """As the migration finds it: shared with everybody with the link, and no link."""
    row = measured(site, people.owner, blocks=1, visibility="public")
    private = measured(site, people.owner, blocks=1, visibility="members")
    (module,) = (path.stem for path in MIGRATIONS.glob("*_share_links.py"))
    import_module(f"experiments.migrations.{module}").make_links(apps, None)
    (link,) = ShareLink.objects.all()
    assert link.experiment_id == row.pk
    assert visitor(link.get_absolute_url()).get(row.get_absolute_url()).status_code == 200
    assert people.client("other").get(row.get_absolute_url()).status_code == 200
    assert not ShareLink.objects.filter(experiment=private).exists()


def test_a_link_that_hides_names_hides_where_data_sets_lie(told: Experiment) -> None:
    """They stand in the plan, in commands and in snapshots."""
    data_set = {"name": "set", "digest": "sha256:" + "1" * 64, "path": "/data/alice/set/"}
    workload = {"name": "cnn", "kind": "cnn", "parameters": {}, "data_set": data_set}
    plan = (told.plan or {}) | {"workloads": {"1": workload}}
    Experiment.objects.filter(pk=told.pk).update(plan=plan)
    content = {"inside": {"data_set": {"path": "/data/alice/set"}}}
    told.runs.update(
        command="python net.py /data/alice/set/train", snapshot=Snapshot.objects.keep(content)
    )
    run = told.runs.all()[0]
    addresses = [run.get_absolute_url(), *addresses_of(told)]
    assert "/data/alice" in body(visitor(link_to(told)).get(addresses[0]))
    hidden = visitor(link_to(told, hides_names=True))
    assert [name for name in addresses if "alice" in body(hidden.get(name))] == []
    assert "python net.py /directory-" in body(hidden.get(addresses[0]))


def test_a_link_that_hides_names_shows_no_commit(told: Experiment) -> None:
    """A public repository tells who made it."""
    run = told.runs.all()[0]
    checkouts = {"/opt/net": {"commit": "9f" * 20, "branch": "emmys-branch", "changed": 1}}
    checkouts["/opt/net"]["patch"] = "+__author__ = 'emmy'\n"
    program = {"files": [], "checkouts": checkouts}
    snapshot = Snapshot.objects.keep({"inside": {"program": program}})
    told.runs.filter(pk=run.pk).update(snapshot=snapshot, state=Run.State.SUCCEEDED)
    address = run.get_absolute_url()
    shown = body(visitor(link_to(told)).get(address))
    assert "at commit 9f9f9f" in shown
    assert "Text of these changes" in shown
    changes = reverse("run_changes", args=[run.uid])
    assert changes not in shown
    hidden = visitor(link_to(told, hides_names=True))
    for query in ("", "?facts=commit"):
        page = body(hidden.get(address + query))
        assert "9f9f9f" not in page
        assert "emmys-branch" not in page
        assert "Text of these changes" not in page
    assert hidden.get(changes).status_code == 302
