"""The plan of a study whose jobs `benchmarks/by_hand.py` had written, before Tare carried jobs.

Jobs lie in folders CELL-REPEAT, runs are called CELL-REPEAT-ENVIRONMENT, each counted as the plan
has them. The order within a block was drawn from the plan's seed and the number of its cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from experiments.design import Scale, plan_blocks
from experiments.imports.problems import ImportProblem
from runners.untrusted import Damaged, Number, Rows, Table, Text, Whole, parse_document
from runners.workloads import WORKLOADS

LARGEST_PLAN = 1 << 20  # bytes
MOST_CELLS = 100
MOST_BLOCKS = 1000  # of a cell
WORDS = Rows(Text(5000))
ENVIRONMENT = Table(
    {
        **dict.fromkeys(("label", "runtime"), Text(100, r"\S.*")),
        **dict.fromkeys(("executable", "mode", "image_format", "image_path"), Text(500)),
        **dict.fromkeys(("image_digest", "python"), Text(500)),
        **dict.fromkeys(("options", "binds", "setup_lines"), WORDS),
        "variables": Rows(Rows(Text(5000))),
    },
    needed=("label", "runtime"),
)
CELL = Table(
    {
        "name": Text(100, r"\S.*"),
        "workload": Text(50),
        "scale": Text(40),
        "blocks": Whole(1, MOST_BLOCKS),
        "parameters": Table(),
        "metric": Text(100),
    },
    needed=("name", "workload", "scale", "blocks", "parameters"),
)
PLAN = Table(
    {
        "at": Text(400, r"/[^:,]*"),
        "gpus_on_node": Whole(0, 1000),
        "margin": Number(0.0001, 1),
        "seed": Whole(0, 2**31 - 1001),
        "environments": Rows(ENVIRONMENT),
        "cells": Rows(CELL),
    },
    needed=("at", "margin", "seed", "environments", "cells"),
)
LIMIT_SECONDS = 300  # of each run, as that program had it


@dataclass(frozen=True)
class Cell:
    """A workload at a scale, with its number of blocks."""

    name: str
    workload: str
    parameters: dict[str, Any]  # all of them, as Tare has them today
    given: dict[str, Any]  # as the plan has them
    scale: str
    blocks: int


@dataclass(frozen=True)
class Block:
    """A block of the plan: its folder, and its environments by their places in the plan."""

    folder: str
    cell: int
    repeat: int
    environments: tuple[int, ...]


@dataclass(frozen=True)
class Study:
    """The plan of a study."""

    at: str
    gpus_on_node: int
    margin: float
    seed: int
    metric: str
    environments: tuple[dict[str, Any], ...]  # as in a frozen plan; the baseline first
    cells: tuple[Cell, ...]

    def list_blocks(self) -> Iterator[Block]:
        """Yield the blocks in the order in which their jobs were to be run."""
        places = range(len(self.environments))
        for number, cell in enumerate(self.cells):
            blocks = plan_blocks(
                [number], places, [Scale.parse(cell.scale)], cell.blocks, self.seed + number
            )
            for block in blocks:
                yield Block(f"{number}-{block.repeat}", number, block.repeat, block.environments)


def read_plan(content: bytes) -> Study:
    """Return the study of a plan file. Raises ImportProblem, which says what is wrong with it."""
    if len(content) > LARGEST_PLAN:
        raise ImportProblem(f"The plan is larger than {LARGEST_PLAN:,} bytes.")
    try:
        plan = parse_document(content, PLAN)
        cells = tuple(_read_cell(cell) for cell in plan["cells"])
    except (Damaged, ValueError, UnicodeDecodeError) as problem:
        raise ImportProblem(f"The plan cannot be read: {problem}.") from None
    metrics = {cell.get("metric") or _choose_metric(cell) for cell in plan["cells"]}
    if not 1 <= len(cells) <= MOST_CELLS:
        raise ImportProblem(f"A plan has 1 to {MOST_CELLS} cells, this one has {len(cells)}.")
    if len({(cell.workload, str(cell.given), cell.scale) for cell in cells}) < len(cells):
        raise ImportProblem("Two cells of the plan have the same workload and scale.")
    if len(metrics) > 1:
        raise ImportProblem(f"Its cells have several metrics: {', '.join(sorted(metrics))}.")
    environments = tuple(_read_environment(row) for row in plan["environments"])
    labels = {row["label"] for row in environments}
    if not 2 <= len(labels) == len(environments) <= 20:
        raise ImportProblem("A plan has 2 to 20 environments, each with a name of its own.")
    return Study(
        at=plan["at"].rstrip("/"),
        gpus_on_node=plan.get("gpus_on_node") or 0,
        margin=plan["margin"],
        seed=plan["seed"],
        metric=metrics.pop(),
        environments=environments,
        cells=cells,
    )


def _read_cell(cell: dict[str, Any]) -> Cell:
    if cell["workload"] not in WORKLOADS:
        raise ValueError(f"there is no workload {cell['workload']}")
    return Cell(
        name=cell["name"],
        workload=cell["workload"],
        parameters=dict(WORKLOADS[cell["workload"]].clean(cell["parameters"])),
        given=cell["parameters"],
        scale=str(Scale.parse(cell["scale"])),
        blocks=cell["blocks"],
    )


def _choose_metric(cell: dict[str, Any]) -> str:
    kind = WORKLOADS[cell["workload"]]
    return str(kind.choose_primary_metric(kind.clean(cell["parameters"])))


def _read_environment(row: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `EnvironmentSpec`, as a frozen plan keeps them."""
    texts = ("label", "runtime", "executable", "mode", "image_format", "image_path", "image_digest")
    lists = ("options", "binds", "setup_lines")
    pairs = row.get("variables") or []
    if any(len(pair) != 2 for pair in pairs):
        raise ImportProblem(f"A variable of {row['label']} is no name with a value.")
    return {
        **{name: row.get(name) or "" for name in texts},
        **{name: row.get(name) or [] for name in lists},
        "python": row.get("python") or "python3",
        "variables": sorted(pairs),
    }
