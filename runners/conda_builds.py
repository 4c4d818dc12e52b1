"""The steps that install an environment file of conda: as an image's layer, and on bare metal.

No I/O: paths in, steps out. Conda's packages need no container to be installed, as the path that is
written into files is not the one where they lie; what pip adds is installed inside the base.
"""

from __future__ import annotations

from collections.abc import Sequence

from runners.images.staging_steps import Source
from runners.jobs import EnvironmentSpec, Step
from runners.recipes import (
    PREFIX,
    Place,
    lay_over,
    make_clearing_step,
    make_step,
    read_settings_command,
    start_inside,
)
from runners.software import inspect_software

TOOL = "py-rattler==0.28.0"
"""The program that solves and installs."""
TOOL_HASHES = {
    "x86_64": "4f4ab1d34d5394e7ce130a86e59009c95ace4f5757d9c3af04de1351bcea47eb",
    "aarch64": "61b24202374188e72130f1b3dc63b455befaafc3e49e5481a38b6a6c8828c1e0",
}
"""The sha256 of its wheel for each kind of processor (manylinux, Python 3.10 or later)."""
TOOL_LOCK, ENVIRONMENT = "py-rattler.lock", "environment.json"
"""The names of files among an operation's files."""
LOCK = "tare-conda.lock"
"""The file in the environment that names each package with its check sum."""

# PYTHON ARGUMENTS...: a file need not ask for Python.
IF_PYTHON = """if ! [ -x "$0" ]; then echo "There is no Python in the environment."; exit; fi
"$0" -c 'import sys; sys.exit(sys.version_info < (3, 8))' || {
    echo "The environment's Python is too old, or does not start in the base: it needs 3.8."
    exit 1
}
exec "$0" "$@"
"""

# PLACE PAYLOAD ENVIRONMENT SETTINGS INSTALL...: made where it stays; what is half-made goes.
MAKE_TWIN = """place=$1 payload=$2 environment=$3 settings=$4
shift 4
chmod -R u+rwX "$place" 2>/dev/null
rm -rf "$place"
trap 'rm -rf "$place"; exit 143' TERM INT
umask 022
program="$payload/conda_install.py"
"$@" && "$place/bin/python" -B "$program" pip "$place" "$environment" "$settings" && exit
code=$?
rm -rf "$place"
exit "$code"
"""


def write_tool_lock() -> str:
    """Return the lock file by which py-rattler is fetched on a node."""
    return " ".join([TOOL, *(f"--hash=sha256:{sha}" for sha in TOOL_HASHES.values())]) + "\n"


def build_conda(
    base: Source,
    starter: EnvironmentSpec,
    place: Place,
    labels: Sequence[str],
    before: Sequence[Step] = (),
) -> tuple[Step, ...]:
    """Return the steps that install the operation's environment file over a base, as `build` does.

    result.json has also `lock`: the address and check sum of each package.
    """
    payload = f"{place.directory}/payload"
    command = _install_command(place.directory, place.made, f"{place.work}/conda", place.settings)
    command += ["--prefix", f"/{PREFIX}", "--root", place.root]
    program = ["sh", "-c", IF_PYTHON, f"/{PREFIX}/bin/python", "-B", f"{payload}/conda_install.py"]
    program += ["pip", f"/{PREFIX}", f"{place.directory}/{ENVIRONMENT}", place.settings]
    installing = (
        make_step("Installing what conda's file names", place.work, *command),
        start_inside("Installing what its pip section names", starter, place, program),
    )
    return lay_over(base, place, labels, before, installing, LOCK)


def match_conda(directory: str, place: str) -> tuple[Step, ...]:
    """Return the steps that make the environment at `place` on bare metal, and inspect it."""
    work, payload = f"{place}.work", f"{directory}/payload"
    settings = f"{work}/settings"
    install = _install_command(directory, place, f"{work}/conda", settings)
    environment = EnvironmentSpec("", "bare_metal", python=f"{place}/bin/python")
    making = ("sh", "-c", MAKE_TWIN, "make", place, payload, f"{directory}/{ENVIRONMENT}", settings)
    return (
        make_clearing_step(work),
        make_step("Reading how pip reaches its index", work, *read_settings_command(settings)),
        make_step("Installing what conda's lock names", work, *making, *install),
        make_clearing_step(work, "Clearing up"),
        *inspect_software(environment, directory, "match"),
    )


def _install_command(directory: str, made: str, work: str, settings: str) -> list[str]:
    return [
        "python3",
        "payload/conda_install.py",
        "install",
        made,
        f"{directory}/{ENVIRONMENT}",
        work,
        *("--tool-lock", f"{directory}/{TOOL_LOCK}", "--settings", settings),
    ]
