"""The workloads of this site that files mean, by kind, parameters and data; made on request."""

from __future__ import annotations

from collections.abc import Mapping

from django.core.exceptions import ValidationError

from experiments.access import audit
from experiments.access.permissions import may_add
from experiments.definitions.definition import WorkloadDefinition
from experiments.definitions.definition_problems import shorten, suggest_near
from experiments.definitions.site_environments import Why
from experiments.models import DataSet, SentFile, User, Workload
from experiments.models.visibility import Visibility
from experiments.planning.free_names import save_under_free_name
from experiments.planning.frozen_code import explain_closed_archive
from runners.workloads import WORKLOADS, ParameterError

MOST_CHOICES = 200


class WorkloadFinder:
    """Finds, or makes, the workloads that a person may launch."""

    def __init__(self, user: User, names: Mapping[str, str], *, make_missing: bool) -> None:
        self.user, self.names, self.make_missing = user, names, make_missing
        self.rows = Workload.objects.visible_to(user).originals().launchable()

    def list_choices(self, entry: WorkloadDefinition) -> tuple[str, ...]:
        """Return the names of the workloads of the same kind."""
        rows = self.rows.filter(kind=entry.kind).order_by("name")
        return tuple(rows.values_list("name", flat=True)[:MOST_CHOICES])

    def find(self, entry: WorkloadDefinition) -> tuple[Workload | None, Why]:
        """Return the workload that an entry means, or why there is none."""
        if site_name := self.names.get(entry.name):
            mapped = self.rows.filter(name=site_name).first()
            if mapped:
                return mapped, Why()
            choices = self.list_choices(entry)
            near = (
                suggest_near(site_name, choices) if choices else f"There is none of {entry.kind}."
            )
            return None, Why(f"No workload “{shorten(site_name)}” is here. {near}", "name")
        data_set, why = self._find_data_set(entry)
        if why.text:
            return None, why
        same = self.rows.filter(
            kind=entry.kind,
            time_limit_seconds=entry.time_limit_seconds,
            data_set=data_set,
        )
        if data_set:
            same = same.filter(data_proof=entry.data_proof)
        of_name = same.filter(name=entry.name).first()
        if of_name and _has_parameters(of_name, entry):
            return of_name, Why()
        for row in same.order_by("pk").iterator():
            if _has_parameters(row, entry):
                return row, Why()
        return self._make(entry, data_set)

    def _find_data_set(self, entry: WorkloadDefinition) -> tuple[DataSet | None, Why]:
        if entry.data_set is None:
            return None, Why()
        rows = DataSet.objects.visible_to(self.user).order_by("pk")
        name, digest = entry.data_set.name, entry.data_set.digest
        rows = rows.filter(digest=digest) if digest else rows.filter(name=name)
        named = rows.filter(name=name).first() or rows.first()
        if named:
            return named, Why()
        what = f"with the digest {digest[:19]}…" if digest else f"“{shorten(name)}”"
        return None, Why(
            f"No data set {what} is here: register the folder in which it lies.", "data_set"
        )

    def _make(
        self, entry: WorkloadDefinition, data_set: DataSet | None
    ) -> tuple[Workload | None, Why]:
        """Return a new workload as the entry describes it, where that was asked for."""
        if not self.make_missing:
            return None, Why(
                f"No {entry.kind} workload with these parameters is here: have it made of the "
                "file, or map the name to another.",
                "name",
            )
        if not may_add(self.user, Workload):
            return None, Why("You may not make workloads here: map the name to another.", "name")
        if missing := self._list_missing_files(entry):
            return None, Why(
                f"Files of which there is only the check sum are not here: {', '.join(missing)}. "
                "Write their text into the file, or make the workload on its page.",
                "parameters.files",
            )
        if closed := explain_closed_archive(entry.parameters, self.user):
            return None, Why(closed, "parameters.code_archive")
        row = Workload(
            name=entry.name,
            kind=entry.kind,
            parameters=dict(entry.parameters),
            time_limit_seconds=entry.time_limit_seconds,
            data_set=data_set,
            data_proof=entry.data_proof,
            owner=self.user,
            visibility=Visibility.PRIVATE,
        )

        def save() -> None:
            with audit.log_change(self.user, row, why="of the file of an experiment"):
                row.save()

        try:
            Workload._meta.get_field("time_limit_seconds").clean(entry.time_limit_seconds, row)
        except ValidationError as error:
            return None, Why(" ".join(error.messages), "time_limit")
        for content in entry.contents.values():
            SentFile.objects.keep(content)
        save_under_free_name(row, save, among=Workload.objects.all())
        return row, Why()

    def _list_missing_files(self, entry: WorkloadDefinition) -> list[str]:
        """Return the files of which neither the text nor a workload that one may view is here.

        A file may state any check sum: of a file that others keep here it opens nothing.
        """
        files = entry.parameters.get("files") or {}
        open_sums = set(entry.contents)
        if files.keys() and not set(files.values()) <= open_sums:
            for parameters in self.rows.filter(kind=entry.kind).values_list(
                "parameters", flat=True
            ):
                own = parameters.get("files")
                open_sums |= set(own.values()) if isinstance(own, dict) else set()
        return sorted(name for name, sha256 in files.items() if sha256 not in open_sums)


def _has_parameters(row: Workload, entry: WorkloadDefinition) -> bool:
    try:
        return WORKLOADS[row.kind].clean(row.parameters) == entry.parameters
    except ParameterError:
        return False
