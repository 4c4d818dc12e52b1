"""The steps of builds by Podman and Apptainer: Dockerfiles, definition files, Debian packages.

No I/O: paths in, steps out. Like recipes they work in a folder of their own.
"""

import json
from collections.abc import Sequence

from runners.images.scripts import BUILD_SIF, UNTAR
from runners.images.staging_steps import Source
from runners.jobs import Step
from runners.recipes import Place, make_clearing_step, make_step, make_survey_step

BUILD_FILE = "build.file"
"""The name of the Dockerfile or definition file among an operation's files."""
SENT = "sent-"
"""What the names of sent files begin with there, so that none takes the place of another file."""
LOCAL_BASE = "localhost/tare-build:base"
"""What payload/podman_build.py calls the base."""

# DIRECTORY CONTEXT
LAY_OUT = """mkdir -p "$2" || exit
for file in "$1"/sent-*; do
    [ ! -e "$file" ] || cp "$file" "$2/${file#"$1/sent-"}" || exit
done
"""

# PACKAGE...: in the base, as root of a user namespace. Indexes and logs hold times: they go.
INSTALL_DEBIAN = """command -v apt-get >/dev/null || {
    echo "E: There is no apt-get in the base: a list of Debian packages needs Debian or Ubuntu."
    exit 100
}
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
mkdir -p /var/cache/apt/archives/partial /var/lib/apt/lists/partial /var/log/apt
apt-get update -q -o APT::Update::Error-Mode=any -o APT::Sandbox::User=root || exit
for package; do
    apt-cache show "${package%%[:=]*}" >/dev/null 2>&1 || {
        echo "E: Unable to locate package ${package%%[:=]*}"
        exit 100
    }
done
apt-get install -q -y --no-install-recommends -o APT::Sandbox::User=root -- "$@" || exit
rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb /var/cache/apt/*.bin /var/log/apt/*
rm -f /var/log/dpkg.log /var/log/alternatives.log /var/cache/ldconfig/aux-cache
rm -f /var/cache/debconf/*-old /var/lib/dpkg/*-old
"""


def write_debian_file(packages: Sequence[str]) -> str:
    """Return the Dockerfile that adds Debian packages to the base."""
    command = json.dumps(["/bin/sh", "-c", INSTALL_DEBIAN, "install", *packages])
    return f"FROM {LOCAL_BASE}\nUSER root\nRUN {command}\n"


def convert_sif(base: Source, place: Place, apptainer: str) -> tuple[Source, tuple[Step, ...]]:
    """Return a base that Podman and pip's recipes take, and the steps that make it of a SIF file.

    Any other base is returned as it is.
    """
    if base.kind != "sif":
        return base, ()
    sandbox, archive = f"{place.work}/sandbox", f"{place.work}/base.archive"
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    packing = ("payload/pack.py", "--output", archive, "--variable", path, sandbox)
    return Source("oci", archive, base.digest), (
        make_step(
            "Unpacking the SIF file",
            place.work,
            apptainer,
            "build",
            "--sandbox",
            sandbox,
            base.path,
        ),
        make_step("Packing it as a base", place.work, "python3", *packing),
    )


def add_debian_packages(
    base: Source, place: Place, podman: str, seconds: int, labels: Sequence[str]
) -> tuple[Source, tuple[Step, ...]]:
    """Return a base with the packages of the operation's build file, and the steps that make it."""
    archive = f"{place.work}/with-packages.archive"
    return Source("oci", archive, base.digest), (
        *_build_by_podman("Installing the Debian packages", base, place, podman, seconds),
        _pack(base, place, archive, labels),
    )


def keep_archive(made: Source, place: Place, before: Sequence[Step]) -> tuple[Step, ...]:
    """Return all steps of a build whose archive `made` is complete after the steps `before`."""
    keep = ("payload/adopt.py", "keep", made.path, *_name_results(place))
    unpack = ("python3", "payload/unpack.py", made.path, f"{place.work}/root")
    return (
        make_clearing_step(place.work),
        *before,
        make_step("Unpacking the image", place.work, *unpack),
        make_survey_step(place.work, place.directory),
        make_step("Moving it into its place", place.work, "python3", *keep),
        make_clearing_step(place.work, "Clearing up"),
    )


def build_dockerfile(
    base: Source,
    place: Place,
    podman: str,
    seconds: int,
    labels: Sequence[str],
    before: Sequence[Step] = (),
) -> tuple[Step, ...]:
    """Return the steps that build the operation's Dockerfile; result.json is that of a recipe."""
    archive = f"{place.work}/packed.archive"
    making = (
        *before,
        *_build_by_podman("Building the Dockerfile", base, place, podman, seconds),
        _pack(base, place, archive, labels),
    )
    return keep_archive(Source("oci", archive, base.digest), place, making)


def choose_definition_source(base: Source, place: Place) -> tuple[str, str]:
    """Return what `Bootstrap:` and `From:` are to say for this base."""
    if base.kind == "oci":
        return "oci-archive", base.path
    return "localimage", base.path if base.kind == "sif" else f"{place.work}/base"


def build_definition(base: Source, place: Place, apptainer: str, seconds: int) -> tuple[Step, ...]:
    """Return the steps that build the operation's definition file into a SIF file."""
    work, made = place.work, f"{place.work}/made.sif"
    unpack_base = make_step(
        "Unpacking the base", work, "sh", "-c", UNTAR, "untar", base.path, f"{work}/base"
    )
    file = f"{place.directory}/{BUILD_FILE}"
    command = ("sh", "-c", BUILD_SIF, apptainer, made, file)
    bounded = ("python3", "payload/bounded.py", str(seconds), f"{work}/context", *command)
    sandbox = (apptainer, "build", "--sandbox", f"{work}/root", made)
    keep = ("payload/adopt.py", "keep", made, "--sif", *_name_results(place))
    return (
        make_clearing_step(work),
        *((unpack_base,) if base.kind == "rootfs" else ()),
        _lay_out(place),
        make_step("Building the definition file", work, *bounded),
        make_step("Unpacking the image", work, *sandbox),
        make_survey_step(work, place.directory),
        make_step("Moving it into its place", work, "python3", *keep),
        make_clearing_step(work, "Clearing up"),
    )


def _build_by_podman(
    doing: str, base: Source, place: Place, podman: str, seconds: int
) -> tuple[Step, ...]:
    command = ["payload/podman_build.py", "--podman", podman, "--name", place.name]
    command += ["--seconds", str(seconds), "--base", base.path]
    command += ["--kind", base.kind, "--file", f"{place.directory}/{BUILD_FILE}"]
    command += ["--context", f"{place.work}/context", "--output", f"{place.work}/made.tar"]
    return _lay_out(place), make_step(doing, place.work, "python3", *command)


def _pack(base: Source, place: Place, archive: str, labels: Sequence[str]) -> Step:
    command = ["payload/adopt.py", "pack", f"{place.work}/made.tar", archive]
    command += ["--base", base.path] if base.kind == "oci" else []
    command += [argument for label in labels for argument in ("--label", label)]
    return make_step("Packing the image", place.work, "python3", *command)


def _lay_out(place: Place) -> Step:
    command = ("sh", "-c", LAY_OUT, "lay", place.directory, f"{place.work}/context")
    return make_step("Laying out the files that were sent", place.work, *command)


def _name_results(place: Place) -> list[str]:
    result, survey = f"{place.directory}/result.json", f"{place.directory}/survey.json"
    return ["--folder", place.folder, "--result", result, "--survey", survey]
