"""Each runtime's command line: held to the golden files, and these to the table in the docs."""

import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from runners.jobs import EnvironmentSpec
from runners.runtimes import RUNTIMES, Inside, Runtime
from runners.runtimes.base import CLEAN, WAIT, WAITING
from runners.runtimes.docker import AS_THE_USER
from runners.runtimes.enroot import START_IN
from runners.runtimes.udocker import ALONE
from runners.schedulers import SCHEDULERS
from runners.scripts import quote, render
from tests.runners.golden_scripts import FOLDER, block, typical

DOCS = (Path(__file__).parents[2] / "docs" / "runtimes.md").read_text()
PLAIN = EnvironmentSpec(label="x", runtime="", image_path="IMAGE")
CONTAINERS = [kind for kind in RUNTIMES if kind != "bare_metal"]


def wrapped(kind: str, environment: EnvironmentSpec = PLAIN, *, gpus: bool = False) -> str:
    inside = Inside(environment, "/job/run", binds=("/job",), gpus=gpus)
    return " ".join(RUNTIMES[kind]().wrap(inside))


def table(heading: str) -> list[list[str]]:
    """The rows of the table that follows this heading in the docs, cell by cell."""
    part = DOCS.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def golden(kind: str, array: str) -> list[str]:
    text = (FOLDER / "runtimes" / f"{kind}.bash").read_text()
    array_line = re.search(rf"^{array}=\((.*)\)$", text, re.MULTILINE)
    assert array_line
    return shlex.split(array_line[1])


def expand_spans(cells: list[str], kind: str) -> list[list[str]]:
    """Return the arguments in the golden file that each code span of a row stands for."""
    job = block(typical(kind))
    mounts = Inside(typical(kind), "", binds=(job.directory,)).mounts
    meant = {
        "IMAGE": typical(kind).image_path,
        "DIRECTORY": job.locate_run(job.runs[0]),
        "MOUNTS": ",".join(mounts),
        "CLEAN": CLEAN,
        "AS_THE_USER": AS_THE_USER,
        "START_IN": START_IN,
        "WAIT": WAIT,
    }
    expanded = []
    for span in re.findall(r"`([^`]+)`", " ".join(cells)):
        for mount in mounts if "OUTSIDE" in span else mounts[:1]:
            outside, destination = mount.split(":")
            values = meant | {"OUTSIDE": outside, "INSIDE": destination}
            pattern = r"\b(" + "|".join(values) + r")\b"
            expanded.append(
                [
                    re.sub(pattern, lambda match, values=values: values[match[0]], word)
                    for word in shlex.split(span)
                ]
            )
    return expanded


def test_the_docs_have_a_row_for_each_runtime():
    rows = table("What each setting becomes")
    assert [row[0] for row in rows] == [runtime.label for runtime in RUNTIMES.values()]
    for row, runtime in zip(rows, RUNTIMES.values(), strict=True):
        assert row[1] == (", ".join(runtime.formats) or "none")


@pytest.mark.parametrize("kind", CONTAINERS)
def test_the_row_and_the_golden_file_say_the_same(kind):
    """Each span is in the command, and each word of the command is in a span."""
    rows = {row[0]: row[2:] for row in table("What each setting becomes")}
    *cells, asked = rows[RUNTIMES[kind].label]
    wall = golden(kind, "wall")
    covered = set()
    for span in expand_spans(cells, kind):
        starts = [
            start
            for start in range(len(wall) - len(span) + 1)
            if wall[start : start + len(span)] == span
        ]
        assert starts, f"{span} is in the docs, but not in {wall}"
        covered |= {start + offset for start in starts for offset in range(len(span))}
    assert [word for index, word in enumerate(wall) if index not in covered] == []
    assert [" ".join(span) for span in expand_spans([asked], kind)][:1] in (
        [],
        [" ".join(golden(kind, "present"))],
    )


