"""The tasks that `experiments.notify` enqueues. Each may safely run twice, late or never."""

from __future__ import annotations

from django.db import close_old_connections

from experiments import execution
from experiments.comparisons import keep_comparison
from experiments.deposits import deposit_bundle
from experiments.execution.stored_values import store_changed_values
from experiments.models import CheckReport, StagedImage
from experiments.notifications import deliver as deliver_to
from experiments.notifications import list_due_people, watch_experiment
from experiments.notify import (
    enqueue_deliver,
    enqueue_find_changes,
    enqueue_tick,
    hand_over_tick,
)
from experiments.recurring import note_and_tell, request_after_changes


def tick(cluster_pk: int) -> str:
    """Visit a cluster, or have the process do so that has the connection to it.

    A worker lives long: a connection to the database that broke meanwhile is dropped first.
    """
    close_old_connections()
    if visitor := execution.find_visitor(cluster_pk):
        hand_over_tick(cluster_pk, visitor)
        return "handed over"
    return execution.tick(cluster_pk)


def check(pk: int) -> str:
    """Make a check that was asked for; then look after the cluster's jobs, if they waited."""
    close_old_connections()
    outcome = execution.check(pk)
    cluster_pk = CheckReport.objects.values_list("cluster_id", flat=True).get(pk=pk)
    enqueue_tick(cluster_pk)
    enqueue_find_changes(cluster_pk)
    return outcome


def fetch_host_key(pk: int) -> str:
    """Fetch the host key of a cluster that was requested."""
    close_old_connections()
    return execution.fetch_host_key(pk)


def test_connection(pk: int) -> str:
    """Run the connection test that was requested."""
    close_old_connections()
    return execution.test_connection(pk)


def read_cluster(pk: int) -> str:
    """Ask a host for its key, or a cluster for what it offers, as was requested."""
    close_old_connections()
    return execution.read_cluster(pk)


def send(pk: int) -> str:
    """Send an image's archive to its cluster, however long that takes."""
    close_old_connections()
    outcome = execution.send(pk)
    enqueue_tick(StagedImage.objects.values_list("cluster_id", flat=True).get(pk=pk))
    return outcome


def receive(pk: int) -> str:
    """Fetch an image that somebody wants in the catalogue."""
    close_old_connections()
    return execution.receive(pk)


def copy_file(pk: int) -> str:
    """Fetch a copy of a run's file, however long that takes."""
    close_old_connections()
    return execution.copy_file(pk)


def keep(pk: int) -> str:
    """Compute an experiment's comparison and keep it, for the pages; tell of its verdicts."""
    close_old_connections()
    outcome = keep_comparison(pk)
    note_and_tell(pk)
    watch_experiment(pk)
    return outcome


def store_values(_: int) -> str:
    """Store the values of all experiments whose runs have changed; the key is not used."""
    close_old_connections()
    return f"stored of {store_changed_values()}"


def deposit(pk: int) -> str:
    """Deposit a bundle where the site deposits them, however long that takes."""
    close_old_connections()
    return deposit_bundle(pk)


def watch(pk: int) -> str:
    """Tell an experiment's owner what has become of it."""
    close_old_connections()
    return watch_experiment(pk)


def recur(pk: int) -> str:
    """Launch a recurring experiment once more, if that is due."""
    close_old_connections()
    return execution.launch_recurrence(pk)


def find_changes(cluster_pk: int) -> str:
    """Ask for recurrences where a cluster is other than the last ones have seen it."""
    close_old_connections()
    asked = request_after_changes(cluster_pk)
    return f"asked for {len(asked)}"


def deliver(person_pk: int) -> str:
    """Send what a person is to be told, outside of Tare; then somebody else is next."""
    close_old_connections()
    way = deliver_to(person_pk)
    if not way:
        return "nothing to send"
    for pk in list_due_people(way):
        enqueue_deliver(pk)
    return way
