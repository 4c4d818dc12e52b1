"""A/A copies: the second row of an environment, by which an experiment compares it with itself.

A copy has the settings of its environment at any time, and is changed with it alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction

if TYPE_CHECKING:
    from experiments.models.catalogue import Environment

LONGEST_NAME = 100
SETTINGS = (
    *("cluster_id", "runtime_id", "staged_image_id", "mode", "python", "binds", "variables"),
    *("setup_lines", "owner_id", "visibility", "tree_of_id"),
)
"""Columns that a copy has from its environment."""


def make_copy(environment: Environment) -> Environment:
    """Return the A/A copy of a stored environment, which is made where there is none."""
    rows: Any = type(environment)._default_manager
    with transaction.atomic():
        # Locked: of two people at once the second one finds the copy of the first.
        stored = rows.select_for_update(of=("self",)).get(pk=environment.pk)
        copy: Environment | None = rows.filter(copy_of=stored.pk).first()
        if copy is None:
            values = {name: getattr(stored, name) for name in SETTINGS}
            copy = rows.create(name=find_copy_name(stored), copy_of=stored, **values)
        return copy


def update_copy(environment: Environment) -> None:
    """Give the A/A copy of an environment, if there is one, its settings and name."""
    rows: Any = type(environment)._default_manager
    copies = rows.filter(copy_of=environment.pk)
    copy = copies.only("name").first()
    if copy is None:
        return
    # As it is stored: the object in hand may lack what others have changed.
    stored = rows.get(pk=environment.pk)
    values = {name: getattr(stored, name) for name in SETTINGS}
    copies.update(name=find_copy_name(stored, copy.pk), **values)


def find_copy_name(environment: Environment, copy_pk: int | None = None) -> str:
    """Return "NAME again", cut where it is too long, with a number where others have that name."""
    rows: Any = type(environment)._default_manager
    taken = rows.filter(cluster=environment.cluster_id).exclude(pk=copy_pk)
    number, end = 1, " again"
    while True:
        name = environment.name[: LONGEST_NAME - len(end)] + end
        if not taken.filter(name=name).exists():
            return name
        number += 1
        end = f" again ({number})"