def test_the_docs_say_what_each_mode_does():
    assert table("Modes") == [
        [runtime.label, mode, meaning]
        for runtime in RUNTIMES.values()
        for mode, meaning in runtime.modes.items()
        if runtime.label != "Singularity"  # the same as Apptainer
    ]


@pytest.mark.parametrize("kind", CONTAINERS)
def test_executable_options_and_binds_are_the_administrators(kind):
    changed = replace(
        PLAIN, executable="/opt/bin/it", options=("--option",), binds=("/data:/in", "/both")
    )
    argv = RUNTIMES[kind]().wrap(Inside(changed, "/job/run"))
    assert "/opt/bin/it" in argv
    assert "--option" in argv
    text = " ".join(argv).replace(",destination=", ":")
    assert "/data:/in" in text
    assert "/both:/both" in text
    assert argv.index("--option") > argv.index("/opt/bin/it")


@pytest.mark.parametrize("kind", CONTAINERS)
def test_no_gpu_is_passed_on_unless_one_was_asked_for(kind):
    without = wrapped(kind)
    assert not re.search("gpu|nvidia|--nv", without, re.IGNORECASE)
    if kind not in ("udocker", "charliecloud", "sarus"):  # prepared when staging, or by the site
        assert wrapped(kind, gpus=True) != without


@pytest.mark.parametrize("kind", ["apptainer", "singularity"])
@pytest.mark.parametrize(
    ("mode", "options"),
    [("", ["--nv"]), ("nv", ["--nv"]), ("nvccli", ["--nv", "--nvccli"]), ("binds", [])],
)
def test_apptainer_has_three_ways_to_pass_gpus_on(kind, mode, options):
    environment = replace(PLAIN, mode=mode, binds=("/usr/lib64/libcuda.so.1:/driver/libcuda.so.1",))
    without = wrapped(kind, environment).split(" ")
    assert [w for w in wrapped(kind, environment, gpus=True).split(" ") if w not in without] == (
        options
    )


@pytest.mark.parametrize("mode", RUNTIMES["udocker"].modes)
def test_udockers_mode_is_a_factor(mode):
    command = wrapped("udocker", replace(PLAIN, mode=mode))
    chosen = f"/usr/bin/env UDOCKER_DEFAULT_EXECUTION_MODE={mode} "
    alone = f"python3 -c {ALONE} udocker IMAGE " if mode.startswith("R") else ""
    assert command == alone + chosen + wrapped("udocker")


def test_root_in_a_rootless_docker_is_the_user():
    command = wrapped("docker", replace(PLAIN, mode="rootless"))
    assert command.startswith("docker run --rm")
    assert "--user" not in command


def test_enroot_starts_files_and_containers():
    runtime = RUNTIMES["enroot"]()
    asked = runtime.build_presence_command(replace(PLAIN, image_format="enroot", image_path="it's"))
    assert asked[-2:] == ["enroot", "it's"]
    assert "enroot list" not in " ".join(asked)  # the shell gets the names as arguments


def test_a_clean_start_keeps_the_schedulers_gpus_and_nothing_else():
    outside = {"PATH": "/usr/bin:/bin", "HOME": "/h o", "USER": "me", "LEAK": "x"}
    for gpus in ({}, {"CUDA_VISIBLE_DEVICES": ""}, {"CUDA_VISIBLE_DEVICES": "0,1"}):
        printed = subprocess.run(
            ["sh", "-c", CLEAN, "env"], env=outside | gpus, capture_output=True, text=True
        ).stdout
        kept = dict(line.split("=", 1) for line in printed.splitlines())
        assert kept == {name: outside[name] for name in ("PATH", "HOME", "USER")} | gpus


