"""Software beside package managers: an environment file of conda becomes an image and its twin, and
an image without Python becomes its own tree outside a container; by a real cluster."""

from __future__ import annotations

import pytest

from experiments import execution
from experiments.comparisons import compare_experiment
from experiments.execution import lifecycle
from experiments.images import staging
from experiments.images.inventory import make_columns
from experiments.models import Cluster, Environment, Image, StagedImage
from experiments.software import building, inspections, own_trees, parity_reports, recipes
from lab import host
from lab.client import Lab
from runners.payload import pack, survey
from tests.conda_channels import write_index, write_package
from tests.conftest import tick_until
from tests.factories import ExperimentFactory, ImageFactory, WorkloadFactory
from tests.lab.bare_lab import lab, registered
from tests.lab.building import cluster, finish
from tests.lab.small_images import make_python2_image, make_sysbench_image

__all__ = ["cluster", "lab", "registered"]  # fixtures

pytestmark = [pytest.mark.lab, pytest.mark.django_db]

# What the cluster's own Python is linked with.
LIBRARIES = ("libexpat1", "libssl3t64", "libffi8", "zlib1g", "ca-certificates")
# FOLDER: a package of the cluster's own Python, as conda has it but for Debian's names of folders.
PACK_PYTHON = """set -e
version=$(python3 -c 'import platform; print(platform.python_version())')
name=python$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
mkdir -p "$1/linux-64" "$1/work/bin" "$1/work/lib" "$1/work/info"
cd "$1/work"
cp -L "/usr/bin/$name" bin/ && ln -s "$name" bin/python3 && ln -s "$name" bin/python
cp -rL "/usr/lib/$name" lib/
rm -f "lib/$name/EXTERNALLY-MANAGED" "lib/$name/sitecustomize.py"
echo "import site, sys; site.addsitedir(sys.prefix + '/lib/$name/site-packages')" \
    >"lib/$name/sitecustomize.py"
find bin lib -type f -o -type l >info/files
echo '{"name": "python", "version": "'"$version"'", "build": "0", "build_number": 0,' \
    '"depends": [], "subdir": "linux-64", "timestamp": 1700000000000}' >info/index.json
python3 -m tarfile -c "../linux-64/python-$version-0.tar.bz2" info bin lib
cd .. && rm -rf work
"""
FILE = """name: greeting
channels:
  - file:///scratch/conda-channel
dependencies:
  - python >=3.10
  - greet=1.0
  - pip:
      - idna==3.10
"""
GREET = b"import sys\n\n\ndef main():\n    print('hello from', sys.prefix)\n"


LOOP = "import sys; print sum(i * i for i in xrange(3000000)), sys.version_info[0]"
OF_THE_LAUNCHER = {"/usr/bin/dash", "/usr/lib/x86_64-linux-gnu/libc.so.6"}
"""What the shell of a tree's launcher has loaded, if it is read before it becomes the program."""


def add_image(lab: Lab, cluster: Cluster, software: str) -> Image:
    """Return an image of Debian, with sysbench or with Python 2.7, and no Python 3."""
    tree = lab.directory / "scratch" / software / "tree"
    if not tree.exists():
        if software == "sysbench":
            make_sysbench_image(tree, *LIBRARIES)
        else:
            make_python2_image(tree, host.find_debian_mirror())
    with tree.with_name("image.tar").open("wb") as file:
        config = {"Env": ["PATH=/opt/python2.7/bin:/usr/bin:/bin"], "Cmd": ["/bin/sh"]}
        digest = pack.write(file, [pack.Source(str(tree))], config, {}, f"small/{software}:1")
    columns = make_columns(survey.survey_folder(str(tree)))
    row: Image = ImageFactory(reference=software, digest=digest, owner=cluster.owner, **columns)
    path = f"/scratch/{software}/image.tar"
    StagedImage.objects.create(image=row, cluster=cluster, format="archive", path=path)
    return row


def add_container(image: Image, cluster: Cluster, python: str) -> Environment:
    """Stage the image and return the environment in which Apptainer starts it."""
    sandbox = staging.stage(image, cluster, "sandbox", cluster.owner)
    finish(cluster, "stage")
    sandbox.refresh_from_db()
    container: Environment = Environment.objects.create(
        name=f"{image} in Apptainer",
        cluster=cluster,
        runtime=cluster.runtimes.get(kind="apptainer"),
        staged_image=sandbox,
        python=python,
        owner=cluster.owner,
    )
    inspections.request_inspection(container, cluster.owner)
    finish(cluster, "inspect")
    return container


@pytest.fixture
def channel(lab: Lab, cluster: Cluster) -> str:
    """A channel on the cluster's disk: Python, and a package of Python that needs it."""
    folder = lab.directory / "scratch" / "conda-channel"
    files = {
        "site-packages/greet.py": GREET,
        "site-packages/greet-1.0.dist-info/METADATA": b"Name: greet\nVersion: 1.0\n",
    }
    write_package(
        folder,
        "greet",
        "1.0",
        files,
        depends=["python >=3.8"],
        entry_points=["greet = greet:main"],
    )
    folder.chmod(0o777)
    run(cluster, PACK_PYTHON)
    write_index(folder)
    return "file:///scratch/conda-channel"


