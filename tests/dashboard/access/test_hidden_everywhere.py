"""A link that hides names: every address that a link opens, with all sections, says none."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import get_resolver, reverse
from django.urls.exceptions import NoReverseMatch

from dashboard.comparisons.panels import PANELS
from experiments.access.anonymity import build_anonymity
from experiments.citations import Author, save_citation
from experiments.models import (
    Citation,
    Cluster,
    DataCopy,
    Experiment,
    Job,
    Run,
    ShareLink,
    Snapshot,
    User,
    Workload,
)
from tests.dashboard.access.test_links import body
from tests.experiments.bundles.studies import end_runs, launch
from tests.factories import (
    NOON,
    CredentialFactory,
    DataCopyFactory,
    LaunchedFactory,
    UserFactory,
    link_to,
)

pytestmark = pytest.mark.django_db
PATH = "/lustre/fs7/group-of-grete/digits"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
CODE = {
    "code_repository": "ssh://git@git.example.org/tools-of-the-lab.git",
    "code_commit": COMMIT,
}
PICTURES_AND_BUNDLES = ("application/zip", "application/pdf", "image/png")
"""What they say is tried by tests of their own."""
SECRETS = (
    *("grete.hermann", "Hermann", "grete@example.org", "emmy_noether", "ab1234"),
    *("10.5281/zenodo.77", "0000-0002-1825-0097", "University of Zurich"),
    *("node-of-grete", "login7.hpc.example.org", "forhlr2", "/gpfs/grete", "group-of-grete"),
    *("secret neighbour", "other-cluster"),
    *("git.example.org", "tools-of-the-lab", "0123456789ab"),
    *("Müller", "muller"),  # as file names have it, which are made of the question
)


@pytest.fixture
def named() -> Experiment:
    owner: User = UserFactory(
        username="grete.hermann",
        first_name="Grete",
        last_name="Hermann",
        email="grete@example.org",
        orcid="0000-0002-1825-0097",
        role="researcher",
    )
    row = launch(containers=2, owner=owner, question="Is Müller’s node slow?")
    end_runs(row)
    key = CredentialFactory(owner=owner, user_name="ab1234")
    Cluster.objects.filter(pk=row.cluster_id).update(
        name="forhlr2", host="login7.hpc.example.org", work_directory="/gpfs/grete", credential=key
    )
    helper = UserFactory(username="emmy_noether", first_name="Ida", last_name="Müller")
    copy: DataCopy = DataCopyFactory(cluster=row.cluster, path=PATH)
    Workload.objects.update(data_set=copy.data_set, owner=helper)
    data = {"name": "digits", "digest": f"sha256:{'0' * 64}", "path": PATH, "proof": "hashes"}
    data["manifest"] = "/gpfs/grete/data/x.manifest"
    plan = Experiment.objects.values_list("plan", flat=True).get(pk=row.pk) or {}
    for workload in plan["workloads"].values():
        workload["data_set"] = data
        workload["parameters"] = {**workload.get("parameters", {}), **CODE}
        workload["code"] = {
            "source": f"commit {COMMIT[:12]}",
            "path": f"/gpfs/grete/code/git-{COMMIT}",
        }
    Experiment.objects.filter(pk=row.pk).update(plan=plan)
    log = f"grete@example.org read {PATH}/0 on node-of-grete, ab1234 Grete Hermann"
    log += f" ran {CODE['code_repository']} at {COMMIT}"
    for run in Run.objects.all():
        spec = dict(run.spec)
        spec["workload"] = {**spec.get("workload", {}), "data_set": data}
        spec["workload"]["parameters"] = {"data_directory": PATH, **CODE}
        content = {"inside": {"variables": {"USER": "ab1234", "TARE_DATA": PATH}, "note": log}}
        Run.objects.filter(pk=run.pk).update(
            spec=spec,
            node="node-of-grete",
            command=f"apptainer exec --bind {PATH}:{PATH}:ro x",
            output_tail=log,
            snapshot=Snapshot.objects.keep(content),
        )
    Job.objects.update(script=f"#!/bin/sh\nexport TARE_DATA={PATH}\n", directory="/gpfs/grete/j")
    authors = [Author("Hermann", "Grete", "0000-0002-1825-0097", "University of Zurich")]
    save_citation(row, owner, title="", licence="CC-BY-4.0", authors=authors)
    Citation.objects.update(doi="10.5281/zenodo.77", doi_published_at=NOON)
    again = LaunchedFactory(question="Is the secret neighbour as fast?")
    Cluster.objects.filter(pk=again.cluster_id).update(name="other-cluster")
    Experiment.objects.filter(pk=again.pk).update(reproduces=row, visibility="members")
    return Experiment.objects.get(pk=row.pk)


def list_addresses(row: Experiment) -> list[str]:
    """Return every address of an experiment and of one of its runs, and all parts of pages."""
    run = row.runs.all()[0]
    found = set[str]()
    for name in filter(lambda key: isinstance(key, str), get_resolver().reverse_dict):
        for arguments in ([row.pk], [run.uid], [row.pk, 1, 1], [row.pk, row.pk]):
            try:
                found.add(reverse(name, args=arguments))
            except NoReverseMatch:
                continue
    found |= {reverse("two_runs", args=[run.uid, row.runs.all()[1].uid])}
    mine = (f"/experiments/{row.pk}/", f"/runs/{run.uid}/", "/compare/")
    pages = [address for address in found if address.startswith(mine)]
    comparison = reverse("comparison", args=[row.pk])
    pages += [f"{comparison}?section={panel.name}" for panel in PANELS]
    pages += [f"{row.get_absolute_url()}?tab={tab}" for tab in ("jobs", "plan", "events", "runs")]
    return sorted(pages)


def find_names(client: Client, row: Experiment) -> dict[str, list[str]]:
    """Return by address which names an answer of it says."""
    found = {}
    for address in list_addresses(row):
        for headers in ({}, {"HX-Request": "true"}):
            answer = client.get(address, headers=headers)
            assert answer.status_code in (200, 302, 403, 404, 405), address
            if answer["Content-Type"] in PICTURES_AND_BUNDLES:
                b"".join(answer)  # its place among exports is free only then
                continue
            said = (body(answer) + str(dict(answer.items()))).lower()
            if names := [secret for secret in SECRETS if secret.lower() in said]:
                found[address] = names
    return found


def test_no_address_that_a_link_opens_tells_a_name(named: Experiment) -> None:
    client = Client()
    client.get(link_to(named, hides_names=True))
    assert find_names(client, named) == {}
    client = Client()
    client.get(link_to(named))
    everything = {name for names in find_names(client, named).values() for name in names}
    assert {"grete.hermann", "group-of-grete", "node-of-grete"} <= everything
    assert not {"secret neighbour", "other-cluster"} & everything


def test_without_a_link_no_address_tells_anything(named: Experiment) -> None:
    for visibility in ("public", "members"):
        Experiment.objects.filter(pk=named.pk).update(visibility=visibility)
        assert find_names(Client(), named) == {}
    assert not ShareLink.objects.exists()


def test_where_code_comes_from_is_hidden_in_whatever_form_it_stands(named: Experiment) -> None:
    hide = build_anonymity([named]).hide
    assert hide(f"git clone {CODE['code_repository']}") == "git clone repository-1"
    assert hide(f"{COMMIT} git-{COMMIT[:12]}") == "commit-1 git-commit-1"
