"""Storing what a node did while runs ran, as its job sampled it."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.execution.run_ends import RunEnd
from experiments.models import NodeSamples
from runners.node_samples import describe_run


def keep_samples(ends: Sequence[RunEnd]) -> None:
    """Store the samples of runs, in place of those of an earlier attempt.

    They are about the node that the job script runs on, and belong to the run in whose time, by the
    journal, they were taken.
    """
    rows = []
    for end in ends:
        run_record, record = end.run_record, end.record
        if not run_record or not record or not record.samples or run_record.began is None:
            continue
        samples = record.node_samples
        # A run that was killed together with its script ends with the last sample.
        ended = run_record.ended or max(samples.times, default=0.0)
        if content := describe_run(samples, run_record.began, ended):
            rows.append(NodeSamples(run=end.run, content=content))
    anew = [end.run.pk for end in ends if end.run_record and end.run.job.attempt > 1]
    if anew:
        NodeSamples.objects.filter(run__in=anew).delete()
    if rows:
        NodeSamples.objects.bulk_create(
            rows, update_conflicts=True, unique_fields=["run"], update_fields=["content"]
        )
