"""The form of `command`: a program, its files, and its metrics, tried on a pasted log."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms import BoundField

from dashboard.file_fields import FilesField, ManyFiles
from dashboard.form_problems import Problem, list_problems
from dashboard.form_styles import Styled
from dashboard.planning.pattern_matches import PatternMatches, try_patterns
from dashboard.planning.sent_files import (
    Sending,
    keep_known_files,
    keep_sent_archive,
    list_files_sent_before,
    list_known_files,
    make_key,
)
from dashboard.planning.workload_forms import FORMS, WorkloadForm
from dashboard.typed_requests import Request
from experiments.code_copies.archives import (
    ARCHIVE,
    COMMIT,
    LARGEST_MB,
    REPOSITORY,
    explain_missing_file,
    find_kept,
)
from experiments.models import CodeArchive, SentFile, User, Workload
from experiments.planning.closed_sums import is_closed_archive
from experiments.presets.commands import group_commands
from experiments.presets.programs import Ready
from runners.workloads import patterns
from runners.workloads.given import (
    LARGEST_FILE,
    LARGEST_TOGETHER,
    MOST_FILES,
    MOST_METRICS,
    TAKES,
    find_row_problems,
    why_no_running_rate,
)
from runners.workloads.page_cache import PAGE_CACHE
from runners.workloads.several_jobs import SEVERAL_JOBS

KNOWN_ARCHIVE = "sha256 of an archive that is here already"
PARTS = ("name", "unit", "better", "find", "take")
FEWEST_ROWS, SPARE_ROWS = 3, 2
EMPTY = {"name": "", "unit": "", "better": "lower", "find": "", "take": "last"}
WRONG = {**EMPTY, "name": "wrong", "unit": "1", "find": "(0)"}
TAKE_LABELS = ("the last", "the mean", "each, as steps", "the last of means so far")
STILL_TYPING = ("try", "more", "send")
"""Buttons that show more of the form and keep nothing of the workload."""


class MetricForm(Styled, forms.Form):
    """The form of one metric, as a row."""

    name = forms.CharField(required=False)
    unit = forms.CharField(required=False)
    better = forms.ChoiceField(
        choices=[(direction, direction) for direction in ("lower", "higher")], required=False
    )
    find = forms.CharField(label="Where it is", required=False, strip=False)
    take = forms.ChoiceField(
        label="Aggregate",
        choices=list(zip(TAKES, TAKE_LABELS, strict=True)),
        required=False,
    )

    def __init__(self, *args: Any, reads: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.reads = reads
        for name, size in (("name", 16), ("unit", 8), ("find", 30)):
            self.fields[name].widget.attrs.update(size=size, spellcheck="false")
        number = (self.prefix or "").rpartition("-")[2]
        for name, field in self.fields.items():
            row_label = f"Metric {int(number) + 1}" if number.isdecimal() else "New metric"
            field.widget.attrs["aria-label"] = f"{row_label}: {str(field.label or name).lower()}"

    @property
    def row(self) -> dict[str, str] | None:
        """Return the metric; None where the row was left empty."""
        return _row(self.cleaned_data)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not (row := _row(cleaned)):
            return cleaned
        for part, why in find_row_problems(row):
            self.add_error(part or None, f"{why[:1].upper()}{why[1:]}.")
        if self.reads == "patterns" and "find" not in self.errors:
            try:
                patterns.check_pattern(row["find"])
                if why := why_no_running_rate(row, self.reads):
                    self.add_error("find", f"This cannot be used: {why}.")
            except patterns.PatternError as error:
                self.add_error("find", f"This cannot be used: {error}.")
        return cleaned


Metrics = forms.formset_factory(MetricForm, extra=0, max_num=MOST_METRICS, validate_max=True)


def _row(typed: Mapping[str, Any]) -> dict[str, str] | None:
    if not (typed.get("name") or typed.get("find")):
        return None
    row = {part: str(typed.get(part) or EMPTY[part]) for part in PARTS}
    return {**row, "unit": row["unit"] or "1"}


class CommandForm(WorkloadForm):
    """The form of the user's own program, its files and its metrics."""

    body = "planning/command_fields.html"

    uploads = FilesField(
        label="Add files",
        required=False,
        widget=ManyFiles,
        help_text=f"Scripts, settings, small data: each at most {LARGEST_FILE // 10**6} MB, all "
        f"together {LARGEST_TOGETHER // 10**6} MB. One of the same name takes the other’s place.",
    )
    code_file = forms.FileField(
        label="Send an archive",
        required=False,
        allow_empty_file=True,
        help_text=f"A tar, tar.gz, tar.xz or zip of at most {LARGEST_MB} MB, with "
        "its subfolders. Each cluster gets it once and unpacks it.",
    )
    log = forms.CharField(
        label="Try it on a log",
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false", "wrap": "off"}),
        help_text="Paste what the program prints, or the file that is read. It is not kept.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user: User = kwargs["user"]
        self.fields[ARCHIVE].label = KNOWN_ARCHIVE
        parameters = self.instance.parameters
        reads = {"reads": self.data.get("read", "")}
        if self.is_bound:
            self.metrics = Metrics(self.data, prefix="metric", form_kwargs=reads)
            self.sending = list_files_sent_before(self.data, self.user)
        else:
            rows = parameters.get("metrics", [])
            spare = max(SPARE_ROWS, FEWEST_ROWS - len(rows))
            initial = [*rows, *([EMPTY] * spare)][:MOST_METRICS]
            self.metrics = Metrics(initial=initial, prefix="metric")
            self.sending = list_known_files(parameters.get("files", {}))

    @classmethod
    def begin(cls, request: Request, row: Workload, kind: str) -> WorkloadForm:
        """Return the form with what was sent; while somebody is typing, without error messages."""
        if request.POST.get("action") not in STILL_TYPING:
            return super().begin(request, row, kind)
        row.parameters = read_typed_parameters(request.POST, request.user)
        shown = {name: request.POST.get(name, "") for name in ("name", "time_limit_seconds", "log")}
        form = cls(initial=shown, instance=row, kind=kind, user=request.user)
        form.sending = list_files_sent_before(request.POST, request.user)
        try:
            new = cls.base_fields["uploads"].clean(request.FILES.getlist("uploads"))
            form.send(new)
        except ValidationError as error:
            form.problem_of_files = " ".join(error.messages)
        return form

    problem_of_files = ""

    def add_fields(self, parameters: dict[str, Any]) -> None:
        super().add_fields(parameters)
        for name in ("files", "metrics"):
            del self.fields[name]
        attrs = {"rows": 2, "spellcheck": "false", "placeholder": "{python} train.py --epochs 3"}
        self.fields["argv"].widget = forms.Textarea(attrs=attrs)

    def send(self, new: Mapping[str, bytes]) -> None:
        """Store new files, so that nobody has to choose them again; raises ValidationError."""
        sending = {file.name: file for file in self.sending}
        sizes = {name: file.size for name, file in sending.items()}
        sizes |= {name: len(content) for name, content in new.items()}
        if len(sizes) > MOST_FILES:
            raise ValidationError(f"{len(sizes)} files; at most {MOST_FILES} travel with a job.")
        if sum(sizes.values()) > LARGEST_TOGETHER:
            raise ValidationError(
                f"Together the files have {sum(sizes.values()):,} bytes; at most "
                f"{LARGEST_TOGETHER:,} travel with a job. Larger things belong on the cluster."
            )
        for name, content in new.items():
            row = SentFile.objects.keep(content)
            sending[name] = Sending(name, row.size, row.sha256)
        self.sending = [sending[name] for name in sorted(sending)]

    def clean_uploads(self) -> None:
        self.send(self.cleaned_data["uploads"])
        keep_known_files(self.sending)

    def clean_code_file(self) -> CodeArchive | None:
        """Keep the archive, so that nobody has to choose it again; raises ValidationError."""
        return keep_sent_archive(self, self.cleaned_data.get("code_file"))

    def parameters_from(self, cleaned: dict[str, Any]) -> dict[str, Any]:
        # The problems of a row are shown beside it.
        rows = [form.row if form.is_valid() else WRONG for form in self.metrics]
        return {
            **super().parameters_from(cleaned),
            "argv": cleaned.get("argv", "").replace("\r\n", " ").replace("\n", " "),
            "files": {file.name: file.sha256 for file in self.sending},
            "metrics": [row for row in rows if row],
            **({ARCHIVE: archive.sha256} if (archive := cleaned.get("code_file")) else {}),
        }

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        parameters = getattr(self, "parameters", {})
        if sha256 := parameters.get(ARCHIVE):
            is_stated = not cleaned.get("code_file")
            if find_kept(sha256) is None or (is_stated and is_closed_archive(sha256, self.user)):
                self.add_error(ARCHIVE, "No archive with this sha256 is on this site: send it.")
            elif why := explain_missing_file(parameters["argv"], sha256):
                self.add_error("argv", f"{self.fields['argv'].label} {why}.")
        if not self.metrics.is_valid():
            self.add_error(None, "A metric below cannot be used as it is.")
        return cleaned

    @property
    def problems(self) -> list[Problem]:
        """Return the problems of the fields, then those of each metric's row."""
        rows = enumerate(self.metrics, start=1) if self.is_bound else ()
        return super().problems + [
            replace(problem, label=f"Metric {number}{problem.label and f', {problem.label}'}")
            for number, row in rows
            for problem in list_problems(row)
        ]

    @property
    def keyed_files(self) -> list[tuple[str, Sending]]:
        """Return the files that are sent, each with the key that proves it was shown."""
        return [(make_key(file.sha256, self.user), file) for file in self.sending]

    @property
    def code_fields(self) -> list[BoundField]:
        return [self[name] for name in (REPOSITORY, COMMIT)]

    @property
    def job_fields(self) -> list[BoundField]:
        return [self[parameter.name] for parameter in SEVERAL_JOBS]

    @property
    def gpu_fields(self) -> list[BoundField]:
        return [self["batch"], self["processes"]]

    @property
    def folded_groups(self) -> set[str]:
        """Return the groups of fields that are seldom filled in and hold nothing but defaults."""
        code = [*self.code_fields, self[ARCHIVE]]
        groups = {"code": code, "gpus": self.gpu_fields, "jobs": self.job_fields}
        folded = {name for name, fields in groups.items() if not any(map(self._is_filled, fields))}
        return folded - ({"code"} if self["code_file"].errors else set())

    def _is_filled(self, field: BoundField) -> bool:
        """Return whether a parameter's field has a problem or another value than the default."""
        default = next(row.default for row in self.kind.parameters if row.name == field.name)
        return bool(field.errors) or str(field.value() or "") not in ("", str(default))

    @property
    def ready_groups(self) -> list[tuple[str, list[tuple[str, Ready]]]]:
        """Return the known programs that the form can begin with, by what they measure."""
        return list(group_commands())

    @property
    def number_fields(self) -> list[BoundField]:
        names = ("read", "file", "primary", "burn_in", "success_pattern", "failure_pattern")
        return [self[name] for name in names]

    @property
    def matches(self) -> list[PatternMatches]:
        """Return what the metrics read in the pasted log; nothing where none was pasted."""
        source = self.data if self.is_bound else {}
        log = source.get("log", "") or self.initial.get("log", "")
        return try_patterns(
            read_typed_parameters(self.data, self.user)
            if self.is_bound
            else self.instance.parameters,
            log,
        )


def name_metric_fields(rows: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    """Return metrics as the form sends them, by the names of its fields."""
    fields = {"metric-TOTAL_FORMS": [str(len(rows))], "metric-INITIAL_FORMS": ["0"]}
    for number, row in enumerate(rows):
        fields |= {f"metric-{number}-{part}": [row[part]] for part in PARTS}
    return fields


def read_typed_parameters(data: Mapping[str, Any], user: User) -> dict[str, Any]:
    """Return the parameters as far as they have been typed, valid or not."""
    total = data.get("metric-TOTAL_FORMS", "0")
    count = min(int(total), MOST_METRICS) if total.isdecimal() and len(total) < 5 else 0
    rows = [
        _row({part: data.get(f"metric-{number}-{part}", "") for part in PARTS})
        for number in range(count)
    ]
    plain = (
        *(ARCHIVE, REPOSITORY, COMMIT, "argv", "file", "primary", "batch", "processes"),
        *("success_pattern", "failure_pattern", "recorded", "notice_signal", PAGE_CACHE),
    )
    burn_in = data.get("burn_in", "")
    numbers = {name: data.get(name, "") for name in ("segments", "notice_seconds")}
    return {
        **{name: data[name] for name in plain if name in data},
        **{name: int(text) for name, text in numbers.items() if re.fullmatch(r"\d{1,4}", text)},
        "read": data.get("read") or "recorder",
        "burn_in": int(burn_in) if re.fullmatch(r"\d{1,6}", burn_in) else 0,
        "files": {file.name: file.sha256 for file in list_files_sent_before(data, user)},
        "metrics": [row for row in rows if row],
    }


FORMS["command"] = CommandForm
