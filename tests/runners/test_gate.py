"""The forced command: what Tare needs passes through it, for real, and nothing else does."""

import ast
import hashlib
import importlib
import io
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners import gate
from runners.errors import TryAgain
from runners.gate.commands import COMMANDS
from runners.jobs import EnvironmentSpec, JobSpec, Resources, RunSpec
from runners.preflight import Site, asking, check_cluster
from runners.preflight.checks import PartitionSpec
from runners.preflight.forced_command import check_forced_command
from runners.probes import PROBES
from runners.runner import Runner
from runners.schedulers import SCHEDULERS, Direct
from runners.transports import SSH
from runners.transports.base import READ, SEND, WRITE
from runners.workloads import WORKLOADS
from tests.runners.sshd import Server, make_key, serve
from tests.runners.test_direct import finished, started, until

# Of each script that was released with a version of Tare. Raise `runners.gate.VERSION` before the
# first change after that: whoever installed the released one is then told that it is older.
RELEASED: dict[int, str] = {}
BASE = Path(__file__).parents[2]
PARAMETERS = WORKLOADS["blas"].clean({"steps": 3, "burn_in": 1, "matrix_size": 64})
# What runs on nodes or inside a job, and never on a login node.
ON_NODES = {asking.NODE, asking.CGROUP, asking.SHARED, ": 3<>/dev/fuse"}
IN_JOBS = (
    "runners/runtimes/",
    "runners/images/",
    "runners/recipes.py",
    "runners/software.py",
    "experiments/execution/staging_operations.py",
    "runners/gate/",  # the table itself
)


class TestScript:
    def test_its_version_tells_it_from_those_that_were_released(self) -> None:
        """What is rendered is also a golden file, for a reviewer to read."""
        assert RELEASED.get(gate.VERSION, gate.hash_script()) == gate.hash_script()
        assert max(RELEASED, default=1) <= gate.VERSION

    def test_it_starts_on_old_pythons_and_needs_nothing(self) -> None:
        tree = ast.parse(gate.render_script(), feature_version=(3, 6))
        names = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        assert names <= sys.stdlib_module_names
        assert not [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]

    def test_every_word_of_the_table_is_one_that_it_understands(self) -> None:
        script = load()
        for command in COMMANDS:
            for word in command.pattern:
                if word.startswith("<") and word not in ("<probes>", "<options>"):
                    kind = word.strip("<>").partition(">")[0]
                    assert kind in (*script["KINDS"], "path", "work", "folder")


def load() -> dict[str, Any]:
    """The rendered script's functions."""
    file = Path(load.folder) / "tare-gate.py"  # type: ignore[attr-defined]
    return runpy.run_path(str(file))


@pytest.fixture(autouse=True, scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> None:
    load.folder = tmp_path_factory.mktemp("gate")  # type: ignore[attr-defined]
    (Path(load.folder) / "tare-gate.py").write_text(gate.render_script())  # type: ignore[attr-defined]


def scripts_sent() -> Iterator[tuple[str, ast.expr]]:
    """Each script in a command of a shell's that some module writes, and where."""
    for path in sorted((BASE / "runners").rglob("*.py")) + sorted(
        (BASE / "experiments").rglob("*.py")
    ):
        name = path.relative_to(BASE).as_posix()
        if name.startswith(IN_JOBS):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.List | ast.Tuple) and len(node.elts) > 2:
                first, second, third, *_ = node.elts
                values = [getattr(node, "value", None) for node in (first, second)]
                if values[0] in ("sh", "bash") and values[1] in ("-c", "-lc"):
                    yield name, third


def test_every_script_that_is_sent_is_in_the_table() -> None:
    """Add what this finds to `runners/gate/commands.py`."""
    known = {word for command in COMMANDS for word in command.pattern}
    for name, script in scripts_sent():
        module = importlib.import_module(
            name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        )
        expression = ast.unparse(script)
        if expression.startswith("*build_command(") or "setup_lines" in expression:
            continue  # the check's own, and what it starts on nodes
        text = eval(expression, vars(module))
        assert text in known | ON_NODES, f"{name}: {expression}"


