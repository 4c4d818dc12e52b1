"""How clusters make their forms of images: held to golden files, and these to the table."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from runners.errors import Refused
from runners.images import FORMATS, Source
from runners.images import scripts as shell
from runners.runtimes import RUNTIMES
from tests.runners.golden_scripts import FOLDER, SOURCES, TOOLS, steps_of

DOCS = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
OCI = SOURCES["oci"]
SCRIPTS = {name: text for name, text in vars(shell).items() if name.isupper() and name[0] != "_"}
SHELLCHECK = Path(sys.executable).with_name("shellcheck")


def test_every_format_of_a_runtime_is_made_or_says_who_makes_it() -> None:
    assert set(FORMATS) == {form for runtime in RUNTIMES.values() for form in runtime.formats}
    for form in FORMATS.values():
        if form.by_site:
            with pytest.raises(Refused, match=r"then enter the name|Stage a squashfs file"):
                form.stage(OCI, "/scratch/images", TOOLS)
        else:
            assert form.stage(OCI, "/scratch/images", TOOLS).steps


@pytest.mark.parametrize("name", FORMATS)
def test_the_steps_are_those_of_the_golden_files(name: str) -> None:
    assert (FOLDER / "formats" / f"{name}.txt").read_text() == steps_of(name)


def test_the_docs_have_a_row_for_each_format() -> None:
    rows = re.findall(r"^\| `([a-z]+)` \| (.*?) \|", DOCS, re.MULTILINE)
    assert [name for name, _ in rows] == list(FORMATS)
    assert [label for _, label in rows] == [form.label for form in FORMATS.values()]


@pytest.mark.parametrize("script", SCRIPTS)
def test_what_a_shell_reads_passes_shellcheck(script: str) -> None:
    checked = subprocess.run(
        [SHELLCHECK, "--shell=sh", "-"], input=SCRIPTS[script], capture_output=True, text=True
    )
    assert checked.stdout == ""


@pytest.mark.parametrize(
    ("name", "tools", "message"),
    [
        ("sif", {"podman": ""}, "A SIF file is made by Apptainer or Singularity, which this clust"),
        ("udocker", {}, "A container of udocker is made by udocker, which this cluster does not"),
    ],
)
def test_a_cluster_without_the_maker_is_told(
    name: str, tools: dict[str, str], message: str
) -> None:
    with pytest.raises(Refused, match=message):
        FORMATS[name].stage(OCI, "/scratch/images", tools)


def test_a_sif_file_becomes_only_what_apptainer_can_make_of_it() -> None:
    for name in ("podman", "udocker", "docker"):
        with pytest.raises(Refused, match=r"no SIF file|of a SIF file"):
            FORMATS[name].stage(SOURCES["sif"], "/scratch/images", TOOLS)
    with pytest.raises(Refused, match="Only Apptainer or Singularity opens SIF files"):
        FORMATS["squashfs"].stage(SOURCES["sif"], "/scratch/images", {"charliecloud": ""})


@pytest.mark.parametrize("name", ["sif", "sandbox", "squashfs", "udocker", "podman", "docker"])
def test_only_what_tare_has_staged_is_removed(name: str) -> None:
    form = FORMATS[name]
    place = form.stage(OCI, "/scratch/im ages", TOOLS, "P1" if form.by_mode else "").location
    assert form.unstage(place, TOOLS)
    for foreign_path in (
        "/",
        "/scratch",
        "/home/me/numpy.sif",
        "numpy",
        "",
        f"{place}/..",
        f"{place} x",
    ):
        with pytest.raises(Refused, match="was not staged by Tare"):
            form.unstage(foreign_path, TOOLS)


def test_a_digest_that_is_none_names_nothing() -> None:
    for digest in ("", "sha256:../../x", "sha256:" + "A" * 64, "md5:1"):
        with pytest.raises(ValueError, match="not a digest"):
            FORMATS["sif"].choose_location(digest, "/scratch")


def beside(work: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["sh", "-c", shell.BESIDE, "beside", str(work), *command], capture_output=True, text=True
    )


def test_a_step_that_fails_leaves_nothing_and_its_own_words(tmp_path: Path) -> None:
    work = tmp_path / "it's a $(place).part"
    closed = 'mkdir -p "$0/closed" && touch "$0/closed/file" && chmod 0 "$0/closed"; '
    failed = beside(work, "sh", "-c", f"{closed}echo why >&2; exit 3", str(work))
    assert (failed.returncode, failed.stderr) == (3, "why\n")
    assert list(tmp_path.iterdir()) == []
    done = beside(work, "sh", "-c", 'umask; echo "$TMPDIR" >"$0/made"', str(work))
    assert (done.returncode, done.stdout) == (0, "0022\n")
    assert (work / "made").read_text() == f"{work}\n"


def test_a_step_that_is_ended_leaves_nothing(tmp_path: Path) -> None:
    work = tmp_path / "x.part"
    ended = subprocess.run(
        [
            *("timeout", "--preserve-status", "0.2"),
            *("sh", "-c", shell.BESIDE, "beside", str(work), "sleep", "60"),
        ]
    )
    assert ended.returncode == 143
    assert list(tmp_path.iterdir()) == []


def test_what_is_whole_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    place, work = tmp_path / "it's", tmp_path / "it's.part"
    put = ["sh", "-c", shell.PUT, "put", str(work), str(work / "made"), str(place)]
    for content in ("first", "second"):
        (work / "made").mkdir(parents=True)
        (work / "made/file").write_text(content)
        subprocess.run(put, check=True)
        assert (place / "file").read_text() == content
        assert [entry.name for entry in tmp_path.iterdir()] == ["it's"]
    assert subprocess.run(put).returncode
    assert (place / "file").read_text() == "second"
    work.mkdir()
    subprocess.run(["sh", "-c", shell.REMOVE, "remove", str(place)], check=True)
    assert list(tmp_path.iterdir()) == []
    subprocess.run(["sh", "-c", shell.REMOVE, "remove", str(place)], check=True)


def test_places_hold_nothing_that_people_type() -> None:
    source = Source("oci", '/x/it\'s "quoted" $(id)', OCI.digest)
    for name in ("sif", "udocker", "podman"):
        for step in FORMATS[name].stage(source, "/scratch/images", TOOLS, "P1").steps:
            assert shlex.join(step.argv)  # an argument list: nobody reads it as shell
            assert not any("$(id)" in text for text in SCRIPTS.values())
