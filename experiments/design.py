"""The plan of an experiment: which runs, in which blocks, in which order.

Pure: the same arguments give the same plan, so that a reviewer can draw it again from the seed.
"""

import hashlib
import json
import random
import re
import secrets
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Workload = TypeVar("Workload", bound=Hashable)
Environment = TypeVar("Environment", bound=Hashable)


LAUNCHERS = ("srun", "mpirun")
"""Commands that can start several processes of one run, on one node or more."""
WRITTEN = re.compile(
    rf"(\d{{1,6}})[x×](\d{{1,6}})(?:[x×](\d{{1,6}}))?(?:[ ]+({'|'.join(LAUNCHERS)}))?", re.ASCII
)


@dataclass(frozen=True, order=True)
class Scale:
    """The size of a run: nodes x GPUs per node (x instances per node), and the launcher.

    Without a launcher the job script starts the program itself: one process, or as many instances
    at once.
    """

    nodes: int = 1
    gpus_per_node: int = 1
    instances_per_node: int = 1
    launcher: str = ""

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.gpus_per_node < 0 or self.instances_per_node < 1:
            raise ValueError(f"A scale needs at least 1 node, 0 GPUs and 1 instance, not {self}.")
        if self.launcher not in ("", *LAUNCHERS):
            raise ValueError(f"A scale's launcher is srun or mpirun, not {self.launcher!r}.")

    @classmethod
    def parse(cls, text: str) -> "Scale":
        """Read "1x2" (1 node, 2 GPUs), "2x4 srun" (with a launcher) or "1x4x4" (4 instances)."""
        match = WRITTEN.fullmatch(text.strip())
        if not match:
            raise ValueError(
                f"{text!r} is no scale: write nodes x GPUs per node, such as 1x2, or 2x4 srun with "
                "a launcher, or 1x4x4 with instances."
            )
        nodes, gpus, instances, launcher = match.groups()
        return cls(int(nodes), int(gpus), int(instances or 1), launcher or "")

    def __str__(self) -> str:
        numbers = [self.nodes, self.gpus_per_node]
        if self.instances_per_node != 1:
            numbers.append(self.instances_per_node)
        return " ".join(["x".join(str(number) for number in numbers), self.launcher]).strip()

    @property
    def gpus(self) -> int:
        """Return the number of GPUs of one run, of all its instances together."""
        return self.nodes * self.gpus_per_node

    @property
    def is_packed(self) -> bool:
        """Return whether several instances of the program run at once, each with its own GPUs."""
        return self.instances_per_node > 1

    @property
    def gpus_per_instance(self) -> int:
        return self.gpus_per_node // self.instances_per_node


@dataclass(frozen=True)
class PlannedBlock(Generic[Workload, Environment]):
    """One job: the runs of one block in their order, or a single run (independent design)."""

    index: int
    workload: Workload
    scale: Scale
    repeat: int
    environments: tuple[Environment, ...]


def draw_seed() -> int:
    """Return a random seed, small enough for a 32-bit column."""
    return secrets.randbits(31)


def plan_blocks(
    workloads: Sequence[Workload],
    environments: Sequence[Environment],
    scales: Sequence[Scale],
    repeats: int,
    seed: int,
    *,
    paired: bool = True,
) -> list[PlannedBlock[Workload, Environment]]:
    """Return the blocks of runs in their order: every configuration `repeats` times.

    `index` counts from 0, `repeat` from 1.

    Repeat 1 of all configurations comes first, in random order, then repeat 2 in another random
    order, and so on (randomised multiple interleaved trials: Abedi & Brecht, ICPE'17): drift over
    days falls on all of them alike, and an experiment that is cut short is still balanced. Paired:
    within each block the environments are shuffled too. Independent: each run is a block of its
    own.
    """
    for name, values in (
        ("workloads", workloads),
        ("environments", environments),
        ("scales", scales),
    ):
        if not values:
            raise ValueError(f"A plan without {name} is empty.")
        if len(set(values)) != len(values):
            raise ValueError(f"A plan names each of its {name} once: {values!r}.")
    if repeats < 1:
        raise ValueError(f"A plan repeats each configuration at least once, not {repeats} times.")

    order = random.Random(seed)  # noqa: S311  anybody is meant to be able to draw this again
    blocks: list[PlannedBlock[Workload, Environment]] = []
    for repeat in range(1, repeats + 1):
        members: list[tuple[Environment, ...]] = (
            [tuple(environments)] if paired else [(environment,) for environment in environments]
        )
        trial = [(w, s, m) for w in workloads for s in scales for m in members]
        order.shuffle(trial)
        for workload, scale, member in trial:
            shuffled = list(member)
            order.shuffle(shuffled)
            blocks.append(PlannedBlock(len(blocks), workload, scale, repeat, tuple(shuffled)))
    return blocks


def compute_hash(definition: Mapping[str, object]) -> str:
    """Return the SHA-256 (hex) of a definition's canonical JSON.

    Canonical: sorted keys, no spaces, UTF-8, no NaN.
    """
    text = json.dumps(
        definition, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return hashlib.sha256(text.encode()).hexdigest()