def test_every_program_that_is_sent_is_in_the_table() -> None:
    known = {command.pattern[0] for command in COMMANDS} | {"tare-gate"}
    for path in [*(BASE / "runners").rglob("*.py"), *(BASE / "experiments").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith((".run", "_run")):
                for argument in node.args[:1]:
                    if isinstance(argument, ast.List) and isinstance(
                        argument.elts[0], ast.Constant
                    ):
                        assert argument.elts[0].value in known, f"{path}: {ast.unparse(argument)}"


def a_job(work: str = "/scratch/tare") -> JobSpec:
    environment = EnvironmentSpec(label="here", runtime="bare_metal", python=sys.executable)
    run = RunSpec("r0", 0, "blas", PARAMETERS, environment)
    resources = Resources(time_limit_seconds=60)
    return JobSpec("u1", "tare-u1-1", f"{work}/jobs/u1-1", (run,), resources)


@pytest.mark.parametrize("kind", SCHEDULERS)
def test_every_command_of_a_scheduler_passes(kind: str) -> None:
    script, scheduler, job = load(), SCHEDULERS[kind](), a_job()
    resources = replace(job.resources, partition="gpu", gpus_per_node=1, gres="gpu:a100")
    if kind == "slurm":
        resources = replace(
            resources, directives=("--exclusive", "-C a100", "--reservation=measure")
        )
    job = replace(job, resources=resources)
    ids = ["17-4", "18-5"] if kind == "direct" else ["17", "18"]
    commands = [
        scheduler.submit(job),
        scheduler.find(job),
        scheduler.status(ids),
        scheduler.cancel(ids),
        scheduler.accounting(ids),
        scheduler.version(),
        scheduler.partitions(),
        scheduler.trial(job),
        scheduler.at_once(job, ["bash", "-lc", PROBES, "probes", "module load x"], seconds=5),
    ]
    for command in filter(None, commands):
        script["require_known"](command, "/scratch/tare", kind)
    others = [other for other in SCHEDULERS if other != kind]
    for other in others:
        with pytest.raises(script["Refusal"]):
            script["require_known"](scheduler.submit(job), "/scratch/tare", other)


@pytest.mark.parametrize(
    "option", ["--output=/home/me/.ssh/rc", "--prolog=/tmp/x", "--wrap=id", "-o/x", "-o", "x", "-p"]
)
def test_an_option_that_writes_or_runs_something_is_refused(option: str) -> None:
    script = load()
    command = ["srun", "--immediate=5", "--input=none", option, "bash", "-lc", PROBES, "probes", ""]
    if option == "-p":
        command.insert(4, "--multi-prog")
    with pytest.raises(script["Refusal"], match="srun's option"):
        script["require_known"](command, "/scratch/tare", "slurm")


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), max_size=4))
def test_no_path_leads_out(parts: list[str]) -> None:
    script = load()
    path = "/".join(["/scratch/tare", *parts])
    argv = ["sh", "-c", READ, "read", path, "1"]
    try:
        script["require_known"](argv, "/scratch/tare", "slurm")
    except script["Refusal"]:
        return
    assert ".." not in path.split("/")
    assert Path(path).resolve().is_relative_to(Path("/scratch/tare").resolve())


def test_a_line_says_what_the_key_may_do() -> None:
    key = "ssh-ed25519 AAAA tare-x"
    line = gate.format_authorized_line(key, work_directory='/a "b"', scheduler="slurm")
    assert line == ('restrict,command="python3 -I ~/.ssh/tare-gate.py \'/a \\"b\\"\' slurm" ' + key)
    only = gate.format_authorized_line(key, forwards=[("inner.example", 22)])
    assert only == (
        'restrict,port-forwarding,permitopen="inner.example:22",'
        f'command="echo {gate.ONLY_FORWARDS} >&2; exit 77" {key}'
    )
    behind = gate.format_authorized_line(key, forwards=[("2001:db8::1", 22)])
    assert 'permitopen="[2001:db8::1]:22"' in behind
    with pytest.raises(ValueError, match="line of authorized_keys"):
        gate.format_authorized_line(key, work_directory="/a\nssh-rsa AAAA", scheduler="slurm")


@pytest.mark.parametrize(
    "host", ['x",command="id', "x\n", "a b", "*", "", "-oProxyCommand=id", "a,b", "x:22\nssh-rsa"]
)
def test_only_hosts_stand_in_a_line(host: str) -> None:
    with pytest.raises(ValueError, match="cannot stand in a line"):
        gate.format_authorized_line("ssh-ed25519 AAAA", forwards=[(host, 22)])


class Gated:
    """A key of a real server's account that has the forced command."""

    def __init__(self, server: Server, work: Path, folder: Path) -> None:
        self.server, self.work, self.folder = server, work, folder
        self.script = server.directory / ".ssh/tare-gate.py"
        self.script.parent.mkdir(exist_ok=True)
        (self.script.parent / "secret").write_text("nobody reads this")
        self.install(gate.render_script())

    def install(self, text: str) -> None:
        self.script.write_text(text)

    def connect(self, **options: Any) -> SSH:
        key = self.folder / f"key{len(list(self.folder.iterdir()))}"
        private = make_key(key)
        public = key.with_suffix(".pub").read_text()
        options = {"work_directory": str(self.work), "scheduler": "direct", **options}
        self.server.authorize(gate.format_authorized_line(public, **options))
        return SSH(self.server.but(private_key=private))


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(tmp_path_factory.mktemp("gated")) as server:
        yield server


