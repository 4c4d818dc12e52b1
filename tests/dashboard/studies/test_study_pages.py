"""The pages of studies: what they show, what is done there, and who sees what."""

from __future__ import annotations

from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from dashboard.middleware import MARK
from experiments.comparisons import keep_comparison
from experiments.models import AuditEntry, Experiment, Job, Run, Study
from experiments.studies.study_members import NotPutIn, list_member_keys, put_in
from tests.dashboard.conftest import Site, measured
from tests.factories import (
    ExperimentFactory,
    JobFactory,
    LaunchedFactory,
    RunFactory,
    StudyFactory,
    UserFactory,
)

pytestmark = pytest.mark.django_db


def open_page(user: Any, address: str, **headers: str) -> Any:
    client = Client()
    client.force_login(user)
    return client.get(address, headers=headers)


def post(user: Any, name: str, study: Study, **sent: Any) -> Any:
    client = Client()
    client.force_login(user)
    return client.post(reverse(name, args=[study.pk]), sent, follow=True)


def test_the_matrix_shows_kept_verdicts_and_nothing_is_computed(site: Site) -> None:
    owner = UserFactory()
    rows = [measured(site, owner, blocks=6), measured(site, owner, blocks=6)]
    study = StudyFactory(owner=owner, members=rows, question="What do containers cost?")
    page = open_page(owner, study.get_absolute_url()).content.decode()
    assert "What do containers cost?" in page
    assert "are being computed by a worker" in page
    for row in rows:
        assert keep_comparison(row.pk) in ("kept", "kept before")
    page = open_page(owner, study.get_absolute_url()).content.decode()
    assert "are being computed by a worker" not in page
    assert page.count('class="study-entry"') == 2
    assert 'id="summary"' in page
    assert f"{reverse('studies')}?e={rows[0].pk}&amp;e={rows[1].pk}" in page


def test_experiments_that_one_may_not_view_are_counted_and_not_shown() -> None:
    owner, other = UserFactory(), UserFactory()
    shown = ExperimentFactory(owner=owner)
    hidden = ExperimentFactory(owner=owner, visibility="private", question="A secret?")
    study = StudyFactory(owner=owner, members=[shown, hidden])
    page = open_page(other, study.get_absolute_url()).content.decode()
    assert shown.question in page
    assert "A secret?" not in page
    assert "1 more that you may not view" in page
    assert "Delete the study" not in page
    file = open_page(other, reverse("study_yaml", args=[study.pk])).content.decode()
    assert file.startswith("# 1 of its experiments not in this file")
    assert "A secret?" not in file
    private = StudyFactory(owner=owner, visibility="private")
    assert open_page(other, private.get_absolute_url()).status_code == 404


def test_a_live_study_refreshes_itself_and_says_nothing_without_news() -> None:
    experiment = LaunchedFactory()
    job = JobFactory(experiment=experiment, state=Job.State.RUNNING)
    RunFactory(job=job, state=Run.State.RUNNING, ended_at=None, exit_code=None)
    study = StudyFactory(owner=experiment.owner, members=[experiment])
    client = Client()
    client.force_login(experiment.owner)
    address = study.get_absolute_url()
    assert 'hx-trigger="every 5s"' in client.get(address).content.decode()
    headers = {"HX-Request": "true", "HX-Target": "live"}
    first = client.get(address, headers=headers)
    assert 'role="progressbar"' in first.content.decode()
    assert "Delete the study" not in first.content.decode()
    again = client.get(address, headers=headers | {MARK: first.headers[MARK]})
    assert again.status_code == 204
    Run.objects.update(state=Run.State.CANCELLED, ended_at=timezone.now())
    ended = client.get(address, headers=headers)
    assert ended.headers["HX-Refresh"] == "true"


def test_all_drafts_are_launched_or_none() -> None:
    owner = UserFactory()
    drafts = [ExperimentFactory(owner=owner), ExperimentFactory(owner=owner)]
    foreign, launched = ExperimentFactory(), LaunchedFactory()  # nobody would launch it again
    study = StudyFactory(owner=owner, members=[*drafts, foreign, launched])
    drafts[1].cluster.enabled = False
    drafts[1].cluster.save()
    page = post(owner, "study_launch", study).content.decode()
    assert "Nothing was launched" in page
    assert drafts[1].question in page
    assert Experiment.objects.exclude(launched_at=None).get() == launched
    drafts[1].cluster.enabled = True
    drafts[1].cluster.save()
    page = post(owner, "study_launch", study).content.decode()
    assert "Launched 2 experiments. 1 not: not yours to change." in page
    assert Experiment.objects.exclude(launched_at=None).count() == 3
    Experiment.objects.filter(pk=launched.pk).update(cancelled_at=timezone.now())
    assert "Paused 2 experiments." in post(owner, "study_pause", study).content.decode()
    assert Experiment.objects.exclude(paused_at=None).count() == 2
    assert "Continued 2 experiments." in post(owner, "study_continue", study).content.decode()
    assert "Cancelled 2 experiments." in post(owner, "study_cancel", study).content.decode()
    assert Experiment.objects.exclude(cancelled_at=None).count() == 3
    assert "Cancelled 0 experiments." in post(owner, "study_cancel", study).content.decode()


