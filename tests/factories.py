"""Build rows for tests: each factory makes what its row needs, and no more."""

from __future__ import annotations

import hashlib
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any

import factory
from django.contrib.auth.hashers import make_password
from django.utils import timezone
from factory.django import DjangoModelFactory

from experiments.models import (
    Advisory,
    CheckReport,
    Cluster,
    CodeCopy,
    Credential,
    DataCopy,
    DataSet,
    Environment,
    Event,
    Experiment,
    Image,
    ImageImport,
    Job,
    Measurement,
    Operation,
    OwnPreset,
    Partition,
    PublishedTable,
    RecurringExperiment,
    Role,
    Run,
    Runtime,
    Series,
    ShareLink,
    StagedImage,
    Study,
    TrustedKey,
    User,
    Workload,
)
from experiments.presets.own_presets import describe_definition
from experiments.recurring import add_first_recurrence
from experiments.studies.study_members import store_members

PASSWORD = "a balance with one empty pan"
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@cache
def hashed_password() -> str:
    """PASSWORD, hashed once: hashing is slow on purpose, and everybody in the tests has it."""
    return make_password(PASSWORD)


def link_to(row: Any, **columns: Any) -> str:
    """Open `row` to everybody with a link; return the link's address."""
    type(row)._default_manager.filter(pk=row.pk).update(visibility="public")
    return ShareLink.objects.make(row, **columns).get_absolute_url()


class UserFactory(DjangoModelFactory[User]):
    """A person, named on every cluster of the tests that runs on this machine itself."""

    class Meta:
        model = User
        skip_postgeneration_save = True

    username = factory.Sequence(lambda n: f"person{n}")
    password = factory.LazyFunction(hashed_password)

    @factory.post_generation
    def named(self: User, create: bool, named: bool | None, **_: Any) -> None:  # type: ignore[misc]
        if create and named is not False:
            self.usable_clusters.add(*Cluster.objects.filter(transport="local"))


class AdminFactory(UserFactory):
    username = factory.Sequence(lambda n: f"admin{n}")
    role = Role.SITE_ADMINISTRATOR


class CredentialFactory(DjangoModelFactory[Credential]):
    class Meta:
        model = Credential

    name = factory.Sequence(lambda n: f"key {n}")
    user_name = "researcher"
    private_key = "not a key, but secret all the same"
    owner = factory.SubFactory(UserFactory)


class ClusterFactory(DjangoModelFactory[Cluster]):
    """A cluster that needs no network: this machine, without a scheduler.

    Everybody of the tests is named there, unless it is made with `users=[...]`.
    """

    class Meta:
        model = Cluster
        skip_postgeneration_save = True

    name = factory.Sequence(lambda n: f"cluster{n}")
    transport = "local"
    scheduler = "direct"
    work_directory = "/tmp/tare"
    owner = factory.SubFactory(UserFactory)

    @factory.post_generation
    def users(self: Cluster, create: bool, users: Any, **_: Any) -> None:  # type: ignore[misc]
        if create:
            self.users.set(User.objects.all() if users is None else users)


class PartitionFactory(DjangoModelFactory[Partition]):
    class Meta:
        model = Partition

    cluster = factory.SubFactory(ClusterFactory)
    name = factory.Sequence(lambda n: f"gpu{n}")
    nodes = 2
    gpus_per_node = 4
    cpus_per_node = 16
    time_limit_minutes = 60


class RuntimeFactory(DjangoModelFactory[Runtime]):
    class Meta:
        model = Runtime

    cluster = factory.SubFactory(ClusterFactory)
    kind = "apptainer"
    executable = factory.Sequence(lambda n: f"/opt/apptainer{n}/bin/apptainer")
    version = "1.3.4"


class ImageFactory(DjangoModelFactory[Image]):
    class Meta:
        model = Image

    reference = factory.Sequence(lambda n: f"tare/tensorflow:{n}")
    digest = factory.LazyAttribute(
        lambda image: "sha256:" + hashlib.sha256(image.reference.encode()).hexdigest()
    )
    owner = factory.SubFactory(UserFactory)


class TrustedKeyFactory(DjangoModelFactory[TrustedKey]):
    """A public key of cosign; whoever needs one that fits gives its `pem`."""

    class Meta:
        model = TrustedKey

    name = factory.Sequence(lambda n: f"key {n}")
    prefix = "registry.example.org"
    pem = ""
    fingerprint = factory.LazyAttribute(
        lambda key: hashlib.sha256(str(key.pem).encode()).hexdigest()
    )


class AdvisoryFactory(DjangoModelFactory[Advisory]):
    class Meta:
        model = Advisory

    package = "numpy"
    identifier = factory.Sequence(lambda n: f"CVE-2020-{n:04}")
    affected = factory.LazyFunction(lambda: ["<2"])
    summary = "It reads what it should not."
    source = "a list"
    known_on = date(2026, 11, 1)


class StagedImageFactory(DjangoModelFactory[StagedImage]):
    class Meta:
        model = StagedImage

    image = factory.SubFactory(ImageFactory)
    cluster = factory.SubFactory(ClusterFactory)
    format = "sif"
    path = "/images/tensorflow.sif"


