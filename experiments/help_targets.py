"""Where the documents explain the fields of forms and the panels of pages: `document#anchor`.

One table for all pages, those of the administration too. A test follows every entry.
"""

from __future__ import annotations

from collections.abc import Iterable

_ADDRESS = "clusters#address-and-login"
_JOBS = "clusters#how-jobs-run"
_LIMITS = "clusters#limits"
_PARTITIONS = "clusters#partitions"
_RETENTION = "clusters#job-directories-on-its-disk"
_RUNTIMES = "runtimes#notes-for-administrators"
_VISIBILITY = "permissions#visibility"

FIELDS: dict[str, dict[str, str]] = {
    "ExperimentForm": {
        "question": "experiments#question",
        "cluster": "experiments#cluster-and-partition",
        "partition": "experiments#cluster-and-partition",
        "workloads": "experiments#workloads",
        "environments": "experiments#environments-and-the-baseline",
        "baseline": "experiments#environments-and-the-baseline",
        "scales": "experiments#scales",
        "repeats": "experiments#repeats",
        "looks": "experiments#interim-analyses",
        "goal": "experiments#margin",
        "margin": "experiments#margin",
        "margin_faster": "experiments#margin",
        **dict.fromkeys(("accuracy_margin", "loss_margin"), "experiments#margins-of-training"),
        "estimand": "experiments#nodes",
        "spreads_nodes": "experiments#nodes",
        "primary_metric": "experiments#primary-metric",
        **dict.fromkeys(
            (
                "metrics_rule",
                *(f"metric_{place}" for place in (2, 3, 4)),
                *(f"margin_{place}" for place in (2, 3, 4)),
                *(f"margin_faster_{place}" for place in (2, 3, 4)),
            ),
            "experiments#further-decisive-metrics",
        ),
        "design": "experiments#design",
        "warm_up": "experiments#warm-up",
        "cooldown_seconds": "experiments#cool-down-between-runs",
        "output_mib": "experiments#output-kept-of-a-run",
        **dict.fromkeys(
            (
                "reject_below_mhz",
                "reject_others",
                "reject_others_cpus",
                "reject_swap",
                "reject_throttled",
                "rejected_again",
            ),
            "experiments#rejected-runs",
        ),
        "visibility": "experiments#visibility",
        "groups": "experiments#visibility",
    },
    "ClusterForm": {
        "name": "clusters#add-a-cluster",
        "enabled": _JOBS,
        "visibility": _VISIBILITY,
        "groups": _VISIBILITY,
        "users": "clusters#keys",
        **dict.fromkeys(
            ("transport", "host", "port", "host_key", "jump_host", "credential"), _ADDRESS
        ),
        **dict.fromkeys(("scheduler", "work_directory", "setup_lines"), _JOBS),
        **dict.fromkeys(
            (
                "max_live_jobs",
                "poll_seconds",
                "max_submissions_per_minute",
                "max_connections_per_hour",
                "max_gpu_hours_per_month",
            ),
            _LIMITS,
        ),
        **dict.fromkeys(("retention_days", "removes_uncopied"), _RETENTION),
    },
    "PartitionForm": {
        **dict.fromkeys(
            (
                *("name", "nodes", "gpus_per_node", "gpu_model", "gres", "cpus_per_node"),
                *("cpus_per_run", "memory_mb", "time_limit_minutes", "account", "qos"),
                *("side_by_side", "directives", "enabled"),
            ),
            _PARTITIONS,
        ),
        **dict.fromkeys(("srun_options", "mpirun_options"), "clusters#launchers"),
    },
    "RuntimeForm": dict.fromkeys(
        ("kind", "executable", "version", "options", "setup_lines"), _RUNTIMES
    ),
}
"""By the name of the form's class, then of the field."""

PANELS: dict[str, dict[str, str]] = {
    "experiment form": {
        "cost": "experiments#cost",
        "power": "experiments#statistical-power",
    },
    "comparison": {
        "matrix": "comparison-page#verdicts",
        "forest": "comparison-page#forest-plot",
        "verdicts": "comparison-page#verdicts-in-words",
        "reproduction": "reproducing#the-verdict",
        "runs": "comparison-page#runs",
        "blocks": "comparison-page#blocks",
        "run_order": "comparison-page#run-order",
        "equivalence": "comparison-page#equivalence-curve",
        "steps": "comparison-page#inside-the-runs",
        "bars": "comparison-page#ratios-as-bars",
        "scaling": "comparison-page#scaling",
        "between_workloads": "comparison-page#between-workloads",
        "training": "comparison-page#training-equivalence",
        "accuracy": "comparison-page#accuracy",
        "steadiness": "comparison-page#steadiness",
        "variance": "comparison-page#components-of-variance",
        "anatomy": "comparison-page#phases",
        "full_results": "comparison-page#full-results",
        "sides": "comparison-page#side-by-side",
        "facts": "comparison-page#facts-compared",
        "exclusions": "comparison-page#excluded-runs",
        "rejections": "comparison-page#rejected-runs",
        "warm_up": "comparison-page#warm-up",
        "robustness": "comparison-page#robustness",
        "methods": "comparison-page#methods",
        "table_text": "comparison-page#the-table-as-it-was-given",
        "export": "comparison-page#export",
    },
    "recurring": {
        "rule": "experiments#over-time",
        "charts": "statistics#over-time",
        "commits": "experiments#on-a-commit",
        "false_alarms": "statistics#over-time",
    },
    "reproduction": {"form": "reproducing#before-the-launch"},
    "study": {"study": "experiment-files#studies"},
    "studies": {
        "studies": "comparison-page#across-experiments",
        "summary": "statistics#across-experiments",
    },
}
"""By the page, then by the name of the panel."""


def find_field_help(form_names: Iterable[str], field: str) -> str | None:
    """Return the place for a field of the first form that the table names."""
    for name in form_names:
        if field in FIELDS.get(name, {}):
            return FIELDS[name][field]
    return None


def find_panel_help(page: str, panel: str) -> str | None:
    """Return the place for a panel of a page, None if the documents have none."""
    return PANELS.get(page, {}).get(panel)


def split_target(target: str) -> tuple[str, str]:
    """Return the document's name and the anchor of a place."""
    name, _, anchor = target.partition("#")
    return name, anchor
