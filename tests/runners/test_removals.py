"""Directories of jobs are removed by a real shell from a real disk, and nothing beside them."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from runners.removals import MOST_AT_A_TIME, Outcome, plan_removal, read_outcome

CURRENT, OLD = "c" * 64, "d" * 64


def name(number: int, attempt: int = 1) -> str:
    return f"{number:032x}-{attempt}"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "jobs").mkdir(parents=True)
    (folder / "chores" / "it").mkdir(parents=True)
    return folder


def put_rm(folder: Path, monkeypatch: pytest.MonkeyPatch, lines: str) -> Path:
    """Put a `rm` before the real one that first does what these lines of shell say."""
    fake = folder / "bin" / "rm"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/bash\n{lines}\nexec /bin/rm "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    return fake


def make_directory(work: Path, number: int, content: bytes = b"x" * 5000) -> Path:
    directory = work / "jobs" / name(number)
    (directory / "runs" / "0-it").mkdir(parents=True)
    (directory / "started").write_text("8\n")
    (directory / "runs" / "0-it" / "result.json").write_bytes(content)
    return directory


def start(work: Path, names: list[str], days: int = 30) -> subprocess.Popen[str]:
    directory = work / "chores" / "it"
    (step,), files = plan_removal(str(work), names, str(directory), CURRENT, days)
    for file, content in files:
        (directory / file).write_bytes(content)
    return subprocess.Popen(
        step.argv, cwd=directory, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


def remove(work: Path, names: list[str], *, code: int = 0, days: int = 30) -> Outcome:
    process = start(work, names, days)
    process.communicate(timeout=120)
    assert process.returncode == code
    return read_outcome((work / "chores/it/result.json").read_bytes())


def test_what_is_named_goes_and_what_is_not_stays(work: Path) -> None:
    first, second = make_directory(work, 1), make_directory(work, 2)
    outcome = remove(work, [name(1)])
    assert not first.exists()
    assert (second / "runs/0-it/result.json").read_bytes() == b"x" * 5000
    assert set(outcome.freed_bytes) == {name(1)}
    assert outcome.freed_bytes[name(1)] >= 5000
    assert (outcome.gone, outcome.problems) == (frozenset(), {})


def test_what_other_directories_share_is_not_counted_as_freed(work: Path) -> None:
    directory = make_directory(work, 1, b"")
    (work / "payload.py").write_bytes(b"p" * 1_000_000)
    os.link(work / "payload.py", directory / "payload.py")
    assert remove(work, [name(1)]).freed_bytes[name(1)] < 100_000
    assert (work / "payload.py").stat().st_size == 1_000_000


def test_a_directory_that_is_gone_is_said_to_be(work: Path) -> None:
    outcome = remove(work, [name(1)])
    assert outcome == Outcome({}, frozenset({name(1)}), {})


def test_without_the_folder_of_jobs_all_are_gone(work: Path) -> None:
    (work / "jobs").rmdir()
    assert remove(work, [name(1), name(2)]).gone == {name(1), name(2)}


def test_a_link_in_its_place_is_not_followed(work: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "thesis.tex").write_text("years of work")
    (work / "jobs" / name(1)).symlink_to(elsewhere)
    outcome = remove(work, [name(1)])
    assert "link" in outcome.problems[name(1)]
    assert (elsewhere / "thesis.tex").exists()
    assert (work / "jobs" / name(1)).is_symlink()


def test_links_inside_go_and_what_they_lead_to_stays(work: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o500)
    (make_directory(work, 1) / "data").symlink_to(elsewhere)
    remove(work, [name(1)])
    assert elsewhere.stat().st_mode & 0o777 == 0o500
    assert not (work / "jobs" / name(1)).exists()


def test_a_folder_of_jobs_that_is_a_link_is_refused(work: Path, tmp_path: Path) -> None:
    (work / "jobs").rename(tmp_path / "jobs")
    (work / "jobs").symlink_to(tmp_path / "jobs")
    directory = tmp_path / "jobs" / name(1)
    directory.mkdir()
    assert remove(work, [name(1)], code=1) == Outcome({}, frozenset(), {})
    assert directory.exists()


def test_a_work_directory_behind_a_link_is_not_refused(work: Path, tmp_path: Path) -> None:
    make_directory(work, 1)
    (tmp_path / "scratch").symlink_to(work)
    assert set(remove(tmp_path / "scratch", [name(1)]).freed_bytes) == {name(1)}


def test_folders_that_nobody_may_write_to_go(work: Path) -> None:
    directory = make_directory(work, 1)
    for folder in (directory / "runs" / "0-it", directory / "runs"):
        folder.chmod(0o500)
    (directory / "runs").chmod(0)
    assert set(remove(work, [name(1)]).freed_bytes) == {name(1)}


def test_what_cannot_be_removed_says_why_and_the_others_go(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        make_directory(work, number)
    put_rm(
        tmp_path,
        monkeypatch,
        f"""if [[ "$*" = *{name(1)}* ]]; then
  echo "rm: cannot remove '$4/\"x\"': Read-only file system" >&2; exit 1
