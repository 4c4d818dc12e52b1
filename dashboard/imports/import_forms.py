"""The form that imports logs: what the archive contains decides what can be chosen."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from dashboard.form_styles import PercentField, Styled
from experiments.execution.end_texts import split_reason
from experiments.imports import LIMITS, ImportProblem, Logs, list_files, read_logs
from experiments.imports.imported_runs import KIND, LONGEST_NAME, store
from experiments.imports.layout import (
    MOST_ENVIRONMENTS,
    Placed,
    Position,
    arrange,
    find_tool,
    list_choices,
    list_positions,
    suggest_position,
)
from experiments.models import Experiment, User
from experiments.natural_order import make_natural_key

FAILURES_SHOWN = 10
DECIDING = ("wall_images_per_second", "step_images_per_second", "step_time", "time_to_first_step")
SUFFIXES = (".gz", ".tgz", ".tar", ".zip")


@dataclass(frozen=True)
class Row:
    """One workload at one scale, with its number of runs by environment."""

    workload: str
    scale: str
    runs: list[int]
    """How many in each environment."""


class ImportForm(Styled, forms.Form):
    """The form of an archive and of how to read it; `logs` is None until one could be read."""

    archive = forms.FileField(
        label="Logs",
        help_text="A zip, tar or tar.gz with folders such as environment/configuration/repeat, "
        "each with benchmark.log and metric.log of TensorFlow’s BenchmarkLogger or with the "
        f"standard output of tf_cnn_benchmarks. {LIMITS.in_words()}",
    )
    question = forms.CharField(
        max_length=300, help_text="Such as: does Singularity cost what udocker costs?"
    )
    machine = forms.CharField(
        max_length=LONGEST_NAME - 10,
        required=False,
        help_text="What the machine is called on these pages; left empty, as the file. Tare never "
        "logs in to it.",
    )
    margin = PercentField(
        initial=0.02,
        help_text="The largest difference that you would still call the same. Choose it before "
        "you look at the numbers.",
    )
    metric = forms.ChoiceField(
        choices=[
            (metric.name, f"{metric.name}: {metric.label.lower()}")
            for metric in KIND.metrics
            if metric.name in DECIDING
        ],
        initial=KIND.primary,
        help_text="The verdict is about it.",
    )
    visibility = forms.ChoiceField(
        label="Visibility",
        choices=[choice for choice in Experiment.Visibility.choices if choice[0] != "groups"],
        initial=Experiment.Visibility.PRIVATE,
    )
    environment = forms.IntegerField(required=False, widget=forms.HiddenInput)
    baseline = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, too_large: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["margin"].unit = "%"  # type: ignore[attr-defined]
        self.logs: Logs | None = None
        self.positions: list[Position] = []
        self.place: Position | None = None
        self.chosen_baseline = ""
        if too_large:
            megabytes = LIMITS.archive_bytes // 1_000_000
            message = f"The file is larger than {megabytes} MB. Import it in parts."
            self.fields["archive"].error_messages["required"] = message

    def clean_archive(self) -> Any:
        archive = self.cleaned_data["archive"]
        try:
            self.logs = read_logs(list_files(archive.file))
            self.positions = list_choices(list_positions(self.logs.runs))
        except ImportProblem as problem:
            raise ValidationError(str(problem)) from None
        return archive

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if self.logs is None:
            return cleaned
        requested = cleaned.get("environment")
        known = {position.index: position for position in self.positions}
        self.place = known.get(-1 if requested is None else requested) or suggest_position(
            self.positions
        )
        if self.place is None:
            self.add_error(
                "archive",
                "No part of the paths tells environments apart; at least two are needed, each in "
                f"a folder of its own, and at most {MOST_ENVIRONMENTS}.",
            )
            return cleaned
        self.chosen_baseline = cleaned.get("baseline") or ""
        if self.chosen_baseline not in self.place.values:
            names = self.place.values
            bare = [name for name in names if find_tool(name) == "bare metal"]
            self.chosen_baseline = next(iter([*bare, *names]))
        return cleaned

    def forgive_what_is_missing(self) -> None:
        """Keep only the problems of fields that are filled in: the rest is being typed."""
        for name in [name for name in self.errors if name != "archive"]:
            del self.errors[name]

    @property
    def fields_beside_the_archive(self) -> list[forms.BoundField]:
        """Return the fields whose problems are shown anew; the archive's stand in the preview."""
        return [field for field in self.visible_fields() if field.name != "archive"]

    @cached_property
    def placed(self) -> list[Placed]:
        return arrange(self.logs.runs, self.place.index) if self.logs and self.place else []

    @property
    def configurations(self) -> list[Row]:
        """Return a row for each workload and scale of the archive, with counts of runs."""
        counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for placed_run in self.placed:
            counts[placed_run.workload, placed_run.scale][placed_run.environment] += 1
        names = self.place.values if self.place else ()
        rows = sorted(counts.items(), key=lambda item: (item[0][0], make_natural_key(item[0][1])))
        return [
            Row(workload, scale, [runs[name] for name in names]) for (workload, scale), runs in rows
        ]

    @property
    def failed(self) -> list[str]:
        runs = self.logs.runs if self.logs else []
        return [
            ": ".join(filter(None, split_reason(run.reason, run.message)))
            for run in runs
            if run.reason
        ]

    @property
    def notes(self) -> list[str]:
        """Return what to know before the import is stored."""
        rows = self.configurations
        alone = sum(sum(count > 0 for count in row.runs) < 2 for row in rows)
        few = min((count for row in rows for count in row.runs if count), default=0)
        notes = []
        if alone:
            subject = "configuration was" if alone == 1 else "configurations were"
            notes.append(
                f"{alone} {subject} run in one environment only: nothing is compared there."
            )
        if few < 5:
            notes.append(
                f"Some configurations have {few} run{'s' * (few != 1)} only: verdicts "
                "on fewer than 5 are provisional."
            )
        if any(placed_run.run.began_at is None for placed_run in self.placed):
            notes.append(
                "Some logs do not say when the runs ran: drift may be part of a difference."
            )
        tools = Counter(find_tool(name) for name in (self.place.values if self.place else ()))
        if tools["not known"]:
            notes.append("Not every environment's name says what started its containers.")
        return notes

    def _file_name(self) -> str:
        """Return the file's name without the suffixes of archives."""
        name = PurePosixPath(self.cleaned_data["archive"].name).name
        for suffix in SUFFIXES:
            name = name.removesuffix(suffix)
        return name[: LONGEST_NAME - 10]

    def store(self, owner: User) -> Experiment:
        """Store the import and return its experiment; raises AlreadyImported and ImportProblem."""
        if self.logs is None or self.place is None:
            raise ImportProblem("There is nothing to import.")
        cleaned = self.cleaned_data
        return store(
            self.logs,
            environment=self.place.index,
            baseline=self.chosen_baseline,
            question=cleaned["question"],
            margin=cleaned["margin"],
            owner=owner,
            source=PurePosixPath(cleaned["archive"].name).name,
            machine=cleaned["machine"] or self._file_name(),
            metric=cleaned["metric"],
            visibility=cleaned["visibility"],
        )
