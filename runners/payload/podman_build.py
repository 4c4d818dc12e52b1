"""Build an image of a file by Podman, as an ordinary user, and write it as an OCI archive.

    python3 podman_build.py --podman PROGRAM --name NAME --seconds N --base ARCHIVE --kind KIND
        --file FILE --context FOLDER --output ARCHIVE

All of it happens in a store of its own beside the user's, and in namespaces of its own: nothing is
left of a build that ends, and a store that a killed job has left is removed by the next build.
Nothing is pulled: FILE calls its base localhost/tare-build:base.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import subprocess
import sys
from contextlib import suppress
from typing import IO, Any, Dict, List, Mapping, Optional

if not __package__:
    # Started as a file. As a package, none of our names can shadow a library's.
    sys.path[0], __package__ = os.path.split(os.path.dirname(os.path.abspath(__file__)))

from . import bounded, build_failures, pack

BASE, MADE = "localhost/tare-build:base", "localhost/tare-build:made"
# A PID namespace ends all that is in it with its first process, and a mount namespace its mounts.
NAMESPACES = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


class NotBuilt(Exception):
    """An error that ends the build; people read its message."""


def read_store(podman: str) -> Dict[str, Any]:
    """Return what Podman says of the user's own store. Raises NotBuilt."""
    command = [podman, "info", "--format", "json"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    except (OSError, subprocess.SubprocessError) as problem:
        raise NotBuilt("Podman does not start: %s" % problem) from None
    try:
        store: Dict[str, Any] = json.loads(done.stdout.decode("utf-8", "replace"))["store"]
        if not os.path.isabs(store["graphRoot"]):
            raise ValueError
    except (ValueError, LookupError, TypeError):
        words = done.stderr.decode("utf-8", "replace")
        raise NotBuilt(build_failures.explain(words, done.returncode)) from None
    return store


def list_store_options(store: Mapping[str, Any], folder: str) -> List[str]:
    """Return the options of Podman for a store in `folder` that works like the user's own."""
    options = ["--root", folder + "/root", "--runroot", folder + "/run"]
    options += ["--storage-driver", str(store.get("graphDriverName") or "overlay")]
    for name, value in sorted((store.get("graphOptions") or {}).items()):
        text = value.get("Executable", "") if isinstance(value, dict) else str(value)
        if text:
            options += ["--storage-opt", "%s=%s" % (name, text)]
    return options


def build(options: argparse.Namespace) -> int:
    """Build in namespaces of its own, and remove the store; return the exit code."""
    os.environ["PODMAN_IGNORE_CGROUPSV1_WARNING"] = "1"
    store = read_store(options.podman)
    stores = os.path.join(os.path.dirname(store["graphRoot"]), "tare-builds")
    folder = os.path.join(stores, options.name)
    os.makedirs(stores, exist_ok=True)
    lock = hold(folder)
    if lock is None:
        raise NotBuilt("The same build is under way already: wait for its end.")
    remove_abandoned(options.podman, stores, options.name)
    os.makedirs(folder)
    inside = [sys.executable, "-B", os.path.abspath(__file__), *sys.argv[1:], "--inside"]
    inside += [json.dumps([options.podman, *list_store_options(store, folder)])]
    try:
        command = [options.podman, "unshare", *NAMESPACES, *inside]
        outcome = bounded.run(command, options.seconds)
    finally:
        remove(options.podman, folder)
        release(folder, lock)
    problem = bounded.explain(outcome, options.seconds)
    if problem:
        print(problem)
    return 1 if problem else 0


def hold(folder: str, *, strictly: bool = False) -> Optional[IO[bytes]]:
    """Return the file whose lock says that a store is in use; None if another build has it.

    Where a file system has no locks nobody knows: then None too, if `strictly`.
    """
    file = open(folder + ".lock", "wb")  # noqa: SIM115 # its lock lasts as long as the file is open
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except OSError:
        if strictly:
            file.close()
            return None
    return file


def release(folder: str, lock: IO[bytes]) -> None:
    """Remove the lock of a store that is gone."""
    with suppress(OSError):
        os.unlink(folder + ".lock")
    lock.close()


def remove_abandoned(podman: str, stores: str, own: str) -> None:
    """Remove the stores that killed jobs have left; that of this build too, whose lock is held."""
    for name in sorted(os.listdir(stores)):
        folder = os.path.join(stores, name)
        if name.endswith(".lock"):
            continue
        lock = None if name == own else hold(folder, strictly=True)
        if lock or name == own:
            remove(podman, folder)
        if lock:
            release(folder, lock)


def remove(podman: str, folder: str) -> None:
    """Remove a store, whose files belong to the user's subordinate ids."""
    if os.path.exists(folder):
        subprocess.run([podman, "unshare", "rm", "-rf", folder], stderr=subprocess.DEVNULL)


def build_inside(options: argparse.Namespace) -> int:
    """Load the base, build, and save: as root of a user namespace, in the store of this build."""
    podman: List[str] = json.loads(options.inside)
    if options.kind == "rootfs":
        loaded = call([*podman, "import", "--quiet", options.base, BASE])
    else:
        loaded = call([*podman, "pull", "--quiet", "oci-archive:" + options.base])
        loaded = loaded or tag_only_image(podman)
    command = [*podman, "build", "--isolation=chroot", "--pull=never", "--network=host"]
    command += ["--layers=false", "--force-rm", "--no-cache", "--format=oci"]
    command += ["--timestamp=%d" % pack.EPOCH, "--tag=" + MADE]
    command += ["--file=" + options.file, options.context]
    saved = ["save", "--quiet", "--format=oci-archive", "--uncompressed"]
    return loaded or call(command) or call([*podman, *saved, "--output=" + options.output, MADE])


def tag_only_image(podman: List[str]) -> int:
    """Name the image that was just loaded into the store, whatever its archive calls it."""
    command = [*podman, "images", "--quiet", "--no-trunc"]
    listed = subprocess.run(command, stdout=subprocess.PIPE).stdout.decode().split()
    return call([*podman, "tag", listed[0], BASE]) if listed else 1


def call(command: List[str]) -> int:
    sys.stdout.flush()
    return subprocess.call(command)


def main(arguments: List[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name in ("podman", "name", "base", "file", "context", "output"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--kind", choices=("oci", "rootfs"), required=True)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--inside", default="")
    options = parser.parse_args(arguments)
    if options.inside:
        return build_inside(options)
    try:
        return build(options)
    except bounded.Ended:
        print("The build was ended with its job.")
        return 143
    except (NotBuilt, OSError) as problem:
        print(problem)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
