"""What is posted to webhooks: one notification as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from experiments.comparisons.kept import read_comparison
from experiments.models import (
    Experiment,
    NotificationDelivery,
    NotificationKind,
    NotificationMessage,
)
from experiments.notifications.notice_texts import describe_notification, write_address

MOST_VERDICTS = 200


def write_body(message: NotificationMessage, row: NotificationDelivery) -> str:
    """Return the body that is posted about a notification, as JSON."""
    text = describe_notification(row)
    event: dict[str, Any] = {
        "id": str(message.uid),
        "kind": row.kind,
        "time": row.changed_at.isoformat(),
        "title": text.what,
        "about": text.title,
        "sentence": text.sentence,
        "address": write_address(text.address),
        "experiment": _describe_experiment(row.experiment),
    }
    if row.kind == NotificationKind.VERDICT and row.experiment:
        event |= _describe_verdicts(row.experiment)
    return json.dumps(event, ensure_ascii=False, allow_nan=False)


def _describe_experiment(experiment: Experiment | None) -> dict[str, Any] | None:
    if experiment is None:
        return None
    return {
        "number": experiment.pk,
        "question": experiment.question,
        "address": write_address(experiment.get_absolute_url()),
    }


def _describe_verdicts(experiment: Experiment) -> dict[str, Any]:
    """Return the verdicts of all pairs on all decisive metrics, as they are now; of many the first.

    Where several metrics decide, each says what all of them show together.
    """
    comparison = read_comparison(experiment)
    pairs = [
        (number, group, pair)
        for number, groups in enumerate(zip(*comparison.by_metric, strict=True), start=1)
        for group in groups
        for pair in group.pairs
    ]
    overalls = comparison.decisive
    return {
        "verdicts": [
            {
                "configuration": dict(group.configuration),
                "metric": group.metric.name,
                "environment": pair.environment,
                "baseline": pair.baseline,
                "verdict": str(pair.verdict),
                "ratio": _finite(pair.ratio),
                "interval": _list_finite(pair.ci95),
                **(
                    {"overall_verdict": str(overalls[number, pair.environment].verdict)}
                    if overalls
                    else {}
                ),
            }
            for number, group, pair in pairs[:MOST_VERDICTS]
        ],
        "verdicts_left_out": max(len(pairs) - MOST_VERDICTS, 0),
    }


def _list_finite(interval: Iterable[float] | None) -> list[float | None] | None:
    return [_finite(end) for end in interval] if interval else None


def _finite(value: float | None) -> float | None:
    """Return a number as JSON has it: none for what is infinite or no number."""
    return value if value is not None and math.isfinite(value) else None
