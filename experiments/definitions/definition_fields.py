"""The fields of an experiment's file, each with the field of the form that it stands for.

Reading, writing and the JSON schema all follow this table, so that they cannot disagree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from experiments.definitions.definition_problems import shorten, suggest_near
from experiments.definitions.written_units import (
    CPUS,
    MEBIBYTES,
    MEGAHERTZ,
    PERCENT,
    POINTS,
    SECONDS,
    Unit,
)
from runners.kept_output import DEFAULT_MIB

FORMAT = 1
LONGEST_TEXT = 300
MOST_TAGS, LONGEST_TAG, LONGEST_NOTES = 20, 40, 10_000
NOT_IN_TAGS = re.compile(r"[\x00-\x1f\x7f,]")


@dataclass(frozen=True, kw_only=True)
class Field:
    """One value of the file: where it stands, and which field of the form it fills in."""

    path: str
    name: str
    kind: Literal["text", "notes", "choice", "flag", "whole", "number", "quantity", "texts", "tags"]
    help: str
    default: Any = None
    required: bool = False
    choices: Mapping[str, str] = field(default_factory=dict)
    """Spelling in the file -> what the form calls it."""
    unit: Unit | None = None
    minimum: int | None = None
    maximum: int | None = None

    def parse(self, value: Any) -> Any:
        """Return a plain value of the file as the form's value. Raises ValueError, in words."""
        if value is None and not self.required:
            return self.default
        if self.kind in ("texts", "tags"):
            if not isinstance(value, list) or not all(isinstance(row, str) for row in value):
                raise ValueError("This is to be a list of texts.")
            return parse_tags(value) if self.kind == "tags" else tuple(value)
        if self.unit:
            return self.unit.parse(value)
        if self.kind == "choice":
            if not isinstance(value, str) or value not in self.choices:
                known = ", ".join(self.choices)
                near = suggest_near(value, self.choices) if isinstance(value, str) else ""
                cure = near if near.startswith("Is ") else f"Write one of {known}."
                raise ValueError(f"“{shorten(value)}” is not known here. {cure}")
            return self.choices[value]
        if self.kind == "flag":
            if not isinstance(value, bool):
                raise ValueError(f"This is to be true or false, not {shorten(value)!r}.")
            return value
        if self.kind in ("whole", "number"):
            return self._parse_number(value)
        if not isinstance(value, str):
            cure = " Write it in quotes." if isinstance(value, bool | int | float) else ""
            raise ValueError(f"This is to be a text.{cure}")
        return _parse_notes(value) if self.kind == "notes" else value

    def _parse_number(self, value: Any) -> int | float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"This is to be a number without a unit, not “{shorten(value)}”.")
        if self.kind == "number":
            return float(value)
        if value != int(value):
            raise ValueError(f"This is to be a whole number, not {value}.")
        number = int(value)
        least, most = self.minimum, self.maximum
        if least is not None and most is not None and not least <= number <= most:
            raise ValueError(f"This is to be a number from {least} to {most}, not {number}.")
        return number

    def write(self, value: Any) -> Any:
        """Return the form's value as the file has it."""
        if self.unit:
            return self.unit.write(value)
        if self.kind == "choice":
            return next(text for text, stored in self.choices.items() if stored == value)
        if self.kind == "notes" and "\n" in value:
            return f"{value}\n"  # so that its lines stand below each other
        return list(value) if self.kind in ("texts", "tags") else value


def parse_tags(texts: list[str]) -> tuple[str, ...]:
    """Return tags as they are stored, each once. Raises ValueError, in words."""
    tags = tuple(dict.fromkeys(" ".join(text.split()) for text in texts))
    if len(tags) > MOST_TAGS:
        raise ValueError(f"An experiment has at most {MOST_TAGS} tags, not {len(tags):,}.")
    for tag in tags:
        if not tag:
            raise ValueError("A tag is empty.")
        if NOT_IN_TAGS.search(tag):
            raise ValueError(
                f"“{shorten(tag)}” is no tag: no comma or control character is in one."
            )
        if len(tag) > LONGEST_TAG:
            raise ValueError(f"“{shorten(tag)}” is too long: {LONGEST_TAG} characters at most.")
    return tags


def _parse_notes(text: str) -> str:
    text = text.strip()
    if len(text) > LONGEST_NOTES:
        raise ValueError(f"It has {len(text):,} characters; {LONGEST_NOTES:,} at most.")
    return text


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


