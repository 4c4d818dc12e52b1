"""Blocks that a second job has completed: their runs are further apart in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from experiments.models import Experiment
from experiments.statistics import Pair, Sample
from experiments.statistics.numbers import count


@dataclass(frozen=True)
class SecondJob:
    """A job that ran the rest of a block."""

    pk: int
    node: str
    """The node that it requested; "" where any was allowed."""


def count_repaired_blocks(experiment: Experiment) -> tuple[int, int]:
    """Return how many blocks have runs of several jobs, and how many of those on any node.

    Where all of a block was run again together, its runs are of one job as in any other.
    """
    later = experiment.jobs.exclude(repairs=None)
    runs = experiment.runs.filter(job__block__in=later.values("block"))
    nodes = runs.order_by().values_list("job__block", "job", "job__repairs", "job__node").distinct()
    blocks: dict[int, list[bool]] = {}
    for block, _, repairs, node in nodes:
        blocks.setdefault(block, []).append(repairs is not None and not node)
    several = [any_node for any_node in blocks.values() if len(any_node) > 1]
    return len(several), sum(map(any, several))


def map_runs_to_second_jobs(experiment: Experiment) -> dict[str, SecondJob]:
    """Return the jobs of the runs that second jobs have run, by the uid of the run. One query."""
    rows = experiment.runs.exclude(job__repairs=None).values_list("uid", "job", "job__node")
    return {uid: SecondJob(pk, node) for uid, pk, node in rows}


def why_across_jobs(
    pair: Pair, samples: Sequence[Sample], second_jobs: Mapping[str, SecondJob]
) -> str:
    """Return a sentence on the blocks whose two runs of a pair are of two jobs; "" for none."""
    runs = {(sample.block, sample.environment): sample.run for sample in samples}
    blocks = any_node = 0
    for (block, environment), run in runs.items():
        other = runs.get((block, pair.baseline))
        if environment != pair.environment or other is None:
            continue
        jobs = second_jobs.get(run), second_jobs.get(other)
        if jobs[0] == jobs[1]:
            continue
        blocks += 1
        any_node += any(job is not None and not job.node for job in jobs)
    if not blocks:
        return ""
    allowed = f" For {any_node} of them any node was allowed." if any_node else ""
    return (
        f"In {count(blocks, 'block')} the two runs were of two jobs, because the first one ended "
        "before all of its runs had begun, or rules of the plan rejected some: they are further "
        f"apart in time than others.{allowed}"
    )
