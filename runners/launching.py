"""The parts of a job script that start several processes for a run. No I/O: a JobSpec in, text out.

A launcher is put before the container's start, once for each process, as people write it by hand:
`mpirun -np 8 udocker run ...`. What each process needs is sent as a file of the run's directory.
"""

import shlex
from pathlib import Path

from runners.jobs import JobSpec
from runners.schedulers.base import fill_site_options

TEMPLATE = Path(__file__).with_name("several.sh.template")
ALONE = """"${wall[@]}" \\
            /usr/bin/env "TARE_BEGAN=$moment" "${program[@]}\""""
STARTED = {
    "": ("instances", 'bash "$directory/instances.sh"'),
    "srun": ("process by_srun", 'bash "$directory/by_srun.sh"'),
    "mpirun": ("process", '"${launch[@]}" bash -l "$directory/process.sh"'),
}
"""By launcher: the shell functions that are sent as files, and the command that starts them."""


def is_several(job: JobSpec) -> bool:
    """Return whether each run has more processes than the one that the job script starts."""
    return bool(job.launch.launcher) or job.launch.instances > 1


def render_parts(job: JobSpec) -> dict[str, str]:
    """Return the parts of the job script's template that start a run's processes, by name."""
    if not is_several(job):
        alone = {"several": "", "launch": "", "hand_on": "", "elsewhere": "", "node_list": ""}
        return {**alone, "start": ALONE}
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
        "node_list": "name_nodes\n" if launch.nodes > 1 else "",
        "elsewhere": ("sweep_elsewhere\n    " if launch.nodes > 1 else "") + "clear_away\n    ",
    }


def build_launcher_command(job: JobSpec) -> list[str]:
    """Return the launcher and its options, to precede the command that it starts; [] if none.

    ValueError for options that cannot be split into arguments.
    """
    launch, resources = job.launch, job.resources
    options = [option for line in launch.options for option in shlex.split(line)]
    if launch.launcher == "srun":
        argv = ["srun", f"--nodes={launch.nodes}", f"--ntasks={launch.processes}"]
        argv.append(f"--ntasks-per-node={launch.processes_per_node}")
        if "cpus" not in fill_site_options(resources)[1]:
            argv.append(f"--cpus-per-task={job.cpus_of_a_process}")
        return [*argv, "--kill-on-bad-exit=1", *options]
    if launch.launcher == "mpirun":
        argv = ["mpirun", "-np", str(launch.processes)]
        # A process may use all CPUs of the job, like one that is started without a launcher.
        defaults = {"--map-by": f"ppr:{launch.processes_per_node}:node", "--bind-to": "none"}
        for name, value in defaults.items():
            if not {name, name[1:]} & set(options):
                argv += [name, value]
        return [*argv, *options]
    return []
