"""The form of a build of a Dockerfile or a definition file."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile

from dashboard.file_fields import FilesField, ManyFiles
from dashboard.form_styles import Styled
from dashboard.software.recipe_forms import read_text
from experiments.images.staging import NotDone
from experiments.models import Cluster, ImageImport, Partition, User
from experiments.software import build_files
from experiments.software.build_files import DEFAULT_MINUTES, LONGEST_FILE, MOST_MINUTES
from runners.workloads.given import LARGEST_FILE, LARGEST_TOGETHER, MOST_FILES

Kind = ImageImport.Kind


class BuildFileForm(Styled, forms.Form):
    """The form of which file to build, with which other files, and where."""

    title = forms.CharField(
        label="Name", max_length=300, help_text="What to call the image in the catalogue."
    )
    kind = forms.ChoiceField(
        label="What it is",
        choices=[
            (Kind.DOCKERFILE, "a Dockerfile, built by Podman"),
            (Kind.DEFINITION, "a definition file, built by Apptainer"),
        ],
    )
    text = forms.CharField(
        label="The file",
        required=False,
        strip=False,
        max_length=LONGEST_FILE,
        widget=forms.Textarea(
            attrs={"rows": 14, "class": "form-control text", "spellcheck": "false"}
        ),
        help_text="Its base is named by the digest of an image of the catalogue: "
        "FROM debian@sha256:..., or From: debian@sha256:... after Bootstrap: docker.",
    )
    file = forms.FileField(
        label="or as a file", required=False, help_text="Such as Dockerfile or tools.def."
    )
    uploads = FilesField(
        label="Files sent along",
        required=False,
        widget=ManyFiles,
        help_text=f"For COPY and %files: at most {MOST_FILES}, each {LARGEST_FILE // 10**6} MB, "
        f"all together {LARGEST_TOGETHER // 10**6} MB.",
    )
    cluster = forms.ModelChoiceField(
        Cluster.objects,
        empty_label="choose one",
        help_text="It needs Podman for a Dockerfile, Apptainer for a definition file, and for this "
        "account a range of subordinate user ids.",
    )
    partition = forms.ModelChoiceField(
        Partition.objects,
        required=False,
        empty_label="the one with the longest time limit",
        help_text="Where the build runs.",
    )
    minutes = forms.IntegerField(
        label="Ended after",
        min_value=1,
        max_value=MOST_MINUTES,
        initial=DEFAULT_MINUTES,
        help_text="Minutes. The time limit of the partition ends it too.",
    )

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user
        clusters = Cluster.objects.usable_by(user)
        fields: dict[str, Any] = self.fields
        fields["cluster"].queryset = clusters
        fields["partition"].queryset = Partition.objects.filter(
            cluster__in=clusters, enabled=True
        ).select_related("cluster")

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        file: UploadedFile[Any] | None = cleaned.get("file")
        where = "text"
        if file and (cleaned.get("text") or "").strip():
            self.add_error("file", "Paste the file or choose one, not both.")
        elif file:
            where = "file"
            cleaned["text"] = read_text(file, LONGEST_FILE, "such a file")
        if cleaned.get("kind") and not self.errors:
            try:
                build_files.read_base_digest(cleaned["kind"], cleaned.get("text") or "")
            except NotDone as problem:
                self.add_error(where, str(problem))
        partition, cluster = cleaned.get("partition"), cleaned.get("cluster")
        if partition and cluster and partition.cluster_id != cluster.pk:
            self.add_error("partition", f"This is a partition of {partition.cluster}.")
        return cleaned

    def request_build_if_valid(self) -> ImageImport | None:
        """Request the build; a refusal is shown above the form."""
        if not self.is_valid():
            return None
        cleaned = self.cleaned_data
        try:
            return build_files.request_file_build(
                cleaned["kind"],
                cleaned["text"],
                cleaned["uploads"],
                cleaned["cluster"],
                self.user,
                title=cleaned["title"],
                partition=cleaned["partition"],
                minutes=cleaned["minutes"],
            )
        except NotDone as refusal:
            self.add_error(None, str(refusal))
            return None
