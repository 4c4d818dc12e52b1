"""The job scripts that are kept in golden/: what a reviewer reads.

After a change that is meant, write them anew with `python -m tests.runners.golden_scripts`.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from runners import gate
from runners.errors import Refused
from runners.images import FORMATS, Source
from runners.images import scripts as images_scripts
from runners.jobs import (
    CodeSpec,
    DataSpec,
    EnvironmentSpec,
    JobSpec,
    Launch,
    Resources,
    RunSpec,
    Step,
)
from runners.runtimes import RUNTIMES
from runners.schedulers import SCHEDULERS
from runners.scripts import quote, render

FOLDER = Path(__file__).parent / "golden"
SIF = EnvironmentSpec(
    label="NumPy 2.5, SIF",
    runtime="apptainer",
    options=("--unsquash",),
    image_path="/scratch/images/numpy's own.sif",
    python="/opt/tare/bin/python",
    binds=("/scratch/data:/data",),
    variables=(("OMP_PROC_BIND", "close"),),
    setup_lines=("module load apptainer/1.4",),
)
BARE_METAL = EnvironmentSpec(
    label="bare metal",
    runtime="bare_metal",
    python="/scratch/software/numpy/bin/python",
    setup_lines=("module load gcc", 'export LD_LIBRARY_PATH="$GCC_ROOT/lib64"'),
)
COLD_CNN = {"page_cache": "cold", "data": "mnist", "data_directory": "/data/mnist"}
WITHOUT_PYTHON = replace(BARE_METAL, python="none")
UDOCKER = EnvironmentSpec(
    label="NumPy 2.5, udocker P1",
    runtime="udocker",
    executable="/scratch/tools/udocker",
    mode="P1",
    image_path="numpy-p1",
    python="/opt/tare/bin/python",
)

# A staged image of each format, as an administrator would enter it.
STAGED = {
    "sif": "/scratch/images/numpy.sif",
    "sandbox": "/scratch/images/numpy",
    "squashfs": "/scratch/images/numpy.sqfs",
    "udocker": "numpy-p1",
    "podman": "localhost/tare/numpy@sha256:7347",
    "docker": "tare/numpy@sha256:7347",
    "shifter": "docker:tare/numpy:2.5",
    "sarus": "tare/numpy@sha256:7347",
}


def typical(kind: str) -> EnvironmentSpec:
    """An environment with a bind and a variable, in the first format that the runtime starts."""
    runtime = RUNTIMES[kind]
    form = next(iter(runtime.formats), "")
    return EnvironmentSpec(
        label=f"NumPy 2.5, {runtime.label}",
        runtime=kind,
        mode=next(iter(runtime.modes), ""),
        image_format=form,
        image_path=STAGED.get(form, ""),
        python="/opt/tare/bin/python",
        binds=("/scratch/data:/data",),
        variables=(("OMP_NUM_THREADS", "4"),),
    )


SITE = Resources(
    time_limit_seconds=601,
    gpus_per_node=2,
    cpus_per_node=8,
    memory_mb=16_000,
    partition="gpu",
    account="physics",
)


def block(*environments: EnvironmentSpec) -> JobSpec:
    """One block of blas, in this order."""
    return JobSpec(
        uid="5a3f",
        name="tare-5a3f-1",
        directory="/scratch/jo's work/jobs/5a3f-1",
        runs=tuple(
            RunSpec(f"{position:x}c0de", position, "blas", {"steps": 100}, environment, 180)
            for position, environment in enumerate(environments)
        ),
        resources=Resources(
            time_limit_seconds=601,
            gpus_per_node=2,
            cpus_per_node=8,
            memory_mb=16_000,
            partition="gpu",
            account="physics",
            qos="short",
            directives=("--constraint=h100&nvlink", "--exclusive"),
            gres="gpu:h100",
        ),
        setup_lines=("ulimit -s unlimited",),
        cooldown_seconds=30,
    )


def outside(job: JobSpec) -> JobSpec:
    """The job with a program that is recorded by the node's Python: none is needed inside."""
    parameters = {"argv": ["sorting", "10"], "files": {}, "recorded": "outside"}
    return with_runs_of(job, "command", parameters)


def with_runs_of(job: JobSpec, workload: str, parameters: dict[str, Any]) -> JobSpec:
    """The job with another workload in all its runs."""
    runs = (replace(run, workload=workload, parameters=parameters) for run in job.runs)
    return replace(job, runs=tuple(runs))


def site(kind: str, *directives: str) -> str:
    """A job for a cluster that asks for things in its own way."""
    job = replace(block(BARE_METAL, SIF), resources=replace(SITE, directives=directives))
    return render(job, SCHEDULERS[kind]())


def the_run(script: str) -> str:
    """What is particular to the one run of a job."""
    run_lines = re.search(r"^# Run 1 of 1.*?^run .*?\n", script, re.DOTALL | re.MULTILINE)
    assert run_lines
    return run_lines[0]


def beside() -> str:
    """A job that may share its machine."""
    job = block(BARE_METAL, SIF)
    resources = replace(job.resources, gpus_on_node=8, side_by_side=True, directives=())
    return render(replace(job, resources=resources), SCHEDULERS["direct"]())


def several(launch: Launch, *environments: EnvironmentSpec) -> str:
    """A job whose runs are made of several processes, or of instances."""
    gpus = 4 if launch.instances > 1 else 2
    resources = replace(SITE, nodes=launch.nodes, gpus_per_node=gpus)
    job = replace(block(*environments), launch=launch, resources=resources)
    return render(job, SCHEDULERS["slurm"]())


