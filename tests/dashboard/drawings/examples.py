"""Comparisons of any number, some of them odd, for the tests of figures."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings

from dashboard.drawings.forest import ComparedPair, Forest, describe_forest
from dashboard.drawings.typeface import Typeface
from experiments.statistics import Sample, compare, correct_by_holm

NAMES = ("bare metal", "Apptainer", "udocker", "Charliecloud", "Podman")
COSTS = (0.0, 0.002, 0.035, -0.03, 0.01)
MODELS = ("ResNet-50", "BERT-large", "U-Net 3D", "ViT-B/16", "LSTM")


def make_pairs(
    groups: int,
    *,
    environments: Sequence[str] = NAMES[1:4],
    blocks: int = 8,
    costs: Sequence[float] = COSTS,
    better: Any = "lower",
    paired: bool = True,
    heading: str = "{model}, {nodes}x4",
) -> list[ComparedPair]:
    """Return as many groups of pairs, the same at each call."""
    chance = random.Random(7)
    compared = []
    for group in range(groups):
        spread = (0.002, 0.006, 0.02)[group % 3]
        samples = [
            Sample(
                run=f"{group}-{index}-{block}",
                block=f"block {block}",
                environment=name,
                value=0.02 * math.exp(costs[index % len(costs)] + chance.gauss(0, spread)),
                node=f"n{block % 4}",
                started=1.79e9 + 600 * block + 60 * ((index + block) % 4),
            )
            for index, name in enumerate((NAMES[0], *environments))
            for block in range(blocks)
        ]
        pairs = compare(
            samples,
            baseline=NAMES[0],
            environments=environments,
            margin=0.02,
            better=better,
            paired=paired,
            unit="s",
        )
        name = heading.format(model=MODELS[group % 5], nodes=1 << group // 5)
        compared += [ComparedPair(name, pair, 4) for pair in correct_by_holm(pairs)]
    return compared


def describe(compared: Sequence[ComparedPair], **options: Any) -> Forest:
    names = list(dict.fromkeys([NAMES[0], *(one.pair.environment for one in compared)]))
    options = {"baseline": NAMES[0], "metric": "Time per step", "margin": 0.02} | options
    return describe_forest(compared, marks={n: i for i, n in enumerate(names)}, **options)


@cache
def get_typeface() -> Typeface:
    return Typeface(Path(settings.FIGURE_FOLDER) / "fonts")
