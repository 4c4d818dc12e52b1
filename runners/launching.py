"""What a job script holds where a run is made of several processes. Pure: a JobSpec in, words out.

A launcher is put around the container's start, once for each process, as people write it by hand:
`mpirun -np 8 udocker run ...`. What each process needs travels as a file of the run's directory.
"""

import shlex
from pathlib import Path

from runners.jobs import JobSpec
from runners.schedulers.base import fill_site_options

TEMPLATE = Path(__file__).with_name("several.sh.template")
ALONE = """"${wall[@]}" \\
            /usr/bin/env "TARE_BEGAN=$(date +%s.%N)" "${program[@]}\""""
STARTED = {
    "": ("instances", 'bash "$directory/instances.sh"'),
    "srun": ("process by_srun", 'bash "$directory/by_srun.sh"'),
    "mpirun": ("process", '"${launch[@]}" bash -l "$directory/process.sh"'),
}
"""By launcher: the functions that travel, and what starts them."""


def is_several(job: JobSpec) -> bool:
    """Whether its runs need more than the job script's own one process."""
    return bool(job.launch.launcher) or job.launch.instances > 1


def parts(job: JobSpec) -> dict[str, str]:
    """The parts of the job script's template that say how a run's processes are started."""
    if not is_several(job):
        return {"several": "", "launch": "", "hand_on": "", "start": ALONE, "elsewhere": ""}
    launch = job.launch
    functions, start = STARTED[launch.launcher]
    known = {
        "@launcher@": launch.launcher,
        "@nodes@": str(launch.nodes),
        "@processes@": str(launch.processes if launch.launcher else launch.instances),
        "@on_a_node@": str(launch.processes_per_node),
        "@gpus@": str(job.resources.gpus_per_node // launch.instances),
    }
    text = TEMPLATE.read_text()
    for name, value in known.items():
        text = text.replace(name, value)
    return {
        "several": text,
        "launch": '"${launch[@]}" ' if launch.launcher else "",
        "hand_on": "make_ready\n    "
        + "".join(f"hand_on {name}\n    " for name in functions.split()),
        "start": start,
        "elsewhere": ("sweep_elsewhere\n    " if launch.nodes > 1 else "") + "clear_away\n    ",
    }


def launcher_words(job: JobSpec) -> list[str]:
    """The launcher with its options, before what it is to start; nothing where there is none.

    ValueError for options that cannot be split into words.
    """
    launch, wanted = job.launch, job.resources
    options = [word for line in launch.options for word in shlex.split(line)]
    if launch.launcher == "srun":
        words = ["srun", f"--nodes={launch.nodes}", f"--ntasks={launch.processes}"]
        words.append(f"--ntasks-per-node={launch.processes_per_node}")
        if "cpus" not in fill_site_options(wanted)[1]:
            words.append(f"--cpus-per-task={job.cpus_of_a_process}")
        return [*words, "--kill-on-bad-exit=1", *options]
    if launch.launcher == "mpirun":
        words = ["mpirun", "-np", str(launch.processes)]
        # A process may use all CPUs of the job, as one that was started alone.
        ours = {"--map-by": f"ppr:{launch.processes_per_node}:node", "--bind-to": "none"}
        for name, value in ours.items():
            if not {name, name[1:]} & set(options):
                words += [name, value]
        return [*words, *options]
    return []
