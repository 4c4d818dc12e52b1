"""The values that describe a job: complete before anything is sent to a cluster."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Resources:
    """The resources that one job requests from the scheduler.

    Empty texts and None leave the choice to the cluster. `directives` are the partition's own
    scheduler options (``--constraint=a100``), sent as they are; a newline in one is a ValueError.
    """

    time_limit_seconds: int
    nodes: int = 1
    gpus_per_node: int = 0
    cpus_per_node: int = 1
    memory_mb: int | None = None  # MiB for each node
    partition: str = ""
    account: str = ""
    qos: str = ""
    directives: tuple[str, ...] = ()
    node: str = ""  # the one to run on, by the scheduler's name for it
    avoided_nodes: str = ""  # not to be run on, separated by commas, where there are others
    gres: str = "gpu"  # the name of the generic resource, with a type if need be: "gpu:h100"
    # Without a scheduler, which would know:
    gpus_on_node: int = 0
    side_by_side: bool = False  # jobs that find enough free GPUs run while others do


@dataclass(frozen=True)
class EnvironmentSpec:
    """The software of a run: a runtime with an image, or bare metal."""

    label: str
    runtime: str  # a key of RUNTIMES
    executable: str = ""  # of the runtime on the cluster; empty: its usual name on PATH
    options: tuple[str, ...] = ()  # of the runtime, as the administrator wrote them
    mode: str = ""  # how the runtime works, where it has ways to choose from (udocker: "P1")
    image_format: str = ""  # "sif", "sandbox", "udocker"
    image_path: str = ""  # the staged form on the cluster; udocker: the container's name
    image_digest: str = ""
    python: str = "python3"
    binds: tuple[str, ...] = ()  # "path" or "outside:inside"
    variables: tuple[tuple[str, str], ...] = ()
    setup_lines: tuple[str, ...] = ()  # shell, written by administrators


@dataclass(frozen=True)
class DataSpec:
    """The data set that a run reads, from the frozen plan."""

    name: str
    digest: str
    path: str  # on the cluster, and the same inside of every container
    manifest: str  # the list of its files on the cluster
    proof: str  # what the job does to prove it: "looks" or "hashes"


@dataclass(frozen=True)
class CodeSpec:
    """The code of a run that Tare has put on the cluster, from the frozen plan."""

    source: str  # "commit ..." or "archive ...", for people
    digest: str
    path: str  # of its folder on the cluster, and the same inside of every container


@dataclass(frozen=True)
class SegmentSpec:
    """A job's part of a run that may take several, one after the other."""

    number: int  # counted from 1
    most: int  # jobs that the run may take
    earlier: tuple[str, ...]  # the run's directories in the jobs before, the latest first


@dataclass(frozen=True)
class RunSpec:
    """One execution of a workload in an environment. `position` is its order within the job."""

    uid: str
    position: int
    workload: str  # a key of WORKLOADS
    parameters: Mapping[str, Any]
    environment: EnvironmentSpec
    time_limit_seconds: int = 0  # the script ends the run after this long; 0: the job's limit only
    data: DataSpec | None = None
    code: CodeSpec | None = None
    segment: SegmentSpec | None = None  # None: it has one job

    @property
    def read_only_paths(self) -> tuple[str, ...]:
        """Return what is to be read at the same path inside: a data set and code."""
        return tuple(part.path for part in (self.data, self.code) if part)

    @property
    def directory_name(self) -> str:
        return f"{self.position}-{self.uid}"


@dataclass(frozen=True)
class Launch:
    """The way in which the processes of each run of a job are started.

    Without a launcher the job script starts one process itself, or `instances` of them at once on
    one node, each with its share of the GPUs. `options` are the launcher's, as the partition has
    them: lines that are split into arguments as a shell splits them, with nothing expanded.
    """

    launcher: str = ""  # "srun" or "mpirun"
    nodes: int = 1
    processes_per_node: int = 1
    instances: int = 1
    options: tuple[str, ...] = ()

    @property
    def processes(self) -> int:
        """Return the number of all processes of one run, or of one instance."""
        return self.nodes * self.processes_per_node


@dataclass(frozen=True)
class Step:
    """One command of a job that measures nothing: a description and its argument list.

    It starts in the job's directory. The first step that fails ends the job.
    """

    doing: str
    argv: tuple[str, ...]


@dataclass(frozen=True)
class JobSpec:
    """One submission: the runs of one block, in the order in which they are to be run.

    Or the steps of an operation, which measures nothing: then there are no runs.
    """

    uid: str
    name: str  # unique for each attempt: how a lost job is found again
    directory: str  # absolute, on the cluster; its parent's parent is the work directory
    runs: tuple[RunSpec, ...]
    resources: Resources
    launch: Launch = Launch()
    setup_lines: tuple[str, ...] = ()  # the cluster's: shell, by administrators
    cooldown_seconds: int = 0
    counts_gpu_processes: bool = False  # whether it writes down who else computes there
    steps: tuple[Step, ...] = ()
    files: tuple[tuple[str, bytes], ...] = ()  # more that the steps read: name, content
    sent: tuple[tuple[str, bytes], ...] = ()  # what users send to `command`, in its folder `files`

    @property
    def data(self) -> DataSpec | None:
        """Return the data set that its runs read, which is the same for all of a block."""
        return self.runs[0].data if self.runs else None

    @property
    def code(self) -> CodeSpec | None:
        """Return the code of its runs, which is the same for all of a block."""
        return self.runs[0].code if self.runs else None

    @property
    def cpus_of_a_process(self) -> int:
        """Return the CPUs of one process: those of a node, divided among its processes."""
        return max(1, self.resources.cpus_per_node // self.launch.processes_per_node)

    def locate_run(self, run: RunSpec) -> str:
        """Return the directory of one of the runs."""
        return f"{self.directory}/runs/{run.directory_name}"
