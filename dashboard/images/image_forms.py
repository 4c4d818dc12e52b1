"""The forms of images: three ways to import one, staging, and labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.db.models import QuerySet

from dashboard.form_styles import Styled
from dashboard.uploads import explain_too_large
from experiments.access import audit
from experiments.clusters import preflights
from experiments.images import image_imports, staging
from experiments.models import Cluster, Image, ImageImport, Partition, StagedImage, User
from experiments.models.images import ARCHITECTURES, DEFAULT_ARCHITECTURE

MOST_LABELS = 100
LONGEST_LABEL = 1000
TITLE = "What to call it in the catalogue; left empty, as it is called where it comes from."


class ImageImportForm(Styled, forms.Form):
    """A form that imports an image in one way; `way` is its name in the address and the form."""

    way = ""
    heading = ""
    button = "Add it"
    is_main = False
    """Whether its button is the primary one of the page: the way that most images come."""
    is_useless = ""
    """Why nobody can fill the form in; "" if they can."""
    refused_at = "title"

    title = forms.CharField(label="Name", max_length=300, required=False, help_text=TITLE)
    architecture = forms.ChoiceField(
        choices=[(name, name) for name in ARCHITECTURES],
        initial=DEFAULT_ARCHITECTURE,
        required=False,
        help_text="Of the nodes it is for. Of a list of platforms this one is taken.",
    )

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        # The forms share a page, so each field's id begins with its form's name.
        super().__init__(*args, **{"auto_id": f"id_{self.way}_%s", **kwargs})
        self.user = user

    def clean_architecture(self) -> str:
        return self.cleaned_data["architecture"] or DEFAULT_ARCHITECTURE

    def request_import(self) -> ImageImport:
        """Store a request for the import and return it; raises NotDone."""
        raise NotImplementedError

    def request_import_if_valid(self) -> ImageImport | None:
        """Request the import if the form is valid; a refusal is shown at its field."""
        if not self.is_valid():
            return None
        try:
            return self.request_import()
        except staging.NotDone as refusal:
            self.add_error(self.refused_at, str(refusal))
            return None


class ReferenceForm(ImageImportForm):
    """The form that adds an image from a registry."""

    way = "reference"
    is_main = True
    heading = "From a registry"
    refused_at = "reference"

    reference = forms.CharField(
        max_length=500,
        widget=forms.TextInput(
            attrs={
                "placeholder": "docker://docker.io/tensorflow/tensorflow:2.21.0-gpu",
                "spellcheck": "false",
                "autocomplete": "off",
            }
        ),
        help_text="A tag is resolved now and becomes a label; what counts from then on is the "
        "digest. With …@sha256:… nothing else than that is taken.",
    )
    user_name = forms.CharField(
        max_length=100,
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text="At the registry, where it asks for one.",
    )
    password = forms.CharField(
        label="Password or token",
        required=False,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="Encrypted, and forgotten once the image is here.",
    )

    field_order = ("reference", "architecture", "title", "user_name", "password")

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if bool(cleaned.get("user_name")) != bool(cleaned.get("password")):
            missing = "password" if cleaned.get("user_name") else "user_name"
            self.add_error(missing, "A user name and a password go together.")
        return cleaned

    def request_import(self) -> ImageImport:
        cleaned = self.cleaned_data
        return image_imports.request_from_registry(
            cleaned["reference"],
            self.user,
            title=cleaned["title"],
            user_name=cleaned["user_name"],
            password=cleaned["password"],
            architecture=cleaned["architecture"],
        )


class UploadForm(ImageImportForm):
    """The form that adds an image from an uploaded file."""

    way = "upload"
    heading = "Upload a file"
    button = "Upload it"
    refused_at = "file"

    file = forms.FileField(
        help_text="An OCI or Docker archive (docker save), a root file system as tar, tar.gz or "
        "tar.xz, or a SIF file.",
    )

    field_order = ("file", "architecture", "title")

    def __init__(self, *args: Any, refused: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.refused = refused
        widget = self.fields["file"].widget
        widget.attrs["data-most-bytes"] = str(settings.IMAGE_UPLOAD_BYTES)
        widget.attrs["data-too-large"] = explain_too_large()
        if refused:
            self.fields["file"].required = False

    def clean_file(self) -> UploadedFile[Any] | None:
        if self.refused:
            raise ValidationError(self.refused)
        upload: UploadedFile[Any] | None = self.cleaned_data["file"]
        return upload

    def request_import(self) -> ImageImport:
        cleaned = self.cleaned_data
        return image_imports.request_upload(
            cleaned["file"],
            self.user,
            title=cleaned["title"],
            architecture=cleaned["architecture"],
        )


class FileForm(ImageImportForm):
    """The form that adds an image from a file on a cluster."""

    way = "file"
    heading = "A file on a cluster"
    refused_at = "path"

    cluster = forms.ModelChoiceField(Cluster.objects, help_text="A cluster whose key you may use.")
    path = forms.CharField(
        max_length=500,
        widget=forms.TextInput(
            attrs={"placeholder": "/projects/images/training.sif", "spellcheck": "false"}
        ),
        help_text="Absolute. The same kinds of files as for an upload; Tare fetches a copy.",
    )

    field_order = ("cluster", "path", "architecture", "title")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        clusters: Any = self.fields["cluster"]
        clusters.empty_label = "choose one"
        clusters.queryset = Cluster.objects.usable_by(self.user)
        if not clusters.queryset:
            self.is_useless = "There is no cluster yet whose key you may use."

    def request_import(self) -> ImageImport:
        cleaned = self.cleaned_data
        return image_imports.request_from_cluster(
            cleaned["cluster"],
            cleaned["path"],
            self.user,
            title=cleaned["title"],
            architecture=cleaned["architecture"],
        )


IMPORT_FORMS: dict[str, type[ImageImportForm]] = {
    form.way: form for form in (ReferenceForm, UploadForm, FileForm)
}


def _list_offered_partitions(cluster: Cluster) -> list[tuple[str, str]]:
    """Return a cluster's partitions in service as choices; prefetch `partitions`."""
    return [(str(row.pk), row.name) for row in cluster.partitions.all() if row.enabled]


