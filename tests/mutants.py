"""Mutation testing: change the code in one place at a time, and see whether a test fails.

`make mutants` tries every mutant of the packages below, which takes nights, and
`make mutants SAMPLE=100` a seeded random sample of each. mutmut makes the mutants and runs, for
each, those of the package's tests that reach the changed function; docs/mutants.md says how to
read the result.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from scipy.stats import binomtest

from tests.source_tree import BASE, FLOORS

MUTMUT = str(Path(sys.executable).with_name("mutmut"))
FOLDER = BASE / "mutants"
HEADINGS = (
    *("package", "mutants", "tried", "killed", "timed out", "survived"),
    *("reached by no test", "noticed"),
)
KILLED, TIMED_OUT, SURVIVED, UNREACHED = "killed", "timeout", "survived", "no tests"


@dataclass(frozen=True)
class Package:
    """What is mutated and the tests that must notice, relative to the repository."""

    sources: str  # a pattern as fnmatch reads it: * stands for folders, too
    tests: tuple[str, ...]


PACKAGES = {
    "statistics": Package(
        "experiments/statistics/*",
        (
            "tests/experiments/statistics",
            "tests/experiments/planning/test_planner.py",
            # They compute for minutes what others promise of one comparison.
            *(
                f"--deselect=tests/experiments/statistics/{name}"
                for name in (
                    "test_calibration.py::test_every_band_holds_and_every_control_fails",
                    "test_calibration.py::test_the_calibration_notices_a_method_that_is_too_sure"
                    "_of_itself",
                    "test_calibration.py::test_the_command_prints_a_table_and_what_the_limits_are"
                    "_widened_by",
                    "test_calibration.py::test_the_command_gives_every_share_as_json",
                    "test_interim_analyses.py::test_every_schedule_that_a_plan_can_have_keeps_five"
                    "_of_a_hundred",
                )
            ),
        ),
    ),
    "planning": Package(
        "experiments/planning/*",
        (
            "tests/experiments/planning",
            # They hold what planning only calls.
            "--ignore=tests/experiments/planning/test_design.py",
            "--ignore=tests/experiments/planning/test_planner.py",
        ),
    ),
    "execution": Package(
        "experiments/execution/*",
        (
            "-m=not lab and not browser",
            # The rooms whose work the execution does.
            "tests/experiments/execution",
            "tests/experiments/clusters",
            "tests/experiments/images",
            "tests/experiments/software",
            "tests/experiments/comparisons/test_exclusions.py",
            # It lists the functions of a module, among which mutmut puts the mutants.
            "--deselect=tests/experiments/execution/test_task_worker.py"
            "::test_workers_run_whatever_tare_asks_for",
            # They start servers and workers and kill them, or try dozens of odd records and of
            # moments, or thousands of jobs: half of the time of all, for each mutant of a visit.
            "--ignore=tests/experiments/execution/test_processes.py",
            "--ignore=tests/experiments/execution/test_thousands_over_ssh.py",
            *(
                f"--deselect=tests/experiments/execution/{name}"
                for name in (
                    "test_ended_workers.py::test_a_worker_that_is_killed_over_one_jobs_files_stops"
                    "_no_other",
                    "test_lease.py::test_a_visit_that_has_lost_its_lease_changes_nothing_more",
                    "test_odd_records.py::test_an_odd_record_stops_nobody_else",
                    "test_odd_records.py::test_whatever_a_job_leaves_its_visit_ends_well",
                )
            ),
        ),
    ),
    "schedulers": Package(
        "runners/schedulers/*",
        (
            "tests/runners/test_slurm.py",
            "tests/runners/test_grid_engine.py",
            "tests/runners/test_grid_engine_queues.py",
            "tests/runners/test_scheduler_commands.py",
            "tests/runners/test_waiting_reasons.py",
            "tests/runners/test_preflight_reading.py",
            "tests/runners/test_scripts.py::test_golden_scripts_are_what_is_rendered",
        ),
    ),
    "scripts": Package(
        "runners/scripts.py",
        (
            "tests/runners/test_scripts.py",
            "tests/runners/test_runtimes.py",
            "tests/runners/test_several_processes.py",
        ),
    ),
}


def make_copy(name: str, package: Package) -> Path:
    """Return a new copy of the repository's files, with what mutmut is to do there."""
    copy = FOLDER / name
    shutil.rmtree(copy, ignore_errors=True)
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    paths = [path for path in _run(listed, BASE).split("\0") if (BASE / path).is_file()]
    for path in paths:
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(BASE / path, copy / path)
    settings = {
        "source_paths": list(FLOORS),
        "only_mutate": [package.sources],
        "also_copy": sorted({path.split("/")[0] for path in paths} - {*FLOORS, "tests"}),
        "pytest_add_cli_args": ["-p", "tests.mutant_worker"],
        "pytest_add_cli_args_test_selection": list(package.tests),
        "process_isolation": ["forkserver"],
        "timeout_constant": ["5"],
        "use_git_change_detection": ["false"],
    }
    lines = [f"{key} =\n    " + "\n    ".join(values) for key, values in settings.items()]
    lines = [line if line.count("\n") > 1 else line.replace("\n    ", " ") for line in lines]
    (copy / "setup.cfg").write_text("\n".join(["[mutmut]", *lines, ""]))
    return copy


