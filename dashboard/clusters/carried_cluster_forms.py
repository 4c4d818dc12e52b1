"""The form of a machine that Tare cannot reach: what its jobs' scripts have to know."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from dashboard.clusters.new_cluster_forms import LONGEST_MINUTES, MOST_GPUS, clean_new_name
from dashboard.form_styles import Styled
from experiments.execution import explain_partition_problem
from experiments.models import Cluster, Partition, User
from experiments.models.cluster_choices import BY_HAND, is_work_directory, scheduler_choices
from experiments.models.visibility import Visibility, readers_inside


class CarriedClusterForm(Styled, forms.Form):
    """A machine without a connection, and the partition of its jobs."""

    name = forms.CharField(max_length=100, help_text="How pages call the machine.")
    scheduler = forms.ChoiceField(
        choices=scheduler_choices,
        initial="direct",
        help_text="How the start script runs the jobs there: one after the other, by sbatch or by "
        "qsub.",
    )
    work_directory = forms.CharField(
        max_length=500,
        validators=[is_work_directory],
        help_text="Where the archive will be unpacked: an absolute path, which the jobs’ scripts "
        "name. Compute nodes must share it.",
    )
    partition = forms.CharField(
        max_length=100,
        required=False,
        help_text="Its name for the scheduler. Without a scheduler any name; empty for jobs "
        "without GPUs.",
    )
    gpus_per_node = forms.IntegerField(
        label="GPUs per node", min_value=0, max_value=MOST_GPUS, initial=0
    )
    cpus_per_run = forms.IntegerField(
        label="CPUs per run", min_value=1, max_value=100_000, initial=1
    )
    time_limit_minutes = forms.IntegerField(
        label="Longest job, in minutes", min_value=1, max_value=LONGEST_MINUTES, initial=60
    )
    visibility = forms.ChoiceField(
        choices=[choice for choice in readers_inside() if choice[0] != Visibility.GROUPS],
        initial=Visibility.PRIVATE,
        help_text="Who can view it may also plan jobs for it.",
    )

    def clean_name(self) -> str:
        return clean_new_name(self.cleaned_data["name"])

    def clean_work_directory(self) -> str:
        path = str(self.cleaned_data["work_directory"])
        if not path.isprintable():
            raise ValidationError("A work directory’s name is one line of printable characters.")
        return path

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if self.errors:
            return cleaned
        if cleaned["scheduler"] != "direct" and not cleaned["partition"]:
            self.add_error("partition", "A scheduler needs its name.")
        elif cleaned["gpus_per_node"] and not cleaned["partition"]:
            self.add_error("partition", "Jobs with GPUs need one.")
        else:
            partition = self.make_partition()
            problem = partition and explain_partition_problem(partition, cleaned["scheduler"])
            if problem:
                self.add_error("partition", f"A job cannot be written so: {problem}.")
        return cleaned

    def make_cluster(self, owner: User) -> Cluster:
        """Return the cluster, not saved."""
        chosen = self.cleaned_data
        names = ("name", "scheduler", "work_directory", "visibility")
        return Cluster(transport=BY_HAND, owner=owner, **{name: chosen[name] for name in names})

    def make_partition(self) -> Partition | None:
        """Return the partition, not saved and without its cluster; None if none is named."""
        chosen = self.cleaned_data
        if not chosen["partition"]:
            return None
        names = ("gpus_per_node", "cpus_per_run", "time_limit_minutes")
        return Partition(
            name=chosen["partition"],
            cpus_per_node=chosen["cpus_per_run"],
            **{name: chosen[name] for name in names},
        )
