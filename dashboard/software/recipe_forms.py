"""The form of a recipe: a base image, what is added to it, and the cluster that builds."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile

from dashboard.form_styles import Styled
from experiments.images.staging import NotDone
from experiments.models import Cluster, Image, ImageImport, Partition, User
from experiments.software import building
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
        file: UploadedFile[Any] | None = cleaned.get("file")
        where = "lock"
        if file and (cleaned.get("lock") or "").strip():
            self.add_error("file", "Paste the lock or choose a file, not both.")
        elif file:
            where, cleaned["lock"] = "file", read_text(file)
        packages: list[str] = []
        try:
            packages = building.clean_packages(cleaned.get("packages") or "")
        except NotDone as problem:
            self.add_error("packages", str(problem))
        try:
            cleaned["lock"] = building.clean_lock(cleaned.get("lock") or "", is_needed=not packages)
        except LockError as problem:
            self.add_error(where, str(problem))
        partition, cluster = cleaned.get("partition"), cleaned.get("cluster")
        if partition and cluster and partition.cluster_id != cluster.pk:
            self.add_error("partition", f"This is a partition of {partition.cluster}.")
        return cleaned

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
                partition=cleaned["partition"],
            )
        except NotDone as refusal:
            self.add_error(None, str(refusal))
            return None


def read_text(file: UploadedFile[Any], most: int = MOST_CHARACTERS, what: str = "a lock") -> str:
    """Return the text of an uploaded file. Raises ValidationError for the field `file`."""
    if (file.size or 0) > most:
        raise ValidationError({"file": f"{file.name} is too large to be {what}."})
    try:
        return str(file.read().decode())
    except UnicodeDecodeError:
        raise ValidationError({"file": f"{file.name} is no text."}) from None
