"""The rules for environments, the same for pages and administration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.models import (
    Cluster,
    Environment,
    Experiment,
    Runtime,
    StagedImage,
    User,
    Workload,
)
from experiments.planning.aa_tests import list_all_experiments
from experiments.planning.workloads import list_experiments
from runners.runtimes import RUNTIMES


def list_refusals(
    *,
    cluster: Cluster | None,
    runtime: Runtime | None,
    staged: StagedImage | None,
    mode: str,
    binds: Sequence[str],
) -> dict[str, str]:
    """Return why these parts do not make an environment, by the form field to correct."""
    if bool(runtime) != bool(staged):
        missing = "staged_image" if runtime else "runtime"
        return {missing: "A runtime and an image go together; bare metal has neither."}
    problems = {}
    for name, row in (("runtime", runtime), ("staged_image", staged)):
        if row and cluster and row.cluster_id != cluster.pk:
            problems[name] = f"This is on {row.cluster}, not on {cluster}."
    kind = RUNTIMES[runtime.kind if runtime else "bare_metal"]
    if runtime and staged:
        if staged.format not in kind.formats:
            problems["staged_image"] = (
                f"{runtime.get_kind_display()} does not start {staged.format}."
            )
        elif staged.mode and mode != staged.mode:
            problems["mode"] = (
                f"The image was staged for mode {staged.mode}, and starts in no other. Stage it "
                "for another mode too, or choose this one."
            )
    return problems | kind().find_refusals(mode, binds)


@dataclass(frozen=True)
class Uses:
    """The experiments that use a row of the catalogue, and how many are hidden from the reader."""

    launched: list[Experiment]
    drafts: list[Experiment]
    hidden: int

    @property
    def any(self) -> bool:
        return bool(self.launched or self.drafts or self.hidden)


def find_uses(row: Environment | Workload, reader: User) -> Uses:
    """Return the experiments that use an environment or a workload, as `reader` may see them."""
    experiments = list_experiments(row) if isinstance(row, Workload) else list_all_experiments(row)
    visible = list(Experiment.objects.visible_to(reader).filter(pk__in=experiments.values("pk")))
    return Uses(
        launched=[experiment for experiment in visible if not experiment.is_draft],
        drafts=[experiment for experiment in visible if experiment.is_draft],
        hidden=experiments.count() - len(visible),
    )


def why_not_edit(environment: Environment) -> str:
    """Return why an environment stays as it is, whoever asks; "" if it can be changed."""
    if environment.copy_of_id:
        return f"{environment} is a copy of {environment.copy_of}, and changes with it."
    if environment.recorded_tool or environment.cluster.recorded:
        return "It was imported with its runs, and stays as it was."
    return ""


def why_not_delete(environment: Environment) -> str:
    """Return why the environment cannot be deleted; "" if it can."""
    if environment.copy_of_id:
        return f"{environment} measures {environment.copy_of} a second time, and goes with it."
    count = list_all_experiments(environment).count()
    if not count:
        return ""
    subject = "an experiment names" if count == 1 else f"{count} experiments name"
    return f"{environment} stays: {subject} it, drafts included."
