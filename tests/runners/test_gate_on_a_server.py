"""The forced command on a real server: what Tare needs passes through it, and nothing else does."""

import hashlib
import io
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runners import gate
from runners.errors import TryAgain
from runners.jobs import EnvironmentSpec, Resources
from runners.preflight import Site, check_cluster
from runners.preflight.checks import PartitionSpec
from runners.preflight.forced_command import check_forced_command
from runners.probes import PROBES
from runners.runner import Runner
from runners.schedulers import SCHEDULERS, Direct
from runners.transports import SSH
from runners.transports.base import READ, WRITE
from tests.runners.direct_jobs import finished, make_job, started, until
from tests.runners.sshd import Server, make_key, serve

OLDER = (Path(__file__).parent / "older_gates/version-1.txt").read_text()
"""The script as it was before the status command asked for expected starts."""
SQUEUE = """#!/bin/sh
# Stands for Slurm's: one job that waits and one that runs.
case "$*" in
    *%S*) echo "7|PENDING|1790000000|tare-a|Resources"; echo "8|RUNNING|1780000000|tare-b|None" ;;
    *) echo "7|PENDING|tare-a|Resources"; echo "8|RUNNING|tare-b|None" ;;
esac
echo "$*" >>"$HOME/squeue-calls"
"""


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
    runner, job = Runner(through, Direct()), make_job(str(gated.work))
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
    job = make_job(str(gated.work))
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
        (["mkdir", "-p", str(tmp_path / "outside")], "making a folder: the path"),
        (["mkdir", "-p", f"{gated.work}/link/folder"], "leads out of"),
        (["sh", "-c", WRITE, "write", f"{gated.work}/over", "0"], "leads out of"),
        (["rm", "-f", f"{home}/.ssh/secret"], "a command that it does not know: rm"),
        (["bash", "-c", PROBES, "probes", "id", "1", "9", "1", "true"], "does not know"),
        (["bash", "-c", PROBES, "probes", "", "1", "9", "1", "id"], "does not know: id"),
        (["sbatch", "--version"], "a command that it does not know: sbatch"),
    ):
        assert message in refusal(lambda command=command: through.run(command)), command  # type: ignore[misc]
    assert (home / ".ssh/secret").read_text() == "nobody reads this"


def test_neither_a_shell_nor_sftp_nor_a_way_to_other_ports_is_given(
    gated: Gated, through: SSH
) -> None:
    connection = through.ensure_connection()
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
    outcome, message = seen()
    assert outcome == "warning"
    assert f"older than Tare's: version 0, not {gate.VERSION}. Until it is replaced" in message
    gated.install(OLDER)
    assert "version 1, not" in seen()[1]
    assert "may not ask when Slurm expects to start jobs" in seen()[1]
    gated.install(gate.render_script() + "\n# mended by hand\n")
    assert seen()[1] == (
        f"The installed script is of version {gate.VERSION}, as Tare's, but not the same: it comes "
        "from another copy of Tare, or was changed."
    )
    gated.script.unlink()
    assert seen()[0] == "failed"


def test_jobs_are_followed_through_an_older_script(gated: Gated) -> None:
    program = gated.server.directory / "bin/squeue"
    program.parent.mkdir()
    program.write_text(SQUEUE)
    program.chmod(0o755)
    calls = gated.server.directory / "squeue-calls"
    gated.install(OLDER)
    with gated.connect(scheduler="slurm") as transport:
        runner = Runner(transport, SCHEDULERS["slurm"]())
        for _ in range(2):
            statuses = runner.poll(["7", "8"])
            assert [(statuses[key].state, statuses[key].name) for key in ("7", "8")] == [
                ("queued", "tare-a"),
                ("running", "tare-b"),
            ]
            assert (statuses["7"].reason, statuses["7"].expected_start) == ("Resources", None)
            assert runner.has_older_gate  # and asks by the former command at once
        assert calls.read_text().count("%S") == 0
        gated.install(gate.render_script())
        anew = Runner(transport, SCHEDULERS["slurm"]())
        assert anew.poll(["7", "8"])["7"].expected_start == 1790000000
        assert not anew.has_older_gate
        assert runner.poll(["7", "8"])["7"].name == "tare-a"  # both versions know the former one
        gated.install(OLDER.replace("squeue", "queue"))
        assert "does not know: squeue" in refusal(lambda: anew.poll(["7"]))


def test_without_one_it_is_said_that_the_key_may_do_all(gated: Gated) -> None:
    with SSH(gated.server.address) as transport:
        free = check_forced_command(transport, area="Connection")
        assert (free.outcome, "may do all" in free.found) == ("not applicable", True)
        assert (
            check_forced_command(transport, area="Connection", expected=True).outcome == "warning"
        )