class DataSetFactory(DjangoModelFactory[DataSet]):
    """A data set that has been read."""

    class Meta:
        model = DataSet

    name = factory.Sequence(lambda n: f"digits {n}")
    digest = factory.LazyAttribute(
        lambda row: "sha256:" + hashlib.sha256(row.name.encode()).hexdigest()
    )
    files = 4
    size_bytes = 11_594_722
    licence = "CC-BY-SA-3.0"
    owner = factory.SubFactory(UserFactory)


class DataCopyFactory(DjangoModelFactory[DataCopy]):
    class Meta:
        model = DataCopy

    data_set = factory.SubFactory(DataSetFactory)
    cluster = factory.SubFactory(ClusterFactory)
    path = factory.Sequence(lambda n: f"/data/digits-{n}")
    state = DataCopy.State.READY
    owner = factory.SelfAttribute("data_set.owner")


class CodeCopyFactory(DjangoModelFactory[CodeCopy]):
    class Meta:
        model = CodeCopy

    cluster = factory.SubFactory(ClusterFactory)
    commit = factory.Sequence(lambda n: f"{n:040x}")
    repository = "https://example.org/project.git"
    digest = "sha256:" + "c" * 64
    files, size_bytes = 3, 1000
    state = CodeCopy.State.READY
    owner = factory.SelfAttribute("cluster.owner")


class ImageImportFactory(DjangoModelFactory[ImageImport]):
    """An image that is being fetched from a registry."""

    class Meta:
        model = ImageImport

    kind = ImageImport.Kind.REGISTRY
    reference = factory.Sequence(lambda n: f"docker://registry.example.org/tensorflow:{n}")
    state = ImageImport.State.UNDER_WAY
    owner = factory.SubFactory(UserFactory)


class OperationFactory(DjangoModelFactory[Operation]):
    """A form that is being made; another subject by naming it."""

    class Meta:
        model = Operation

    kind = Operation.Kind.STAGE
    staged_image = factory.SubFactory(StagedImageFactory)
    image = factory.LazyAttribute(
        lambda operation: operation.staged_image and operation.staged_image.image
    )
    cluster = factory.LazyAttribute(lambda operation: operation.staged_image.cluster)
    state = Operation.State.RUNNING
    owner = factory.SubFactory(UserFactory)


class EnvironmentFactory(DjangoModelFactory[Environment]):
    """Bare metal."""

    class Meta:
        model = Environment

    name = factory.Sequence(lambda n: f"bare metal {n}")
    cluster = factory.SubFactory(ClusterFactory)
    owner = factory.SubFactory(UserFactory)


class ContainerFactory(EnvironmentFactory):
    """A container on the cluster given, with a runtime and a staged image of that cluster."""

    name = factory.Sequence(lambda n: f"Apptainer {n}")
    runtime = factory.SubFactory(RuntimeFactory, cluster=factory.SelfAttribute("..cluster"))
    staged_image = factory.SubFactory(
        StagedImageFactory, cluster=factory.SelfAttribute("..cluster")
    )


class WorkloadFactory(DjangoModelFactory[Workload]):
    class Meta:
        model = Workload

    name = factory.Sequence(lambda n: f"blas {n}")
    kind = "blas"
    time_limit_seconds = 60
    owner = factory.SubFactory(UserFactory)


class ExperimentFactory(DjangoModelFactory[Experiment]):
    """A draft of one workload in two environments; pass `workloads` and `environments` to choose.

    `environments` holds the baseline too; by default it is the baseline and one container.
    """

    class Meta:
        model = Experiment
        skip_postgeneration_save = True

    question = factory.Sequence(lambda n: f"What does container {n} cost?")
    cluster = factory.SubFactory(ClusterFactory)
    partition = factory.SubFactory(PartitionFactory, cluster=factory.SelfAttribute("..cluster"))
    baseline = factory.SubFactory(EnvironmentFactory, cluster=factory.SelfAttribute("..cluster"))
    repeats = 5
    margin = 0.05
    owner = factory.SubFactory(UserFactory)

    @factory.post_generation
    def workloads(self: Any, create: bool, given: list[Workload] | None, **kwargs: Any) -> None:
        self.workloads.set(given or [WorkloadFactory()])

    @factory.post_generation
    def environments(
        self: Any, create: bool, given: list[Environment] | None, **kwargs: Any
    ) -> None:
        self.environments.set(given or [self.baseline, ContainerFactory(cluster=self.cluster)])


class LaunchedFactory(ExperimentFactory):
    """A frozen experiment without runs; `tests.factories.block` adds them."""

    launched_at = NOON
    order_seed = 20261120
    plan_hash = "0" * 64
    plan = factory.LazyFunction(dict)


