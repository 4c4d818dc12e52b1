"""The comparison that a bundle prints, held against the one that this site computes of its rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from experiments.bundles import verify
from experiments.bundles.plain_json import make_document
from experiments.bundles.study_documents import describe_comparison
from experiments.comparisons import compare_experiment
from experiments.comparisons.comparison_keys import identify_method
from experiments.imports.bundle_door import UNREADABLE, CheckedBundle
from experiments.imports.problems import ImportProblem
from experiments.models import Experiment
from runners.untrusted import clean_text

NAMED = 5
OF_THE_SITE = ("experiment", "question", "workload", "sentence")
"""Columns of a printed comparison that may differ from site to site: keys, and names with them."""


def compare_with_printed(
    bundle: CheckedBundle, experiment: Experiment, about: Mapping[str, Any]
) -> list[str]:
    """Return where this site's comparison is another one than the printed one.

    Raises ImportProblem if there is such a place though both were computed by the same method.
    """
    try:
        comparison = compare_experiment(Experiment.objects.get(pk=experiment.pk))
        here = json.loads(make_document(describe_comparison(comparison)))
    except ImportProblem:
        raise
    except UNREADABLE as error:
        what = clean_text(repr(error))[:300]
        raise ImportProblem(f"What it holds cannot be compared here: {what}.") from None
    keys = (experiment.bundle_keys or {})["workloads"]
    names = {row.name: about["workloads"][keys[str(row.pk)]] for row in experiment.workloads.all()}
    differing = _list_differences(bundle.study.comparison, here, names)
    notes = _describe_earlier_table(bundle)
    if not differing:
        return notes
    more = f"; and {len(differing) - NAMED:,} more" if len(differing) > NAMED else ""
    text = "; ".join(differing[:NAMED]) + more
    if about["method"] == identify_method():
        raise ImportProblem(f"Its runs give another comparison here than is printed in it: {text}.")
    return [
        *notes,
        f"It was printed by another version of the method ({about['method'][:12]}); this one "
        f"({identify_method()[:12]}) computes otherwise: {text}.",
    ]


def _describe_earlier_table(bundle: CheckedBundle) -> list[str]:
    """Return by which other table than this site's a bundle grades facts; [] if by the same."""
    table = hashlib.sha256(bundle.files.read("data/confounders.json")).hexdigest()
    if table not in verify.EARLIER_TABLES:
        return []
    return ["Its facts were graded by an earlier table of confounders; here by that of this site."]


def _list_differences(
    printed: Mapping[str, Any], here: Mapping[str, Any], names: Mapping[str, str]
) -> list[str]:
    """Return in words which rows and columns of two comparisons differ.

    `names` are those that workloads have in the printed one, by their names here.
    """
    differing = []
    for part in ("comparison", "all_configurations", "pooled"):
        rows = {_identify(row, {}): row for row in printed.get(part) or []}
        others = {_identify(row, names): row for row in here[part]}
        for key in {**rows, **others}:
            row, other = rows.get(key), others.get(key)
            if row is None or other is None:
                which = "computed, and not printed" if row is None else "printed, and not computed"
                differing.append(f"{' '.join(map(str, filter(None, key)))}: {which}")
                continue
            for column in {**row, **other}:
                values = row.get(column), other.get(column)
                if column in OF_THE_SITE or verify.is_same(*values):
                    continue
                texts = [verify.describe(value)[:80] for value in values]
                place = f"{row.get('environment', part)}, {column}"
                differing.append(f"{place}: {texts[0]} is printed, {texts[1]} computed")
    return differing


def _identify(row: Mapping[str, Any], names: Mapping[str, str]) -> tuple[Any, ...]:
    """Return what tells the rows of a printed comparison apart."""
    workload = row.get("workload")
    columns = ("scale", "environment", "metric", "decisive_rank", "baseline")
    return (names.get(str(workload), workload), *(row.get(column) for column in columns))