def make_mutants(copy: Path) -> list[str]:
    """Make all mutants of a copy, as `mutmut run` would, and return their names."""
    program = """
from pathlib import Path
from mutmut.__main__ import create_mutants
from mutmut.utils.file_utils import copy_also_copy_files, copy_src_dir
Path("mutants").mkdir()
copy_src_dir()
copy_also_copy_files()
create_mutants(2)
"""
    _run([sys.executable, "-c", program], copy)
    return sorted(read_statuses(copy))


def read_statuses(copy: Path) -> dict[str, str]:
    """Return what has become of each mutant: killed, timeout, survived, no tests, not checked."""
    lines = _run([MUTMUT, "results", "--all", "true"], copy).splitlines()
    return dict(line.strip().rsplit(": ", 1) for line in lines if ": " in line)


def prepare_database() -> None:
    """Start the services, and let the workers find a database with all migrations to copy."""
    import tests.services  # noqa: F401  # starts PostgreSQL and Valkey

    os.environ["MUTANTS_DATABASE"] = os.environ["DATABASE_URL"].rpartition("/")[2]
    _run([sys.executable, "manage.py", "migrate", "--verbosity=0"], BASE)


def try_mutants(copy: Path, names: list[str], children: int) -> dict[str, str]:
    """Run the tests on these mutants, on all if none is named; return what became of each."""
    command = [MUTMUT, "run", f"--max-children={children}", *names]
    subprocess.run(command, cwd=copy, check=True)
    statuses = read_statuses(copy)
    return {name: statuses[name] for name in names or statuses}


def print_survivors(copy: Path, statuses: dict[str, str]) -> None:
    """Print how each mutant that no test noticed differs from the code."""
    for name, status in sorted(statuses.items()):
        if status in (SURVIVED, UNREACHED):
            shown = _run([MUTMUT, "show", name], copy)
            changed = [line for line in shown.splitlines() if line[:1] in "+-@"]
            print("", f"{status}: {name}", *changed[2:], sep="\n")


def describe_share(statuses: dict[str, str], mutants: int) -> str:
    """Return a row of the table in docs/mutants.md, with Wilson's 95 % interval of a sample."""
    counts = Counter(statuses.values())
    noticed = counts[KILLED] + counts[TIMED_OUT]
    tried = len(statuses)
    cells = [mutants, tried, counts[KILLED], counts[TIMED_OUT], counts[SURVIVED], counts[UNREACHED]]
    share = f"{noticed / tried:.0%}"
    if tried < mutants:
        interval = binomtest(noticed, tried).proportion_ci(method="wilson")
        share += f" ({interval.low:.0%} to {interval.high:.0%})"
    return " | ".join([*map(str, cells), share])


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", choices=[*PACKAGES, []], help="all, if none")
    parser.add_argument("--sample", type=int, help="how many mutants of each package; default all")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--children", type=int, default=1, help="mutants at the same time")
    options = parser.parse_args()
    prepare_database()
    rows = []
    for name in options.packages or PACKAGES:
        copy = make_copy(name, PACKAGES[name])
        mutants = make_mutants(copy)
        number = min(options.sample or len(mutants), len(mutants))
        drawn = random.Random(options.seed).sample(mutants, number)
        chosen = drawn if number < len(mutants) else []  # none named: all
        statuses = try_mutants(copy, chosen, options.children)
        print_survivors(copy, statuses)
        rows.append(f"| {name} | {describe_share(statuses, len(mutants))} |")
    print("", f"| {' | '.join(HEADINGS)} |", "| --- " * len(HEADINGS) + "|", *rows, sep="\n")


if __name__ == "__main__":
    main()
