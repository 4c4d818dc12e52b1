"""The page cache before a run: whose files are made cold or warm, and by what command. No I/O.

What is prepared is what differs between a container and bare metal: the files of the image, or the
folders in which the node's interpreter finds its modules; and the data that the workload names.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from runners.interpreters import NO_PYTHON
from runners.jobs import EnvironmentSpec, RunSpec
from runners.runtimes import RUNTIMES

TEMPLATE = Path(__file__).with_name("page_cache.sh.template")
BARE_METAL = "bare_metal"
MOST_SECONDS = 120
"""That preparing the page cache of one run may take."""
LIST_FOLDERS = """import os, sys
for path in sys.path[1:]:
    if os.path.isdir(path): print(path)
print(os.path.realpath(sys.executable))"""


def why_not_prepared(runtime: str, image_format: str, python: str) -> str:
    """Return why nothing can be made cold or warm in an environment; "" if it can."""
    if runtime == BARE_METAL:
        if python == NO_PYTHON:
            return "without an interpreter nobody knows which files of the node its programs read"
        return ""
    if image_format not in RUNTIMES[runtime].formats_of_files:
        label = RUNTIMES[runtime].label
        return f"{label} keeps this image where no user of the node can reach its files"
    return ""


def render_function(policy: str) -> str:
    """Return the shell function that prepares the page cache before a run."""
    text = TEMPLATE.read_text()
    return text.replace("@policy@", policy).replace("@limit@", str(MOST_SECONDS))


def build_places_command(environment: EnvironmentSpec) -> list[str]:
    """Return a command that prints the files and folders of an environment, a line each."""
    if environment.runtime == BARE_METAL:
        variables = [f"{name}={value}" for name, value in environment.variables]
        return ["env", *variables, environment.python, "-B", "-s", "-c", LIST_FOLDERS]
    return RUNTIMES[environment.runtime]().build_place_command(environment)


def list_data_places(run: RunSpec) -> list[str]:
    """Return where the data of a run lie on the node; none that are in the image itself."""
    places = [run.data.path] if run.data else []
    folder = str(run.parameters.get("data_directory") or "")
    if folder.startswith("/") and "{" not in folder:
        places += [place] if (place := _find_outside(run.environment, folder)) else []
    return list(dict.fromkeys(places))


def _find_outside(environment: EnvironmentSpec, folder: str) -> str:
    """Return the node's name of a folder that a program sees; "" for a folder of the image."""
    if environment.runtime == BARE_METAL:
        return folder
    inside = PurePosixPath(folder)
    covering = [
        (inner or outer, outer)
        for outer, _, inner in (bind.partition(":") for bind in environment.binds)
        if inside.is_relative_to(inner or outer)
    ]
    if not covering:
        return ""
    inner, outer = max(covering, key=lambda bind: len(PurePosixPath(bind[0]).parts))  # the inmost
    return str(PurePosixPath(outer) / inside.relative_to(inner))
