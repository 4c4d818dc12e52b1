"""udocker: containers that an ordinary user unpacks and runs without any help of root."""

from typing import ClassVar

from runners.jobs import EnvironmentSpec
from runners.runtimes.base import WAITING, Inside, Runtime

# Without a terminal, udocker 1.3.17's R modes lose output and end with 1 whatever happened. And
# they write runc's configuration into the container's folder: two runs at once, on two nodes, would
# take each other's. So each has a folder of its own, with the same root file system in it.
ALONE = """import os, pty, shutil, signal, subprocess, sys, tempfile
udocker, name, *command = sys.argv[1:]
found = subprocess.run([udocker, "inspect", "-p", name], stdout=subprocess.PIPE)
root = found.stdout.decode().strip()
if found.returncode or not os.path.isdir(root):
    sys.exit("udocker has no container " + name)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
own = tempfile.mkdtemp(prefix="tare-udocker-")
try:
    place = os.path.join(own, os.path.basename(os.path.dirname(root)))
    os.mkdir(place)
    for entry in os.scandir(os.path.dirname(root)):
        if entry.is_dir() and entry.name != ".mountpoints":
            os.symlink(entry.path, os.path.join(place, entry.name))
        elif entry.is_file() and entry.name != "config.json":
            shutil.copy(entry.path, place)
    if name != os.path.basename(place):
        os.symlink(os.path.basename(place), os.path.join(own, name))
    os.environ["UDOCKER_CONTAINERS"] = own
    status = pty.spawn(command)
finally:
    shutil.rmtree(own, ignore_errors=True)
sys.exit(status >> 8 or status % 128 and 128 + status % 128)"""

# PRoot makes the mount points that a container lacks, and removes them when it ends, under the feet
# of others that run in the same container. So they are made before any of them starts.
MOUNT_POINTS = """root=$("$0" inspect -p "$1") && cd "$root" && shift || exit
set -f
for mount; do
    place=${mount#*:}
    if [ ! -d "${mount%%:*}" ]; then place=${place%/*}; fi
    path=$PWD
    IFS=/
    for part in $place; do
        if [ -z "$part" ]; then continue; fi
        path=$path/$part
        if mkdir "$path" 2>/dev/null; then printf '%s\\n' "$path"; fi
    done
done"""

# A container of this machine's own shell, small enough to be copied for each mode. A mode works if
# a program inside can write into a folder that was bound at its own path, as a run's is. (R modes
# end with 1 whatever happened, so the file decides.) All modes are tried at once.
TRY_MODES = """udocker=$0
folder=$(mktemp -d) || exit 73
trap 'chmod -R u+rwX "$folder"; rm -rf "$folder"' EXIT
export UDOCKER_REPOS="$folder/repos" UDOCKER_LAYERS="$folder/layers" UDOCKER_TMP="$folder"
mkdir -p "$UDOCKER_REPOS" "$UDOCKER_LAYERS" "$folder/containers" "$folder/bound"
for file in /bin/sh /etc/os-release $(ldd /bin/sh | grep -o '/[^ )]*'); do
    mkdir -p "$folder/root${file%/*}" && cp -L "$file" "$folder/root$file" || exit
done
mkdir -p "$folder/root/tmp" "$folder/root/proc" "$folder/root/dev" "$folder/root$folder/bound"
tar -C "$folder/root" -cf "$folder/root.tar" .
UDOCKER_CONTAINERS="$folder/containers"
export UDOCKER_CONTAINERS
"$udocker" -q import "$folder/root.tar" tare/check:modes >&2 &&
    "$udocker" -q create --name=check tare/check:modes >&2 || exit
try() {
    UDOCKER_CONTAINERS="$folder/containers-$1"
    cp -a "$folder/containers" "$UDOCKER_CONTAINERS"
    "$udocker" setup --execmode="$1" check && "$udocker" -q run --nobanner --entrypoint= \\
        --volume="$folder/bound:$folder/bound" check /bin/sh -c "echo ok >'$folder/bound/$1'"
}
for mode; do
    try "$mode" >"$folder/$mode.words" 2>&1 </dev/null &
done
wait
for mode; do
    if [ -s "$folder/bound/$mode" ]; then echo "$mode ok"; continue; fi
    words="$folder/$mode.words" errors=
    if [ "$(wc -c <"$words")" -gt 400 ]; then errors=$(grep -a '^Error: ' "$words" | head -n 3); fi
    echo "$mode $({ echo "$errors"; tail -c 400 "$words"; } | tr '\\n\\t' '  ')"
done
"""


class UDocker(Runtime):
    """`udocker run` of a container that was made, under its name, when the image was staged."""

    label = "udocker"
    command = "udocker"
    formats = ("udocker",)
    formats_of_files: ClassVar = frozenset({"udocker"})
    data_read_only = False
    modes: ClassVar = {
        "P1": "PRoot with seccomp, udocker's own choice",
        "P2": "PRoot without seccomp",
        "F1": "Fakechroot, started through the image's loader",
        "F2": "Fakechroot with a loader that forgets the host's libraries",
        "F3": "Fakechroot with patched executables",
        "F4": "Fakechroot that patches executables as they appear",
        "R1": "runc or crun in a user namespace",
        "R2": "the same, with PRoot inside",
        "R3": "the same, with PRoot inside and without seccomp",
        "S1": "Singularity or Apptainer",
    }

    def build_place_command(self, environment: EnvironmentSpec) -> list[str]:
        return [self.choose_executable(environment), "inspect", "-p", environment.image_path]

    def wrap(self, inside: Inside) -> list[str]:
        environment = inside.environment
        command = [self.choose_executable(environment), "--quiet", "run", "--nobanner"]
        if environment.mode:
            # Only a default: a mode that `udocker setup` gave to the container wins.
            variable = f"UDOCKER_DEFAULT_EXECUTION_MODE={environment.mode}"
            command = ["/usr/bin/env", variable, *command]
        if environment.mode.startswith("R"):
            alone = [
                "python3",
                "-c",
                ALONE,
                self.choose_executable(environment),
                environment.image_path,
            ]
            command = [*alone, *command]
        command += ["--entrypoint=", f"--workdir={inside.directory}"]
        command += [f"--volume={mount}" for mount in inside.list_mounts()]
        command += [*environment.options, environment.image_path]
        return [*command, *WAITING]

    def build_presence_command(self, environment: EnvironmentSpec) -> list[str]:
        return [self.choose_executable(environment), "inspect", "-p", environment.image_path]

    def build_preparation_command(self, inside: Inside) -> list[str]:
        environment = inside.environment
        command = [
            "sh",
            "-c",
            MOUNT_POINTS,
            self.choose_executable(environment),
            environment.image_path,
        ]
        return [*command, *inside.list_mounts()]

    def build_modes_command(self, executable: str) -> list[str]:
        return ["sh", "-c", TRY_MODES, executable or self.command, *self.modes]

    def build_version_command(self, executable: str) -> list[str]:
        return [executable or self.command, "version"]