FIELDS = (
    Field(
        path="question", name="question", kind="text", required=True, help="What is to be answered."
    ),
    Field(path="tags", name="tags", kind="tags", default=(), help="To find it again by."),
    Field(path="notes", name="notes", kind="notes", default="", help="What else is to be known."),
    Field(
        path="cluster", name="cluster", kind="text", required=True, help="The cluster’s name here."
    ),
    Field(path="partition", name="partition", kind="text", default="", help="Of that cluster."),
    Field(
        path="scales",
        name="scales",
        kind="texts",
        default=("1x1",),
        help="Nodes x GPUs on each node, such as 1x2; 2x4 srun with a launcher; 1x4x4 packed.",
    ),
    Field(
        path="design.repeats",
        name="repeats",
        kind="whole",
        default=5,
        minimum=1,
        maximum=1000,
        help="Independent repetitions, n.",
    ),
    Field(
        path="design.order",
        name="design",
        kind="choice",
        default="paired",
        choices=_same("paired", "independent"),
        help="paired: one job runs every environment on the same node.",
    ),
    Field(
        path="design.interim_analyses",
        name="looks",
        kind="whole",
        default=1,
        minimum=1,
        maximum=5,
        help="How often the data are judged, the last time at the end.",
    ),
    Field(
        path="design.warm_up",
        name="warm_up",
        kind="choice",
        default="fixed",
        choices={"fixed": "fixed", "detected": "found"},
        help="A fixed number of steps, or detected by change points.",
    ),
    Field(
        path="design.cooldown",
        name="cooldown_seconds",
        kind="quantity",
        default=0,
        unit=SECONDS,
        help="Between the runs of a job.",
    ),
    Field(
        path="design.one_block_a_node",
        name="spreads_nodes",
        kind="flag",
        default=False,
        help="Send each block of a configuration to a node of its own.",
    ),
    Field(
        path="goal",
        name="goal",
        kind="choice",
        default="equivalence",
        choices=_same("equivalence", "not slower"),
        help="What is to be shown.",
    ),
    Field(
        path="margin",
        name="margin",
        kind="quantity",
        required=True,
        unit=PERCENT,
        help="The largest difference that still counts as the same.",
    ),
    Field(
        path="margin_faster",
        name="margin_faster",
        kind="quantity",
        unit=PERCENT,
        help="The margin of what is faster, where it is another one.",
    ),
    Field(
        path="estimand",
        name="estimand",
        kind="choice",
        default="nodes",
        choices=_same("nodes", "partition"),
        help="What verdicts speak of: the nodes that were used, or the whole partition.",
    ),
    Field(
        path="metrics.primary",
        name="primary_metric",
        kind="text",
        default="",
        help="The metric that the verdict is about; left out, each workload’s own.",
    ),
    Field(
        path="metrics.rule",
        name="metrics_rule",
        kind="choice",
        default="all",
        choices=_same("all", "in order"),
        help="How several decisive metrics are judged together.",
    ),
    Field(
        path="training.accuracy_margin",
        name="accuracy_margin",
        kind="quantity",
        unit=POINTS,
        help="Percentage points within which trainings count as equivalent.",
    ),
    Field(
        path="training.loss_margin",
        name="loss_margin",
        kind="number",
        help="The same for the last loss, in its own unit.",
    ),
    Field(
        path="reject.swap",
        name="reject_swap",
        kind="flag",
        default=False,
        help="Reject runs during which the node used its swap.",
    ),
    Field(
        path="reject.throttled",
        name="reject_throttled",
        kind="flag",
        default=False,
        help="Reject runs in which a GPU was slowed down.",
    ),
    Field(
        path="reject.others_on_gpu",
        name="reject_others",
        kind="flag",
        default=False,
        help="Reject runs beside which others used a GPU of the job.",
    ),
    Field(
        path="reject.below_clock",
        name="reject_below_mhz",
        kind="quantity",
        unit=MEGAHERTZ,
        help="Reject runs in which a GPU had a lower mean clock.",
    ),
    Field(
        path="reject.others_load",
        name="reject_others_cpus",
        kind="quantity",
        unit=CPUS,
        help="Reject runs beside which so many CPUs were busy for others.",
    ),
    Field(
        path="reject.tries_again",
        name="rejected_again",
        kind="whole",
        default=0,
        minimum=0,
        maximum=5,
        help="How often rejected runs of a block are run again.",
    ),
    Field(
        path="output",
        name="output_mib",
        kind="quantity",
        default=DEFAULT_MIB,
        unit=MEBIBYTES,
        help="How much is kept of what a run prints.",
    ),
    Field(
        path="visibility",
        name="visibility",
        kind="choice",
        default="",
        choices=_same("private", "groups", "members", "public"),
        help="Who can view it; left out, what is usual here.",
    ),
    Field(
        path="groups",
        name="groups",
        kind="texts",
        default=(),
        help="Names of the groups that the visibility “groups” means.",
    ),
)
BY_PATH = {row.path: row for row in FIELDS}
BY_NAME = {row.name: row for row in FIELDS}
SECTIONS = tuple(dict.fromkeys(row.path.partition(".")[0] for row in FIELDS if "." in row.path))
"""The tables of the file that hold several of these fields."""
TOP_KEYS = (
    *(
        "tare",
        "question",
        "tags",
        "notes",
        "cluster",
        "partition",
        "workloads",
        "environments",
        "scales",
    ),
    *("design", "goal", "margin", "margin_faster", "estimand", "metrics", "training"),
    *("reject", "output", "visibility", "groups", "map"),
)
"""All names at the top of the file, in the order in which Tare writes them."""
FURTHER_KEYS = ("metric", "margin", "margin_faster")
WORKLOAD_KEYS = (*("name", "kind", "parameters", "sweep", "time_limit", "data_set", "data_proof"),)
DATA_PROOFS = {"sizes and times": "looks", "hashes": "hashes"}
DATA_SET_KEYS = ("name", "digest")
ENVIRONMENT_KEYS = (
    *("name", "baseline", "runtime", "image", "reference", "format", "mode", "python"),
    *("binds", "variables", "setup_lines", "once_more"),
)
BARE_METAL = "bare_metal"
MAP_KEYS = ("clusters", "partitions", "workloads", "environments", "images")


def list_section_keys(section: str) -> list[str]:
    """Return the names in one of the SECTIONS."""
    names = [path.partition(".")[2] for path in BY_PATH if path.startswith(f"{section}.")]
    return [*names, "further"] if section == "metrics" else names
