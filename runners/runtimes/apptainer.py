"""Apptainer, and Singularity as it was called before: images as SIF files or sandbox folders."""

from typing import ClassVar

from runners.runtimes.base import Inside, Runtime


class Apptainer(Runtime):
    """`apptainer exec`, with neither the user's variables nor home directory inside."""

    label = "Apptainer"
    command = "apptainer"
    formats = ("sif", "sandbox")
    modes: ClassVar = {
        "nv": "the driver's files are found and bound by the runtime; without a mode too",
        "nvccli": "NVIDIA's own nvidia-container-cli binds them",
        "binds": "the environment's binds and variables bring them, as on sites without --nv",
    }
    gpu_options: ClassVar = {"nvccli": ["--nv", "--nvccli"], "binds": []}

    def wrap(self, inside: Inside) -> list[str]:
        environment = inside.environment
        command = [self.choose_executable(environment), "--silent", "exec"]
        command += ["--cleanenv", "--no-home", f"--pwd={inside.directory}"]
        if inside.gpus:
            command += self.gpu_options.get(environment.mode, ["--nv"])
        command += [f"--bind={mount}" for mount in inside.list_mounts(":ro")]
        return [*command, *environment.options, environment.image_path]


class Singularity(Apptainer):
    """SingularityCE, and the Singularity 3 that both came from: the same options, the old name."""

    label = "Singularity"
    command = "singularity"
