"""Forms of the steps by which a cluster is added. None of them holds a stored secret."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator

from dashboard.clusters.credential_forms import check_account
from dashboard.form_styles import Styled
from experiments.clusters.cluster_updates import KNOWN_FACTS, propose_partition
from experiments.clusters.jump_hosts import list_jump_hosts
from experiments.execution import explain_partition_problem
from experiments.models import Cluster, ClusterDraft, Credential, Partition, Runtime, User
from experiments.models.cluster import MOST_POLL_SECONDS
from experiments.models.cluster_choices import is_work_directory
from experiments.models.visibility import Visibility
from runners.cluster_reading.found import Found, FoundPartition

LARGEST_PORT = 65535
LONGEST_MINUTES = 366 * 24 * 60
MOST_LIVE_JOBS = 10_000
MOST_GPUS = 1000  # of a node


class AddressForm(Styled, forms.ModelForm):  # type: ignore[type-arg]
    """Step 1: how the cluster is called, and where its login node is."""

    class Meta:
        model = ClusterDraft
        fields = ("name", "host", "port", "user_name", "scheduler", "jump_host")
        labels: ClassVar = {"user_name": "Account", "jump_host": "Jump host"}
        help_texts: ClassVar = {
            "name": "What Tare and you call the cluster.",
            "host": "The login node, such as login.example.org.",
            "user_name": "Your user name on the login node.",
            "scheduler": "Tare finds out by itself.",
            "jump_host": "Only where the login node is reached through another cluster here.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        scheduler: Any = self.fields["scheduler"]
        scheduler.choices = [("", "find out"), *scheduler.choices[1:]]
        jump: Any = self.fields["jump_host"]
        jump.queryset = list_jump_hosts(self.instance.owner)
        jump.empty_label = "none"
        port: Any = self.fields["port"]
        sentence = f"A port is a number from 1 to {LARGEST_PORT}."
        port.validators = [
            MinValueValidator(1, sentence),
            MaxValueValidator(LARGEST_PORT, sentence),
        ]
        for name in ("host", "user_name"):
            self.fields[name].widget.attrs.update(autocomplete="off", spellcheck="false")

    def clean_name(self) -> str:
        return clean_new_name(self.cleaned_data["name"])

    def clean_user_name(self) -> str:
        return check_account(self.cleaned_data["user_name"])


def clean_new_name(text: str) -> str:
    """Return the name of a new cluster. Raises ValidationError if there is one of that name."""
    name = text.strip()
    if Cluster.objects.filter(name=name).exists():
        raise ValidationError("There is a cluster of this name already.")
    return name


class HostKeyForm(Styled, forms.Form):
    """Step 2: a host key that was not fetched by Tare."""

    line = forms.CharField(
        label="A line of known_hosts",
        widget=forms.Textarea(attrs={"rows": 3, "class": "form-control text"}),
        max_length=10_000,
        help_text="As ssh-keyscan HOST prints it, or ~/.ssh/known_hosts has it; or the text of "
        "/etc/ssh/ssh_host_ed25519_key.pub.",
    )


class CredentialChoiceForm(Styled, forms.Form):
    """Step 3: a credential that is there already."""

    credential = forms.ModelChoiceField(Credential.objects.none(), empty_label="choose one")

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field: Any = self.fields["credential"]
        field.queryset = Credential.objects.usable_by(user).order_by("name")
        field.label_from_instance = lambda row: f"{row.name} (account {row.user_name})"


class WorkDirectoryForm(Styled, forms.ModelForm):  # type: ignore[type-arg]
    """Step 4: where jobs are to have their files."""

    class Meta:
        model = ClusterDraft
        fields = ("work_directory",)
        help_texts: ClassVar = {
            "work_directory": "An absolute path on a file system that login and compute nodes "
            "share. Empty: the folder tare in the account’s home directory.",
        }

    def clean_work_directory(self) -> str:
        path = str(self.cleaned_data["work_directory"])
        if not path.isprintable():
            raise ValidationError("A work directory’s name is one line of printable characters.")
        return path


class ClusterForm(Styled, forms.Form):
    """Step 5: what is chosen of a cluster beside its partitions."""

    name = forms.CharField(max_length=100)
    reading = forms.IntegerField(widget=forms.HiddenInput)
    visibility = forms.ChoiceField(
        choices=[(Visibility.MEMBERS, "everybody who can log in"), (Visibility.PRIVATE, "only me")],
        help_text="Who may send jobs is said by the credential.",
    )
    max_live_jobs = forms.IntegerField(
        label="Live jobs at most",
        min_value=1,
        max_value=MOST_LIVE_JOBS,
        help_text="How many of Tare’s jobs may be queued or running at once.",
    )
    poll_seconds = forms.FloatField(
        label="Seconds between status calls",
        min_value=1,
        max_value=MOST_POLL_SECONDS,
        help_text="Tare asks the scheduler so often while jobs are live.",
    )
    runtimes = forms.MultipleChoiceField(
        required=False, widget=forms.CheckboxSelectMultiple, label="Runtimes"
    )

    def __init__(self, *args: Any, found: Found, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.found = found
        runtimes: Any = self.fields["runtimes"]
        runtimes.choices = [(row.kind, f"{row.label} {row.version}") for row in found.runtimes]
        if not found.runtimes:
            del self.fields["runtimes"]

    def clean_name(self) -> str:
        return clean_new_name(self.cleaned_data["name"])

    def clean(self) -> dict[str, Any]:
        try:
            is_work_directory(self.found.work_directory)
        except ValidationError:
            raise ValidationError("Name a work directory in step 4, and read again.") from None
        return super().clean() or {}

    def make_cluster(self, draft: ClusterDraft) -> Cluster:
        """Return the cluster, not saved."""
        chosen = self.cleaned_data
        return Cluster(
            name=chosen["name"],
            host=draft.host,
            port=draft.port,
            host_key=draft.host_key,
            jump_host=draft.jump_host,
            credential=draft.credential,
            scheduler=self.found.scheduler,
            work_directory=self.found.work_directory,
            max_live_jobs=chosen["max_live_jobs"],
            poll_seconds=chosen["poll_seconds"],
            visibility=chosen["visibility"],
            owner=draft.owner,
        )

    def make_runtimes(self) -> list[Runtime]:
        """Return the chosen runtimes, not saved and without their cluster."""
        chosen = self.cleaned_data.get("runtimes", ())
        return [
            Runtime(kind=row.kind, executable=row.executable, version=row.version)
            for row in self.found.runtimes
            if row.kind in chosen
        ]


class PartitionRow(Styled, forms.Form):
    """A partition that was found: whether it is to be used, and how."""

    chosen = forms.BooleanField(required=False)
    time_limit_minutes = forms.IntegerField(min_value=1, required=False)
    cpus_per_run = forms.IntegerField(min_value=1, required=False)
    account = forms.CharField(max_length=100, required=False)
    qos = forms.CharField(max_length=100, required=False)

    def __init__(self, *args: Any, found: FoundPartition, scheduler: str, **kwargs: Any) -> None:
        self.found, self.scheduler = found, scheduler
        super().__init__(*args, **kwargs)
        limits = {
            "time_limit_minutes": found.time_limit_minutes or LONGEST_MINUTES,
            "cpus_per_run": found.cpus_per_node if scheduler == "slurm" else 100_000,
        }
        for name, most in limits.items():
            number: Any = self.fields[name]
            number.validators.append(MaxValueValidator(most))
            number.widget.attrs.update(max=most)
        self.has_facts = scheduler in KNOWN_FACTS
        if not self.has_facts:
            self.fields["gpus_per_node"] = forms.IntegerField(
                min_value=0, max_value=MOST_GPUS, required=False
            )
        self._offer("account", found.accounts)
        self._offer("qos", found.qos)
        for name in self.fields:
            label = {"chosen": "Use", "qos": "QOS", "gpus_per_node": "GPUs per node"}.get(
                name, name.replace("_", " ")
            )
            self.fields[name].widget.attrs["aria-label"] = f"{label} of {found.name}"
            if name != "chosen":
                self.fields[name].widget.attrs.setdefault("class", "form-control form-control-sm")

    def _offer(self, name: str, names: tuple[str, ...]) -> None:
        """Offer the names that the scheduler shows; where it shows none, one may be typed."""
        if names:
            choices = [("", "default"), *((each, each) for each in names)]
            self.fields[name] = forms.ChoiceField(choices=choices, required=False)
            self.fields[name].widget.attrs["class"] = "form-select form-select-sm"

    def style_fields(self) -> None:
        super().style_fields()
        for name in ("time_limit_minutes", "cpus_per_run", "account", "qos"):
            self.fields[name].widget.attrs["class"] = "form-control form-control-sm"

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("chosen"):
            for name in ("time_limit_minutes", "cpus_per_run"):
                if not cleaned.get(name) and name not in self.errors:
                    self.add_error(name, "A number is needed.")
            if not self.errors:
                problem = explain_partition_problem(self.make_partition(), self.scheduler)
                if problem:
                    self.add_error(None, f"A job cannot be written so: {problem}.")
        return cleaned

    def make_partition(self) -> Partition:
        """Return the partition, not saved and without its cluster."""
        chosen = self.cleaned_data
        row = propose_partition(self.found)
        for name in ("cpus_per_run", "time_limit_minutes", "account", "qos"):
            setattr(row, name, chosen[name])
        if not self.has_facts:
            row.gpus_per_node = chosen.get("gpus_per_node") or 0
        return row
