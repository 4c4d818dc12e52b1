"""Which tests `make test` leaves to `make test-all`: what costs most and is proved once already.

`make test` has to be run before every push, so it may not take long. An eighth of the tests take
two thirds of the processor's time. Each file therefore gets a small budget in `make test`:

- A test below CHEAP_S always stays, and so does one that is new: nobody has measured it.
- The others stay, the cheapest first, until those of their file have used BUDGET_S together. For a
  browser BROWSER_S comes on top.
- What KEPT names stays whatever it costs: one test on the real parts for each promise.
- What LEFT_TO_ALL names goes: it shares something costly that its own time does not show. Each
  entry says which test `make test` keeps of the same promise.

`make test-quick` tries only tests below CHEAP_S, and of the cases of each test one in QUICK_CASES.
`make test-costs` measures all of them and writes
costs.txt anew; do it when `make test` takes longer than its ten minutes.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

COSTS = Path(__file__).with_name("costs.txt")
CHEAP_S = 0.1
BUDGET_S = 0.3
QUICK_CASES = 20
# What Chromium takes for a test is no time of the test's own process or of children it waits for.
BROWSER_S = 0.3

# The beginning of the name of a test -> what it proves on the real parts.
KEPT = {
    "tests/lab/test_by_keyboard.py": "from the log-in over a new cluster to an exported file",
    "tests/lab/test_demo.py::test_one_folder": "the first command of the README",
    "tests/lab/test_main_job.py::Test": "what the runners promise of a job on Slurm",
    "tests/lab/test_own_benchmark.py": "a newcomer's own script",
    "tests/lab/test_presets.py": "a preset, from its form over its draft's to its page",
    "tests/test_promises.py": "what docs/ promises of the whole site",
    "tests/experiments/execution/test_execution.py": "the life of a run",
    "tests/experiments/execution/test_processes.py::test_a_worker_that_is_killed": "a real kill",
    "tests/dashboard/access/test_roles.py::test_an_address_opens_from_its_least_role_on[viewer": (
        "no address is open to whom it should be closed"
    ),
    "tests/dashboard/docs/test_documents.py::test_all_links": "links and anchors of all documents",
    "tests/dashboard/api/test_api_roles.py::test_a_program_may_what_its_owner_may[viewer-pr": (
        "no operation of the API is open to whom its page is closed"
    ),
    "tests/dashboard/api/test_schemathesis.py::test_answers_are_as_documented[GET-/api/v1/m": (
        "the API answers as its document says"
    ),
    "tests/dashboard/test_query_counts.py::test_no_page": "how often pages ask the database",
    "tests/dashboard/comparisons/test_published_tables_browser.py::test_a_file_is_read": (
        "a published table in the browser"
    ),
    "tests/clients/test_package.py::test_pip_alone": "the client on a machine that has only pip",
}
# The beginning of the name of a test -> what `make test` keeps.
LEFT_TO_ALL = {
    # Whole studies on the lab: tests/lab/test_by_keyboard.py goes the way from the form to the
    # verdict on Slurm, tests/lab/test_runner.py starts every runtime there.
    "tests/lab/test_by_forms.py::test_seven_environments_on_slurm": "the path by keyboard",
    "tests/lab/test_presets.py::test_a_preset_is_launched_by_form_and_ends_in_its_page[four": (
        "the preset numpy-on-tuned-blas"
    ),
    "tests/lab/test_presets.py::test_a_preset_is_launched_by_form_and_ends_in_its_page[multi": (
        "the preset numpy-on-tuned-blas"
    ),
    "tests/lab/test_anatomy.py": "tests/runners: each workload's own tests",
    "tests/lab/test_parity.py": "tests/experiments/software, on this machine",
    "tests/lab/test_building.py": "tests/runners/test_bounded.py and its neighbours",
    "tests/lab/test_watched_runs.py": "the path by keyboard watches a run on bare metal",
    # A second scheduler, with a lab of its own that takes half a minute to start.
    "tests/lab/test_grid_engine.py": "tests/runners/test_grid_engine.py, with its recorded answers",
    "tests/lab/test_carried_jobs.py::test_grid_engine": "the same on Slurm",
    # Ends that Slurm is made to cause, each of which waits for its daemons.
    "tests/lab/test_ends.py": "tests/experiments/execution/test_attempts_by_rule.py",
    "tests/lab/test_node_samples.py::test_an_odd_tool": "tests/runners, with the same odd answers",
    # TensorFlow over several processes: test_main_job.py trains in one.
    "tests/lab/test_data_sets.py": "training in one process",
    "tests/lab/test_training.py": "training in one process",
    "tests/lab/test_launchers.py::test_tensorflow_trains_as_one": "training in one process",
    "tests/lab/test_launchers.py::test_a_time_limit_reaches_every_process[mpirun": "by srun",
    "tests/lab/test_launchers.py::test_a_rank_that_dies_ends_the_others_and_is_named[mpirun": (
        "by srun"
    ),
    # More labs beside each other, and more starts of the demo.
    "tests/lab/test_labs.py::test_two_labs_at_once": "one lab, restarted",
    "tests/lab/test_labs.py::test_grid_engine_stays": "one lab, restarted",
    "tests/lab/test_labs.py::test_jobs_of_the_last_start": "one lab, restarted",
    "tests/lab/test_demo.py::test_a_service_that_dies": "tests/standalone, with small services",
    # Sphinx reads all documents, which takes 20 s.
    "tests/dashboard/docs/test_static_site.py": "the same links and anchors on Tare's own pages",
    "tests/dashboard/docs/test_screenshots_browser.py::test_each_picture_of_the": (
        "each page of the pictures in the tests of its own"
    ),
    # Large numbers, and networks as large as their papers have them.
    "tests/experiments/execution/test_thousands_over_ssh.py": "a portion of jobs over SSH",
    "tests/dashboard/execution/test_selection.py::test_five_thousand": "a selection of a few",
    "tests/dashboard/execution/test_live_run.py::test_the_part_of_a_million": "some steps",
    "tests/experiments/notifications/test_watching.py::test_two_thousand": "some failures",
    "tests/experiments/execution/test_retention.py::test_five_thousand": "some directories",
    "tests/experiments/test_migrations.py::test_new_databases_have": (
        "the models' own check that no migration is lacking"
    ),
    "tests/experiments/test_migrations.py::test_rows_from_before_a_renaming": (
        "all migrations on empty tables; these two are old and change no more"
    ),
    "tests/dashboard/access/test_lost_keys.py::test_every_page_answers": "a key is replaced",
    "tests/runners/test_segmentation.py::test_epochs_are_timed": "training of the networks",
    "tests/runners/test_training.py::test_jax_trains_in_epochs_on_two": "training on one device",
    "tests/runners/test_training.py::test_a_training_of_which_only_the_speed": "training in epochs",
    "tests/runners/test_training_networks.py::test_it_has_the_published": "the small networks",
    "tests/experiments/statistics/test_calibration.py::test_the_command_prints": "each band alone",
}

# Files whose tests are cheap, and what they share is not: the beginning of their names.
NOT_QUICK = (
    "tests/experiments/statistics/test_calibration.py",  # simulates for half a minute
    "tests/runners/test_keys.py",  # makes RSA keys
    "tests/runners/test_gate_on_a_server.py",  # starts sshd
    "tests/experiments/imports/test_imports_archives.py",  # makes archives
    "tests/dashboard/comparisons/test_published_formats.py",  # reads a file for each test
    "tests/test_newer_pythons.py",  # parses all files
)

# Files with one test for each page, statement or record: `make test` tries every n-th of them.
EVERY = {
    "tests/dashboard/test_axe_browser.py": 4,
    "tests/dashboard/test_odd_input.py": 8,
    "tests/dashboard/access/test_audit_transactions.py": 3,
    "tests/experiments/execution/test_odd_records.py": 3,
}


def read_costs(file: Path = COSTS) -> dict[str, float]:
    """Return the processor time in s of each test that is not cheap, by its name.

    A line with the name of a test file is followed by one for each of its tests: "0.35 test_name".
    """
    costs: dict[str, float] = {}
    path = ""
    for line in file.read_text().splitlines():
        seconds, _, test = line.partition(" ")
        if test:
            costs[f"{path}::{test}"] = float(seconds)
        else:
            path = line
    return costs


def write_costs(costs: Mapping[str, float], file: Path = COSTS) -> None:
    """Write what tests take, file by file and the cheapest first."""
    tests_by_path: dict[str, list[tuple[float, str]]] = {}
    for name, seconds in costs.items():
        path, _, test = name.partition("::")
        tests_by_path.setdefault(path, []).append((seconds, test))
    lines = []
    for path, tests in sorted(tests_by_path.items()):
        lines += [path, *(f"{seconds:.2f} {test}" for seconds, test in sorted(tests))]
    file.write_text("".join(f"{line}\n" for line in lines))


def list_beyond_budgets(costs: Mapping[str, float]) -> set[str]:
    """Return the tests that would take their file over its budget, the dearest of each file."""
    used: dict[str, float] = {}
    beyond = set()
    for name, seconds in sorted(costs.items(), key=lambda cost: (cost[1], cost[0])):
        file = name.partition("::")[0]
        if name.startswith(tuple(KEPT)):
            continue
        chromium = BROWSER_S if file.endswith("_browser.py") else 0.0
        used[file] = used.get(file, 0.0) + seconds + chromium
        if used[file] > BUDGET_S:
            beyond.add(name)
    return beyond


@cache
def _read_measured_costs() -> dict[str, float]:
    return read_costs()


@cache
def _list_beyond_measured_budgets() -> set[str]:
    return list_beyond_budgets(_read_measured_costs())


def is_costly(nodeid: str) -> bool:
    """Return whether `make test-quick` leaves a test out; the same ones each time."""
    is_other_case = "[" in nodeid and zlib.crc32(nodeid.encode()) % QUICK_CASES > 0
    is_dear = nodeid in _read_measured_costs()
    return is_other_case or is_dear or nodeid.startswith((*NOT_QUICK, *LEFT_TO_ALL))


def is_left_to_all(nodeid: str) -> bool:
    """Return whether `make test` leaves a test out; the same ones each time."""
    if nodeid.startswith(tuple(LEFT_TO_ALL)):
        return True
    if nodeid in _list_beyond_measured_budgets():
        return True
    every = EVERY.get(nodeid.partition("::")[0], 1)
    return "[" in nodeid and zlib.crc32(nodeid.encode()) % every > 0