@pytest.mark.parametrize(
    ("kind", "mode", "binds", "fields"),
    [
        ("udocker", "P1", ["/data", "/a b:/it's"], {}),
        ("apptainer", "", [], {}),
        ("udocker", "P3", [], {"mode": "udocker has no mode 'P3'; its modes: P1, P2, F1"}),
        ("podman", "P1", [], {"mode": "Podman has no mode 'P1'; its modes: none to choose from"}),
        ("apptainer", "", ["/data:/in,/etc:/x"], {"binds": "without any comma"}),
        ("apptainer", "", ["data"], {"binds": "A bind is /path or /outside:/inside"}),
        ("podman", "", ["/a:b"], {"binds": "not '/a:b'"}),
        ("podman", "", ["--privileged"], {"binds": "not '--privileged'"}),
    ],
)
def test_a_wrong_mode_or_bind_is_refused_in_words(kind, mode, binds, fields):
    refusals = RUNTIMES[kind]().find_refusals(mode, binds)
    assert set(refusals) == set(fields)
    for field, message in fields.items():
        assert message in refusals[field]


@pytest.mark.parametrize(
    ("kind", "printed", "version"),
    [
        ("apptainer", "apptainer version 1.4.5\n", "1.4.5"),
        ("singularity", "singularity-ce version 3.11.0-rc.1+12\n", "3.11.0-rc.1+12"),
        ("singularity", "2.6.1-dist\n", "2.6.1-dist"),
        (
            "udocker",
            "version: 1.3.17\ntarball: https://host/udocker-englib-1.2.11.tar.gz",
            "1.3.17",
        ),
        ("udocker", "udocker: command not found", ""),
        ("podman", "podman version 5.4.2\n", "5.4.2"),
        ("docker", "Docker version 20.10.24+dfsg1, build 297e128\n", "20.10.24+dfsg1"),
        ("charliecloud", "0.38\n", "0.38"),
        ("pyxis", "slurm 24.11.5\n", "24.11.5"),
        ("shifter", "Usage:\nshifter [-h|--help] [--image=docker:ubuntu/15.04]", "unknown"),
        ("shifter", "sh: 1: shifter: not found", ""),
        ("bare_metal", "", ""),
    ],
)
def test_the_version_is_read(kind, printed, version):
    assert RUNTIMES[kind]().parse_version(printed) == version


def test_contributing_shows_a_runtime_that_works():
    """As it stood in the lab: bwrap started NumPy's folder with these words."""
    guide = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
    example = re.search(r"```python\n(class Bubblewrap.*?)```", guide, re.DOTALL)
    names = {"Runtime": Runtime, "Inside": Inside}
    exec(example[1], names)
    runtime = names["Bubblewrap"]()
    assert runtime.wrap(Inside(PLAIN, "/job/run", binds=("/job",))) == shlex.split(
        "bwrap --bind IMAGE / --dev-bind /dev /dev --proc /proc --clearenv --chdir /job/run "
        "--bind /job /job"
    )
    assert runtime.build_presence_command(PLAIN) == ["test", "-e", "IMAGE"]
    assert runtime.build_version_command("") == ["bwrap", "--version"]


def test_every_runtime_says_how_to_ask_for_its_version():
    for kind in CONTAINERS:
        asked = RUNTIMES[kind]().build_version_command("/opt/bin/it")
        assert asked[0] == "/opt/bin/it", kind


def wait_for(*program: str) -> subprocess.CompletedProcess[str]:
    """Start a program as udocker does: by a shell that waits for it."""
    return subprocess.run(
        # Whoever starts the tests in the background has them ignore some signals.
        ["env", "--default-signal", *WAITING, *program],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("script", "code"),
    [
        *(("true", 0), ("exit 7", 7), ("exit 255", 255)),
        *((f"true & wait; kill -{name} $$", 128 + name) for name in (1, 2, 6, 9, 10, 11, 15)),
    ],
)
def test_the_shell_in_udockers_containers_returns_how_the_program_ended(
    script: str, code: int
) -> None:
    done = wait_for("/bin/sh", "-c", f"echo out; echo err >&2; {script}")
    assert (done.returncode, done.stdout, done.stderr) == (code, "out\n", "err\n")