class RecurringExperimentFactory(DjangoModelFactory[RecurringExperiment]):
    """A launched experiment that recurs weekly, for the first time in a week."""

    class Meta:
        model = RecurringExperiment
        skip_postgeneration_save = True

    source = factory.SubFactory(LaunchedFactory)
    question = factory.SelfAttribute("source.question")
    owner = factory.SelfAttribute("source.owner")
    due_at = factory.LazyFunction(lambda: timezone.now() + timedelta(days=7))

    @factory.post_generation
    def first(self: RecurringExperiment, create: bool, given: None, **_: Any) -> None:  # type: ignore[misc]
        if create:
            add_first_recurrence(self)


TABLE = """gpus,environment,mean_s,standard_error_s,runs
1,bare metal,100,1.0,5
1,Apptainer,101,1.0,5
2,bare metal,60,0.5,5
2,Apptainer,60.5,0.5,5
"""


class OwnPresetFactory(DjangoModelFactory[OwnPreset]):
    """A preset of a definition whose rows are all there."""

    class Meta:
        model = OwnPreset

    name = factory.Sequence(lambda n: f"preset {n}")
    owner = factory.SubFactory(UserFactory)
    definition = factory.LazyFunction(lambda: describe_definition(ExperimentFactory()))


class PublishedTableFactory(DjangoModelFactory[PublishedTable]):
    class Meta:
        model = PublishedTable

    question = factory.Sequence(lambda n: f"What did paper {n} show?")
    text = TABLE
    baseline = "bare metal"
    owner = factory.SubFactory(UserFactory)


class StudyFactory(DjangoModelFactory[Study]):
    """A study of the experiments that are given, or of none."""

    class Meta:
        model = Study
        skip_postgeneration_save = True

    name = factory.Sequence(lambda n: f"Study {n}")
    owner = factory.SubFactory(UserFactory)

    @factory.post_generation
    def members(self: Study, create: bool, given: Any, **_: Any) -> None:  # type: ignore[misc]
        if create:
            store_members(self, given or ())


class JobFactory(DjangoModelFactory[Job]):
    class Meta:
        model = Job

    experiment = factory.SubFactory(LaunchedFactory)
    cluster = factory.SelfAttribute("experiment.cluster")
    workload = factory.LazyAttribute(lambda job: job.experiment.workloads.first())
    scale = "1x1"
    repeat = factory.Sequence(lambda n: n + 1)
    block = factory.SelfAttribute("repeat")
    state = Job.State.DONE
    scheduler_id = factory.Sequence(lambda n: str(1000 + n))
    directory = factory.LazyAttribute(lambda job: f"/tmp/tare/jobs/{job.scheduler_id}-1")
    submitted_at = NOON
    started_at = NOON + timedelta(seconds=2)
    ended_at = NOON + timedelta(seconds=40)


class RunFactory(DjangoModelFactory[Run]):
    """A run that succeeded; `values={"step_time": 1.2}` gives it measurements."""

    class Meta:
        model = Run
        skip_postgeneration_save = True

    job = factory.SubFactory(JobFactory)
    experiment = factory.SelfAttribute("job.experiment")
    workload = factory.SelfAttribute("job.workload")
    environment = factory.SelfAttribute("experiment.baseline")
    scale = factory.SelfAttribute("job.scale")
    repeat = factory.SelfAttribute("job.repeat")
    position = factory.LazyAttribute(lambda run: run.job.runs.count())
    state = Run.State.SUCCEEDED
    exit_code = 0
    node = "node1"
    began_at = NOON + timedelta(seconds=3)
    ended_at = NOON + timedelta(seconds=13)

    @factory.post_generation
    def values(self: Any, create: bool, given: dict[str, float] | None, **kwargs: Any) -> None:
        for metric, value in (given or {}).items():
            MeasurementFactory(run=self, metric=metric, value=value)


class MeasurementFactory(DjangoModelFactory[Measurement]):
    class Meta:
        model = Measurement

    run = factory.SubFactory(RunFactory)
    metric = "step_time"
    value = 1.0
    unit = "s"


class SeriesFactory(DjangoModelFactory[Series]):
    class Meta:
        model = Series

    run = factory.SubFactory(RunFactory)
    metric = "step_time"
    unit = "s"
    values = factory.LazyFunction(lambda: [0.30, 0.11, 0.10, 0.10, 0.11, 0.10])


class EventFactory(DjangoModelFactory[Event]):
    class Meta:
        model = Event

    experiment = factory.SubFactory(ExperimentFactory)
    what = "launched"


class CheckReportFactory(DjangoModelFactory[CheckReport]):
    """A check that has ended; `rows` are Checks as JSON."""

    class Meta:
        model = CheckReport

    cluster = factory.SubFactory(ClusterFactory)
    owner = factory.SubFactory(UserFactory)
    began_at = NOON
    ended_at = NOON + timedelta(seconds=4)
    outcome = "ok"


def block(
    experiment: Experiment,
    repeat: int,
    values: dict[Environment, float],
    *,
    metric: str = "step_time",
    **job: Any,
) -> Job:
    """Add one finished block: a job with one run in each environment, in the order given."""
    made = JobFactory(experiment=experiment, repeat=repeat, **job)
    for environment, value in values.items():
        RunFactory(job=made, environment=environment, values={metric: value})
    return made
