"""Two people at one draft at the same time, each by a connection of their own: one waits.

Whoever comes first is held in the middle of a transaction until the other waits for a lock of the
database, or has ended without waiting.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.db.models.signals import m2m_changed, post_delete, post_save
from django.test import Client
from django.urls import reverse

from experiments.data_sets import copies
from experiments.execution import lifecycle
from experiments.models import Event, Experiment, Workload
from experiments.planning.variants import drop_unused, refresh_variants, store_sweeps
from tests.dashboard.conftest import People, Site
from tests.dashboard.planning.test_form import NEW, asked
from tests.dashboard.planning.test_sweeps import names, save
from tests.factories import DataCopyFactory, WorkloadFactory
from tests.runners.direct_jobs import until

pytestmark = pytest.mark.django_db(transaction=True)


def begin(action: Callable[[], Any], outcomes: list[Any]) -> threading.Thread:
    """Do something in a thread with a connection of its own; what it returns or raises is kept."""

    def act() -> None:
        try:
            outcomes.append(action())
        except Exception as error:  # noqa: BLE001 # for the test to judge
            outcomes.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=act)
    thread.start()
    return thread


def is_waiting() -> bool:
    """Return whether a connection to this database waits for a lock."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(cursor.fetchone()[0])


@contextmanager
def hold_at(signal: Any, sender: Any, **only: Any) -> Iterator[tuple[threading.Event, Any]]:
    """Have the first thread that sends this signal wait; give what tells it has come, and go on."""
    has_come, may_go = threading.Event(), threading.Event()
    caller = threading.get_ident()

    def hold(**sent: Any) -> None:
        is_meant = all(sent.get(name) == value for name, value in only.items())
        if is_meant and threading.get_ident() != caller and not has_come.is_set():
            has_come.set()
            assert may_go.wait(60)

    signal.connect(hold, sender=sender, weak=False)
    try:
        yield has_come, may_go
    finally:
        may_go.set()
        signal.disconnect(hold, sender=sender)


def race(
    first: Callable[[], Any], second: Callable[[], Any], signal: Any, sender: Any, **only: Any
) -> tuple[Any, Any]:
    """Begin `second` while `first` is in the middle; return what came of both."""
    results: tuple[list[Any], list[Any]] = [], []
    with hold_at(signal, sender, **only) as (has_come, may_go):
        one = begin(first, results[0])
        assert has_come.wait(60)
        two = begin(second, results[1])
        until(lambda: is_waiting() or not two.is_alive())
        may_go.set()
        one.join(60)
        two.join(60)
    return results[0][0], results[1][0]


@pytest.fixture
def net(site: Site) -> Workload:
    row: Workload = WorkloadFactory(
        name="net", kind="cnn", parameters={"batch_size": 16}, owner=site.workload.owner
    )
    return row


def launch(draft: Experiment) -> str:
    """Launch as a page does that has read the draft before; return why not."""
    try:
        lifecycle.launch(draft, draft.owner)
    except lifecycle.NotLaunchable as refusal:
        return str(refusal)
    return ""


def press_save(client: Client, draft: Experiment, sent: dict[str, Any]) -> Any:
    address = reverse("experiment_edit", args=[draft.pk])
    return client.post(address, sent | {"action": "save"})


def make_draft(client: Client, site: Site, **changes: Any) -> Experiment:
    client.post(NEW, asked(site, **changes) | {"action": "save"})
    return Experiment.objects.latest("pk")


def test_a_launch_freezes_what_a_save_in_between_has_stored(as_owner: Client, site: Site) -> None:
    draft = make_draft(as_owner, site, repeats=5)
    saved, refusal = race(
        lambda: press_save(as_owner, draft, asked(site, repeats=7)),
        lambda: launch(draft),
        post_save,
        Experiment,
    )
    assert (saved.status_code, refusal) == (302, "")
    stored = Experiment.objects.get(pk=draft.pk)
    assert stored.launched_at
    assert (stored.repeats, stored.plan["repeats"], draft.repeats) == (7, 7, 7)
    assert stored.jobs.count() == 7


def test_a_save_changes_nothing_that_a_launch_has_frozen(as_owner: Client, site: Site) -> None:
    draft = make_draft(as_owner, site, repeats=5)
    refusal, answer = race(
        lambda: launch(draft),
        lambda: press_save(as_owner, draft, asked(site, repeats=7, question="Another?")),
        post_save,
        Event,
    )
    assert (refusal, answer.status_code) == ("", 403)
    stored = Experiment.objects.get(pk=draft.pk)
    assert (stored.repeats, stored.question) == (5, draft.question)
    assert stored.plan["repeats"] == 5


def test_a_draft_is_launched_once(as_owner: Client, site: Site) -> None:
    draft = make_draft(as_owner, site)
    again = Experiment.objects.get(pk=draft.pk)
    outcome = race(lambda: launch(draft), lambda: launch(again), post_save, Event)
    assert outcome == ("", "This experiment has been launched already.")
    assert Event.objects.filter(what="launched").count() == 1