def test_the_shell_in_udockers_containers_passes_arguments_on() -> None:
    odd = ["-x", "it's $(a)", "", "a\nb"]
    done = wait_for("/usr/bin/printf", "<%s>", *odd)
    assert done.stdout == "".join(f"<{word}>" for word in odd)
    assert wait_for("/none").returncode == 127


# As `ch-run` does with a file that it mounts itself: 1 for a program that a signal has ended, and
# the exit code of a shell that has waited for one.
FAKE_CH_RUN = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift
"$@" || { code=$?; [ "$code" -gt 128 ] && ! [ "$2" = -c ] && exit 1; exit "$code"; }
"""


@pytest.mark.parametrize(("form", "is_waited_for"), [("squashfs", True), ("sandbox", False)])
def test_charliecloud_waits_by_a_shell_in_what_it_mounts_itself(
    form: str, is_waited_for: bool, tmp_path: Path
) -> None:
    program = tmp_path / "ch-run"
    program.write_text(FAKE_CH_RUN)
    program.chmod(0o755)
    environment = replace(
        typical("charliecloud"), image_format=form, image_path="/i", executable=str(program)
    )
    script = render(block(environment), SCHEDULERS["slurm"]())
    assert (" ".join(map(quote, WAITING)) in " ".join(script.split())) is is_waited_for
    command = RUNTIMES["charliecloud"]().wrap(Inside(environment, "/job/run"))
    assert (tuple(command[-len(WAITING) :]) == WAITING) is is_waited_for
    killed = [*command, "/usr/bin/env", "sh", "-c", "kill -9 $$"]
    done = subprocess.run(killed, capture_output=True, check=False)
    assert done.returncode == (137 if is_waited_for else 1)


def test_a_signal_for_all_is_the_programs_to_answer() -> None:
    """As when a job is cancelled: a program that saves its state takes its time."""
    script = "trap 'echo saved; exit 9' TERM; kill -TERM 0; while :; do sleep 0.01; done"
    done = subprocess.run(
        ["/bin/sh", "-c", WAIT, "wait", "/bin/sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
        timeout=20,
    )
    assert (done.returncode, done.stdout) == (9, "saved\n")


@pytest.mark.parametrize(
    ("kind", "argument"),
    [
        ("bare_metal", ""),
        ("apptainer", "--bind=/data/a b:/data/a b:ro"),
        ("singularity", "--bind=/data/a b:/data/a b:ro"),
        ("podman", "--volume=/data/a b:/data/a b:ro"),
        ("docker", "--volume=/data/a b:/data/a b:ro"),
        ("shifter", "--volume=/data/a b:/data/a b:ro"),
        ("enroot", "/data/a b:/data/a b:none:x-create=auto,bind,ro"),
        ("pyxis", "--container-mounts=/job:/job,/data/a b:/data/a b:ro"),
        ("udocker", "--volume=/data/a b:/data/a b"),
        ("charliecloud", "--bind=/data/a b:/data/a b"),
        ("sarus", "--mount=type=bind,source=/data/a b,destination=/data/a b"),
    ],
)
def test_a_data_set_is_read_at_its_own_path_and_only_read_where_that_can_be(
    kind: str, argument: str
) -> None:
    inside = Inside(PLAIN, "/job/run", binds=("/job",), read_only=("/data/a b",))
    argv = RUNTIMES[kind]().wrap(inside)
    assert [word for word in argv if "/data/a b" in word] == ([argument] if argument else [])
    assert RUNTIMES[kind].data_read_only == argument.endswith("ro")


def test_every_runtime_is_tried_with_a_data_set() -> None:
    (marker,) = test_a_data_set_is_read_at_its_own_path_and_only_read_where_that_can_be.pytestmark
    assert {kind for kind, _ in marker.args[1]} == set(RUNTIMES)