def select_clusters(user: User) -> QuerySet[Cluster]:
    """Return the clusters that a person may use, with what a form of them rests on."""
    return Cluster.objects.usable_by(user).prefetch_related(
        "runtimes", "partitions", preflights.prefetch_ended_reports()
    )


class StageForm(Styled, forms.Form):
    """The form that stages an image on a cluster, in a form that its runtimes can start."""

    where = forms.ChoiceField(label="Cluster and form")
    partition = forms.ChoiceField(
        required=False, help_text="Where the conversion runs: a job, and a minute or some."
    )

    def __init__(
        self,
        *args: Any,
        image: Image,
        user: User,
        clusters: Iterable[Cluster] | None = None,
        staged: Iterable[StagedImage] | None = None,
        **kwargs: Any,
    ) -> None:
        """`clusters` as `select_clusters` gives them, and what is `staged` there, if known."""
        super().__init__(*args, **kwargs)
        self.image, self.user = image, user
        usable = select_clusters(user) if clusters is None else clusters
        self.clusters = {cluster.pk: cluster for cluster in usable}
        already_staged = {
            (row.cluster_id, row.format, row.mode)
            for row in (image.staged.all() if staged is None else staged)
            if row.state in PRESENT
        }
        choices_by_cluster = []
        for cluster in self.clusters.values():
            choices = [
                (f"{cluster.pk} {form} {mode}", f"{label}, on {cluster}")
                for form, mode, label in staging.list_forms(cluster)
                if (cluster.pk, form, mode) not in already_staged
            ]
            if choices:
                choices_by_cluster.append((str(cluster), choices))
        self.is_empty = not choices_by_cluster
        self.impossible = [
            (cluster, checks)
            for cluster in self.clusters.values()
            if (checks := staging.list_impossible_forms(cluster))
        ]
        partitions_by_cluster = [
            (str(cluster), offered)
            for cluster in self.clusters.values()
            if (offered := _list_offered_partitions(cluster))
        ]
        self._field("where").choices = choices_by_cluster
        self._field("partition").choices = [
            ("", "the one with the longest time limit"),
            *partitions_by_cluster,
        ]

    def _field(self, name: str) -> Any:
        return self.fields[name]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if "where" in cleaned:
            key, form, mode = cleaned["where"].split(" ", 2)
            cleaned |= {"cluster": self.clusters[int(key)], "form": form, "mode": mode}
            if cleaned.get("partition"):
                row = audit.get_stored(Partition.objects.all(), pk=cleaned["partition"])
                if row.cluster_id != cleaned["cluster"].pk:
                    self.add_error("partition", f"This is a partition of {row.cluster}.")
                cleaned["partition"] = row
        return cleaned

    def request_staging_if_valid(self) -> StagedImage | None:
        """Request the staging if the form is valid; a refusal is shown at its field."""
        if not self.is_valid():
            return None
        cleaned = self.cleaned_data
        try:
            return staging.stage(
                self.image,
                cleaned["cluster"],
                cleaned["form"],
                self.user,
                mode=cleaned["mode"],
                partition=cleaned["partition"] or None,
            )
        except staging.NotDone as refusal:
            self.add_error("where", str(refusal))
            return None


PRESENT = (StagedImage.State.READY, StagedImage.State.STAGING, StagedImage.State.REMOVING)


class LabelsForm(Styled, forms.ModelForm):  # type: ignore[type-arg]
    """An image's labels as lines; a value of several lines is left as it is."""

    lines = forms.CharField(
        label="Labels",
        required=False,
        widget=forms.Textarea(attrs={"rows": 4, "class": "form-control text"}),
        help_text="One a line: a word, or name=value. They are for finding and telling images; "
        "what an image is its digest says.",
    )

    class Meta:
        model = Image
        fields = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        labels = self.instance.labels
        self.kept = {name: value for name, value in labels.items() if not fits_line(name, value)}
        lines = [
            f"{name}={value}" if value else name
            for name, value in labels.items()
            if name not in self.kept
        ]
        self.initial["lines"] = "\n".join(lines)

    def clean_lines(self) -> dict[str, str]:
        labels: dict[str, str] = {}
        for line in self.cleaned_data["lines"].splitlines():
            name, _, value = (part.strip() for part in line.partition("="))
            if not name and not value:
                continue
            if not name:
                raise ValidationError(f"A label has a name: {line!r} has none.")
            if name in labels:
                raise ValidationError(f"{name} is there twice.")
            if len(line) > LONGEST_LABEL:
                raise ValidationError(f"{name[:40]} is longer than {LONGEST_LABEL} characters.")
            labels[name] = value
        if len(labels) > MOST_LABELS:
            raise ValidationError(f"At most {MOST_LABELS} labels; these are {len(labels)}.")
        return labels

    def keep(self, by: User) -> None:
        """Write the labels alone: a survey may be filling the other columns."""
        row = self.instance
        row.labels = self.cleaned_data["lines"] | self.kept
        with audit.log_change(by, row):
            row.save(update_fields=["labels"])


def fits_line(name: str, value: Any) -> bool:
    """Return whether a label can be written as a line and read back."""
    return (
        isinstance(value, str)
        and "=" not in name
        and (
            len(f"{name}={value}".splitlines()) == 1
            and name == name.strip()
            and value == value.strip()
        )
    )
