"""The form of an environment: the cluster decides its runtimes, and these what they can start."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import QueryDict

from dashboard.form_styles import Styled
from dashboard.typed_requests import parse_whole_number
from experiments.access import permissions
from experiments.access.own_columns import OwnColumns
from experiments.access.visibility_fields import VisibilityFields
from experiments.images.inventory import find_interpreter
from experiments.models import Cluster, Environment, Image, Runtime, StagedImage, User
from experiments.software import environments
from runners.runtimes import RUNTIMES

PYTHON = "python3"
DECIDING = {"cluster", "runtime", "staged_image"}
"""Choices on which others depend."""
REFRESH_PARTS = {
    "hx-post": "",
    "hx-trigger": "change",
    "hx-target": "#parts",
    "hx-swap": "outerHTML",
}


class Lines(forms.CharField):
    """A list of texts, one on each line."""

    widget = forms.Textarea(attrs={"rows": 3, "class": "form-control text", "spellcheck": "false"})

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        return [line.strip() for line in (value or "").splitlines() if line.strip()]

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool((initial or []) != self.to_python(data))


class Variables(Lines):
    """Names and values, NAME=value, one on each line."""

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return "\n".join(f"{name}={text}" for name, text in value.items())
        return value

    def to_python(self, value: Any) -> Any:
        pairs = {}
        for line in super().to_python(value):
            name, equals, text = line.partition("=")
            if not equals:
                raise ValidationError(f"A variable is NAME=value, not {line!r}.")
            if name in pairs:
                raise ValidationError(f"{name} is set twice.")
            pairs[name] = text
        return pairs

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return bool((initial or {}) != self.to_python(data))
        except ValidationError:
            return True


class EnvironmentForm(OwnColumns, VisibilityFields, Styled, forms.ModelForm):  # type: ignore[type-arg]
    """The form of an environment on one cluster; an existing one keeps its cluster."""

    mode = forms.ChoiceField(required=False)
    binds = Lines(
        required=False,
        help_text="Folders to show inside, one a line: /data, or /outside:/inside. The job’s own "
        "folder is always there.",
    )
    variables = Variables(required=False, help_text="NAME=value, one a line.")

    class Meta:
        model = Environment
        fields = (
            "cluster",
            "runtime",
            "staged_image",
            "mode",
            "name",
            "python",
            "binds",
            "variables",
            "setup_lines",
            "visibility",
            "groups",
        )
        labels: ClassVar = {
            "staged_image": "Image",
            "python": "Interpreter",
            "setup_lines": "Set-up lines",
        }
        help_texts: ClassVar = {
            "name": "As it is called in forms and on plots, such as Apptainer or udocker F3.",
            "python": "Python 3.8 or later, which records runs inside. none: there is none; only "
            "what is recorded outside runs there.",
            "setup_lines": "Shell lines before the program starts, outside the container, such as "
            "module load python.",
        }
        widgets: ClassVar = {
            "setup_lines": forms.Textarea(
                attrs={"rows": 3, "class": "form-control text", "spellcheck": "false"}
            ),
            "groups": forms.CheckboxSelectMultiple,
            "python": forms.TextInput(
                attrs={"list": "interpreters", "spellcheck": "false", "autocomplete": "off"}
            ),
        }

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user
        self.suggested: dict[str, str] = {}
        for name in DECIDING & self.fields.keys():
            self.fields[name].widget.attrs.update(REFRESH_PARTS)
        self.clusters = Cluster.objects.usable_by(user)
        self.chosen_cluster = self._chosen_cluster()
        if self.instance.pk:
            del self.fields["cluster"]
        else:
            self._field("cluster").queryset = self.clusters
        runtimes = Runtime.objects.filter(cluster=self.chosen_cluster)
        self._field("runtime").queryset = runtimes
        self._field("runtime").empty_label = "none: bare metal"
        self.chosen_runtime: Runtime | None = (
            self._chosen_row("runtime", runtimes) or self._first_startable_runtime()
        )
        self._field("staged_image").queryset = self._startable_forms()
        self._field("staged_image").label_from_instance = _form_of
        self._field("staged_image").error_messages["invalid_choice"] = (
            "The runtime above does not start this, or it is not there yet: choose what is listed."
        )
        self.chosen_image: StagedImage | None = self._chosen_row(
            "staged_image", self._startable_forms()
        )
        self._set_modes()
        self.offer_groups_of(user)
        if permissions.why_not_write_setup_lines(user, self.chosen_cluster or Cluster()):
            del self.fields["setup_lines"]
        if not self.is_bound and not self.instance.pk:
            self._suggest()

    def _field(self, name: str) -> Any:
        return self.fields[name]

    def _chosen_row(self, name: str, rows: QuerySet[Any]) -> Any:
        """Return the row that was chosen so far, if it is one of `rows`."""
        if self.is_bound:
            chosen = self.data.get(name)
        else:
            chosen = self.initial.get(name) or getattr(self.instance, f"{name}_id")
        key = getattr(chosen, "pk", chosen)
        return rows.filter(pk=parse_whole_number(key)).first()

    def _chosen_cluster(self) -> Cluster | None:
        if self.instance.pk:
            cluster: Cluster = self.instance.cluster
            return cluster
        requested_cluster: Cluster | None = self._chosen_row("cluster", self.clusters)
        return requested_cluster or self.clusters.first()

    def _first_startable_runtime(self) -> Runtime | None:
        """Return the first runtime that starts the chosen image, where none is chosen."""
        if self.is_bound or "runtime" in self.initial or self.instance.pk:
            return None
        staged = self._chosen_row(
            "staged_image", StagedImage.objects.filter(cluster=self.chosen_cluster)
        )
        runtimes = Runtime.objects.filter(cluster=self.chosen_cluster) if staged else ()
        return next(
            (runtime for runtime in runtimes if staged.format in RUNTIMES[runtime.kind].formats),
            None,
        )

    def _startable_forms(self) -> QuerySet[StagedImage]:
        """Return the staged forms that the chosen runtime starts; the chosen one stays."""
        if self.chosen_runtime is None:
            return StagedImage.objects.none()
        formats = RUNTIMES[self.chosen_runtime.kind].formats
        ready_and_startable = {"state": StagedImage.State.READY, "format__in": formats}
        seen = Image.objects.visible_to(self.user)
        rows = StagedImage.objects.filter(cluster=self.chosen_cluster, image__in=seen.values("pk"))
        startable_rows = rows.filter(**ready_and_startable) | StagedImage.objects.filter(
            pk=self.instance.staged_image_id
        )
        return startable_rows.select_related("image").defer("image__packages")

    def _set_modes(self) -> None:
        """Offer the runtime's modes; a form that belongs to one mode offers only that."""
        kind = RUNTIMES[self.chosen_runtime.kind if self.chosen_runtime else "bare_metal"]
        fixed = self.chosen_image.mode if self.chosen_image else ""
        self.modes = {fixed: kind.modes.get(fixed, "")} if fixed else dict(kind.modes)
        choices = [(mode, f"{mode}: {description}") for mode, description in self.modes.items()]
        if not fixed:
            choices.insert(0, ("", "the runtime’s own"))
        self._field("mode").choices = choices
        self._field("mode").error_messages["invalid_choice"] = (
            "This is no mode in which the runtime can start the image: choose one that is listed."
        )

    @property
    def interpreters(self) -> list[tuple[str, str]]:
        """Return paths and versions of the Pythons that were found in the image."""
        facts = self.chosen_image.image.facts if self.chosen_image else {}
        pythons = facts.get("pythons") or []
        return [
            (f"/{python['path'].lstrip('/')}", str(python.get("version", ""))) for python in pythons
        ]

    def _suggest(self) -> None:
        """Fill in what follows from the choices; what was typed stays."""
        self.initial["cluster"] = self.chosen_cluster and self.chosen_cluster.pk
        self.initial["runtime"] = self.chosen_runtime and self.chosen_runtime.pk
        self.initial["staged_image"] = self.chosen_image and self.chosen_image.pk
        if self.chosen_image and self.chosen_image.mode:
            self.initial["mode"] = self.chosen_image.mode
        suggested = self._suggestions()
        for name, value in suggested.items():
            # What was suggested for an earlier choice makes room for what fits this one.
            typed = self.initial.get(name)
            if not typed or typed == self.initial.get(f"suggested_{name}"):
                self.initial[name] = value
        self.suggested = suggested

    def _suggestions(self) -> dict[str, str]:
        if self.chosen_runtime is None:
            return {"name": self._free_name("bare metal"), "python": PYTHON}
        label = self.chosen_runtime.get_kind_display()
        if self.chosen_image is None:
            return {"name": "", "python": PYTHON}
        image = self.chosen_image.image
        form = self.chosen_image.form.removeprefix(self.chosen_runtime.kind).strip()
        short = image.reference.rpartition("/")[2].partition("@")[0]
        name = " ".join(part for part in (label, form, f"({short})") if part)
        return {"name": self._free_name(name[:90]), "python": find_interpreter(image.facts)}

    def _free_name(self, name: str) -> str:
        """Return the name, or the first one with a number that is still free on the cluster."""
        environments = Environment.objects.filter(
            cluster=self.chosen_cluster, name__startswith=name
        )
        taken = set(environments.values_list("name", flat=True))
        numbered = (f"{name} {number}" for number in range(2, len(taken) + 3))
        return (
            name
            if name not in taken
            else next(free_name for free_name in numbered if free_name not in taken)
        )

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"])
        environments = Environment.objects.filter(cluster=self.chosen_cluster, name=name)
        if environments.exclude(pk=self.instance.pk).exists():
            raise ValidationError(f"{self.chosen_cluster} has an environment of this name already.")
        return name

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if "runtime" in self.errors or "staged_image" in self.errors:
            return cleaned
        refusals = environments.list_refusals(
            cluster=self.chosen_cluster,
            runtime=cleaned.get("runtime"),
            staged=cleaned.get("staged_image"),
            mode=cleaned.get("mode", ""),
            binds=cleaned.get("binds") or [],
        )
        for name, message in refusals.items():
            if name not in self.errors:
                self.add_error(name, message)
        return cleaned


def _form_of(staged: StagedImage) -> str:
    return f"{staged.image} as {staged.form}"


def read_typed_values(data: QueryDict) -> dict[str, Any]:
    """Return what was typed so far as initial values, for a form that is not validated yet."""
    names = (*EnvironmentForm.base_fields, "suggested_name", "suggested_python")
    return {name: data[name] for name in names if name in data}
