"""What was added to an experiment after its verdict, for paragraphs on methods and for files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC
from typing import Any

from experiments.comparisons import ExperimentComparison
from experiments.models import Experiment, Extension
from experiments.statistics import Stamp, numbers


def describe_extension(comparison: ExperimentComparison) -> Iterator[str]:
    """Yield one paragraph where an experiment was extended: by whom, after what, and how judged."""
    experiment, stage = comparison.experiment, comparison.stage
    if not experiment.extended_repeats:
        return
    extension = _read(experiment)
    if extension is None:
        return
    known = Counter(row["verdict"] for row in extension.plan["verdicts_before"])
    counts = numbers.listed([f"{count:,} {verdict}" for verdict, count in known.items()])
    blocks = len(extension.plan["blocks"])
    jobs = f"{numbers.count(blocks, 'job')} in random order (seed {extension.plan['order_seed']})"
    reasons = [
        f"{group.name}, {pair.environment}: {reason}"
        for group in comparison.groups
        for pair in group.pairs
        for stamp, reason in zip(pair.stamps, pair.reasons, strict=True)
        if stamp is Stamp.EXTENDED
    ]
    program = ""
    if extension.plan["payload"] != (experiment.plan or {}).get("payload"):
        program = " They were run by another version of the programs that travel with a job."
    yield " ".join(
        (
            f"The experiment was extended by {numbers.count(experiment.extended_repeats, 'repeat')}"
            f" ({jobs}) on {extension.extended_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC by "
            f"{extension.who}, after its verdicts were known ({counts}), which the plan "
            f"did not have (plan of the extension {extension.plan_hash[:12]}).{program} Verdicts "
            f"of the first {stage.after_repeats[0]} repeats at 0.05 stand; the comparisons that "
            "were open are judged with all repeats at the two-sided level "
            f"{stage.extension_level:g}, that of two planned analyses at these shares of the data "
            "(Pocock 1977).",
            *reasons,
        )
    )


def list_extension_facts(experiment: Experiment) -> dict[str, Any] | None:
    """Return what an exported file says of an extension; None where there was none."""
    extension = _read(experiment) if experiment.extended_repeats else None
    if extension is None:
        return None
    return {
        "extended_at": extension.extended_at,
        "extended_by": extension.who,
        "plan_hash": extension.plan_hash,
        "plan": extension.plan,
    }


def _read(experiment: Experiment) -> Extension | None:
    rows = Extension.objects.select_related("extended_by")
    return rows.filter(experiment=experiment.pk).first()