@pytest.fixture
def gated(own_server: Server, tmp_path: Path) -> Gated:
    (tmp_path / "keys").mkdir()
    return Gated(own_server, tmp_path / "work $(x) 'dir' ü", tmp_path / "keys")


@pytest.fixture
def through(gated: Gated) -> Iterator[SSH]:
    with gated.connect() as transport:
        yield transport


def refusal(do: Callable[[], object]) -> str:
    with pytest.raises(TryAgain) as caught:
        do()
    assert caught.value.kind == "forced command"
    assert "The key's forced command on 127.0.0.1" in str(caught.value)
    return str(caught.value)


def test_a_whole_life_of_a_job_passes_through(gated: Gated, through: SSH) -> None:
    runner, job = Runner(through, Direct()), a_job(str(gated.work))
    assert runner.find(job) is None
    job_id = runner.submit(job)
    assert runner.find(job) == job_id
    record = finished(runner, job, job_id)
    assert (record.exit_code, record.started_by) == (0, job_id)
    assert runner.read_journals({job.directory: 0})[job.directory]
    assert "job ended" in runner.read_tail(f"{job.directory}/journal.ndjson")
    assert runner.read_endings([job_id]) == {}


def test_a_large_file_passes_through(gated: Gated, through: SSH) -> None:
    content = bytes(range(256)) * 5000
    (gated.work / "images").mkdir(parents=True)
    path = f"{gated.work}/images/it's.sif"
    digest = hashlib.sha256(content).hexdigest()
    through.upload(path, io.BytesIO(content), size=len(content), sha256=digest)
    assert Path(path).read_bytes() == content


def test_a_job_is_cancelled_through_it(gated: Gated, through: SSH, tmp_path: Path) -> None:
    waits = tmp_path / "waits"
    waits.write_text("#!/bin/sh\nexec sleep 60\n")
    waits.chmod(0o755)
    job = a_job(str(gated.work))
    environment = EnvironmentSpec(label="waits", runtime="bare_metal", python=str(waits))
    job = replace(job, runs=(replace(job.runs[0], environment=environment),))
    runner = Runner(through, Direct())
    job_id = runner.submit(job)
    until(started(job))
    runner.cancel([job_id])
    assert finished(runner, job, job_id).exit_code is not None


def test_a_check_passes_through(gated: Gated, through: SSH) -> None:
    gated.work.mkdir()
    bare = EnvironmentSpec(label="here", runtime="bare_metal", python=sys.executable)
    partitions = (PartitionSpec(1, Resources(60, partition="x")),)
    site = Site(str(gated.work), ("export SET_UP=1",), partitions, (), (bare,), False)
    checks = check_cluster(through, Direct(), site)
    by_name = {check.name: check for check in checks}
    assert by_name["Forced command"].found == f"Tare's own, version {gate.VERSION}."
    assert by_name["Start of here"].outcome == "ok"
    assert by_name["Work directory"].outcome == "ok"


def test_where_no_node_can_be_asked_nothing_is_started_on_the_login_node(gated: Gated) -> None:
    gated.work.mkdir()
    site = Site(str(gated.work), (), (), (), (), False)
    with gated.connect(scheduler="grid_engine") as transport:
        checks = check_cluster(transport, SCHEDULERS["grid_engine"](), site)
    (place,) = [check for check in checks if check.area == "On the login node"]
    assert "forced command starts nothing here" in place.found
    assert not [check for check in checks if check.name == "Questions"]


