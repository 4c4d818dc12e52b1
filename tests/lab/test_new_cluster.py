"""A cluster is added step by step, and what is stored of it was read from a real one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse

from experiments.models import Cluster, ClusterDraft, Credential, Partition
from lab.client import Lab
from runners.cluster_reading import read_cluster
from runners.schedulers import Slurm
from runners.transports import SSH
from tests.lab.by_forms import Person
from tests.lab.gated import gated, own

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]


def add_cluster(person: Person, lab: Lab, **address: str) -> Cluster:
    """Go through all steps, choosing what the pages propose."""
    typed = {"name": "the lab", "host": lab.host, "port": str(lab.port), "user_name": lab.user}
    person.send(person.get("cluster_new"), "", **typed, **address)
    draft = ClusterDraft.objects.get()

    def step(name: str, /, **fields: Any) -> Any:
        return person.send(person.get(f"cluster_draft_{name}", draft.pk), "", **fields)

    shown = person.get("cluster_draft_host_key", draft.pk)
    form = next(form for form in shown.forms.values() if "confirm" in form.fields)
    form.submit("confirm").follow()
    chosen = person.get("cluster_draft_credential", draft.pk)
    form = next(form for form in chosen.forms.values() if "import-private_key" in form.fields)
    form["import-name"], form["import-user_name"] = "lab's key", lab.user
    form["import-private_key"] = Path(lab.private_key).read_text()
    form.submit("action", value="import").follow()
    folder = f"{lab.work_directory}/step-by-step"
    step("test", work_directory=folder)
    draft.refresh_from_db()
    step("confirm", name="the lab")
    cluster = Cluster.objects.get()
    assert (cluster.work_directory, cluster.host_key) == (folder, lab.host_key)
    report = cluster.checkreports.get()
    assert report.outcome != "failed", [row for row in report.rows if row["outcome"] == "failed"]
    return cluster


def test_a_cluster_with_slurm_is_added(person: Person, lab: Lab) -> None:
    cluster = add_cluster(person, lab)
    assert cluster.scheduler == "slurm"
    (partition,) = cluster.partitions.all()  # the default one
    found = (partition.name, partition.nodes, partition.cpus_per_node, partition.time_limit_minutes)
    assert found == ("gpu", 2, 8, 60)
    assert (partition.gpus_per_node, partition.gpu_model, partition.gres) == (4, "h100", "gpu")
    assert {"apptainer", "udocker"} <= set(cluster.runtimes.values_list("kind", flat=True))


def test_a_machine_without_a_scheduler_is_added(person: Person, lab: Lab) -> None:
    cluster = add_cluster(person, lab, scheduler="direct")
    assert cluster.scheduler == "direct"
    assert cluster.partitions.get().nodes == 1


@pytest.mark.parametrize("is_gated", [False, True])
def test_a_cluster_is_read_again_and_what_differs_is_stored(
    person: Person, lab: Lab, *, is_gated: bool
) -> None:
    """Two partitions, GPUs, limits and runtimes of a real Slurm against other numbers here."""
    cluster = add_cluster(person, lab)
    if is_gated:
        gate = gated(lab, Slurm())
        Credential.objects.update(forced_command=True, private_key=gate.private_key)
    gpu = cluster.partitions.get()
    wrong = {"nodes": 7, "cpus_per_node": 64, "gpu_model": "", "time_limit_minutes": 600}
    Partition.objects.update(**wrong, directives=["--exclusive"])
    gone = Partition.objects.create(cluster=cluster, name="gone")
    cluster.runtimes.filter(kind="apptainer").update(version="0.1")
    person.send(person.get("cluster", cluster.pk), reverse("cluster_read", args=[cluster.pk]))
    shown = person.get("cluster_differences", cluster.pk)
    assert "Gone from the cluster" in shown
    assert "debug" in shown
    form = next(form for form in shown.forms.values() if "difference" in form.fields)
    for box in form.fields["difference"]:
        box.checked = True
    form.submit().follow()
    for row in (gpu, gone):
        row.refresh_from_db()
    assert (gpu.nodes, gpu.cpus_per_node, gpu.gpu_model) == (2, 8, "h100")
    assert (gpu.time_limit_minutes, gpu.directives) == (60, ["--exclusive"])
    assert not gone.enabled
    debug = cluster.partitions.get(name="debug")
    assert (debug.nodes, debug.gpus_per_node, debug.time_limit_minutes) == (1, 4, 2)
    assert cluster.runtimes.get(kind="apptainer").version != "0.1"
    person.send(person.get("cluster", cluster.pk), reverse("cluster_read", args=[cluster.pk]))
    assert "Nothing differs" in person.get("cluster_differences", cluster.pk)


@pytest.mark.parametrize("is_gated", [False, True])
def test_all_partitions_of_slurm_are_read(lab: Lab, *, is_gated: bool) -> None:
    """Also with a key whose forced command lets only Tare's own commands through."""
    address = replace(gated(lab, Slurm()), gated=True) if is_gated else own(lab)
    with SSH(address) as transport:
        reading = read_cluster(
            transport, scheduler="slurm" if is_gated else "", work_directory=lab.work_directory
        )
    assert [check for check in reading.checks if check.outcome == "failed"] == []
    assert reading.found
    assert reading.found.scheduler == "slurm"
    assert reading.found.scheduler_version
    rows = {row.name: row for row in reading.found.partitions}
    assert rows.keys() == {"gpu", "debug"}
    assert (rows["gpu"].nodes, rows["debug"].nodes) == (2, 1)
    assert (rows["gpu"].is_default, rows["debug"].is_default) == (True, False)
    assert (rows["gpu"].time_limit_minutes, rows["debug"].time_limit_minutes) == (60, 2)
    assert {(row.cpus_per_node, row.memory_mb, row.gpus_per_node) for row in rows.values()} == {
        (8, 8000, 4)
    }