def test_a_workload_stays_as_a_launch_in_between_has_frozen_it(
    people: People, as_owner: Client, site: Site, net: Workload
) -> None:
    Workload.objects.filter(pk=net.pk).update(owner=people.owner)
    draft = make_draft(as_owner, site, workloads=[net.pk])
    address = reverse("workload_edit", args=[net.pk])
    form = as_owner.get(address).context["form"]
    sent = {name: form[name].value() for name in form.fields if form[name].value() is not None}
    sent |= {"name": "net", "batch_size": 128}
    assert not type(form)(sent, instance=net, kind="cnn", user=people.owner).errors
    refusal, answer = race(
        lambda: launch(draft), lambda: as_owner.post(address, sent), post_save, Event
    )
    assert (refusal, answer.status_code) == ("", 302)
    stored = Workload.objects.get(pk=net.pk)
    frozen = Experiment.objects.get(pk=draft.pk).plan["workloads"][str(net.pk)]
    assert stored.parameters["batch_size"] == frozen["parameters"]["batch_size"] == 16


def test_a_variant_that_goes_meanwhile_is_not_refreshed(
    as_owner: Client, site: Site, net: Workload
) -> None:
    draft = save(as_owner, site, net, "batch_size: 32, 64")
    row = Workload.objects.get(pk=net.pk)
    outcome = race(
        lambda: store_sweeps(draft, [net], {net.pk: "batch_size: 64"}),
        lambda: refresh_variants(row),
        post_delete,
        Workload,
    )
    assert outcome == (None, None)
    assert names(draft) == ["net batch_size=64"]


def test_a_clone_keeps_the_variants_that_its_source_gives_up(
    as_owner: Client, site: Site, net: Workload
) -> None:
    draft = save(as_owner, site, net, "batch_size: 32, 64")
    clone = reverse("experiment_clone", args=[draft.pk])
    answer, dropped = race(
        lambda: as_owner.post(clone),
        lambda: store_sweeps(draft, [net], {net.pk: "batch_size: 64"}),
        m2m_changed,
        Experiment.workloads.through,
        action="post_add",
    )
    assert (answer.status_code, dropped) == (302, None)
    assert names(Experiment.objects.latest("pk")) == ["net batch_size=32", "net batch_size=64"]
    assert names(draft) == ["net batch_size=64"]


def test_two_drafts_sweep_one_workload_at_once(as_owner: Client, site: Site, net: Workload) -> None:
    first, second = (make_draft(as_owner, site, question=text) for text in ("One?", "Two?"))

    def sweep(draft: Experiment) -> Any:
        sent = asked(site, workloads=[net.pk], question=draft.question)
        return press_save(as_owner, draft, sent | {f"sweep_{net.pk}": "batch_size: 32"})

    outcome = race(
        lambda: sweep(first),
        lambda: sweep(second),
        m2m_changed,
        Experiment.workloads.through,
        action="post_add",
    )
    assert [answer.status_code for answer in outcome] == [302, 302]
    assert names(first) == names(second) == ["net batch_size=32"]
    assert Workload.objects.filter(parent=net).count() == 1
    drop_unused([net.pk])
    assert Workload.objects.filter(parent=net).count() == 1


def test_renamed_in_the_administration_a_workload_renames_its_variants(
    as_owner: Client, people: People, site: Site, net: Workload
) -> None:
    draft = save(as_owner, site, net, "batch_size: 32")
    as_admin = people.client("admin")
    address = reverse("admin:experiments_workload_change", args=[net.pk])
    form = as_admin.get(address).context["adminform"].form
    sent = {name: form[name].value() for name in form.fields if form[name].value() is not None}
    answer = as_admin.post(address, sent | {"name": "mesh"})
    assert answer.status_code == 302
    assert names(draft) == ["mesh batch_size=32"]
    assert launch(draft) == ""
    answer = as_admin.post(address, sent | {"name": "net"})
    assert "A launched experiment holds mesh: it stays as it was measured" in (
        answer.content.decode()
    )
    assert names(draft) == ["mesh batch_size=32"]


def test_a_copy_of_data_that_a_launch_reads_is_not_forgotten_meanwhile(
    as_owner: Client, site: Site, net: Workload
) -> None:
    copy = DataCopyFactory(cluster=site.cluster)
    Workload.objects.filter(pk=net.pk).update(
        data_set=copy.data_set, parameters={"data": "mnist", "data_directory": "{data}"}
    )
    draft = make_draft(as_owner, site, workloads=[net.pk])
    refusal, problem = race(
        lambda: launch(draft), lambda: copies.forget(copy, copy.owner), post_save, Event
    )
    assert (refusal, str(problem)) == ("", f"An experiment that has not ended reads {copy}.")
    frozen = Experiment.objects.get(pk=draft.pk).plan["workloads"][str(net.pk)]
    assert frozen["parameters"]["data_directory"] == copy.path