fi""",
    )
    outcome = remove(work, [name(1), name(2)])
    assert "Read-only file system" in outcome.problems[name(1)]
    assert set(outcome.freed_bytes) == {name(2)}, "it is tried by itself"
    assert (work / "jobs" / name(1) / "started").exists()


def test_a_file_in_its_place_stays(work: Path) -> None:
    (work / "jobs" / name(1)).write_text("a file")
    assert "no directory" in remove(work, [name(1)]).problems[name(1)]


@pytest.mark.parametrize("odd", ["..", "../images", "x", name(1) + "/..", f"{'A' * 32}-1", ""])
def test_only_names_of_jobs_are_taken(work: Path, odd: str) -> None:
    with pytest.raises(ValueError, match="not the names"):
        plan_removal(str(work), [odd], "/x", CURRENT, 30)
    process = start(work, [name(1)])
    process.communicate(timeout=60)
    kept = make_directory(work, 1)
    directory = work / "chores" / "it"
    (directory / "directories.txt").write_text(f"{name(1)}\n{odd}\n")
    assert subprocess.run(process.args, cwd=directory, check=False).returncode == 1
    assert kept.exists()


def test_more_than_a_portion_are_refused(work: Path) -> None:
    names = [name(number) for number in range(MOST_AT_A_TIME + 1)]
    with pytest.raises(ValueError, match="too many"):
        plan_removal(str(work), names, "/x", CURRENT, 30)


def test_one_that_is_ended_in_the_middle_says_what_it_has_removed(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1, 5):
        make_directory(work, number)
    names = [name(number) for number in range(1, 5)]
    pipe = tmp_path / "waits"
    os.mkfifo(pipe)
    rm = put_rm(
        tmp_path,
        monkeypatch,
        f"""if [[ "$*" = *{name(3)}* ]]; then
  /bin/rm -rf {name(1)} {name(2)} {name(3)}/started; echo >"{pipe}"; sleep 600
fi""",
    )
    process = start(work, names)
    pipe.read_text()  # the third one is half gone
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=60)
    outcome = read_outcome((work / "chores/it/result.json").read_bytes())
    assert set(outcome.freed_bytes) == {name(1), name(2)}
    assert outcome.problems == {}
    rm.unlink()
    again = remove(work, names[2:])
    assert set(again.freed_bytes) == {name(3), name(4)}
    assert list((work / "jobs").iterdir()) == []


def test_only_payloads_that_nothing_uses_go(work: Path) -> None:
    for digest in (CURRENT, OLD):
        (work / "payload" / digest).mkdir(parents=True)
        (work / "payload" / digest / ".sha256sums").write_text("")
    (work / "payload" / "notes").mkdir()
    remove(work, [])
    assert (work / "payload" / OLD).exists(), "it was used today"
    # Nobody can set the time at which a file was changed last: here "-1 days ago" is today.
    process = start(work, [], days=0)
    process.communicate(timeout=60)
    script = work / "chores/it/remove.sh"
    script.write_text(script.read_text().replace('-ctime "+$days"', "-ctime -1"))
    assert subprocess.run(process.args, check=False).returncode == 0
    assert {path.name for path in (work / "payload").iterdir()} == {CURRENT, "notes"}
