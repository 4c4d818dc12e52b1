"""Checks of a node and of the environments on it, from the answers of probes. No I/O."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from runners.exit_codes import describe_exit_code
from runners.interpreters import NO_PYTHON
from runners.jobs import EnvironmentSpec
from runners.preflight.checks import ARCHITECTURE, MESSAGE_LIMIT, Check, RuntimeSpec
from runners.preflight.machine import check_for_silence
from runners.probes import Answer
from runners.runtimes import RUNTIMES
from runners.untrusted import Damaged, Table, parse_document

OUTPUT_PREFIX = "tare:"  # begins the line that is printed inside an environment


def check_node(answers: Mapping[str, Answer], *, area: str) -> Iterator[Check]:
    """Check the kernel's features that containers depend on, where jobs run."""
    lines = answers["node"].text.splitlines()
    name, kernel, machine = lines[-3:] if len(lines) >= 3 else ("", "", "")
    if not name:
        yield Check(
            area, "Node", "warning", "It did not say its name.", words=answers["node"].message[:200]
        )
    else:
        yield Check(area, "Node", "ok", f"Ran on {name}, kernel {kernel}.", value=kernel)
        yield Check(area, ARCHITECTURE, "ok", f"Its processors are {machine}.", value=machine)
    spaces = answers["namespaces"]
    works = spaces.code == 0
    yield Check(
        area,
        "User namespaces",
        "ok" if works else "warning",
        "Can be made." if works else "Cannot be made: rootless runtimes need help of root here.",
        ""
        if works
        else "Ask for user.max_user_namespaces > 0 (and unprivileged_userns_clone = 1), or use "
        "runtimes that do without: udocker P1, a set-uid Apptainer.",
        "" if works else spaces.message[:MESSAGE_LIMIT],
        value="yes" if works else "no",
    )
    fuse = answers["fuse"].code == 0
    yield Check(
        area,
        "/dev/fuse",
        "ok" if fuse else "warning",
        "Can be opened." if fuse else "Cannot be opened: SIF files may not be mountable.",
        "" if fuse else "Ask for /dev/fuse (mode 666), or stage images as sandboxes.",
        "" if fuse else answers["fuse"].message[:MESSAGE_LIMIT],
        value="yes" if fuse else "no",
    )
    cgroups = {"2": "Version 2.", "hybrid": "Version 1 with 2 beside it.", "1": "Version 1."}
    mode = answers["cgroup"].text.strip()
    if mode in cgroups:
        yield Check(area, "Control groups", "ok", cgroups[mode], value=mode)
    else:
        yield Check(area, "Control groups", "not applicable", "Not mounted.", value="none")


def check_shared_directory(answer: Answer, directory: str, *, area: str) -> Check:
    """Check that a node sees the file that the login node has just written."""
    if answer.code == 0:
        message = f"{directory} is the same as on the login node, and can be written."
        return Check(area, "Work directory", "ok", message, value="shared")
    message = {
        66: f"A file written to {directory} on the login node is not there on the node.",
        73: f"{directory} cannot be written on the node.",
    }.get(answer.code, f"{directory} could not be read on the node.")
    return Check(
        area,
        "Work directory",
        "failed",
        message,
        "Choose a directory on a file system that login and compute nodes share.",
        answer.message[:MESSAGE_LIMIT],
    )


def check_runtime(answer: Answer, spec: RuntimeSpec, *, area: str) -> Check:
    """Compare a runtime's version with the one in the catalogue."""
    name = f"{spec.label} at {spec.executable}"
    cure = "Mend the executable's path or the set-up lines of the runtime under Edit."
    if silent := check_for_silence(area, name, spec.executable, answer, cure):
        return silent
    kind = RUNTIMES[spec.kind]()
    # Charliecloud prints it on stderr.
    installed_version = kind.parse_version(answer.text) or kind.parse_version(answer.message)
    if answer.code or not installed_version:
        message = f"{spec.executable} prints no version."
        return Check(area, name, "failed", message, cure, answer.message[:MESSAGE_LIMIT])
    if spec.version and spec.version != installed_version:
        return Check(
            area,
            name,
            "warning",
            f"{spec.executable} is {installed_version}; the catalogue says {spec.version}.",
            "Write the new version into the catalogue. Runs keep the one that they ran with.",
            value=installed_version,
        )
    return Check(
        area, name, "ok", f"{spec.executable} is {installed_version}.", value=installed_version
    )


