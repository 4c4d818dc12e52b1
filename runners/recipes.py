"""The steps that make an image from a base and a lock file, or the same environment without one.

No I/O: paths in, steps out. Everything is made in a folder of its own and moved to its place when
it is complete; if a step ends early, it removes that folder, or else the next operation does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from runners.images.scripts import BESIDE, UNTAR
from runners.images.staging_steps import Source
from runners.jobs import EnvironmentSpec, Step
from runners.scripts import wrap_program
from runners.software import inspect_software

PREFIX = "opt/tare"
"""The folder of an image in which the packages of its lock file are installed."""
LOCK_LINE = "lock:"
"""The line before the lock file in the full text of a recipe."""
LOCK = "requirements.lock"
"""The lock file's name among an operation's files."""
STARTERS = ("apptainer", "singularity", "charliecloud")
"""Runtimes that can start a folder as a container, the preferred one first."""

# FOLDER: removes what a killed job has left.
CLEAR = """if [ ! -e "$1" ]; then exit; fi
chmod -R u+rwX "$1" 2>/dev/null
rm -rf "$1" 2>/dev/null || unshare --map-root-user --map-auto rm -rf "$1"
"""

# INTERPRETER ARGUMENTS...: runs inside the base.
START = """if command -v "$0" >/dev/null; then exec "$0" "$@"; fi
echo "There is no $0 in the base: choose one with Python."
exit 1
"""

# MADE ROOT PREFIX: makes the folders, and lends the base the node's names of hosts if it has none:
# not every runtime provides them.
LEND = """if [ -n "$(ls -A "$2/$3" 2>/dev/null)" ]; then
    echo "The base has something at /$3 already. If a recipe has made it, take that one's base."
    exit 1
fi
mkdir -p "$1" "$2/$3" "$2/etc" || exit
for name in resolv.conf hosts; do
    if [ -e "$2/etc/$name" ] || [ -L "$2/etc/$name" ] || [ ! -e "/etc/$name" ]; then continue; fi
    echo "$name" >>"$1.lent" && cp -L "/etc/$name" "$2/etc/$name" || exit
done
"""

# MADE ROOT PREFIX SETTINGS: the settings may hold the password of an index, and lent files are not
# the base's: both are removed before anything is packed.
PUT = """if [ -e "$1.lent" ]; then
    while read -r name; do rm -f "$2/etc/$name" || exit; done <"$1.lent"
