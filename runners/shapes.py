"""The shapes of the documents that come from a cluster, as far as Tare relies on them."""

from __future__ import annotations

from runners.untrusted import LATEST, MOMENT, Anything, Number, Rows, Shape, Table, Text, Whole

NAME = Text(255)
VERSIONS = Table(others=Text())
CODE = Whole(-(2**31), 2**31 - 1)  # the range of the database's column
COUNT = Whole(0, 2**15 - 1)
HASH = r"(sha256:)?[0-9a-f]{64}"

# The fields that an event's line must have beside its time.
EVENTS: dict[str, tuple[str, ...]] = {
    "run began": ("run",),
    "program ended": ("run",),
    "counters before": ("run",),
    "counters after": ("run",),
    "run ended": ("run",),
    "step": ("doing", "number", "of"),
    "nodes": ("nodes",),
}
LINE = Table(
    {
        "time": MOMENT,
        "event": Text(100),
        "node": NAME,
        "nodes": Rows(NAME),
        "run": Text(100),
        "job": Text(100),
        "exit_code": CODE,
        "doing": Text(),
        "number": COUNT,
        "of": COUNT,
        "processes": Whole(),
        "seconds": Number(),
        "uptime": Number(0, LATEST),
        "gpu_millijoules": Table(others=Whole()),
    },
    needed=("time", "event"),
)
"""One line of a job's journal."""

LOADED_FILE = Table(
    {
        "soname": NAME,
        "build_id": Text(128, pattern=r"[0-9a-f]*"),
        "bytes": Whole(),
        "sha256": Text(pattern=HASH),
        "ends_sha256": Text(pattern=HASH),
        "mount": Text(4096),
        "problem": Text(1000),
    }
)
"""A program or library that a run had loaded: payload/loaded.py."""

PROGRAM = Table(
    {
        "files": Rows(Table()),
        "libraries": Table(),
        "checkouts": Table(
            others=Table(
                {
                    "changed_files": Rows(Text(4096)),
                    "changed": Whole(),
                    "patch": Text(300_000),
                    "left_out": Rows(Table({"file": Text(4096), "reason": Text(1000)})),
                    "left_out_count": Whole(),
                }
            )
        ),
    }
)
"""The files that a run's program consists of: payload/programs.py and checkouts.py."""

INSIDE = Table(
    {
        "hostname": Text(),
        "kernel": Text(),
        "machine": Text(),
        "cpu": Text(),
        "cpus": Rows(Anything()),
        "gpus": Rows(Table()),
        "python": Table(),
        "packages": VERSIONS,
        "variables": VERSIONS,
        "other_variables": Rows(Text(1000)),
        "tensorflow_variables": VERSIONS,
        "blas": Table(),
        "blas_loaded": Rows(Table()),
        "libraries": Rows(Text()),
        "memory": Table(),
        "segments": Whole(1, 1000),
        "program": PROGRAM,
        "loaded": Table({"files": Table(others=LOADED_FILE), "unlisted": Whole()}),
        "run": Table({"argv": Rows(Text()), "loaded": Table()}),
        "data_set": Table({"name": Text(), "digest": Text(pattern=HASH), "path": Text(4096)}),
        "code": Table({"source": Text(), "digest": Text(pattern=HASH), "path": Text(4096)}),
    }
)
"""The snapshot of a run from inside its container: payload/snapshot.py."""

SEGMENT = Table(
    {
        "number": Whole(1, 1000),
        "first_step": Whole(0, 2**31 - 1),
        "steps": Whole(0, 2**31 - 1),
        "of_steps": Whole(0, 2**31 - 1),
        "training_seconds": Number(0, LATEST),
        "warm_up_seconds": Number(0, LATEST),
        "saving_seconds": Number(0, LATEST),
        "restoring_seconds": Number(0, LATEST),
        "checkpoint_bytes": Whole(),
        "checkpoint_files": Whole(),
        "changed_at": Number(0, LATEST),
        "start_phases": Table(others=Number(0, LATEST)),
        "passed_over": Rows(Text(1000)),
        "ended": Text(20),
    },
    needed=("number", "first_step", "steps", "of_steps", "ended"),
)
"""What one job did of a run that may take several: payload/training/checkpoints.py, and
payload/own_checkpoints.py, which knows of no steps."""

SURVEY = Table(
    {
        "tree": Text(pattern=HASH),
        "files": Whole(),
        "bytes": Whole(),
        "parts": VERSIONS,
        "exclusions": Rows(Table({"path": Text(), "reason": Text()}, needed=("path",))),
        "unreadable": Rows(Text()),
        "system": VERSIONS,
        "pythons": Rows(
            Table({"path": Text(), "version": Text(), "packages": VERSIONS}, needed=("path",))
        ),
        "packages": Table(others=VERSIONS),
        "frameworks": VERSIONS,
        "cuda": Text(),
        "cudnn": Text(),
        "nccl": Text(),
        "mpi": VERSIONS,
        "blas": VERSIONS,
        "not_read": Rows(Text()),
    }
)
"""The survey of an image's contents: payload/survey.py."""

FORM = Table(
    {
        **SURVEY.fields,
        "changed_tree": SURVEY.fields["tree"],
        "driver_files": Rows(Text()),
        "sha256": Text(pattern=HASH),
    }
)
"""The inspection of a staged form: a survey, or an archive's check sum."""

BUILD = Table(
    {
        "digest": Text(pattern=r"sha256:[0-9a-f]{64}"),
        "sha256": Text(pattern=HASH),
        "bytes": Whole(),
        "path": Text(500, pattern=r"/.*"),
        "survey": SURVEY,
        "lock": Text(2_000_000),
    },
    needed=("digest", "sha256", "bytes", "path", "survey"),
)
"""The result of a build: payload/extend.py."""

SOFTWARE: Shape = Table(
    {
        "schema": Whole(1, 1),
        "mark": Text(100),
        "python": VERSIONS,
        "packages": VERSIONS,
        "system_packages": VERSIONS,
        "os": Text(),
        "libc": Text(),
        "machine": Text(),
        "builds": Table(others=Table()),
        "programs": Table(others=Text(4096)),
    },
    needed=("schema", "mark", "python"),
)
"""The software that an environment's own interpreter reports: payload/software.py."""

DATA_FILES = Table(
    {
        "digest": Text(pattern=r"sha256:[0-9a-f]{64}"),
        "files": Whole(1, 1_000_000),
        "bytes": Whole(),
        "is_file": Anything(),
        "state": Text(pattern="(missing|changed|failed)?"),
        "problem": Text(5000),
    }
)
"""What was read of a copy of a data set, or what is wrong with it: payload/data_files.py."""

CODE_TREE = Table(
    {
        "digest": Text(pattern=r"sha256:[0-9a-f]{64}"),
        "files": Whole(1, 1_000_000),
        "bytes": Whole(),
        "submodules": Rows(Text(400)),
        "pointers": Rows(Text(400)),
        "paths": Rows(Text(5000)),
        "state": Text(pattern="(missing|changed|failed)?"),
        "problem": Text(5000),
    }
)
"""What was put on a cluster as code, or what is wrong with it: payload/code_tree.py."""
