"""What an environment may be: the same rules for pages and administration."""

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
from runners.runtimes import RUNTIMES


def refusals(
    *,
    cluster: Cluster | None,
    runtime: Runtime | None,
    staged: StagedImage | None,
    mode: str,
    binds: Sequence[str],
) -> dict[str, str]:
    """Return why these parts do not make an environment, by the field to mend."""
    if bool(runtime) != bool(staged):
        missing = "staged_image" if runtime else "runtime"
        return {missing: "A runtime and an image go together; bare metal has neither."}
    found = {}
    for name, row in (("runtime", runtime), ("staged_image", staged)):
        if row and cluster and row.cluster_id != cluster.pk:
            found[name] = f"This is on {row.cluster}, not on {cluster}."
    kind = RUNTIMES[runtime.kind if runtime else "bare_metal"]
    if runtime and staged:
        if staged.format not in kind.formats:
            found["staged_image"] = f"{runtime.get_kind_display()} does not start {staged.format}."
        elif staged.mode and mode != staged.mode:
            found["mode"] = (
                f"The image was staged for mode {staged.mode}, and starts in no other. Stage it "
                "for another mode too, or choose this one."
            )
    return found | kind().refusals(mode, binds)


@dataclass(frozen=True)
class Uses:
    """Which experiments name a row of the catalogue; `hidden` ones its reader does not see."""

    launched: list[Experiment]
    drafts: list[Experiment]
    hidden: int

    @property
    def any(self) -> bool:
        return bool(self.launched or self.drafts or self.hidden)


def uses(row: Environment | Workload, reader: User) -> Uses:
    of_it = row.experiments.all()
    seen = list(Experiment.objects.visible_to(reader).filter(pk__in=of_it.values("pk")))
    return Uses(
        launched=[one for one in seen if not one.is_draft],
        drafts=[one for one in seen if one.is_draft],
        hidden=of_it.count() - len(seen),
    )


def why_not_delete(environment: Environment) -> str:
    """What stands against deleting it; empty if nothing does."""
    count = environment.experiments.count()
    if not count:
        return ""
    words = "an experiment names" if count == 1 else f"{count} experiments name"
    return f"{environment} stays: {words} it, drafts included."
