"""A workload's page: what it is set to, who uses it, and what may still be done to it."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from django.test import Client
from django.urls import reverse

from experiments.models import AuditEntry, Workload, visibility
from experiments.planning.free_names import find_free_name
from experiments.planning.workloads import describe_settings
from runners.workloads import KNOWN_WORKLOADS, WORKLOADS, Metric, Parameter
from runners.workloads import Workload as Kind
from tests.dashboard.conftest import People, Site, measured
from tests.factories import ExperimentFactory, WorkloadFactory

pytestmark = pytest.mark.django_db


class Reader(Kind):
    """A kind with a parameter of each type, under headings, one of them not always meant."""

    kind = "reader"
    label = "Reading files"
    description = "Reads files of several sizes."
    parameters = (
        Parameter(
            name="data",
            type="choice",
            default="none",
            choices=("none", "folder"),
            help="What.",
            group="Data",
        ),
        Parameter(
            name="directory",
            type="text",
            default="",
            help="Where.",
            group="Data",
            when=("data", ("folder",)),
        ),
        Parameter(name="cold", type="flag", default=True, help="First drop caches.", group="How"),
        Parameter(
            name="command",
            type="words",
            default=["cat", "a file"],
            help="What reads.",
            group="How",
            label="Words",
        ),
    )
    metrics: ClassVar = (Metric("rate", "B/s", "higher", "Bytes read in a second"),)
    primary = "rate"


@pytest.fixture(autouse=True)
def reader(monkeypatch: pytest.MonkeyPatch) -> None:
    for known in (WORKLOADS, KNOWN_WORKLOADS):
        monkeypatch.setitem(known, "reader", Reader)
    # The kinds stand in the rule of who may view a workload, which a process compiles once.
    monkeypatch.setattr(visibility, "compile_rule", visibility.compile_rule.__wrapped__)


def page(client: Client, name: str, *args: Any, **query: Any) -> str:
    answer = client.get(reverse(name, args=args), query)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def test_the_page_of_kinds_says_what_each_reports_and_takes(as_owner: Client) -> None:
    shown = page(as_owner, "workload_kinds")
    for kind in WORKLOADS.values():
        assert kind.label in shown
        for metric in kind.metrics:
            assert f"<code>{metric.name}</code>" in shown
    assert "Only where data is folder." in shown


def test_fields_stand_under_their_headings_and_say_when_they_matter(as_owner: Client) -> None:
    shown = page(as_owner, "workload_new", kind="reader")
    headings = [shown.index(f"<legend>{title}</legend>") for title in ("Data", "How")]
    assert headings == sorted(headings)
    assert 'data-when="data" data-values="[&quot;folder&quot;]"' in shown


def test_each_type_of_parameter_is_kept_as_it_was_given(as_owner: Client) -> None:
    sent = {
        "name": "mine",
        "time_limit_seconds": "60",
        "data": "folder",
        "directory": " a b",
        "command": "dd 'if=x y'",
    }
    as_owner.post(reverse("workload_new") + "?kind=reader", sent)
    assert Workload.objects.get().parameters == {
        "data": "folder",
        "directory": " a b",
        "cold": False,  # a box that is not ticked
        "command": ["dd", "if=x y"],
    }


def test_what_differs_from_the_defaults_comes_first_and_the_rest_is_folded() -> None:
    row = WorkloadFactory(kind="reader", parameters={"cold": False, "old": [1]})
    told = describe_settings(row)
    assert [(one.name, one.value, one.default) for one in told.differing] == [
        ("cold", "no", "yes"),
        ("old", "[1]", ""),
    ]
    assert [one.name for one in told.others] == ["data", "directory", "command"]
    assert told.others[2].value == "cat 'a file'"


def test_lists_and_pages_show_what_differs(as_owner: Client) -> None:
    row = WorkloadFactory(name="cold reads", kind="reader", parameters={"cold": False})
    assert "cold=no" in page(as_owner, "catalogue", tab="workloads")
    shown = page(as_owner, "workload", row.pk)
    assert "Bytes read in a second" in shown
    assert "3 more as by default" in shown


def test_editing_changes_the_row_and_writes_it_down(as_owner: Client, people: People) -> None:
    row = WorkloadFactory(kind="reader", owner=people.owner, parameters={"cold": False})
    draft = ExperimentFactory(owner=people.owner, workloads=[row])
    assert draft.question in page(as_owner, "workload", row.pk)
    assert 'value="cat &#x27;a file&#x27;"' in page(as_owner, "workload_edit", row.pk)
    sent = {"name": "renamed", "time_limit_seconds": "90", "data": "none", "cold": "on"}
    answer = as_owner.post(reverse("workload_edit", args=[row.pk]), sent)
    assert answer.status_code == 302
    row.refresh_from_db()
    assert (row.name, row.time_limit_seconds, row.parameters["cold"]) == ("renamed", 90, True)
    entry = AuditEntry.objects.get(kind="workload")
    assert (entry.what, set(entry.changes)) == (
        "changed",
        {"name", "time_limit_seconds", "parameters"},
    )


def test_what_a_launched_experiment_holds_is_copied_not_edited(
    as_owner: Client, people: People, site: Site
) -> None:
    Workload.objects.update(owner=people.owner)
    measured(site, people.owner)
    row = site.workload
    shown = page(as_owner, "workload", row.pk)
    assert "A launched experiment holds blas small: it stays as it was measured." in shown
    assert reverse("workload_edit", args=[row.pk]) not in shown
    answer = as_owner.post(reverse("workload_edit", args=[row.pk]), {"name": "other"}, follow=True)
    assert "Copy it, and change the copy." in answer.content.decode()
    assert Workload.objects.get().name == "blas small"
    as_owner.post(reverse("workload_delete", args=[row.pk]))
    assert Workload.objects.exists()

    copy = page(as_owner, "workload_new", copy=row.pk)
    assert 'value="blas small (2)"' in copy


def test_a_copy_begins_with_what_the_other_is_set_to(as_owner: Client, people: People) -> None:
    theirs = WorkloadFactory(kind="reader", parameters={"directory": "/data", "data": "folder"})
    shown = page(as_owner, "workload_new", copy=theirs.pk)
    assert 'value="/data"' in shown
    hidden = WorkloadFactory(visibility="private")
    assert as_owner.get(reverse("workload_new"), {"copy": hidden.pk}).status_code == 404


def test_deleting_is_for_its_owner_while_nothing_names_it(as_owner: Client, people: People) -> None:
    row = WorkloadFactory(owner=people.owner)
    assert people.client("other").post(reverse("workload_delete", args=[row.pk])).status_code == 403
    as_owner.post(reverse("workload_delete", args=[row.pk]))
    assert not Workload.objects.exists()
    assert AuditEntry.objects.get(kind="workload").what == "deleted"


def test_what_came_with_imported_logs_has_a_page(as_owner: Client, people: People) -> None:
    row = WorkloadFactory(kind="tf_cnn_benchmarks", owner=people.owner)
    shown = page(as_owner, "workload", row.pk)
    assert "is only known from imported logs" in shown
    assert as_owner.get(reverse("workload_edit", args=[row.pk])).status_code == 302


def test_a_free_name_is_short_enough_and_new() -> None:
    long = WorkloadFactory(name="x" * 100)
    assert find_free_name("other") == "other"
    assert find_free_name(long.name) == "x" * 96 + " (2)"
    assert find_free_name("a", taken={"a", "a (2)"}) == "a (3)"