def reads_data(job: JobSpec) -> JobSpec:
    """The job with a data set that its runs read."""
    data = DataSpec(
        name="digits",
        digest=DIGEST,
        path="/scratch/jo's data/digits",
        manifest="/scratch/jo's work/data/7f.manifest",
        proof="hashes",
    )
    return replace(job, runs=tuple(replace(run, data=data) for run in job.runs))


def runs_code(job: JobSpec) -> JobSpec:
    """The job with code that Tare has put on the cluster."""
    code = CodeSpec(
        source="commit 0123456789ab",
        digest=DIGEST,
        path="/scratch/jo's work/code/git-0123456789abcdef0123456789abcdef01234567",
    )
    return replace(job, runs=tuple(replace(run, code=code) for run in job.runs))


def operation() -> JobSpec:
    """Work that measures nothing."""
    steps = (
        Step("Converting to jo's SIF", ("apptainer", "build", "/scratch/jo's.sif", "docker:x")),
        Step("Looking inside", ("true",)),
    )
    return replace(block(), steps=steps, resources=SITE, cooldown_seconds=0)


DIGEST = f"sha256:{'7347' * 16}"
SOURCES = {
    "oci": Source("oci", "/scratch/jo's work/images/oci.source", DIGEST),
    "rootfs": Source("rootfs", "/scratch/jo's work/images/rootfs.source", DIGEST),
    "sif": Source("sif", "/scratch/jo's work/images/sif.source", DIGEST),
}
# Runtimes of a cluster, and where their programs are.
TOOLS = {"apptainer": "", "udocker": "/opt/it's/udocker", "podman": "", "docker": "", "enroot": ""}


def steps_of(name: str) -> str:
    """How a format is made of each kind of source, and removed, as a person reads it."""
    form, lines = FORMATS[name], []
    mode = "R1" if form.by_mode else ""
    for kind, source in SOURCES.items():
        try:
            staging = form.stage(source, "/scratch/jo's work/images", TOOLS, mode)
        except Refused as error:
            lines += [f"# From {kind}: {error}", ""]
            continue
        lines += [f"# From {kind}, at {staging.location}", f"# Needs {', '.join(staging.needs)}"]
        lines += [_line(step) for step in staging.steps]
        lines += ["# Removal", *map(_line, form.unstage(staging.location, TOOLS)), ""]
    return "\n".join(lines)


def _line(step: Step) -> str:
    """A step on one line; scripts by their names, in capitals."""
    named = {text: name for name, text in vars(images_scripts).items() if name.isupper()}
    argv = [named.get(word) or quote(word) for word in step.argv]
    return f"{step.doing}: {' '.join(argv)}"


def scripts() -> dict[str, str]:
    """The text of each golden file, by its name; of runtimes the lines of one run alone."""
    slurm = SCHEDULERS["slurm"]()
    runtimes = {
        f"runtimes/{kind}.bash": the_run(render(block(typical(kind)), slurm)) for kind in RUNTIMES
    }
    formats = {f"formats/{name}.txt": steps_of(name) for name in FORMATS}
    return (
        runtimes
        | formats
        | {
            "grid_engine.sh": site("grid_engine", "-pe smp {cpus}", "-l rmem={memory_per_cpu}M"),
            "slurm_site.sh": site(
                "slurm",
                "--gpus-per-node=h100:{gpus}",
                "--mem-per-cpu={memory_per_cpu}M",
                "--reservation=measure",
                "--constraint=h100&nvlink",
                "--exclusive",
            ),
            "slurm.sh": render(block(BARE_METAL, SIF, UDOCKER), slurm),
            "slurm_data.sh": render(reads_data(block(BARE_METAL, SIF)), slurm),
            "slurm_code.sh": render(runs_code(reads_data(block(BARE_METAL, SIF))), slurm),
            "slurm_page_cache.sh": render(
                with_runs_of(block(BARE_METAL, SIF, UDOCKER), "cnn", COLD_CNN), slurm
            ),
            "slurm_outside_files.sh": render(
                with_runs_of(
                    block(WITHOUT_PYTHON, typical("podman")), "files", {"recorded": "outside"}
                ),
                slurm,
            ),
            "slurm_outside.sh": render(outside(block(WITHOUT_PYTHON, typical("podman"))), slurm),
            "slurm_gpu_processes.sh": render(
                replace(block(BARE_METAL, SIF), counts_gpu_processes=True), slurm
            ),
            "direct_side_by_side.sh": beside(),
            "operation.sh": render(operation(), slurm),
            "direct.sh": render(block(BARE_METAL, BARE_METAL), SCHEDULERS["direct"]()),
            "srun.sh": several(
                Launch("srun", nodes=2, processes_per_node=2, options=("--mpi=pmix",)),
                *(BARE_METAL, SIF),
            ),
            "mpirun.sh": several(
                Launch("mpirun", nodes=2, processes_per_node=2, options=("--mca btl ^openib",)),
                UDOCKER,
            ),
            "packed.sh": several(Launch(instances=4), BARE_METAL, typical("sarus")),
            "gate/tare-gate.txt": gate.render_script(),
        }
    )


if __name__ == "__main__":
    for name, text in scripts().items():
        (FOLDER / name).write_text(text)
