"""The parameter by which a workload is measured with a cold or a warm page cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runners.workloads.parameters import Parameter, Value

PAGE_CACHE = "page_cache"
AS_IT_IS, WARM, COLD = "as it is", "warm", "cold"

PREPARED = Parameter(
    name=PAGE_CACHE,
    type="choice",
    default=AS_IT_IS,
    choices=(AS_IT_IS, WARM, COLD),
    group="Page cache",
    help="Before each run the files of the image, or of the node's Python, and those of the data "
    "are read (warm) or leave memory (cold), and a run of which that is not true fails. Vary it, "
    "page_cache: cold, warm, to compare both. On one node, with images that are files or folders.",
)


def leave_out_usual(cleaned: dict[str, Value]) -> dict[str, Value]:
    """Return parameters without a page cache that stays as it is: plans keep their hash."""
    return {
        name: value for name, value in cleaned.items() if (name, value) != (PAGE_CACHE, AS_IT_IS)
    }


def choose_policy(parameters: Mapping[str, Any]) -> str:
    """Return "cold" or "warm"; "" where the page cache stays as it is."""
    policy = parameters.get(PAGE_CACHE)
    return policy if policy in (COLD, WARM) else ""


def is_prepared(parameters: Mapping[str, Any]) -> bool:
    """Return whether the page cache is made cold or warm before each run."""
    return bool(choose_policy(parameters))
