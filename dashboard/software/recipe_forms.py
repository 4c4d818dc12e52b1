"""The form of a recipe: a base image, what is added to it, and the cluster that builds."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile

from dashboard.form_styles import Styled
from experiments.images.staging import NotDone
from experiments.models import Cluster, Image, ImageImport, Partition, User
from experiments.software import building, conda_files
from experiments.software.lock_files import MOST_CHARACTERS, LockError


class RecipeForm(Styled, forms.Form):
    """The form of what to build, from what, and where."""

    title = forms.CharField(
        label="Name", max_length=300, help_text="What to call the image in the catalogue."
    )
    base = forms.ModelChoiceField(
        Image.objects,
        empty_label="choose one",
        help_text="Any image of the catalogue; a lock file needs Python in it. It stays as it is: "
        "Debian packages become one more layer, and what the lock names another, a virtual "
        "environment at /opt/tare.",
    )
    packages = forms.CharField(
        label="Debian packages",
        required=False,
        max_length=building.LONGEST_PACKAGE_LIST,
        widget=forms.Textarea(
            attrs={"rows": 3, "class": "form-control text", "spellcheck": "false"}
        ),
        help_text="NAME or NAME=VERSION, as apt-get install takes them: Podman installs them on "
        "the cluster, from the indexes that the base knows, and the image keeps their versions.",
    )
    lock = forms.CharField(
        label="Lock file",
        required=False,
        strip=False,
        max_length=MOST_CHARACTERS,
        widget=forms.Textarea(
            attrs={"rows": 12, "class": "form-control text", "spellcheck": "false"}
        ),
        help_text="Every Python package with == and its hashes, as uv pip compile "
        "--generate-hashes writes it. Wheels only: to build from source, pip would fetch what no "
        "lock holds.",
    )
    file = forms.FileField(
        label="or as a file", required=False, help_text="Such as requirements.lock."
    )
    conda_file = forms.CharField(
        label="Environment file of conda",
        required=False,
        strip=False,
        max_length=conda_files.MOST_CHARACTERS,
        widget=forms.Textarea(
            attrs={"rows": 8, "class": "form-control text", "spellcheck": "false"}
        ),
        help_text="In place of a lock file: environment.yml, with channels, dependencies and a "
        "list pip. They are installed at /opt/tare, and the image keeps the address and check sum "
        "of each package.",
    )
    conda_upload = forms.FileField(
        label="or as a file", required=False, help_text="Such as environment.yml."
    )
    cluster = forms.ModelChoiceField(
        Cluster.objects,
        empty_label="choose one",
        help_text="For a lock it needs Apptainer, Singularity or Charliecloud, for Debian packages "
        "Podman, and a way to an index: its set-up lines or pip’s configuration there name one.",
    )
    partition = forms.ModelChoiceField(
        Partition.objects,
        required=False,
        empty_label="the one with the longest time limit",
        help_text="Where the build runs: a job of some minutes.",
    )

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user
        clusters = Cluster.objects.usable_by(user)
        self._field("base").queryset = Image.objects.visible_to(user)
        self._field("cluster").queryset = clusters
        self._field("partition").queryset = Partition.objects.filter(
            cluster__in=clusters, enabled=True
        ).select_related("cluster")

    def _field(self, name: str) -> Any:
        return self.fields[name]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        where = self._take_file(cleaned, "lock", "file", "a lock")
        conda_where = self._take_file(
            cleaned,
            "conda_file",
            "conda_upload",
            "an environment file",
            conda_files.MOST_CHARACTERS,
        )
        packages: list[str] = []
        try:
            packages = building.clean_packages(cleaned.get("packages") or "")
        except NotDone as problem:
            self.add_error("packages", str(problem))
        try:
            cleaned["conda_file"] = building.clean_conda_file(cleaned.get("conda_file") or "")
        except NotDone as problem:
            self.add_error(conda_where, str(problem))
        others = packages or self.errors.get(conda_where) or cleaned.get("conda_file")
        try:
            cleaned["lock"] = building.clean_lock(cleaned.get("lock") or "", is_needed=not others)
        except LockError as problem:
            self.add_error(where, str(problem))
        if cleaned.get("conda_file") and cleaned.get("lock"):
            self.add_error(conda_where, building.NOT_BOTH)
        partition, cluster = cleaned.get("partition"), cleaned.get("cluster")
        if partition and cluster and partition.cluster_id != cluster.pk:
            self.add_error("partition", f"This is a partition of {partition.cluster}.")
        return cleaned

    def _take_file(
        self,
        cleaned: dict[str, Any],
        text: str,
        upload: str,
        what: str,
        most: int = MOST_CHARACTERS,
    ) -> str:
        """Take the text of an uploaded file, if there is one; return the field it came from."""
        file: UploadedFile[Any] | None = cleaned.get(upload)
        if not file:
            return text
        if (cleaned.get(text) or "").strip():
            self.add_error(upload, f"Paste {what} or choose a file, not both.")
            return upload
        try:
            cleaned[text] = read_text(file, most, what, field=upload)
        except ValidationError as problem:
            self.add_error(None, problem)
        return upload

    def request_build_if_valid(self) -> ImageImport | None:
        """Request the build; a refusal is shown at its field."""
        if not self.is_valid():
            return None
        cleaned = self.cleaned_data
        try:
            return building.request_build(
                cleaned["base"],
                cleaned["lock"],
                cleaned["cluster"],
                self.user,
                title=cleaned["title"],
                packages=cleaned["packages"],
                conda_file=cleaned["conda_file"],
                partition=cleaned["partition"],
            )
        except NotDone as refusal:
            self.add_error(None, str(refusal))
            return None


def read_text(
    file: UploadedFile[Any],
    most: int = MOST_CHARACTERS,
    what: str = "a lock",
    *,
    field: str = "file",
) -> str:
    """Return the text of an uploaded file. Raises ValidationError for its field."""
    if (file.size or 0) > most:
        raise ValidationError({field: f"{file.name} is too large to be {what}."})
    try:
        return str(file.read().decode())
    except UnicodeDecodeError:
        raise ValidationError({field: f"{file.name} is no text."}) from None
