"""The code of an experiment's workloads: what its plan keeps, and what is against a launch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db.models import Q

from experiments.models import Cluster, CodeCopy, Experiment, User, Workload
from runners.code_copies import ARCHIVE, CodeSource, explain_missing_path

PROOF_SECONDS = 70
"""For how long a job may read all files of its code: 50,000 of them, by 1,000 a second, and more.
"""
Copies = Mapping[str, CodeCopy]
"""Copies of code on one cluster by what it is known by: a commit, or an archive's sha256."""


def find_code_copies(workloads: Iterable[Workload], cluster: Cluster) -> dict[str, CodeCopy]:
    """Return the copies on a cluster of the workloads' code, in whatever state.

    One statement, or none where no workload names code.
    """
    keys = {source.key for row in workloads if (source := row.code_source)}
    if not keys:
        return {}
    rows = CodeCopy.objects.filter(Q(commit__in=keys) | Q(archive__in=keys), cluster=cluster)
    return {row.source.key: row for row in rows.select_related("cluster")}


def freeze_code(workload: Workload, copies: Copies) -> dict[str, Any]:
    """Return what the plan keeps of a workload's code; {} where `copies` have none."""
    source = workload.code_source
    copy = copies.get(source.key) if source else None
    if source is None or copy is None:
        return {}
    return {
        "source": source.label,
        "digest": copy.digest,
        "files": copy.files,
        "bytes": copy.size_bytes,
        "path": copy.path,
        **({"left_out": copy.left_out} if copy.left_out else {}),
    }


def lock_code_copies(experiment: Experiment) -> None:
    """Hold the copies of the code that an experiment reads until the transaction ends.

    Nobody removes them meanwhile, and no check changes their state.
    """
    copies = find_code_copies(experiment.workloads.all(), experiment.cluster)
    if copies:
        keys = [row.pk for row in copies.values()]
        rows = CodeCopy.objects.select_for_update(of=("self",), no_key=True).filter(pk__in=keys)
        list(rows.order_by("pk").values_list("pk"))


def explain_closed_archive(parameters: Mapping[str, Any], user: User) -> str:
    """Return why `user` may not make a workload with the archive that a file names; "" if they may.

    A file may state any check sum: of an archive that others keep here it opens nothing.
    """
    sha256 = str(parameters.get(ARCHIVE) or "")
    rows = Workload.objects.visible_to(user)
    if not sha256 or rows.filter(parameters__code_archive=sha256).exists():
        return ""
    return (
        f"The archive with the sha256 {sha256[:12]}… is not here, or in no workload that you may "
        "view: send it with a workload of your own, and it is found by its check sum."
    )


def describe_unready_code(workloads: Sequence[Workload], cluster: Cluster) -> list[str]:
    """Return a sentence for each workload whose code is not ready on the cluster."""
    sources = [(row, source) for row in workloads if (source := row.code_source)]
    if not sources:
        return []
    copies = find_code_copies([row for row, _ in sources], cluster)
    return [
        f"{row}: {problem}"
        for row, source in sources
        if (problem := _explain_unready(row, source, copies.get(source.key), cluster))
    ]


def _explain_unready(
    workload: Workload, source: CodeSource, copy: CodeCopy | None, cluster: Cluster
) -> str:
    """Return why code cannot be run on a cluster, with how to go on; "" if it can."""
    if copy is None or copy.state == CodeCopy.State.REMOVING:
        return (
            f"its code, {source.label}, is not on {cluster} yet: put it there on the page of the "
            "workload."
        )
    if copy.state == CodeCopy.State.STAGING:
        return f"its code is being put on {cluster}: wait for the end of that."
    if copy.state != CodeCopy.State.READY:
        return (
            f"its code on {cluster}, {copy.path}, is {copy.state}. {copy.message} Put it there "
            "again on the page of the workload."
        )
    if copy.paths and (
        missing := explain_missing_path(workload.parameters["argv"], copy.paths, source.label)
    ):
        return f"its command {missing}. Copy the workload and change its command."
    return ""
