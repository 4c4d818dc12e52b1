"""Parity reports as a launch freezes them in the plan, and sentences on what they say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from experiments.models import Experiment
from experiments.software.parity_reports import ParityReport, join_names


def freeze_reports(reports: Iterable[ParityReport]) -> dict[str, Any]:
    """Return the reports as a launch stores them in the plan, by the environment's primary key."""
    return {
        str(report.environment.pk): {
            **({"itself": True} if report.is_itself else {}),
            "unknown": [
                f"{software.environment}: {software.why_not}" for software in report.unknown
            ],
            "looked_at": [
                software.inspection.inspected_at.isoformat()
                if software.inspection and software.is_known
                else None
                for software in (report.baseline, report.software)
            ],
            "differences": [
                {
                    "what": difference.what,
                    "here": difference.on_baseline,
                    "there": difference.in_environment,
                    "grade": str(difference.grade),
                    "reason": waiver.reason if waiver else "",
                    "by": str(waiver.by) if waiver else "",
                    "at": waiver.at.isoformat() if waiver else "",
                }
                for difference, waiver in report.rows
            ],
        }
        for report in reports
    }


def read_frozen(experiment: Experiment) -> dict[str, dict[str, Any]]:
    """Return the reports in the plan, by the environment's present name.

    Empty for plans that are older than parity reports, and for imports.
    """
    parity = (experiment.plan or {}).get("parity", {})
    if not parity:
        return {}
    rows = experiment.environments.all()
    names = {experiment.get_environment_key(row.pk): row.name for row in rows}
    return {names[key]: report for key, report in parity.items() if key in names}


def describe_known_differences(parity: Mapping[str, Any], *, own_program: bool = False) -> str:
    """Return a sentence on the differences of one environment that the plan has stored.

    `own_program`: the runs start a program of the user's, which no inspection sees.
    """
    if parity.get("itself"):
        return "Both are the same environment, measured twice (A/A)."
    if unknown := parity["unknown"]:
        return f"Software not compared before the launch: {'; '.join(unknown)}."
    if not parity["differences"]:
        day = max(parity["looked_at"])[:10]
        same = "Python, packages and libraries were" if own_program else "software was"
        return f"Before the launch the same {same} found on both sides (inspected {day})."
    count = len(parity["differences"])
    return (
        f"{count} difference{'s' * (count != 1)} in software "
        f"{'were' if count != 1 else 'was'} known before the launch, and waived."
    )


def describe_waivers(parity: Mapping[str, Any]) -> str:
    """Return sentences on what was waived, by whom and why; "" if nothing was."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for row in parity["differences"]:
        difference = f"{row['what']} ({row['here']} on the baseline, {row['there']} here)"
        groups.setdefault((row["reason"], row["by"], row["at"][:10]), []).append(difference)
    return " ".join(
        f"{join_names(rows)}: waived by {by} on {day}, “{reason}”."
        for (reason, by, day), rows in groups.items()
    )
