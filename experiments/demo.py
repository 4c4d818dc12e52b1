"""The demo experiment, and the lab's facts turned into catalogue rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from django.db import transaction

from experiments.access import audit
from experiments.clusters.credentials import compute_fingerprint
from experiments.execution import lifecycle
from experiments.models import (
    Cluster,
    Credential,
    Environment,
    Experiment,
    Image,
    Partition,
    Runtime,
    StagedImage,
    User,
    Workload,
)
from experiments.models.images import ARCHIVE
from experiments.software import parity_reports

QUESTION = "What does a container cost here?"
WHY = "the demo sets itself up"
CONTROL = "Does this machine repeat itself? (bare metal against bare metal)"
LAB = "lab"
THIS_MACHINE = "this machine"
# The lab's nodes share two cores: more than one job at a time would measure the other job.
ONE_AT_A_TIME = 1
# Every visit costs the machine some time that a run beside it would notice.
POLL_SECONDS = 3
# Both nodes have one address: Open MPI takes them for strangers on any other interface.
MPIRUN_OPTIONS = ["--mca btl_tcp_if_include lo"]
MARGIN = 0.05
WAIVED = "The demo measures what this machine has."
REPEATS = 5
# What of the lab is registered: the runtimes by kind, and which of them start which staged form,
# with the name of the environment that this makes.
RUNTIMES = ("apptainer", "udocker", "podman", "charliecloud")
FORMS = {
    "sif": {"apptainer": "Apptainer SIF"},
    "sandbox": {"apptainer": "Apptainer sandbox", "charliecloud": "Charliecloud"},
    "squashfs": {"charliecloud": "Charliecloud squashfs"},
    "udocker": {"udocker": "udocker"},
    "podman": {"podman": "Podman"},
}
CONTROL_ENVIRONMENTS = ("bare metal", "bare metal, again")
DEMO_ENVIRONMENTS = ("bare metal", "Apptainer SIF", "udocker P1")


@transaction.atomic
def register_lab(facts: Mapping[str, Any], owner: User) -> Cluster:
    """Write the lab of `facts` (its lab.json) into the catalogue; safe to repeat.

    A later start updates what the lab itself decides: address, keys, nodes, versions.
    """
    private_key = Path(facts["private_key"]).read_text()
    credential = audit.keep(
        owner,
        Credential,
        why=WHY,
        name=LAB,
        defaults={
            "user_name": facts["user"],
            "private_key": private_key,
            "fingerprint": compute_fingerprint(private_key, ""),
        },
        first={"owner": owner},
    )
    cluster = audit.keep(
        owner,
        Cluster,
        why=WHY,
        name=LAB,
        defaults={
            "transport": "ssh",
            "host": facts["host"],
            "port": facts["port"],
            "host_key": facts["host_key"],
            "scheduler": "slurm",
            "retry_at": None,
        },
        first={
            "credential": credential,
            "work_directory": f"{facts['work_directory']}/tare",
            **make_first_settings(owner),
        },
    )
    for partition in facts["partitions"]:
        audit.keep(
            owner,
            Partition,
            why=WHY,
            cluster=cluster,
            name=partition["name"],
            defaults={
                "nodes": partition["nodes"],
                "gpus_per_node": partition["gpus_per_node"],
                "gpu_model": f"{partition['gpu_model']} (stand-in)",
                "cpus_per_node": partition["cpus_per_node"],
            },
            first={
                "cpus_per_run": 2,
                "memory_mb": 4000,
                "mpirun_options": MPIRUN_OPTIONS,
                "time_limit_minutes": partition["time_limit_seconds"] // 60,
            },
        )
    for kind in RUNTIMES:
        runtime = facts["runtimes"][kind]
        audit.keep(
            owner,
            Runtime,
            why=WHY,
            cluster=cluster,
            kind=kind,
            executable=runtime["executable"],
            defaults={"version": runtime["version"]},
        )
    return cluster


def register_images(
    cluster: Cluster, built: Mapping[str, Mapping[str, Any]], owner: User
) -> list[Environment]:
    """Write all images that the lab has built (`images` of its lab.json), with environments."""
    return [row for made in built.values() for row in register_image(cluster, made, owner)]


@transaction.atomic
def register_image(cluster: Cluster, made: Mapping[str, Any], owner: User) -> list[Environment]:
    """Write one built image, its staged forms and the matching bare-metal environment."""
    facts = made["image"]
    image = audit.keep(
        owner,
        Image,
        why=WHY,
        digest=facts["digest"],
        defaults={
            "reference": facts["reference"],
            "recipe": facts["recipe"],
            "operating_system": facts["os"],
            "python_version": facts["python_version"],
            "framework": _framework(facts["packages"]),
            "packages": facts["packages"],
            "size_bytes": facts["bytes"],
        },
        first={"owner": owner},
    )
    if "archive" in facts:  # what further forms are made from
        audit.keep(
            owner,
            StagedImage,
            why=WHY,
            image=image,
            cluster=cluster,
            path=facts["archive"],
            defaults={"format": ARCHIVE, "size_bytes": facts["bytes"]},
        )
    suffix = "" if "tensorflow" in image.framework else f" ({image.framework})"
    python = made["bare_metal"]["python"]
    environments = [_environment(cluster, f"bare metal{suffix}", owner, python=python)]
    for form in made["staged"]:
        mode = form.get("mode", "")
        staged = audit.keep(
            owner,
            StagedImage,
            why=WHY,
            image=image,
            cluster=cluster,
            path=form["path"],
            defaults={
                "format": form["format"],
                "mode": mode,
                "sha256": form["sha256"],
                "size_bytes": form["bytes"],
                "state": StagedImage.State.READY,
            },
        )
        environments += [
            _environment(
                cluster,
                f"{name} {mode}".strip() + suffix,
                owner,
                python=facts["python"],
                runtime=cluster.runtimes.get(kind=kind),
                staged_image=staged,
                mode=mode,
            )
            for kind, name in FORMS[form["format"]].items()
        ]
    return environments


@transaction.atomic
def register_here(
    work_directory: Path, python: Path, runtimes: Mapping[str, str], owner: User
) -> Cluster:
    """Write this machine into the catalogue: no SSH, no scheduler, bare metal twice.

    `runtimes` maps the kinds that were found here to their executables.
    """
    cluster = audit.keep(
        owner,
        Cluster,
        why=WHY,
        name=THIS_MACHINE,
        defaults={
            "transport": "local",
            "scheduler": "direct",
            "work_directory": str(work_directory),
            "retry_at": None,
        },
        first=make_first_settings(owner),
    )
    for kind, executable in runtimes.items():
        audit.keep(
            owner,
            Runtime,
            why=WHY,
            defaults={},
            cluster=cluster,
            kind=kind,
            executable=executable,
        )
    for name in CONTROL_ENVIRONMENTS:
        _environment(cluster, name, owner, python=str(python))
    return cluster


def make_first_settings(owner: User) -> dict[str, Any]:
    """Return the columns that a cluster of the demo begins with; people may change them."""
    return {
        "max_live_jobs": ONE_AT_A_TIME,
        "poll_seconds": POLL_SECONDS,
        "enabled": True,
        "owner": owner,
    }


def launch_demo(
    cluster: Cluster,
    environments: Iterable[str],
    owner: User,
    *,
    question: str = QUESTION,
    scale: str = "1x1",
) -> Experiment:
    """Make and launch the demo experiment, unless an earlier start has done so."""
    earlier = Experiment.objects.filter(question=question, cluster=cluster).first()
    if earlier:
        return earlier
    workloads = [
        audit.keep(
            owner,
            Workload,
            why=WHY,
            defaults={},
            first={"kind": kind, "owner": owner, "time_limit_seconds": 180},
            name=kind,
        )
        for kind in ("blas", "cnn")
    ]
    rows = list(Environment.objects.filter(cluster=cluster, name__in=environments))
    with transaction.atomic():
        experiment = Experiment.objects.create(
            question=question,
            cluster=cluster,
            partition=cluster.partitions.order_by("-time_limit_minutes").first(),
            baseline=next(row for row in rows if row.name == "bare metal"),
            scales=[scale],
            repeats=REPEATS,
            margin=MARGIN,
            visibility=Experiment.Visibility.PUBLIC,
            owner=owner,
        )
        experiment.workloads.set(workloads)
        experiment.environments.set(rows)
        for report in parity_reports.make_reports(experiment):
            names = [row.what for row in report.unwaived]
            parity_reports.waive_differences(experiment, report.environment, names, WAIVED, owner)
        lifecycle.launch(experiment, owner)
    return experiment


def _environment(cluster: Cluster, name: str, owner: User, **columns: Any) -> Environment:
    return audit.keep(
        owner,
        Environment,
        why=WHY,
        defaults=columns,
        first={"owner": owner},
        cluster=cluster,
        name=name,
    )


def _framework(packages: Mapping[str, str]) -> str:
    for name in ("horovod", "torch", "tensorflow-cpu", "tensorflow", "numpy", "pyperf"):
        if name in packages:
            return f"{name} {packages[name]}"
    return ""