def test_experiments_are_put_in_from_their_list_and_taken_out() -> None:
    owner = UserFactory()
    rows = [ExperimentFactory(owner=owner) for _ in range(3)]
    client = Client()
    client.force_login(owner)
    selected = reverse("experiments_selected")
    sent = {"action": "study", "pick": [rows[1].pk, rows[0].pk], "query": ""}
    form = client.post(selected, sent)
    assert form.url == f"{reverse('study_new')}?pick={rows[1].pk}&pick={rows[0].pk}"
    assert rows[0].question in client.get(form.url).content.decode()
    made = client.post(
        reverse("study_new"),
        {"name": " Two  machines ", "pick": sent["pick"], "visibility": "members"},
    )
    study = Study.objects.get()
    assert made.url == study.get_absolute_url()
    assert (study.name, study.owner) == ("Two machines", owner)
    assert list_member_keys(study) == [rows[1].pk, rows[0].pk]
    client.post(selected, {"action": "study", "study": study.pk, "pick": [rows[2].pk, rows[0].pk]})
    assert list_member_keys(study) == [rows[1].pk, rows[0].pk, rows[2].pk]
    listed = client.get(f"{reverse('experiments')}?study={study.pk}").content.decode()
    assert all(row.question in listed for row in rows)
    address = reverse("study_edit", args=[study.pk])
    client.post(address, {"name": "One", "visibility": "private", "pick": [rows[1].pk]})
    study.refresh_from_db()
    assert (study.name, study.visibility) == ("One", "private")
    assert list_member_keys(study) == [rows[0].pk, rows[2].pk]
    assert Experiment.objects.count() == 3
    changes = [entry.why for entry in AuditEntry.objects.filter(kind="study").order_by("pk")]
    assert f"taken out: experiments {rows[1].pk}" in changes


def test_what_cannot_be_put_in_is_refused() -> None:
    owner = UserFactory()
    study = StudyFactory(owner=owner)
    hidden = ExperimentFactory(visibility="private")
    with pytest.raises(NotPutIn, match="you may not view it"):
        put_in(study, [hidden.pk], owner)
    first = ExperimentFactory(owner=owner)
    environments = {"cluster": first.cluster, "baseline": first.baseline, "owner": owner}
    rows = [first, *(ExperimentFactory(**environments) for _ in range(50))]
    with pytest.raises(NotPutIn, match="at most 50 experiments; it would have 51"):
        put_in(study, [row.pk for row in rows], owner)
    assert put_in(study, [row.pk for row in rows[:50]], owner) == 50
    assert put_in(study, [rows[0].pk], owner) == 0


def test_a_deleted_study_leaves_its_experiments_where_they_are() -> None:
    experiment = ExperimentFactory()
    study = StudyFactory(owner=experiment.owner, members=[experiment])
    page = post(experiment.owner, "study_delete", study).content.decode()
    assert "Its experiments stay." in page
    assert Experiment.objects.get() == experiment
    other = StudyFactory(owner=experiment.owner, members=[experiment])
    experiment.delete()
    assert list_member_keys(other) == []


def test_the_search_and_the_list_find_studies_by_name() -> None:
    owner = UserFactory()
    StudyFactory(owner=owner, name="Containers on three machines")
    StudyFactory(name="Containers in private", visibility="private")
    for address in ("/search/?q=three+machines", "/studies/?q=three", "/studies/"):
        page = open_page(owner, address).content.decode()
        assert "Containers on three machines" in page
        assert "Containers in private" not in page


def test_the_page_belongs_to_experiments_in_the_top_bar() -> None:
    owner = UserFactory()
    study = StudyFactory(owner=owner, members=[ExperimentFactory(owner=owner)])
    for address in ("/studies/", study.get_absolute_url(), "/recurring/", "/experiments/"):
        soup = BeautifulSoup(open_page(owner, address).content, "html.parser")
        assert [link.text for link in soup.select("nav [aria-current]")] == ["Experiments"], address
