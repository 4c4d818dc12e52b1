"""The fields of an experiment's form for rules that reject runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms

RULES = (
    *("reject_swap", "reject_throttled", "reject_others"),
    *("reject_below_mhz", "reject_others_cpus"),
)
"""Fields of the rules that reject runs."""


class RejectionRules:
    """What an experiment's form does with its rules that reject runs."""

    def clean_rejected_again(self: Any) -> int:
        return self.cleaned_data["rejected_again"] or 0

    @property
    def checked_rules(self: Any) -> list[forms.BoundField]:
        """Return the rules on nodes that are ticked or not."""
        return [self[name] for name in ("reject_swap", "reject_throttled", "reject_others")]

    @property
    def rejects(self: Any) -> bool:
        """Return whether any rule on nodes is filled in, or wrong."""
        names_of_all = (*RULES, "rejected_again")
        is_wrong = self.is_bound and any(self[name].errors for name in names_of_all)
        return is_wrong or any(self[name].value() for name in RULES)


def has_rules(cleaned: Mapping[str, Any]) -> bool:
    """Return whether a form's cleaned data have any rule that rejects runs."""
    return any(cleaned.get(name) for name in RULES)
