"""Preflights and host keys: visits to a cluster that a worker makes at a person's request."""

from __future__ import annotations

from django.db.models.functions import Now
from django.utils import timezone

from experiments.execution.connection_test_visits import make_entry_check
from experiments.execution.connections import Link, make_ssh_address
from experiments.execution.guard import end_on_failure, make_storable
from experiments.execution.specs import add_partition, make_environment_spec, split_lines
from experiments.models import (
    CheckReport,
    Cluster,
    Environment,
    HostKey,
    Job,
    Partition,
    Runtime,
    StagedImage,
)
from experiments.planning.freeze import freeze_environment
from runners.errors import TryAgain
from runners.jobs import EnvironmentSpec, Resources
from runners.preflight import (
    Check,
    PartitionSpec,
    RuntimeSpec,
    Site,
    check_cluster,
    find_worst_outcome,
)
from runners.runtimes import RUNTIMES
from runners.schedulers import SCHEDULERS
from runners.transports import Local, scan_host_key

LOGIN_RELATIONS = ("cluster__credential", "cluster__jump_host")


def check(pk: int) -> str:
    """Run a requested preflight, once, and return its outcome.

    It opens a new connection: one kept from earlier would hide a key that was changed since.
    """
    if not CheckReport.objects.filter(pk=pk, began_at=None).update(began_at=timezone.now()):
        return "begun already"
    with end_on_failure(lambda problem: _end(pk, [problem])):
        report = CheckReport.objects.select_related(*LOGIN_RELATIONS).get(pk=pk)
        cluster = report.cluster
        checks = run_checks(cluster)
        _end(pk, checks)
    if not any(check.outcome == "failed" and is_about_the_connection(check) for check in checks):
        # The cluster is reachable: the ticks need not back off any longer.
        Cluster.objects.filter(pk=cluster.pk).update(retry_at=None, last_seen_at=Now())
    return find_worst_outcome(checks)


def _end(pk: int, checks: list[Check]) -> None:
    CheckReport.objects.filter(pk=pk, ended_at=None).update(
        ended_at=timezone.now(),
        outcome=find_worst_outcome(checks),
        rows=[check.as_json() for check in checks],
    )


def is_about_the_connection(check: Check) -> bool:
    """Return whether a check is about reaching the cluster."""
    return check.area.startswith("Connection")


def run_checks(cluster: Cluster) -> list[Check]:
    """Return all checks of a cluster as the catalogue describes it now. Never raises TryAgain."""
    scheduler = SCHEDULERS[cluster.scheduler]()
    if cluster.transport == "local":
        return check_cluster(Local(), scheduler, make_site(cluster))
    try:
        transport = Link(make_ssh_address(cluster))
    except TryAgain as problem:
        return [make_entry_check(cluster, problem)]
    with transport:
        return check_cluster(transport, scheduler, make_site(cluster))


def make_site(cluster: Cluster) -> Site:
    """Return the catalogue's description of a cluster for the preflight."""
    return Site(
        work_directory=cluster.work_directory,
        setup_lines=split_lines(cluster.setup_lines),
        partitions=tuple(_partition(row) for row in cluster.partitions.filter(enabled=True)),
        runtimes=tuple(_runtime(row) for row in cluster.runtimes.all()),
        environments=tuple(_environments_to_start(cluster)),
        is_measuring=cluster.jobs.filter(state__in=Job.LIVE).exists(),
    )


def _partition(row: Partition) -> PartitionSpec:
    largest_job = Resources(row.time_limit_minutes * 60, gpus_per_node=row.gpus_per_node)
    return PartitionSpec(row.nodes, add_partition(largest_job, row))


def _runtime(row: Runtime) -> RuntimeSpec:
    return RuntimeSpec(
        label=row.get_kind_display(),
        kind=row.kind,
        executable=row.executable,
        version=row.version,
        setup_lines=split_lines(row.setup_lines),
    )


def _environments_to_start(cluster: Cluster) -> list[EnvironmentSpec]:
    """Return an environment to start for each interpreter, and each runtime, format and mode.

    For a runtime that no environment uses yet, staged images are started all the same.
    """
    chosen: dict[tuple[object, ...], EnvironmentSpec] = {}
    rows = Environment.objects.filter(cluster=cluster).select_related(
        "runtime", "staged_image__image"
    )
    for row in rows.order_by("pk"):
        staged = row.staged_image
        if staged is None:
            key: tuple[object, ...] = (row.python, row.setup_lines)
        elif staged.state == StagedImage.State.READY:
            key = (row.runtime_id, staged.format, row.mode)
        else:
            continue
        chosen.setdefault(key, make_environment_spec(freeze_environment(row)))
    started = {key[:2] for key in chosen}
    images = list(cluster.staged_images.filter(state=StagedImage.State.READY).order_by("pk"))
    for runtime in cluster.runtimes.all():
        for image in images:
            key = (runtime.pk, image.format)
            if image.format in RUNTIMES[runtime.kind].formats and key not in started:
                started.add(key)
                chosen[key] = EnvironmentSpec(
                    label=f"{runtime.get_kind_display()}, {image.format}",
                    runtime=runtime.kind,
                    executable=runtime.executable,
                    options=tuple(runtime.options),
                    image_format=image.format,
                    image_path=image.path,
                    setup_lines=split_lines(runtime.setup_lines),
                )
    return list(chosen.values())


def fetch_host_key(pk: int) -> str:
    """Fetch a host's key, once, for a person to compare. It is never pinned automatically."""
    if not HostKey.objects.filter(pk=pk, began_at=None).update(began_at=timezone.now()):
        return "begun already"
    with end_on_failure(lambda problem: _end_host_key(pk, problem=problem.found)):
        row = HostKey.objects.select_related(*LOGIN_RELATIONS).get(pk=pk)
        try:
            key, problem = scan_key(row.host, row.port, row.cluster.jump_host), ""
        except TryAgain as error:
            key, problem = "", str(error)
        _end_host_key(pk, key=key, problem=problem)
    return problem or "fetched"


def scan_key(host: str, port: int, jump_host: Cluster | None) -> str:
    """Return the public key that a host shows, as seen through a jump host. Raises TryAgain."""
    link = Link(make_ssh_address(jump_host)) if jump_host else None
    return scan_host_key(host, port, jump=link)


def _end_host_key(pk: int, *, key: str = "", problem: str) -> None:
    HostKey.objects.filter(pk=pk, ended_at=None).update(
        ended_at=timezone.now(), key=key, problem=make_storable(problem)
    )
