"""Every mode of udocker, by forms: checked on a node, staged, and measured up to verdicts."""

from __future__ import annotations

import pytest
from django.urls import reverse

from experiments.clusters import preflights
from experiments.models import Cluster, Experiment, StagedImage
from lab.client import Lab
from runners.jobs import EnvironmentSpec
from runners.preflight.modes import WORKS
from runners.runtimes import Inside, UDocker
from tests.lab.bare_lab import lab, registered
from tests.lab.by_forms import Person
from tests.lab.test_presets import researcher
from tests.lab.test_without_python import (
    VERDICTS,
    add_environments,
    add_program,
    compare,
    finish_operations,
    make_image,
)

__all__ = ["lab", "registered", "researcher"]

pytestmark = [pytest.mark.lab, pytest.mark.thorough, pytest.mark.django_db(transaction=True)]

MODES = tuple(UDocker.modes)
# What an administrator's set-up lines can break, and what the check then says of the modes.
BROKEN = """export UDOCKER_FAKECHROOT_SO=/nowhere/libfakechroot.so
export UDOCKER_USE_RUNC_EXECUTABLE=/nowhere/runc
export UDOCKER_USE_SINGULARITY_EXECUTABLE=/nowhere/apptainer
"""
CAUSES = {
    "F": ("libfakechroot for the container's system is missing", "UDOCKER_FAKECHROOT_SO"),
    "R": ("Neither runc nor crun is on the node", "UDOCKER_USE_RUNC_EXECUTABLE"),
    "S": ("Neither Apptainer nor Singularity is on the node", "set-up lines"),
}
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
# Files of a driver that is not there, where udocker looks for them.
DRIVER = f"""set -e
mkdir -p /etc/OpenCL/vendors
echo libnvidia-opencl.so.1 >/etc/OpenCL/vendors/nvidia.icd
for library in libcuda libnvidia-ml libnvidia-ptxjitcompiler; do
    echo "stand-in for $library" >{LIBRARIES}/$library.so.570.1
    ln -s $library.so.570.1 {LIBRARIES}/$library.so.1
done
printf '#!/bin/sh\\necho No devices were found\\nexit 6\\n' >/usr/bin/nvidia-smi
chmod 755 /usr/bin/nvidia-smi
"""
COPIED = [
    "/etc/OpenCL/vendors/nvidia.icd",
    "/usr/bin/nvidia-smi",
    *(
        f"{LIBRARIES}/{library}.so.{version}"
        for library in ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler")
        for version in ("1", "570.1")
    ),
]


def check(person: Person, cluster: Cluster) -> dict[str, str]:
    """Have the cluster checked by its button; return what came of each mode."""
    page = person.get("cluster", cluster.pk)
    person.send(page, reverse("cluster_check", args=[cluster.pk]))
    tried = preflights.find_tried_modes(Cluster.objects.get(pk=cluster.pk))
    return {name.removeprefix("udocker "): row.value for name, row in tried.items()}


def test_every_mode_is_compared_up_to_a_verdict(
    researcher: Person, registered: Cluster, lab: Lab
) -> None:
    """With stand-ins for the files of a GPU's driver, which udocker copies when it is staged."""
    assert check(researcher, registered) == dict.fromkeys(MODES, WORKS)
    put = lab.execute(["sh", "-c", DRIVER])
    assert put.returncode == 0, put.stderr
    place = make_image("sysbench", lab)
    containers = [("udocker", "udocker", mode) for mode in MODES]
    add_environments(researcher, registered, "/scratch/sysbench/image.tar", place, containers)
    expect_driver_files(researcher, lab)
    expect_kills_to_be_seen(lab)
    environments = list(registered.environments.filter(name__startswith="small").order_by("pk"))
    assert len(environments) == 1 + len(MODES)
    program = add_program(researcher, "sysbench")
    made = compare(researcher, registered, environments, [program])
    page = researcher.get("comparison", made.pk, section="all")
    verdicts = [each.get_text(strip=True) for each in page.html.select(".verdict")]
    assert len(verdicts) >= len(MODES)
    assert set(verdicts) <= VERDICTS
    for row in environments[1:]:
        assert row.name in page
    for run in made.runs.select_related("snapshot", "environment"):
        inside = run.snapshot.content["inside"]  # type: ignore[union-attr]
        assert inside["os"] == "Debian GNU/Linux 13 (trixie)"
        assert run.measurements.get(metric="events_per_second").value > 1

    expect_refusals(researcher, registered, made)


def expect_driver_files(person: Person, lab: Lab) -> None:
    """Expect that each form has the driver's files, that its page says so, and that they stay."""
    forms = list(StagedImage.objects.filter(format="udocker").order_by("pk"))
    assert [form.mode for form in forms] == list(MODES)
    page = person.get("image", forms[0].image_id)
    assert page.text.count("copied by udocker:") == len(MODES)
    assert page.text.count("the same before udocker changed some") == len(MODES)
    for form in forms:
        assert sorted(set(form.driver_files) & set(COPIED)) == sorted(COPIED), form.mode
        further = set(form.driver_files) - set(COPIED)
        assert not [path for path in further if "libOpenCL" not in path], "which the lab has"
        assert form.tree == form.image.tree != form.changed_tree
        copied = lab.execute(
            ["sh", "-c", f"cat $(udocker inspect -p {form.path}){LIBRARIES}/libcuda.so.1"],
            user="researcher",
        )
        assert copied.stdout.strip() == "stand-in for libcuda", (form.mode, copied.stderr)
        if form.mode in ("P1", "F3"):
            person.send(
                person.get("image", form.image_id), reverse("staged_verify", args=[form.pk])
            )
    finish_operations(forms[0].cluster)


def expect_kills_to_be_seen(lab: Lab) -> None:
    """Expect 137 of a program that is killed after a child of its ended well, in each mode."""
    program = ["/bin/sh", "-c", "/bin/true & wait; kill -KILL $$"]
    codes = {}
    for form in StagedImage.objects.filter(format="udocker"):
        environment = EnvironmentSpec("", "udocker", mode=form.mode, image_path=form.path)
        wall = UDocker().wrap(Inside(environment, "/"))
        codes[form.mode] = lab.execute([*wall, *program], user="researcher").returncode
    assert codes == dict.fromkeys(MODES, 137)


def expect_refusals(person: Person, cluster: Cluster, made: Experiment) -> None:
    """Expect that the check says why modes do not work any more, and that they are not launched."""
    cluster.runtimes.filter(kind="udocker").update(setup_lines=BROKEN)
    values = check(person, cluster)
    assert values == {mode: WORKS if mode.startswith("P") else "no" for mode in MODES}
    page = person.get("cluster", cluster.pk).html.get_text(" ", strip=True)
    for cause, cure in CAUSES.values():
        assert cause in page
        assert cure in page
    rows = {
        row.mode: row for row in made.environments.filter(runtime__kind="udocker").order_by("pk")
    }
    chosen = [rows["P1"], rows["P2"], rows["F3"], rows["R1"]]
    form = person.get("experiment_new", cluster=cluster.pk)
    with pytest.raises(AssertionError, match="libfakechroot") as refused:
        person.send(
            form,
            "",
            question="Which mode is left?",
            workloads=[str(made.workloads.get().pk)],
            environments=[str(row.pk) for row in chosen],
            baseline=str(chosen[0].pk),
            scales="1x0",
            repeats="5",
        )
    assert f"{rows['R1']}: udocker R1: Not possible here." in str(refused.value)
    assert f"{rows['P2']}: udocker" not in str(refused.value)
    assert Experiment.objects.count() == 1
