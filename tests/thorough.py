"""Which tests `make test` leaves to `make test-all`: what costs most and is proved once already.

`make test` has to be run before every push, so it may not take long. What is named here takes most
processor time for what it adds. Each entry says which test `make test` keeps of the same promise.
Add an entry when a test takes more than ten seconds of processor time, and keep one test on the
real parts for each promise.
"""

from __future__ import annotations

import zlib

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
    "tests/lab/test_watched_runs.py": "the path by keyboard watches a run on bare metal",
    # A second scheduler, with a lab of its own that takes half a minute to start.
    "tests/lab/test_grid_engine.py": "tests/runners/test_grid_engine.py, with its recorded answers",
    # Ends that Slurm is made to cause, each of which waits for its daemons.
    "tests/lab/test_ends.py": "tests/experiments/execution/test_attempts_by_rule.py",
    "tests/lab/test_node_samples.py::test_an_odd_tool": "tests/runners, with the same odd answers",
    # TensorFlow and Horovod over several processes: test_main_job.py trains in one.
    "tests/lab/test_data_sets.py": "training in one process",
    "tests/lab/test_training.py": "training in one process",
    "tests/lab/test_launchers.py::test_horovod_trains_as_one": "training in one process",
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
    # Large numbers, and networks as large as their papers have them.
    "tests/experiments/execution/test_thousands_over_ssh.py": "a portion of jobs over SSH",
    "tests/dashboard/execution/test_selection.py::test_five_thousand": "a selection of a few",
    "tests/dashboard/execution/test_live_run.py::test_the_part_of_a_million": "some steps",
    "tests/experiments/notifications/test_watching.py::test_two_thousand": "some failures",
    "tests/experiments/execution/test_retention.py::test_five_thousand": "some directories",
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

# Files with one test for each page, statement or record: `make test` tries every n-th of them.
EVERY = {
    "tests/dashboard/test_axe_browser.py": 4,
    "tests/dashboard/test_odd_input.py": 8,
    "tests/dashboard/access/test_audit_transactions.py": 3,
    "tests/experiments/execution/test_odd_records.py": 3,
}


def is_left_to_all(nodeid: str) -> bool:
    """Return whether `make test` leaves a test out; the same ones each time."""
    if nodeid.startswith(tuple(LEFT_TO_ALL)):
        return True
    every = EVERY.get(nodeid.partition("::")[0], 1)
    return "[" in nodeid and zlib.crc32(nodeid.encode()) % every > 0
