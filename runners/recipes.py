"""How a cluster makes an image from a base and a lock file, and the same environment without one.

Pure: paths in, steps out. Everything is made in a folder of its own and moved to its place when it
is whole; whatever ends a step early, that folder is cleared away, or by the next such chore.
"""

from dataclasses import replace

from runners.images.formats import Source
from runners.images.scripts import BESIDE, UNTAR
from runners.jobs import EnvironmentSpec, Step
from runners.scripts import behind_the_wall
from runners.software import look_inside

PREFIX = "opt/tare"
"""Where an image has what its lock names."""
LOCK_LINE = "lock:"
"""Stands alone before the lock where a recipe is written down in full."""
LOCK = "requirements.lock"
"""What the lock is called among a chore's files."""
STARTERS = ("apptainer", "singularity", "charliecloud")
"""Runtimes that start a folder, the first of them is taken."""

# FOLDER: what a job that was killed has left.
CLEAR = """if [ -e "$1" ]; then chmod -R u+rwX "$1"; rm -rf "$1"; fi"""

# INTERPRETER WORDS...: inside the base.
START = """if command -v "$0" >/dev/null; then exec "$0" "$@"; fi
echo "There is no $0 in the base: choose one with Python."
exit 1
"""

# MADE ROOT PREFIX: where things go, and the node's names of hosts where the base has none: not
# every runtime brings them along.
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

# MADE ROOT PREFIX SETTINGS: the settings may hold the password of an index, and what was lent is
# not the base's: both go before anything is packed.
PUT = """if [ -e "$1.lent" ]; then
    while read -r name; do rm -f "$2/etc/$name" || exit; done <"$1.lent"
fi
rm -rf "$4" && rmdir "$2/$3" && mv -T "$1" "$2/$3"
"""

# PLACE VERSION FOLDER LOCK PAYLOAD: a virtual environment knows its path: it is made in its place.
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


def build(
    base: Source,
    starter: EnvironmentSpec,
    directory: str,
    folder: str,
    name: str,
    labels: list[str],
) -> tuple[Step, ...]:
    """The steps of a `build`: result.json has digest, sha256, bytes, path and survey.

    `starter` is a runtime of the cluster without an image; `folder` is where images lie, and
    `name` is this recipe's own there. The lock is among the chore's files.
    """
    work = f"{folder}/{name}.part"
    root, made, settings = f"{work}/root", f"{work}/made", f"{work}/settings"
    if base.kind == "rootfs":
        unpack: tuple[str, ...] = ("sh", "-c", UNTAR, "untar", base.path, root)
    else:
        unpack = ("python3", "payload/unpack.py", base.path, root)
    inside = replace(
        starter,
        image_format="sandbox",
        image_path=root,
        binds=(f"{made}:/{PREFIX}", settings),
        variables=(),
    )
    install = [f"{directory}/payload/install.py", "install", f"/{PREFIX}", f"{directory}/{LOCK}"]
    program = ["sh", "-c", START, starter.python, *install, settings]
    survey = ("python3", "payload/survey.py", root, "--output", f"{directory}/survey.json")
    extend = ["python3", "payload/extend.py", root, PREFIX, "--folder", folder]
    extend += ["--result", f"{directory}/result.json", "--survey", f"{directory}/survey.json"]
    extend += [word for label in labels for word in ("--label", label)]
    if base.kind != "rootfs":
        extend += ["--base", base.path]
    return (
        Step("Clearing what was left", ("sh", "-c", CLEAR, "clear", work)),
        _beside("Unpacking the base", work, *unpack),
        _beside("Reading how pip reaches its index", work, *_settings(settings)),
        _beside("Making room", work, "sh", "-c", LEND, "lend", made, root, PREFIX),
        _beside(
            "Installing what the lock names",
            work,
            *behind_the_wall(inside, directory, program),
        ),
        _beside(
            "Putting it into the base", work, "sh", "-c", PUT, "put", made, root, PREFIX, settings
        ),
        _beside("Reading what is in it", work, *survey),
        _beside("Packing the image", work, *extend),
        Step("Clearing up", ("sh", "-c", CLEAR, "clear", work)),
    )


def match(version: str, directory: str, place: str) -> tuple[Step, ...]:
    """The steps of a `match`: the environment at `place`, and the result.json of a look into it."""
    settings = f"{place}.settings"
    command = ("sh", "-c", MATCH, "match", place, version, settings, f"{directory}/{LOCK}")
    look = EnvironmentSpec("", "bare_metal", python=f"{place}/bin/python")
    return (
        _beside("Reading how pip reaches its index", settings, *_settings(settings)),
        _beside("Installing what the lock names", settings, *command, f"{directory}/payload"),
        Step("Clearing up", ("sh", "-c", CLEAR, "clear", settings)),
        *look_inside(look, directory, "match"),
    )


def _settings(folder: str) -> tuple[str, ...]:
    return ("python3", "payload/install.py", "settings", folder)


def _beside(doing: str, work: str, *command: str) -> Step:
    """A step that works in a folder, and clears it away if it fails."""
    return Step(doing, ("sh", "-c", BESIDE, "beside", work, *command))
