"""The last step of adding a cluster: what is chosen of what was found there, judged and stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dashboard.clusters.new_cluster_forms import ClusterForm, PartitionRow
from experiments.clusters import cluster_drafts as drafts
from experiments.clusters import preflights
from experiments.clusters.cluster_updates import propose_partition
from experiments.models import Cluster, ClusterDraft, ClusterReading
from experiments.models.visibility import Visibility
from experiments.notify import enqueue_visit
from runners.cluster_reading.found import Found

USUAL_LIVE_JOBS, USUAL_POLL_SECONDS = 16, 5
READ_AGAIN = "The cluster was read again meanwhile: look at what was found now."
NO_PARTITION = "Choose at least one partition: jobs need one."
WRONG_PARTITION = "A partition’s numbers have to be corrected, below."


def make_cluster_form(
    draft: ClusterDraft, reading: ClusterReading, found: Found, data: Any = None
) -> ClusterForm:
    """Return the form of the cluster; at first it proposes what was found."""
    initial = {
        "name": draft.name,
        "reading": reading.pk,
        "visibility": Visibility.MEMBERS,
        "max_live_jobs": found.max_live_jobs or USUAL_LIVE_JOBS,
        "poll_seconds": found.poll_seconds or USUAL_POLL_SECONDS,
        "runtimes": [row.kind for row in found.runtimes],
    }
    return ClusterForm(data, found=found, initial=initial)


def make_partition_row(found: Found, number: int, data: Any = None) -> PartitionRow:
    """Return the form of a partition that was found; the default one is chosen at first."""
    row = found.partitions[number]
    is_only, proposed = len(found.partitions) == 1, propose_partition(row)
    return PartitionRow(
        data,
        found=row,
        scheduler=found.scheduler,
        prefix=f"partition-{number}",
        initial={
            "chosen": row.is_up and (row.is_default or is_only),
            "time_limit_minutes": proposed.time_limit_minutes,
            "cpus_per_run": proposed.cpus_per_run,
        },
    )


def make_partition_rows(found: Found, data: Any = None) -> list[PartitionRow]:
    """Return a form for each partition that was found."""
    return [make_partition_row(found, number, data) for number in range(len(found.partitions))]


def is_complete(form: ClusterForm, rows: Sequence[PartitionRow], reading: ClusterReading) -> bool:
    """Return whether all that was sent is valid and about the reading that is shown."""
    is_valid = all([form.is_valid(), *[row.is_valid() for row in rows]])
    if form.cleaned_data.get("reading") != reading.pk:
        form.add_error(None, READ_AGAIN)
        return False
    if not any(row.cleaned_data.get("chosen") for row in rows):
        form.add_error(None, NO_PARTITION)
        return False
    if not is_valid and not form.errors:
        form.add_error(None, WRONG_PARTITION)
    return is_valid


def add_cluster(
    draft: ClusterDraft, reading: ClusterReading, form: ClusterForm, rows: Sequence[PartitionRow]
) -> Cluster:
    """Store the cluster that was confirmed, and ask for its first check. Raises NotDone."""
    partitions = [row.make_partition() for row in rows if row.cleaned_data["chosen"]]
    runtimes = form.make_runtimes()
    made = drafts.add_cluster(draft, reading, form.make_cluster(draft), partitions, runtimes)
    enqueue_visit(preflights.request_check(made, draft.owner))
    return made