def test_what_tare_does_not_need_is_refused(gated: Gated, through: SSH, tmp_path: Path) -> None:
    gated.work.mkdir()
    home = gated.server.directory
    (gated.work / "link").symlink_to(home / ".ssh")
    (gated.work / "over.part").symlink_to(home / ".ssh/secret")
    (tmp_path / "outside").mkdir()
    read = ["sh", "-c", READ, "read"]
    for command, message in (
        (["cat", f"{home}/.ssh/secret"], "a command that it does not know: cat"),
        (["sh", "-c", "id"], "a command that it does not know: sh -c id"),
        (["bash", "-lc", "id"], "a command that it does not know"),
        (["bash"], "a command that it does not know"),
        (["sh", "-c", READ + "\nid", "read", f"{gated.work}/x", "1"], "does not know"),
        ([*read, f"{home}/.ssh/secret", "1"], "reading a file: the path"),
        ([*read, "/etc/passwd", "1"], "leads out of"),
        ([*read, f"{gated.work}/../outside", "1"], "is not a plain one"),
        ([*read, f"{gated.work}/link/secret", "1"], "leads out of"),
        ([*read, f"{gated.work}", "1"], "leads out of"),
        ([*read, f"{gated.work}x/y", "1"], "leads out of"),
        ([*read, "~/.ssh/secret", "1"], "is not a plain one"),
        ([*read, f"{gated.work}/x", "1; id"], "a command that it does not know"),
        ([*read, f"{gated.work}/x", "1", "2"], "a command that it does not know"),
        (["sh", "-c", WRITE, "write", f"{home}/.ssh/authorized_keys", "0"], "writing a file"),
        (["sh", "-c", SEND, "send", str(tmp_path / "outside")], "sending files: the path"),
        (["sh", "-c", SEND, "send", f"{gated.work}/link"], "leads out of"),
        (["sh", "-c", WRITE, "write", f"{gated.work}/over", "0"], "leads out of"),
        (["rm", "-f", f"{home}/.ssh/secret"], "a command that it does not know: rm"),
        (["bash", "-c", PROBES, "probes", "id", "1", "9", "1", "true"], "does not know"),
        (["bash", "-c", PROBES, "probes", "", "1", "9", "1", "id"], "does not know: id"),
        (["sbatch", "--version"], "a command that it does not know: sbatch"),
    ):
        assert message in refusal(lambda command=command: through.run(command)), command  # type: ignore[misc]
    (gated.work / "job").mkdir()
    (gated.work / "job/x").symlink_to(home / ".ssh")
    send = ["sh", "-c", SEND, "send", f"{gated.work}/job"]
    assert "holds links" in refusal(lambda: through.run(send))
    assert (home / ".ssh/secret").read_text() == "nobody reads this"


def test_neither_a_shell_nor_sftp_nor_a_way_to_other_ports_is_given(
    gated: Gated, through: SSH
) -> None:
    connection = through.connection()
    with connection.open_session() as channel:
        channel.invoke_shell()
        assert channel.makefile_stderr().read().endswith(b"refuses a shell\n")
        assert channel.recv_exit_status() == 77
    with connection.open_session() as channel:
        channel.exec_command("id; cat ~/.ssh/secret")
        errors = channel.makefile_stderr().read()
        assert b"refuses a command that is not Tare's" in errors
        assert channel.makefile().read() == b""
    with pytest.raises(TryAgain, match="does not reach"):
        through.open_tunnel("127.0.0.1", gated.server.address.port)
    options = ["-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null", "-oBatchMode=yes"]
    key = sorted(gated.folder.glob("key?"))[0]
    address = gated.server.address
    done = subprocess.run(
        ["sftp", *options, f"-oPort={address.port}", "-i", key, f"{address.user}@{address.host}"],
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert done.returncode != 0
    assert b"tare-gate" in done.stderr or b"Connection closed" in done.stderr


def test_a_jump_hosts_key_opens_the_hosts_behind_it_and_runs_nothing(gated: Gated) -> None:
    address = gated.server.address
    behind = [(address.host, address.port)]
    with gated.connect(work_directory="", forwards=behind) as jump:
        inner = gated.server.but(jump=jump.address)
        with SSH(inner) as transport:
            assert transport.run(["echo", "through"]).stdout == b"through\n"
        with pytest.raises(TryAgain, match="does not reach"):
            jump.open_tunnel(address.host, 1)
        assert gate.ONLY_FORWARDS in refusal(lambda: jump.run(["id"]))
        assert check_forced_command(jump, area="Connection", expected=True).outcome == "ok"


def test_the_installed_script_is_told_from_tares(gated: Gated, through: SSH) -> None:
    def seen() -> tuple[str, str]:
        check = check_forced_command(through, area="Connection", expected=True)
        return check.outcome, check.found

    assert seen() == ("ok", f"Tare's own, version {gate.VERSION}.")
    gated.install(gate.render_script().replace(f"VERSION = {gate.VERSION}\n", "VERSION = 0\n"))
    assert seen() == ("warning", "The installed script is older than Tare's: version 0, not 1.")
    gated.install(gate.render_script() + "\n# mended by hand\n")
    assert seen()[1] == "The installed script calls itself version 1, and is not Tare's."
    gated.script.unlink()
    assert seen()[0] == "failed"


def test_without_one_it_is_said_that_the_key_may_do_all(gated: Gated) -> None:
    with SSH(gated.server.address) as transport:
        free = check_forced_command(transport, area="Connection")
        assert (free.outcome, "may do all" in free.found) == ("not applicable", True)
        assert (
            check_forced_command(transport, area="Connection", expected=True).outcome == "warning"
        )
