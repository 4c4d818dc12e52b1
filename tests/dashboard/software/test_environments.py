"""Environments by page: each choice narrows the next; what does not fit is said at its field."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from experiments.models import AuditEntry, Environment, Role, StagedImage
from tests.dashboard.conftest import People, Site, measured
from tests.factories import (
    ContainerFactory,
    ExperimentFactory,
    RuntimeFactory,
    StagedImageFactory,
    UserFactory,
)

pytestmark = pytest.mark.django_db

NEW = "/catalogue/environments/new/"
FACTS = {
    "pythons": [
        {"path": "usr/bin/python3.11", "version": "3.11.2", "packages": {}},
        {"path": "opt/venv/bin/python3.11", "version": "3.11.2", "packages": {"numpy": "2.4.6"}},
    ]
}


@pytest.fixture
def staged(site: Site) -> StagedImage:
    """A form for one mode of udocker, of an image that was looked into."""
    RuntimeFactory(cluster=site.cluster, kind="udocker", executable="udocker", version="1.3.17")
    return StagedImageFactory(
        cluster=site.cluster,
        format="udocker",
        mode="F3",
        path="tare-f3",
        image__reference="registry.example.org/lab/training:2",
        image__facts=FACTS,
    )


def parts(site: Site, **changes: Any) -> dict[str, Any]:
    """What a browser sends for bare metal."""
    return {
        "cluster": site.cluster.pk,
        "runtime": "",
        "staged_image": "",
        "mode": "",
        "name": "new",
        "python": "python3",
        "binds": "",
        "variables": "",
        **changes,
    }


def udocker(site: Site, staged: StagedImage, **changes: Any) -> dict[str, Any]:
    runtime = site.cluster.runtimes.get(kind="udocker")
    return parts(site, runtime=runtime.pk, staged_image=staged.pk, mode="F3") | changes


def shown(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def test_a_researcher_makes_bare_metal_and_a_container(
    as_owner: Client, people: People, site: Site, staged: StagedImage
) -> None:
    answer = as_owner.post(NEW, parts(site))
    made = Environment.objects.get(name="new")
    assert answer["Location"] == reverse("environment", args=[made.pk])
    assert (made.owner, made.is_bare_metal, made.binds, made.variables) == (
        people.owner,
        True,
        [],
        {},
    )
    sent = udocker(
        site,
        staged,
        name="udocker F3",
        python="/opt/venv/bin/python3.11",
        binds="/data\r\n\r\n/scratch/x:/in\r\n",
        variables="OMP_NUM_THREADS=1\r\nNOTE=a = b\r\n",
    )
    assert as_owner.post(NEW, sent).status_code == 302
    made = Environment.objects.get(name="udocker F3")
    assert (made.mode, made.staged_image) == ("F3", staged)
    assert made.binds == ["/data", "/scratch/x:/in"]
    assert made.variables == {"OMP_NUM_THREADS": "1", "NOTE": "a = b"}
    entry = AuditEntry.objects.get(kind="environment", object_pk=str(made.pk))
    assert (entry.actor, entry.what) == (people.owner, "added")


def test_from_a_staged_form_the_rest_is_suggested(
    as_owner: Client, site: Site, staged: StagedImage
) -> None:
    page = shown(as_owner, f"{NEW}?cluster={site.cluster.pk}&staged_image={staged.pk}")
    assert 'value="udocker F3 (training:2)"' in page
    assert 'value="/opt/venv/bin/python3.11" ' in page  # the one with most packages
    assert '<option value="/usr/bin/python3.11">Python 3.11.2</option>' in page
    modes = page.partition('name="mode"')[2].partition("</select>")[0]
    assert modes.count("<option") == 1
    assert '"F3" selected' in modes


def test_another_runtime_shows_what_it_starts_and_keeps_what_was_typed(
    as_owner: Client, site: Site, staged: StagedImage
) -> None:
    sent = parts(site, runtime=site.container.runtime_id, name="mine", variables="A=1")
    answer = as_owner.post(NEW, sent, headers={"HX-Request": "true", "HX-Trigger-Name": "runtime"})
    page = " ".join(answer.content.decode().split())
    assert page.startswith('<div id="parts"')
    assert "tensorflow" in page
    assert "tare-f3" not in page
    assert "as udocker" not in page
    assert 'value="mine"' in page
    assert "A=1</textarea>" in page
    assert "nvccli" in page
    assert "required" not in page
    assert not Environment.objects.filter(name="mine").exists()


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"staged_image": ""}, "staged_image", "go together"),
        ({"runtime": ""}, "staged_image", "The runtime above does not start this"),
        ({"mode": "P1"}, "mode", "no mode in which the runtime can start the image"),
        ({"mode": ""}, "mode", "staged for mode F3"),
        ({"binds": "/a,/b"}, "binds", "A bind is /path"),
        ({"binds": "relative"}, "binds", "A bind is /path"),
        ({"variables": "NOEQUALS"}, "variables", "NAME=value"),
        ({"variables": "A=1\nA=2"}, "variables", "set twice"),
        ({"variables": "1A=2"}, "variables", "cannot be called"),
        ({"name": "Apptainer"}, "name", "of this name already"),
        ({"name": ""}, "name", "required"),
        ({"cluster": "999999"}, "cluster", "not one of the available choices"),
    ],
)
def test_what_does_not_fit_is_said_at_its_field(
    changes: dict[str, str],
    field: str,
    words: str,
    as_owner: Client,
    site: Site,
    staged: StagedImage,
) -> None:
    answer = as_owner.post(NEW, udocker(site, staged, **changes))
    assert answer.status_code == 200
    assert words in " ".join(answer.context["form"].errors[field])
    assert not Environment.objects.filter(name="new").exists()


def test_an_image_that_is_not_there_yet_cannot_be_chosen(
    as_owner: Client, site: Site, staged: StagedImage
) -> None:
    StagedImage.objects.filter(pk=staged.pk).update(state=StagedImage.State.STAGING)
    answer = as_owner.post(NEW, udocker(site, staged))
    assert "staged_image" in answer.context["form"].errors


def test_set_up_lines_are_shell_and_for_those_who_administer_the_cluster(
    as_owner: Client, people: People, site: Site
) -> None:
    assert as_owner.post(NEW, parts(site, setup_lines="rm -rf ~")).status_code == 302
    made = Environment.objects.get(name="new")
    assert made.setup_lines == ""
    Environment.objects.filter(pk=made.pk).update(setup_lines="module load python")
    address = reverse("environment", args=[made.pk])
    page = shown(as_owner, address)
    assert "module load python</pre>" in page
    assert 'name="setup_lines"' not in page
    as_owner.post(address, parts(site, setup_lines="rm -rf ~", python="python3.12"))
    made.refresh_from_db()
    assert (made.python, made.setup_lines) == ("python3.12", "module load python")
    elsewhere = UserFactory(role=Role.CLUSTER_ADMINISTRATOR)  # of another cluster
    client = Client()
    client.force_login(elsewhere)
    assert 'name="setup_lines"' not in shown(client, f"{NEW}?cluster={site.cluster.pk}")
    people.client("admin").post(address, parts(site, setup_lines="module load cuda"))
    made.refresh_from_db()
    assert made.setup_lines == "module load cuda"


def test_launched_experiments_keep_their_copy_and_the_page_says_so(
    site: Site, people: People
) -> None:
    made = measured(site, people.owner, question="What does it cost?", blocks=1)
    draft = ExperimentFactory(
        question="Still a draft?",
        cluster=site.cluster,
        baseline=site.bare,
        environments=[site.bare, site.container],
    )
    ExperimentFactory(
        cluster=site.cluster,
        baseline=site.bare,
        environments=[site.bare, site.container],
        visibility="private",
    )
    Environment.objects.update(owner=people.owner)
    address = reverse("environment", args=[site.container.pk])
    page = shown(people.client("owner"), address)
    assert "Launched experiments keep what they were launched with" in page
    assert made.question in page
    assert draft.question in page
    assert "1 experiment of others names it too" in page
    assert "Launched experiments keep" not in shown(people.client("other"), address)


def test_what_an_experiment_names_is_not_deleted(
    as_owner: Client, people: People, site: Site
) -> None:
    used = owned(people, site)
    ExperimentFactory(cluster=site.cluster, baseline=site.bare, environments=[site.bare, used])
    address = reverse("environment_delete", args=[used.pk])
    page = as_owner.post(address, follow=True).content.decode()
    assert "stays: an experiment names it" in page
    used.experiments.all().delete()
    as_owner.post(address)
    assert not Environment.objects.filter(pk=used.pk).exists()
    assert AuditEntry.objects.filter(kind="environment", what="deleted").exists()


def owned(people: People, site: Site) -> Environment:
    made: Environment = ContainerFactory(cluster=site.cluster, owner=people.owner)
    return made


@pytest.mark.parametrize(
    ("role", "new", "look", "change"),
    [(Role.VIEWER, 403, 200, 403), (Role.RESEARCHER, 200, 200, 403)],
)
def test_who_may_do_what(role: Role, new: int, look: int, change: int, site: Site) -> None:
    client = Client()
    client.force_login(UserFactory(role=role))
    assert client.get(NEW).status_code == new
    address = reverse("environment", args=[site.container.pk])
    assert client.get(address).status_code == look
    assert client.post(address, parts(site)).status_code == change
    delete = reverse("environment_delete", args=[site.container.pk])
    assert client.post(delete).status_code == change


def test_what_is_private_is_nobody_elses(people: People, site: Site) -> None:
    made = owned(people, site)
    Environment.objects.filter(pk=made.pk).update(visibility="private")
    address = reverse("environment", args=[made.pk])
    assert people.client("other").get(address).status_code == 404
    assert people.client("owner").get(address).status_code == 200