def run(cluster: Cluster, script: str) -> str:
    """Return what a script prints on the login node."""
    with execution.connect(cluster) as runner:
        command = ["sh", "-c", script, "script", "/scratch/conda-channel"]
        return runner.transport.run(command).stdout.decode()


def test_an_environment_file_becomes_an_image_and_the_same_on_bare_metal(
    channel: str, lab: Lab, cluster: Cluster
) -> None:
    owner, base = cluster.owner, add_image(lab, cluster, "sysbench")
    row = building.request_build(base, "", cluster, owner, title="greeting", conda_file=FILE)
    finish(cluster, "build")
    row.refresh_from_db()
    image = row.image
    assert image
    lock = recipes.conda_lock_of(image)
    assert f"{channel}/noarch/greet-1.0-0.tar.bz2#sha256:" in lock
    assert "# idna==3.10 --hash=sha256:" in lock
    packages = image.facts["packages"]
    assert set(packages["conda"]) == {"greet", "python"}
    assert packages["python"]["greet"] == "1.0"
    assert packages["python"]["idna"] == "3.10"

    again = building.request_build(base, "", cluster, owner, title="again", conda_file=FILE)
    finish(cluster, "build")
    again.refresh_from_db()
    assert again.image == image, "the same channel gives the same bytes"

    building.request_match(image, cluster, owner)
    finish(cluster, "match")
    twin = recipes.find_twin(image, cluster)
    assert twin
    folder = recipes.name_twin_folder(image, cluster)
    assert run(cluster, f"{folder}/bin/greet") == f"hello from {folder}\n"

    container = add_container(image, cluster, "/opt/tare/bin/python")
    draft = ExperimentFactory(
        cluster=cluster,
        partition=cluster.partitions.get(name="gpu"),
        baseline=twin,
        environments=[twin, container],
        workloads=[WorkloadFactory(kind="startup", parameters={"steps": 3, "burn_in": 1})],
        repeats=1,
        owner=owner,
    )
    (report,) = parity_reports.make_reports(draft)
    assert report.answer == "yes", report.differences


@pytest.mark.parametrize("software", ["sysbench", "python2.7"])
def test_an_image_without_python_runs_as_its_own_tree_up_to_a_verdict(
    software: str, lab: Lab, cluster: Cluster
) -> None:
    owner, image = cluster.owner, add_image(lab, cluster, software)
    own_trees.request_tree(image, cluster, owner)
    finish(cluster, "tree")
    tree = own_trees.find_tree(image, cluster)
    assert tree
    (known,) = inspections.find_known_software([tree]).values()
    assert known.is_known
    assert known.inspection
    folder = own_trees.name_tree_folder(image, cluster)
    if software == "sysbench":
        python, argv = "none", ["sysbench", "--time=1", "cpu", "run"]
        assert known.inspection.facts["system_packages"]["sysbench"].startswith("1.0")
    else:
        python, argv = "/opt/python2.7/bin/python2.7", ["{python}", "-c", LOOP]
        assert tree.python == f"{folder}/bin/python2.7"
    container = add_container(image, cluster, python)
    parameters = {"argv": argv, "read": "nothing", "primary": "wall_time", "recorded": "outside"}
    workload = WorkloadFactory(kind="command", parameters=parameters)
    draft = ExperimentFactory(
        cluster=cluster,
        partition=cluster.partitions.get(name="gpu"),
        baseline=tree,
        environments=[tree, container],
        workloads=[workload],
        primary_metric="wall_time",
        repeats=5,
        owner=owner,
    )
    lifecycle.launch(draft, owner)
    tick_until(cluster, lambda: all(job.is_final for job in draft.jobs.all()), seconds=300)
    ended = {(run.environment.name, run.state, run.message) for run in draft.runs.all()}
    assert ended == {(row.name, "succeeded", "") for row in (tree, container)}
    sums = set()
    for run in draft.runs.all():
        inside = run.snapshot.content["inside"]
        file = inside["program"]["files"][0]
        sums.add(file["sha256"])
        loaded = [path for path in inside["loaded"]["files"] if "/ld-" not in path]
        if run.environment == tree:
            assert file["path"].startswith(f"{folder}/root/")
            own = [path for path in loaded if path.startswith(f"{folder}/root/")]
            assert any("/libc" in path for path in own), loaded
            assert {*loaded} - {*own} <= OF_THE_LAUNCHER
    assert len(sums) == 1, "the same program, outside and inside"
    (pair,) = compare_experiment(draft).pairs
    assert pair.ratio
    assert pair.sentence.endswith("."), "a verdict"
