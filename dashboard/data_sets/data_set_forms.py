"""The forms of data sets: a new one with where it lies, what is said of it, another copy."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.db import transaction

from dashboard.form_styles import Styled, TextArea
from experiments.access import audit
from experiments.access.own_columns import OwnColumns
from experiments.access.visibility_fields import VisibilityFields
from experiments.data_sets import copies
from experiments.models import Cluster, DataCopy, DataSet, User
from experiments.models.data_sets import is_data_path

PATH_HELP = (
    "Absolute, a folder or one file, where compute nodes read it. Tare reads it there and copies "
    "nothing."
)


class DataSetForm(OwnColumns, VisibilityFields, Styled, forms.ModelForm):  # type: ignore[type-arg]
    """The form of what is said of a data set; what its files are is read, not typed."""

    class Meta:
        model = DataSet
        fields = ("name", "description", "licence", "source", "visibility", "groups")
        widgets: ClassVar = {
            "description": TextArea(attrs={"rows": 3}),
            "groups": forms.CheckboxSelectMultiple,
        }

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user
        self.offer_groups_of(user)


class CopyForm(Styled, forms.Form):
    """The form of a copy: a cluster and a path."""

    cluster = forms.ModelChoiceField(Cluster.objects, help_text="A cluster whose key you may use.")
    path = forms.CharField(
        max_length=500,
        validators=[is_data_path],
        widget=forms.TextInput(
            attrs={"placeholder": "/projects/data/cifar10", "spellcheck": "false"}
        ),
        help_text=PATH_HELP,
    )

    def __init__(self, *args: Any, user: User, data_set: DataSet | None = None, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.user, self.data_set = user, data_set
        self.clusters = offer_clusters(self.fields["cluster"], user, data_set)

    def request_copy_if_valid(self) -> DataCopy | None:
        """Request the reading of the copy if the form is valid; a refusal is shown at its field."""
        if not self.is_valid() or self.data_set is None:
            return None
        cleaned = self.cleaned_data
        try:
            return copies.add_copy(self.data_set, cleaned["cluster"], cleaned["path"], self.user)
        except copies.NotDone as refusal:
            self.add_error("path", str(refusal))
            return None


class NewDataSetForm(DataSetForm):
    """The form of a new data set: what is said of it, and where the first copy lies."""

    cluster = forms.ModelChoiceField(Cluster.objects, help_text="A cluster whose key you may use.")
    path = CopyForm.base_fields["path"]

    field_order = ("name", "cluster", "path", "licence", "source", "description")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.clusters = offer_clusters(self.fields["cluster"], self.user)

    def save_if_valid(self) -> DataSet | None:
        """Store the data set and request the reading of its first copy, both or neither."""
        if not self.is_valid():
            return None
        cleaned = self.cleaned_data
        try:
            with transaction.atomic():
                with audit.log_change(self.user, self.instance):
                    self.save()
                copies.add_copy(self.instance, cleaned["cluster"], cleaned["path"], self.user)
        except copies.NotDone as refusal:
            self.add_error("path", str(refusal))
            return None
        row: DataSet = self.instance
        return row


def offer_clusters(field: Any, user: User, data_set: DataSet | None = None) -> list[Cluster]:
    """Have a field offer the clusters on which `user` may add a copy; return them.

    Those that have a copy of the data set are left out. None is chosen by itself.
    """
    rows = Cluster.objects.usable_by(user).order_by("name")
    if data_set is not None:
        rows = rows.exclude(data_copies__data_set=data_set)
    clusters = [row for row in rows if not row.is_by_hand]
    field.queryset = Cluster.objects.filter(pk__in=[row.pk for row in clusters])
    # From what was read just now: a queryset is asked again each time that its field is drawn.
    field.choices = [("", "choose one"), *((row.pk, str(row)) for row in clusters)]
    return clusters
