"""`files`: how fast the file systems of an environment are, in which containers differ most."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from runners.workloads.base import (
    INSIDE,
    OUTSIDE,
    TIMES,
    Workload,
    make_recorded_parameter,
    make_step_parameters,
)
from runners.workloads.page_cache import PREPARED
from runners.workloads.parameters import Parameter
from runners.workloads.results import Metric

MOST_SMALL_BYTES = 8_000_000_000
WARM, DROPPED = "warm", "dropped"
PYTHONS = "Python’s library and packages"
# A part of a step -> its rate's unit, its description, and the parameter that switches it on.
PARTS = {
    "create": ("files/s", "Small files: create and write", "small_files"),
    "list": ("files/s", "Small files: list their folders", "small_files"),
    "stat": ("files/s", "Small files: stat", "small_files"),
    "read": ("files/s", "Small files: open and read", "small_files"),
    "delete": ("files/s", "Small files: delete", "small_files"),
    "large_write": ("MB/s", "Large file: write, with fsync", "large_file_mb"),
    "large_read": ("MB/s", "Large file: read in order", "large_file_mb"),
    "random_read": ("reads/s", "Large file: read 4 KB at random", "random_reads"),
    "software_list": ("files/s", PYTHONS + ": list", "software_files"),
    "software_stat": ("files/s", PYTHONS + ": stat", "software_files"),
    "software_read": ("files/s", PYTHONS + ": open and read", "software_files"),
}
FIRST = {"software_read": "software_files", "large_read": "large_file_mb"}


class Files(Workload):
    kind = "files"
    label = "Small files, large files, installed software"
    batch = "total"
    description = (
        "What file systems cost inside an environment. One step is a round: a tree of small files "
        "is created, listed, looked at, read and deleted; a large file is written to the disk, "
        "read in order and at random; and the environment’s own software is listed, looked at and "
        "read, which is where SIF, overlay and PRoot differ most. A number of 0 leaves a part out. "
        "It writes into one new folder and removes it."
    )
    parameters = (
        make_recorded_parameter("Where"),
        Parameter(
            name="path",
            type="text",
            default="",
            help="Folder to measure in, as the environment sees it, beginning with /; empty: the "
            "run’s own directory. Bind a scratch folder into the environment to measure there.",
            label="Folder",
            group="Where",
        ),
        Parameter(
            name="cache",
            type="choice",
            default=WARM,
            choices=(WARM, DROPPED),
            help="warm: what was written or read before may still be in memory. dropped: before "
            "each reading the kernel is asked to forget the files’ pages (posix_fadvise), and "
            "still_cached says how many it kept. Nobody can do more without root.",
            group="Where",
        ),
        Parameter(
            name="small_files",
            type="integer",
            default=500,
            minimum=0,
            maximum=100_000,
            unit="files",
            help="A round creates so many, a hundred in a folder, and deletes them.",
            group="What",
        ),
        Parameter(
            name="small_file_bytes",
            type="integer",
            default=4096,
            minimum=1,
            maximum=2**20,
            unit="B",
            help="Size of a small file.",
            group="What",
        ),
        Parameter(
            name="large_file_mb",
            type="integer",
            default=64,
            minimum=0,
            maximum=65_536,
            unit="MB",
            help="Size of the large file. Twice what is written has to be free.",
            label="Large file",
            group="What",
        ),
        Parameter(
            name="random_reads",
            type="integer",
            default=2000,
            minimum=0,
            maximum=1_000_000,
            unit="reads",
            help="Of 4 KB each, anywhere in the large file.",
            group="What",
            when=("recorded", (INSIDE,)),
        ),
        Parameter(
            name="software_files",
            type="integer",
            default=1000,
            minimum=0,
            maximum=1_000_000,
            unit="files",
            help="Of Python’s library and its packages, by name; compiled bytecode is left out. "
            "Recorded outside: of the folder of software.",
            group="What",
        ),
        Parameter(
            name="software_folder",
            type="text",
            default="",
            help="Folder of installed software, as the environment sees it, beginning with /; "
            "empty: /usr. Its files are read by name, then those of the folders in it.",
            group="What",
            when=("recorded", (OUTSIDE,)),
        ),
        *(
            parameter
            for parameter in make_step_parameters(steps=20, warm_up=2)
            if parameter.name != "threads"
        ),
        PREPARED,
    )
    metrics = (
        *(metric for metric in TIMES if metric.name != "import_time"),
        *(
            Metric(f"{part}_rate", unit, "higher", label)
            for part, (unit, label, _) in PARTS.items()
        ),
        Metric("software_bandwidth", "MB/s", "higher", PYTHONS + ": read"),
        *(Metric(f"{part}_time", "s", "lower", label) for part, (_, label, _) in PARTS.items()),
        *(
            Metric(f"first_{part}_time", "s", "lower", f"{PARTS[part][1]}, in the first round")
            for part in FIRST
        ),
        Metric("still_cached", "1", "lower", "Share of pages that stayed when told to go"),
    )
    rates: ClassVar[Mapping[str, str]] = {
        **{f"{part}_rate": f"{part}_time" for part in PARTS},
        "software_bandwidth": "software_read_time",
    }

    @classmethod
    def list_refusals(
        cls, parameters: Mapping[str, Any], *, nodes: int, gpus: int, processes: int
    ) -> list[str]:
        reasons = []
        path = parameters.get("path", "")
        if path and not path.startswith("/"):
            reasons.append(f"The folder to measure in has to begin with /; it is {path!r}.")
        if cls.is_recorded_outside(parameters):
            if parameters.get("cache") == DROPPED:
                reasons.append(
                    "A shell cannot ask the kernel to forget pages: recorded outside, the cache is "
                    "warm. Choose warm, or have the runs recorded inside."
                )
            folder = parameters.get("software_folder", "")
            if folder and not folder.startswith("/"):
                reasons.append(f"The folder of software has to begin with /; it is {folder!r}.")
        if not any(parameters.get(asked, 1) for asked in ("small_files", *FIRST.values())):
            reasons.append("There is nothing to do: every number of files and megabytes is 0.")
        written = parameters.get("small_files", 0) * parameters.get("small_file_bytes", 0)
        if written > MOST_SMALL_BYTES:
            reasons.append(
                f"All small files together may have {MOST_SMALL_BYTES / 1e9:g} GB, and these have "
                f"{written / 1e9:.3g} GB: choose fewer or smaller ones."
            )
        return reasons

    @classmethod
    def list_metrics(cls, parameters: Mapping[str, Any]) -> tuple[Metric, ...]:
        outside = cls.is_recorded_outside(parameters)
        left_out = set() if parameters.get("cache", DROPPED) == DROPPED else {"still_cached"}
        if outside:
            left_out |= {"still_cached", "random_read_rate", "random_read_time"}
        for part, (_, _, asked) in PARTS.items():
            large = part == "random_read" and parameters.get("large_file_mb") == 0
            if parameters.get(asked) == 0 or large:
                left_out |= {f"{part}_rate", f"{part}_time", f"first_{part}_time"}
        if parameters.get("software_files") == 0:
            left_out.add("software_bandwidth")
        kept = (metric for metric in cls.metrics if metric.name not in left_out)
        if not outside:
            return tuple(kept)
        return tuple(
            replace(metric, label=metric.label.replace(PYTHONS, "Installed software"))
            for metric in kept
        )
