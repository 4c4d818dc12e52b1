"""Files and archives that are here, and that a person may not name: a check sum is no key.

What a workload sends is known by its check sum, which plans, bundles and job scripts show to people
who may not see the workload. What only workloads name that a person may not view is closed to them.
What no workload names was sent a moment ago, by somebody who has it.
"""

from __future__ import annotations

from collections.abc import Collection

from experiments.models import User, Workload
from experiments.models.catalogue import WorkloadQuerySet
from runners.code_copies import ARCHIVE


def find_closed_files(sums: Collection[str], user: User) -> set[str]:
    """Return those of the check sums of files that `user` may not name. Two statements at most."""
    rows = Workload.objects.filter(kind="command").exclude(parameters__files={})
    left = set(sums)
    if left:
        left -= _list_sums(rows.visible_to(user))
    return left & _list_sums(rows) if left else set()


def _list_sums(rows: WorkloadQuerySet) -> set[str]:
    sums: set[str] = set()
    for files in rows.order_by().values_list("parameters__files", flat=True).iterator():
        sums |= set(files.values()) if isinstance(files, dict) else set()
    return sums


def is_closed_archive(sha256: str, user: User) -> bool:
    """Return whether `user` may not name an archive of code."""
    rows = Workload.objects.filter(**{f"parameters__{ARCHIVE}": sha256})
    return rows.exists() and not rows.visible_to(user).exists()
