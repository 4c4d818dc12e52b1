"""The shapes that the documents of a bundle must have, and the values in them. No database."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

from experiments.imports.problems import ImportProblem
from runners.untrusted import (
    Damaged,
    Number,
    Rows,
    Shape,
    Table,
    Text,
    Whole,
    validate,
)

KEY = r"[1-9]\d{0,17}"
DIGEST = r"[0-9a-f]{64}"
UID = Text(32, r"[0-9a-f]{32}")
MOST_STEPS = 2**31 - 1
LARGEST_SMALL = 32_767
MOMENT = Text(40)
ONE_KEY = Text(18, KEY)
NAMES = Table(others=Text(100, r".*\S.*"))

ABOUT = Table(
    {
        "site": Text(500),
        "experiment": Text(30),
        "question": Text(300, r"(?s).*\S.*"),
        "owner": Text(150),
        "machine": Table(
            {
                "cluster": Text(100, r".*\S.*"),
                "partition": Table(
                    {
                        "name": Text(100),
                        **dict.fromkeys(
                            ("nodes", "gpus_per_node", "cpus_per_node"), Whole(0, MOST_STEPS)
                        ),
                        "gpu_model": Text(100),
                    },
                    needed=("name",),
                ),
            }
        ),
        **dict.fromkeys(("launched_at", "cancelled_at", "imported_at"), MOMENT),
        "stopped_at_look": Whole(1, LARGEST_SMALL),
        "imported_from": Text(300),
        "import_hash": Text(64),
        "plan_hash": Text(64),
        "order_seed": Whole(),
        "extended_repeats": Whole(1, 1000),
        "extension_level": Number(0, 1),
        "method": Text(64),
        "workloads": NAMES,
        "environments": NAMES,
        "programs": Table(
            others=Table(
                {
                    "kind": Text(30),
                    "parameters": Table(),
                    "time_limit_seconds": Whole(0, MOST_STEPS),
                },
                needed=("kind", "parameters"),
            )
        ),
        "tools": Table(others=Text(50)),
        "citation": Table(
            {
                "title": Text(300),
                "licence": Text(80),
                "doi": Text(200),
                "doi_published_at": MOMENT,
                "authors": Rows(
                    Table(
                        dict.fromkeys(("family", "given", "orcid", "affiliation"), Text(300)),
                        needed=("family",),
                    )
                ),
            }
        ),
        "reproduces": Table(
            {
                "plan_hash": Text(64, DIGEST),
                "workloads": Table(others=ONE_KEY),
                "environments": Table(others=ONE_KEY),
                "differences": Rows(Text(5000)),
            },
            needed=("plan_hash", "workloads", "environments"),
        ),
        "definition": Table(
            {"after_repeats": Rows(Whole(1, 1000)), "baseline": Text(20, KEY)},
            needed=("after_repeats", "baseline"),
        ),
    },
    needed=("question", "owner", "workloads", "environments", "definition", "method"),
)
ENVIRONMENT = Table(
    {
        **dict.fromkeys(("runtime", "mode", "python"), Text(500)),
        **dict.fromkeys(("binds", "setup_lines"), Rows(Text(5000))),
        "variables": Rows(Rows(Text(100_000))),
    }
)
DATA_SET = Table(
    {
        "name": Text(100),
        "digest": Text(71, f"sha256:{DIGEST}"),
        "path": Text(500),
        "licence": Text(200),
        "source": Text(500),
        "manifest": Text(5000),
        "proof": Text(10),
        **dict.fromkeys(("files", "bytes"), Whole()),
    },
    needed=("name", "digest", "path"),
)
CODE = Table(
    {
        "source": Text(100),
        "digest": Text(71, f"sha256:{DIGEST}"),
        "path": Text(500),
        "left_out": Table(),
        **dict.fromkeys(("files", "bytes"), Whole()),
    },
    needed=("source", "digest", "path"),
)
WORKLOAD = Table(
    {
        "kind": Text(30),
        "parameters": Table(),
        "data_set": DATA_SET,
        "code": CODE,
        "time_limit_seconds": Whole(0, MOST_STEPS),
    },
    needed=("kind", "parameters"),
)
PLAN = Table(
    {
        "cluster": Table({"name": Text(100)}),
        "partition": Text(100),
        "workloads": Table(others=WORKLOAD),
        "environments": Table(others=ENVIRONMENT),
        "order_seed": Whole(),
        "payload": Text(64),
        "reject": Table(),
        "cooldown_seconds": Whole(0, MOST_STEPS),
        "further_metrics": Rows(Table({"metric": Text(100)}, needed=("metric",))),
        "parity": Table(others=Table()),
    },
    needed=("workloads", "environments", "order_seed"),
)
RUN = Table(
    {
        "run": UID,
        "job": UID,
        "repairs_job": UID,
        **dict.fromkeys(("block", "repeat", "attempt"), Whole(1, MOST_STEPS)),
        "position": Whole(0, MOST_STEPS),
        **dict.fromkeys(("workload_key", "environment_key"), Text(18, KEY)),
        "scale": Text(40, r"\S.*"),
        "state": Text(12, "succeeded|failed|cancelled|excluded"),
        "reason": Text(40),
        "message": Text(100_000),
        "exit_code": Whole(-MOST_STEPS, MOST_STEPS),
        "node": Text(255),
        **dict.fromkeys(("began_at", "ended_at", "job_ended_at"), MOMENT),
        "scheduler_id": Text(100),
        **dict.fromkeys(("snapshot", "job_snapshot"), Text(64, DIGEST)),
        "command": Text(200_000),
        "phases": Table(),
        "measurements": Table(
            others=Table({"unit": Text(30), "source": Text(60)}, needed=("value", "unit"))
        ),
        **dict.fromkeys(("not_measured", "measured_within"), Table(others=Text(10_000))),
        "steps": Table(
            others=Table(
                {
                    "unit": Text(30),
                    "shape": Text(20),
                    **dict.fromkeys(("block_steps", "warm_up", "burn_in"), Whole(0, MOST_STEPS)),
                    "settled_mean": Number(),
                },
                needed=("unit",),
            )
        ),
        "nodes": Rows(Text(255)),
        "job_facts": Table(
            {
                "state": Text(12, "done|failed|cancelled"),
                "reason": Text(40),
                "message": Text(100_000),
                "exit_code": Whole(-MOST_STEPS, MOST_STEPS),
                **dict.fromkeys(("submitted_at", "started_at"), MOMENT),
                "node": Text(255),
                "excluded_nodes": Rows(Text(255)),
            }
        ),
        "files_left_on_the_cluster": Rows(
            Table({"path": Text(5000), "size_bytes": Whole(), "sha256": Text(64)}, needed=("path",))
        ),
    },
    needed=(
        *("run", "job", "block", "repeat", "position", "workload_key", "environment_key"),
        *("scale", "state", "measurements", "steps"),
    ),
)
RECORD = Table(
    {
        "output": Table(
            {"bytes": Whole(), "left_out_bytes": Whole(), "sha256": Text(64, f"({DIGEST})?")}
        ),
        "command_inside": Rows(Text(200_000)),
        "loaded_was_read": Table(),  # as it came: "own" is yes or no, the rest are seconds
        "files": Rows(
            Table(
                {"path": Text(5000), "bytes": Whole(), "sha256": Text(64)},
                needed=("path", "bytes"),
            )
        ),
        "files_left_out": Whole(0, MOST_STEPS),
    },
    needed=("output", "files"),
)
EVENT = Table(
    {
        "at": MOMENT,
        "what": Text(100, r"(?s).*\S.*"),
        "why": Text(100_000),
        "by": Text(150),
        **dict.fromkeys(("run", "job"), UID),
    },
    needed=("at", "what"),
)
LISTED = Rows(Table())
FACTS = Table(others=Table(others=Text(100_000)))


def read_shape(name: str, content: Any, shape: Shape) -> Any:
    """Return a document of this shape. Raises ImportProblem, which names it, for any other."""
    try:
        return validate(content, shape)
    except Damaged as problem:
        raise ImportProblem(f"{name}: {problem}.") from None


def read_unchanged(name: str, content: Any, shape: Shape) -> Any:
    """Return a document that a hash stands for. Raises ImportProblem if it cannot be kept as is."""
    known = read_shape(name, content, shape)
    if known != content:
        raise ImportProblem(f"{name} holds characters that no database keeps.")
    return content


def read_moment(name: str, text: str | None) -> datetime | None:
    """Return a time with its zone; None for none. Raises ImportProblem for anything else."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        offset = moment.utcoffset()
    except ValueError:
        offset = None
    if offset is None or not 1970 <= moment.year <= 2999:
        raise ImportProblem(f"{name}: {text[:40]!r} is no time that says its zone.")
    return moment


def read_number(name: str, value: Any) -> float:
    """Return a number: as a bundle writes it NaN and the infinities are texts."""
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is int and abs(value) <= 2**63:
        return float(value)
    if value in ("nan", "inf", "-inf", "NaN", "Infinity", "-Infinity"):
        return float(value)
    raise ImportProblem(f"{name}: {repr(value)[:40]} is no number.")


def read_steps(name: str, metric: Any) -> tuple[list[float], list[int] | None]:
    """Return the values of a series, and the last step that each is the mean of."""
    if not isinstance(metric, dict) or not isinstance(metric.get("values"), list):
        raise ImportProblem(f"{name} has no values.")
    values = [read_number(name, value) for value in metric["values"]]
    steps = metric.get("steps")
    if steps is None:
        return values, None
    is_list = isinstance(steps, list) and all(type(step) is int for step in steps)
    if (
        not is_list
        or len(steps) != len(values)
        or any(a >= b for a, b in zip([0, *steps], steps, strict=False))
        or (steps and steps[-1] > MOST_STEPS)
    ):
        raise ImportProblem(f"{name}: its steps are not numbers that grow, one for each value.")
    return values, steps
