"""The steps that make an image's own files an environment outside of a container. No I/O."""

from __future__ import annotations

from runners.images.scripts import UNTAR
from runners.images.staging_steps import Source
from runners.interpreters import NO_PYTHON
from runners.jobs import EnvironmentSpec, Step
from runners.recipes import make_clearing_step, make_step
from runners.software import inspect_software

MARK = "tree"


def name_programs_path(folder: str) -> str:
    """Return the PATH of programs of a tree without Python: the image's own come first."""
    return f"{folder}/bin:/usr/local/bin:/usr/bin:/bin"


def lay_out_tree(
    source: Source,
    directory: str,
    folder: str,
    python: str,
    *,
    interpreter: str = "",
    tree: str = "",
    apptainer: str = "",
) -> tuple[Step, ...]:
    """Return the steps that make `folder` such an environment, and inspect its software.

    `python` is the image's interpreter, `tree` the hash of its files if it is known, and
    `apptainer` the program that opens a SIF file. Where `python` is NO_PYTHON, the image's programs
    get launchers, and `interpreter` is the environment's: NO_PYTHON too, or an older Python.
    """
    root = f"{folder}/root"
    if source.kind == "rootfs":
        unpack: tuple[str, ...] = ("sh", "-c", UNTAR, "untar", source.path, root)
    elif source.kind == "sif":
        unpack = (apptainer, "build", "--sandbox", root, source.path)
    else:
        unpack = ("python3", "payload/unpack.py", source.path, root)
    programs = ["payload/own_tree.py", folder, python, *(["--tree", tree] if tree else [])]
    environment = EnvironmentSpec("", "bare_metal", python=f"{folder}/bin/python")
    if python == NO_PYTHON:
        programs += ["--archive", source.path] if source.kind == "oci" else []
        variables = (("PATH", name_programs_path(folder)),)
        environment = EnvironmentSpec("", "bare_metal", python=interpreter, variables=variables)
    return (
        make_clearing_step(folder),
        make_step("Unpacking the image", folder, *unpack),
        make_step("Making programs of its files", folder, "python3", *programs),
        *inspect_software(environment, directory, MARK, root=root),
    )
