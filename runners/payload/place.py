"""This process of a run: its rank, what it may use, and how it meets the others.

The job script sets variables for it, whatever starts the process: the script itself, srun or
mpirun. A program that is started alone is rank 0 of 1. Processes find each other through files in
the run's directory, which all nodes share; there are no locks, since NFS may have none.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any, Callable, List, Mapping, NamedTuple, Optional, Tuple

from .frameworks import StartError

WAIT = 300.0  # s for the others: a large image may start minutes later on another node
BOOT_ID = "/proc/sys/kernel/random/boot_id"
SIOCGIFADDR = 0x8915  # of Linux: the IPv4 address of an interface


class Segment(NamedTuple):
    """This job's part of a run that may take several, one after the other."""

    number: int = 1
    most: int = 1  # jobs that the run may take
    limit_seconds: float = 0.0  # after the launch, when the job script ends the program
    earlier: Tuple[str, ...] = ()  # the run's directories in the jobs before, the latest first


class RunProcess(NamedTuple):
    """One process of a run."""

    directory: str  # of the run, or of this instance; the same one for all its processes
    rank: int = 0  # among all processes of the run; rank 0 reports
    size: int = 1
    local_rank: int = 0  # among those on this node
    local_size: int = 1
    nodes: int = 1
    gpus: int = 0  # of this node, that the run may use; 0: none was requested
    instance: int = 0  # of a packed run, in which each is a run of its own: rank 0 of 1
    instances: int = 1
    segment: Optional[Segment] = None  # None: the run has one job

    @property
    def own_directory(self) -> str:
        """Return the directory that this process writes to: the run's for rank 0, else `rank-N`."""
        return os.path.join(self.directory, "rank-%d" % self.rank) if self.rank else self.directory


def find_process(
    spec: Mapping[str, Any], directory: str, environ: Optional[Mapping[str, str]] = None
) -> RunProcess:
    """Return this process, as its variables and its run's spec describe it.

    `directory` is the one with the run's spec, `environ` the variables that this process was
    started with.
    """
    variables = os.environ if environ is None else environ

    def read_number(name: str, default: int) -> int:
        return int(variables.get("TARE_" + name, default))

    instance, instances = read_number("INSTANCE", 0), read_number("INSTANCES", 1)
    if instances > 1:
        directory = os.path.join(directory, "instance-%d" % instance)
    return RunProcess(
        directory=directory,
        rank=read_number("RANK", 0),
        size=read_number("SIZE", 1),
        local_rank=read_number("LOCAL_RANK", 0),
        local_size=read_number("LOCAL_SIZE", 1),
        nodes=int(spec.get("nodes", 1)),
        gpus=int(spec.get("gpus", 0)),
        instance=instance,
        instances=instances,
        segment=read_segment(spec.get("segment")),
    )


def read_segment(described: Any) -> Optional[Segment]:
    """Return the part of the run that the spec describes; None where it has one job."""
    if not described:
        return None
    return Segment(
        number=int(described["number"]),
        most=int(described["most"]),
        limit_seconds=float(described["limit_seconds"]),
        earlier=tuple(described["earlier"]),
    )


def meet(process: RunProcess, seconds: float = WAIT) -> List[str]:
    """Wait for all processes of the run, and return an address for each, "host:port", by rank.

    The port was free on that rank's host when it was chosen, and no two ranks of one host have the
    same: each reserves its own until all have come. Raises StartError, naming them, if some do
    not come within `seconds`.
    """
    import socket  # which every run would pay for

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as reserved:
        reserved.bind(("", 0))
        own = {"host": find_address(), "port": reserved.getsockname()[1], "machine": read_boot_id()}
        folder = os.path.join(process.directory, "meet")
        texts = _gather(folder, process.rank, process.size, json.dumps(own), "rank", seconds)
    ranks = [json.loads(text) for text in texts]
    # On one machine nothing has to be resolved or routed, whatever its name is.
    is_local = ranks[0]["machine"] and len({rank["machine"] for rank in ranks}) == 1
    return ["%s:%d" % ("127.0.0.1" if is_local else rank["host"], rank["port"]) for rank in ranks]


def start_together(process: RunProcess, seconds: float = WAIT) -> None:
    """Wait for all instances of a packed run. Raises StartError if one does not come.

    They start within some milliseconds of each other, however long each container took.
    """
    if process.instances > 1:
        folder = os.path.join(os.path.dirname(process.directory), "together")
        _gather(folder, process.instance, process.instances, "", "instance", seconds)


def find_address() -> str:
    """Return the address by which other nodes reach this one: IPv4, else its name.

    Debian gives a machine's own name to 127.0.1.1, which means another machine everywhere else.
    """
    import socket

    name = socket.gethostname()
    for host in filter(None, (os.environ.get("SLURMD_NODENAME"), name)):
        try:
            entries = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
        except OSError:
            continue
        for entry in entries:
            if not str(entry[4][0]).startswith("127."):
                return str(entry[4][0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing, but chooses the interface
            return str(probe.getsockname()[0])
        except OSError:
            return name


def find_interface(address: str) -> str:
    """Return the name of the network interface that has this IPv4 address; "" if none has it."""
    import fcntl
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                request = name.encode().ljust(256, b"\0")
                answer = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, request)
            except OSError:  # it has no IPv4 address
                continue
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return ""


def read_boot_id() -> str:
    """Return an id that all processes under one kernel share; "" if it cannot be read."""
    try:
        with open(BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _gather(folder: str, own: int, count: int, text: str, noun: str, seconds: float) -> List[str]:
    """Write `text` into `folder` as number `own`; return the texts of all `count` processes.

    `noun` is what the error message calls a process.
    """
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, str(own))
    _write(path, text)
    paths = [os.path.join(folder, str(number)) for number in range(count)]

    def find_missing() -> List[int]:
        return [number for number, name in enumerate(paths) if not os.path.exists(name)]

    _wait(find_missing, path + ".look", noun, count, seconds)
    return [_read(name) for name in paths]


def _wait(
    find_missing: Callable[[], List[int]], probe: str, noun: str, count: int, seconds: float
) -> None:
    """Wait until nothing is missing; `probe` is a path that may be written and removed."""
    deadline, pause = time.monotonic() + seconds, 0.002
    while True:
        absent = find_missing()
        if not absent:
            return
        if time.monotonic() > deadline:
            names = ", ".join(map(str, absent[:20]))
            raise StartError(
                "%s %s of %d did not come within %g s: it has not started, or has ended early; see "
                "its own output" % (noun, names, count, seconds)
            )
        time.sleep(pause)
        pause = min(pause * 1.2, 0.2)
        if pause > 0.1:
            # NFS remembers for up to a minute that a file was not there, unless this node itself
            # changes the directory.
            _write(probe, "")
            os.unlink(probe)


def _write(path: str, text: str) -> None:
    """Write a file atomically: a reader sees all of it or no file."""
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()
