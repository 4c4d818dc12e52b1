"""What is typed into the forms above a list of runs or of experiments, as its address has it."""

from __future__ import annotations

from django.http import QueryDict

from dashboard.execution.run_conditions import SIGNS
from experiments.execution.stored_values import FACT

OPERATORS = [(sign, SIGNS.get(sign, sign)) for sign in ("=", "!=", "~", "<", "<=", ">", ">=")]
FIELDS = ("add_column", "add_operator", "add_value", "add_fact")


def read_typed(query: QueryDict, state: QueryDict) -> QueryDict | None:
    """Return the address for what was typed into the page's forms; None if nothing was.

    `state` is what the address says about the list beside that.
    """
    if not any(name in query for name in FIELDS):
        return None
    kept = state.copy()
    if column := query.get("add_column", ""):
        text = f"{column}{query.get('add_operator', '=')}{query.get('add_value', '').strip()}"
        kept.setlist("where", [*dict.fromkeys([*kept.getlist("where"), text])])
    if fact := query.get("add_fact", "").strip():
        kept.appendlist("column", FACT + fact)
    return kept
