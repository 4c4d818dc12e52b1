"""The points of a recurring experiment's charts as rows for files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from experiments.recurring import History
from experiments.statistics.control_charts import FALSE_ALARMS, FEWEST, MOST


def list_point_rows(history: History) -> Iterator[dict[str, Any]]:
    """Yield a row for each chart and recurrence: the value, and the limits that judged it."""
    recurrences = {row.number: row for row in history.recurrences}
    for chart in history.charts:
        for point in chart.points:
            row, limits = recurrences[point.number], point.limits
            yield {
                "recurrence": point.number,
                "experiment": row.experiment_id,
                "launched_at": row.launched_at.isoformat(),
                "reason": row.reason,
                "commit": row.commit,
                "configuration": chart.configuration,
                "chart": "ratio" if chart.is_ratio else "level",
                "environment": chart.environment,
                "baseline": chart.baseline,
                "metric": chart.metric,
                "unit": chart.unit,
                "value": point.value,
                "low": limits.low if limits else None,
                "centre": limits.centre if limits else None,
                "high": limits.high if limits else None,
                "limits_of": limits.values if limits else 0,
                "outside": point.is_outside,
                "problem": point.problem,
                "verdict": point.verdict,
                "stamps": "; ".join(point.stamps),
                "decisive": not chart.is_requested,
            }


def describe_page(history: History) -> dict[str, Any]:
    """Return all that the page shows, for a JSON file."""
    row = history.recurring
    return {
        "question": row.question,
        "plan_of_experiment": row.source_id,
        "plan_hash": row.source.plan_hash,
        "every_days": row.every_days,
        "most_recurrences": row.most_recurrences,
        "ends_at": row.ends_at,
        "stopped_at": row.stopped_at,
        "limits_from": row.limits_from,
        "charted_metrics": row.charted_metrics,
        "method": {
            "chart": "individuals on the log scale, Student's prediction limits",
            "fewest_values": FEWEST,
            "fixed_after": MOST,
            "false_alarms_a_recurrence": FALSE_ALARMS,
            "level_of_each_chart": history.alpha,
        },
        "recurrences": [
            {
                "number": each.number,
                "experiment": each.experiment_id,
                "launched_at": each.launched_at,
                "reason": each.reason,
                "commit": each.commit,
                "detail": each.detail,
                "differences": each.differences,
                "changes": each.changes,
                "outside": history.outside.get(each.number, []),
                "problem": each.problem,
                "computed_by": each.method,
            }
            for each in history.recurrences
        ],
        "points": list(list_point_rows(history)),
    }