fi
rm -rf "$4" && rmdir "$2/$3" && mv -T "$1" "$2/$3"
"""

# PLACE VERSION FOLDER LOCK PAYLOAD: a virtual environment holds its own path, so it is made there.
MATCH = """place=$1 version=$2 folder=$3 lock=$4 payload=$5
if [ -e "$place/tare-lock.sha256" ]; then echo "It is there already."; exit; fi
found=$(python3 "$payload/install.py" find "$version") || { echo "$found"; exit 1; }
chmod -R u+rwX "$place" 2>/dev/null
rm -rf "$place"
trap 'rm -rf "$place"; exit 143' TERM INT
umask 022
mkdir -p "$place" && "$found" "$payload/install.py" install "$place" "$lock" "$folder" && exit
code=$?
rm -rf "$place"
exit "$code"
"""


@dataclass(frozen=True)
class Place:
    """Where a build works."""

    directory: str  # of the operation's job
    folder: str  # of images
    name: str  # the build's own in that folder

    @property
    def work(self) -> str:
        return name_work_folder(self.folder, self.name)

    @property
    def root(self) -> str:
        """The files of the base, and at the end those of the image."""
        return f"{self.work}/root"

    @property
    def made(self) -> str:
        """What becomes `PREFIX` of the image."""
        return f"{self.work}/made"

    @property
    def settings(self) -> str:
        """How pip reaches its index on this node."""
        return f"{self.work}/settings"


def build(
    base: Source,
    starter: EnvironmentSpec,
    place: Place,
    labels: Sequence[str],
    before: Sequence[Step] = (),
) -> tuple[Step, ...]:
    """Return the steps of a `build`; its result.json has digest, sha256, bytes, path and survey.

    `starter` is a runtime of the cluster without an image. The lock file is among the operation's
    files. `before` are steps that make the base; they work in `place.work`.
    """
    install = [f"{place.directory}/payload/install.py", "install", f"/{PREFIX}"]
    install += [f"{place.directory}/{LOCK}", place.settings]
    program = ["sh", "-c", START, starter.python, *install]
    installing = start_inside("Installing what the lock names", starter, place, program)
    return lay_over(base, place, labels, before, (installing,))


def start_inside(
    doing: str, starter: EnvironmentSpec, place: Place, program: Sequence[str]
) -> Step:
    """Return the step that runs a program in the base, with the layer in its place."""
    inside = replace(
        starter,
        image_format="sandbox",
        image_path=place.root,
        binds=(f"{place.made}:/{PREFIX}", place.settings),
        variables=(),
    )
    return make_step(doing, place.work, *wrap_program(inside, place.directory, program))


def lay_over(
    base: Source,
    place: Place,
    labels: Sequence[str],
    before: Sequence[Step],
    installing: Sequence[Step],
    lock: str = "",
) -> tuple[Step, ...]:
    """Return all steps of a build that lays one folder, made by `installing`, over a base.

    `lock` is the file in that folder that says what was installed; result.json then has it.
    """
    work, root, made, settings = place.work, place.root, place.made, place.settings
    if base.kind == "rootfs":
        unpack: tuple[str, ...] = ("sh", "-c", UNTAR, "untar", base.path, root)
    else:
        unpack = ("python3", "payload/unpack.py", base.path, root)
    extend = ["python3", "payload/extend.py", root, PREFIX, "--folder", place.folder]
    extend += ["--result", f"{place.directory}/result.json"]
    extend += ["--survey", f"{place.directory}/survey.json"]
    extend += [argument for label in labels for argument in ("--label", label)]
    extend += ["--lock", f"{root}/{PREFIX}/{lock}"] if lock else []
    if base.kind != "rootfs":
        extend += ["--base", base.path]
    return (
        make_clearing_step(work),
        *before,
        make_step("Unpacking the base", work, *unpack),
        make_step("Reading how pip reaches its index", work, *read_settings_command(settings)),
        make_step("Making room", work, "sh", "-c", LEND, "lend", made, root, PREFIX),
        *installing,
        make_step(
            "Putting it into the base", work, "sh", "-c", PUT, "put", made, root, PREFIX, settings
        ),
        make_survey_step(work, place.directory),
        make_step("Packing the image", work, *extend),
        make_clearing_step(work, "Clearing up"),
    )


def match(version: str, directory: str, place: str) -> tuple[Step, ...]:
    """Return the steps of a `match`: make the environment at `place` and inspect its software."""
    settings = f"{place}.settings"
    command = ("sh", "-c", MATCH, "match", place, version, settings, f"{directory}/{LOCK}")
    environment = EnvironmentSpec("", "bare_metal", python=f"{place}/bin/python")
    return (
        make_step("Reading how pip reaches its index", settings, *read_settings_command(settings)),
        make_step("Installing what the lock names", settings, *command, f"{directory}/payload"),
        make_clearing_step(settings, "Clearing up"),
        *inspect_software(environment, directory, "match"),
    )


def read_settings_command(folder: str) -> tuple[str, ...]:
    """Return the command that writes down how pip reaches its index on this node."""
    return ("python3", "payload/install.py", "settings", folder)


def name_work_folder(folder: str, name: str) -> str:
    """Return the folder in which a build works; the next build of its name removes it first."""
    return f"{folder}/{name}.part"


def make_step(doing: str, work: str, *command: str) -> Step:
    """Return a step that works in a folder, and removes it if it fails."""
    return Step(doing, ("sh", "-c", BESIDE, "beside", work, *command))


def make_clearing_step(work: str, doing: str = "Clearing what was left") -> Step:
    """Return the step that removes a folder, whatever its files belong to."""
    return Step(doing, ("sh", "-c", CLEAR, "clear", work))


def make_survey_step(work: str, directory: str) -> Step:
    """Return the step that reads the unpacked files of what was built."""
    survey = (
        "python3",
        "payload/survey.py",
        f"{work}/root",
        "--output",
        f"{directory}/survey.json",
    )
    return make_step("Reading what is in it", work, *survey)