def check_environment(
    answer: Answer, spec: EnvironmentSpec, *, area: str, gpus_asked: int, gpus_there: int
) -> Check:
    """Check that an environment starts, which Python it has, and that it sees the node's GPU."""
    name = f"Start of {spec.label}"
    make_check = partial(Check, area, name)
    error_text = answer.message[-MESSAGE_LIMIT:]
    if answer.code in (124, 137):
        cure = "Look at the node's load and the file system that the image lies on."
        return make_check(
            "failed", f"It did not start within {answer.seconds} s.", cure, error_text
        )
    output = _parse_output(answer)
    if output is None:
        message, cure = _explain_failed_start(answer, spec)
        return make_check("failed", message, cure, error_text)
    has_none = output["python"] == NO_PYTHON
    python = "no Python" if has_none else f"Python {output['python']}"
    value = f"{python}, {output.get('os') or 'no name of its system'}"
    if not gpus_asked:
        return make_check("ok", f"Starts: {value}.", value=value)
    seen = output.get("gpus")
    if isinstance(seen, bool) or not isinstance(seen, int):
        seen = 0
    if seen:
        gpus = f"{seen} GPU{'s' if seen > 1 else ''}"
        return make_check("ok", f"Starts: {value}; {gpus} inside.", value=f"{value}, {gpus}")
    if not gpus_there:
        return make_check("ok", f"Starts: {value}.", value=value)
    return make_check(
        "failed",
        f"It starts ({value}), but sees no GPU where the node has {gpus_there}.",
        _suggest_gpu_cure(spec),
        str(output.get("driver", ""))[:MESSAGE_LIMIT],
        f"{value}, no GPU",
    )


def _parse_output(answer: Answer) -> dict[str, Any] | None:
    """Return what the program inside printed, skipping the messages of runtimes around it."""
    for line in reversed(answer.text.splitlines()):
        _, marker, text = line.partition(OUTPUT_PREFIX)
        if marker:
            with suppress(Damaged):
                output: dict[str, Any] = parse_document(text, Table(needed=("python",)))
                return output
    return None


def _explain_failed_start(answer: Answer, spec: EnvironmentSpec) -> tuple[str, str]:
    """Return why an environment did not start, and the cure."""
    error_text = answer.message.lower()
    if spec.runtime == "bare_metal":
        return (
            f"{spec.python} does not start there.",
            "Mend the interpreter's path or the environment's set-up lines.",
        )
    if "fuse" in error_text or "squashfuse" in error_text:
        return (
            "The image cannot be mounted.",
            "Ask for /dev/fuse and squashfuse on the nodes, or stage the image as a sandbox.",
        )
    if (
        "namespace" in error_text
        or "uid_map" in error_text
        or "operation not permitted" in error_text
    ):
        return (
            "The runtime may not make a container.",
            "Ask for user namespaces on the nodes, or use a runtime that does without.",
        )
    if answer.code == 127 and error_text.startswith("timeout: failed to run"):
        return (
            f"{spec.executable or 'The runtime'} is not there.",
            "Mend the executable's path or the set-up lines of the runtime under Edit.",
        )
    if any(phrase in error_text for phrase in ("no such file", "not found", "does not exist")):
        if spec.image_path.lower() not in error_text and spec.python.lower() in error_text:
            return (
                f"{spec.python} is not in the image.",
                "Mend the interpreter's path of the environment.",
            )
        return (
            f"{spec.image_path} is not there, or not whole.",
            "Is the image staged where the catalogue says? Mend the path, or stage it again.",
        )
    return (
        f"It does not start (exit code {describe_exit_code(answer.code)}).",
        "The words below are the runtime's own; try the same command by hand on a node.",
    )


def _suggest_gpu_cure(spec: EnvironmentSpec) -> str:
    known = {
        "apptainer": "Does the runtime see the driver's libraries? Look at --nv, or --nvccli.",
        "udocker": "Run `udocker setup --nvidia --force` on the container, on a node with a GPU.",
        "podman": "Make the CDI file (nvidia-ctk cdi generate) and give --device nvidia.com/gpu.",
        "charliecloud": "Put the driver's libraries into the image: `ch-fromhost --nvidia`.",
        "bare_metal": "Load the driver's libraries: is libcuda.so.1 on the loader's path?",
    }
    return known.get(spec.runtime, "Look at the runtime's options for GPUs.")


def check_gpus(answer: Answer, *, area: str) -> tuple[Check, int]:
    """Check the node's own GPUs, of which one was requested; also return how many there are."""
    devices = [line for line in answer.text.splitlines() if re.match(r"GPU \d+:", line)]
    if devices:
        model = re.sub(r"^GPU \d+:\s*|\s*\(UUID.*$", "", devices[0])
        gpu_names = f"{len(devices)} x {model}" if len(devices) > 1 else model
        return Check(area, "GPU", "ok", f"{gpu_names}.", value=model), len(devices)
    check = Check(
        area,
        "GPU",
        "warning",
        "A GPU was asked for, and no NVIDIA driver answers on the node: nothing to look for inside "
        "containers.",
        "Is this the right partition, and does nvidia-smi -L work on its nodes?",
        answer.message[:MESSAGE_LIMIT],
        "none",
    )
    return check, 0
