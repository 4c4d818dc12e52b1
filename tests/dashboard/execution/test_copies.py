"""A copy names its source and the source its copies; the tally filters the list of runs."""

from __future__ import annotations

import pytest
from django.test import Client

from experiments.models import Experiment, Run
from tests.dashboard.conftest import People
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db


def read(client: Client, experiment: Experiment, query: str = "") -> str:
    return client.get(experiment.get_absolute_url() + query).content.decode()


def test_a_clone_and_its_source_name_each_other(as_owner: Client, results: Experiment) -> None:
    as_owner.post(f"/experiments/{results.pk}/clone/")
    copy = Experiment.objects.get(copied_from=results)
    Experiment.objects.filter(pk=copy.pk).update(question="Once more?")
    link = f'copy of <a href="{results.get_absolute_url()}">{results.question}</a>'
    assert link in read(as_owner, copy)
    assert f'<a href="{copy.get_absolute_url()}">Once more?</a>' in read(as_owner, results)


def test_what_may_not_be_viewed_is_not_named(people: People) -> None:
    source = ExperimentFactory(owner=people.owner, question="My secret?", visibility="private")
    copy = ExperimentFactory(owner=people.other, copied_from=source, question="Mine?")
    hidden = ExperimentFactory(owner=people.other, copied_from=copy, visibility="private")
    Experiment.objects.filter(pk=hidden.pk).update(question="Hidden?")
    assert "My secret?" not in read(people.client("other"), copy)
    page = read(people.client("owner"), copy)
    assert "My secret?" in page
    assert "Hidden?" not in page


def test_of_many_copies_the_newest_are_named_and_the_source_always(people: People) -> None:
    source = ExperimentFactory(owner=people.owner, question="The source?")
    middle = ExperimentFactory(owner=people.owner, copied_from=source)
    for number in range(8):
        question = f"Copy {number}?"
        ExperimentFactory(owner=people.owner, copied_from=middle, question=question)
    page = read(people.client("owner"), middle)
    assert "The source?" in page
    assert "Copy 7?" in page
    assert "Copy 2?" not in page
    assert "and older ones" in page


def test_a_copy_outlives_its_source(as_owner: Client, people: People) -> None:
    source = ExperimentFactory(owner=people.owner)
    copy = ExperimentFactory(owner=people.owner, copied_from=source)
    as_owner.post(f"/experiments/{source.pk}/delete/")
    assert not Experiment.objects.filter(pk=source.pk).exists()
    assert "copy of" not in read(as_owner, copy)


def test_the_tally_is_links_that_filter_the_runs(as_owner: Client, results: Experiment) -> None:
    failed = results.runs.order_by("pk")[0]
    Run.objects.filter(pk=failed.pk).update(state="failed")
    page = read(as_owner, results)
    assert f'href="{results.get_absolute_url()}?state=failed#runs"' in page
    filtered = as_owner.get(f"{results.get_absolute_url()}?state=failed")
    assert [run.pk for run in filtered.context["listing"].page] == [failed.pk]
    assert "All runs" in filtered.content.decode()
    odd = as_owner.get(f"{results.get_absolute_url()}?state=nonsense")
    assert len(odd.context["listing"].page) == results.runs.count()
