"""The form of a preset: which cluster, at which size, in which environments."""

from __future__ import annotations

from typing import Any

from django import forms
from django.forms import BoundField

from dashboard.form_styles import Styled
from dashboard.planning.plan_suggestions import choose_cluster
from dashboard.presets.script_fields import CODE_FILE, SCRIPT_FOLDER, ScriptFields
from dashboard.typed_requests import parse_whole_number
from experiments.code_copies.archives import ARCHIVE, COMMIT, REPOSITORY
from experiments.models import Cluster, Environment, Experiment, User, Workload
from experiments.presets import LAPTOP, Preset, Size
from experiments.presets.preset_drafts import (
    list_candidates,
    list_refusals,
    make_draft,
    select_ready,
)
from runners.workloads import ParameterError

LABELS = {"full": "Full, as published", "laptop": "Laptop, scaled down"}


class PresetForm(ScriptFields, Styled, forms.Form):
    """The form that turns a preset into a draft: cluster, size, environments, baseline."""

    cluster = forms.ModelChoiceField(Cluster.objects.none(), empty_label=None)
    size = forms.ChoiceField(widget=forms.RadioSelect)
    folder = forms.CharField(required=False, max_length=500, label="Folder of the data set")
    environments = forms.ModelMultipleChoiceField(
        Environment.objects.none(), widget=forms.CheckboxSelectMultiple
    )
    baseline = forms.ModelChoiceField(
        Environment.objects.none(), widget=forms.RadioSelect, empty_label=None
    )

    def __init__(
        self,
        data: Any = None,
        files: Any = None,
        *,
        preset: Preset,
        user: User,
        cluster: object = None,
    ) -> None:
        super().__init__(data, files)
        self.preset, self.user = preset, user
        self.chosen_cluster = choose_cluster(user, data.get("cluster") if data else cluster)
        self._field("cluster").queryset = Cluster.objects.usable_by(user)
        self._field("size").choices = [(name, LABELS[name]) for name in preset.sizes]
        self._ask_for_data()
        self.ask_for_script()
        self.candidates = (
            list_candidates(preset, self.chosen_cluster, user) if self.chosen_cluster else []
        )
        known = Environment.objects.filter(
            pk__in=[candidate.environment.pk for candidate in self.candidates]
        )
        self._field("environments").queryset = known
        self._field("baseline").queryset = known
        self.at_first, self.bare = select_ready(self.candidates)
        self.initial = {
            "cluster": self.chosen_cluster and self.chosen_cluster.pk,
            "size": LAPTOP,
            "environments": [row.pk for row in self.at_first],
            "baseline": self.bare and self.bare.pk,
        }

    def _field(self, name: str) -> Any:
        return self.fields[name]

    def _ask_for_data(self) -> None:
        reading = {name: size for name, size in self.preset.sizes.items() if size.data}
        if not reading:
            del self.fields["folder"]
            return
        needed = any(size.needs_data for size in reading.values())
        data = "; ".join(f"for the size {name}: {size.data}" for name, size in reading.items())
        self.fields["folder"].help_text = (
            f"{data[0].upper()}{data[1:]}; in a folder that the nodes and the environments see. "
            f"{'' if needed else 'Left empty, the workload makes its own.'}"
        )

    @property
    def ticked(self) -> set[int]:
        """Return the keys of the environments whose boxes are ticked."""
        return {key for pk in self["environments"].value() or () if (key := parse_whole_number(pk))}

    @property
    def sizes(self) -> list[dict[str, Any]]:
        """Return each size with what it runs, and why the chosen cluster refuses any of it."""
        chosen = self["size"].value()
        return [
            {
                "name": name,
                "label": LABELS[name],
                "size": size,
                "checked": name == chosen,
                "refusals": self.refusals(size, self.at_first, self.bare),
            }
            for name, size in self.preset.sizes.items()
        ]

    def refusals(
        self, size: Size, environments: list[Environment], baseline: Environment | None
    ) -> list[str]:
        if not self.chosen_cluster:
            return []
        workloads = [
            Workload(
                name=piece.name,
                kind=piece.kind,
                parameters=dict(piece.parameters),
                time_limit_seconds=piece.time_limit_seconds,
            )
            for piece in size.workloads
        ]
        return list_refusals(
            self.preset, size, self.chosen_cluster, environments, baseline, workloads
        )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        size = self.preset.sizes.get(cleaned.get("size", ""))
        if size and size.needs_data and not cleaned.get("folder"):
            self.add_error("folder", f"Say where on the cluster {size.data} lies.")
        baseline = cleaned.get("baseline")
        if baseline and baseline not in cleaned.get("environments", ()):
            self.add_error("baseline", "The baseline is one of the environments to be run.")
        self.script_place = self.read_script(cleaned)
        return cleaned

    @property
    def script_fields(self) -> list[BoundField]:
        """Return what names its code, if it is sent or fetched; nothing without such a script."""
        names = (REPOSITORY, COMMIT, CODE_FILE)
        return [self[name] for name in names] if SCRIPT_FOLDER in self.fields else []

    @property
    def has_script_fields_filled(self) -> bool:
        """Return whether one of these fields has a value or a problem, so that it must be seen."""
        fields = [*self.script_fields, self[ARCHIVE]] if self.script_fields else []
        return any(field.errors or field.value() for field in fields)

    def save(self) -> Experiment | None:
        """Create the draft; None, with an error at the form, if a kind refuses its parameters."""
        asked = self.cleaned_data
        size = self.preset.sizes[asked["size"]]
        try:
            return make_draft(
                self.preset,
                size,
                cluster=asked["cluster"],
                environments=list(asked["environments"]),
                baseline=asked["baseline"],
                owner=self.user,
                folder=asked.get("folder", "") if size.data else "",
                script=self.script_place,
            )
        except ParameterError as error:
            for name, message in error.messages.items():
                place = "folder" if name == "data_directory" and "folder" in self.fields else None
                self.add_error(place, f"{name.replace('_', ' ').capitalize()} {message}.")
            return None
