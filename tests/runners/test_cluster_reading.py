"""What a cluster offers, read from its own answers: good ones, odd ones, and none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.cluster_reading import Found, answers, read_cluster
from runners.cluster_reading.found import MOST_PARTITIONS
from runners.preflight.checks import Check
from runners.probes import Answer
from runners.schedulers import slurm_offers
from runners.transports import SSH, Local, parse_known_hosts_line
from tests.runners.sshd import Server, make_key, serve

SIZES = b"""gpu*|up|1:00:00|2|idle|8|8000|gpu:h100:4(S:0-1)
gpu*|up|1:00:00|1|down*|8|8000+|gpu:h100:4
cpu|up|infinite|10|mixed|64|192000+|(null)
old|drain|2-00:00:00|3|drained|16|64000|gpu:v100:2,gpu:p100:1
"""
LIMITS = b"""PartitionName=gpu AllowGroups=ALL AllowAccounts=physics,maths AllowQos=ALL MaxNodes=2
PartitionName=cpu AllowGroups=ALL AllowAccounts=ALL AllowQos=normal MaxNodes=UNLIMITED
"""
ACCOUNTS = b"physics||normal,long\nchemistry|cpu|normal\n\nnoise\n"
NOTHING = Answer(127, b"", b"not found")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(tmp_path_factory.mktemp("sshd")) as server:
        yield server


def slurm(printed: bytes, **others: Answer) -> answers.Read:
    given = {
        "version slurm": Answer(0, b"slurm 24.11.5\n", b""),
        "sizes": Answer(0, printed, b""),
        "limits": Answer(0, LIMITS, b""),
        "accounts": Answer(0, ACCOUNTS, b""),
    }
    return answers.read_scheduler(given | others, "slurm", asked="")


def outcomes(checks: list[Check]) -> dict[str, str]:
    return {check.name: check.outcome for check in checks}


class TestSlurm:
    def test_partitions_come_with_nodes_limits_and_accounts(self) -> None:
        partitions, left_out, version, checks = slurm(SIZES)
        assert (version, left_out) == ("24.11.5", 0)
        gpu, cpu, old = partitions
        assert (gpu.name, gpu.is_default, gpu.nodes) == ("gpu", True, 2), "MaxNodes is 2, of 3"
        assert (gpu.gpus_per_node, gpu.gpu_model, gpu.gres) == (4, "h100", "gpu")
        assert (gpu.cpus_per_node, gpu.memory_mb, gpu.time_limit_minutes) == (8, 8000, 60)
        assert (gpu.accounts, gpu.qos) == (("physics",), ("normal", "long"))
        assert (cpu.time_limit_minutes, cpu.accounts) == (0, ("physics", "chemistry"))
        assert cpu.qos == ("normal",)
        assert (old.is_up, old.gpus_per_node, old.gpu_model) == (False, 3, "v100")
        assert set(outcomes(checks).values()) == {"ok"}

    def test_a_partition_with_two_kinds_of_gpus_asks_for_one(self) -> None:
        sizes = b"gpu|up|1:00|1|idle|8|1|gpu:a100:4\ngpu|up|1:00|1|idle|8|1|gpu:h100:8\n"
        (gpu,) = slurm(sizes)[0]
        assert (gpu.nodes, gpu.gpus_per_node, gpu.gres) == (2, 8, "gpu:h100")

    def test_one_bad_line_loses_no_other_and_is_shown(self) -> None:
        partitions, *_, checks = slurm(SIZES + b"b\xffd|up|1:00|1|idle|8|NaN|(null)\n")
        assert [row.name for row in partitions] == ["gpu", "cpu", "old"]
        assert outcomes(checks)["Other lines"] == "warning"

    def test_of_5_000_partitions_a_form_shows_those_with_the_most_gpus(self) -> None:
        sizes = "".join(f"p{n}|up|1:00|1|idle|8|1|gpu:a:{n % 7}\n" for n in range(5000))
        partitions, left_out, _, checks = slurm(sizes.encode())
        assert (len(partitions), left_out) == (MOST_PARTITIONS, 5000 - MOST_PARTITIONS)
        assert {row.gpus_per_node for row in partitions} == {6}
        (listed,) = (check for check in checks if check.name == "Partitions")
        assert listed.found.startswith("5 000 partitions: p0, ")
        assert len(listed.found) < 300

    @pytest.mark.parametrize(
        "answer", [NOTHING, Answer(124, b"", b"", 8), Answer(1, b"", b"slurmctld is away")]
    )
    def test_a_controller_that_says_nothing_fails_with_what_to_do(self, answer: Answer) -> None:
        partitions, *_, checks = slurm(b"", sizes=answer)
        (check,) = (check for check in checks if check.name == "Partitions")
        assert (partitions, check.outcome) == ((), "failed")
        assert check.cure

    def test_without_accounting_an_account_may_be_typed(self) -> None:
        partitions, *_, checks = slurm(SIZES, accounts=Answer(1, b"", b"disabled"))
        assert partitions[0].accounts == ()
        assert outcomes(checks)["Accounts"] == "not applicable"

    @given(st.binary(max_size=300))
    def test_whatever_is_printed_is_read_or_left_out(self, printed: bytes) -> None:
        offers = slurm_offers.parse_sizes(printed)
        slurm_offers.apply_limits(offers.partitions, printed)
        slurm_offers.parse_associations(printed)
        found = Found("slurm", partitions=slurm(printed)[0])
        assert Found.from_json(json.loads(json.dumps(found.as_json()))) == found


class TestRuntimes:
    def test_what_answers_is_found_with_its_version(self) -> None:
        found, checks = answers.read_runtimes(
            {
                "runtime apptainer": Answer(0, b"apptainer version 1.4.5\n", b""),
                "runtime podman": NOTHING,
                "runtime udocker": Answer(124, b"", b"", 8),
                "runtime pyxis": Answer(0, b"installed\n", b""),
                "runtime sarus": Answer(0, b"<html>log in", b""),
            }
        )
        assert [(row.kind, row.version) for row in found] == [("apptainer", "1.4.5"), ("pyxis", "")]
        assert outcomes(checks) == {
            **dict.fromkeys(("Apptainer", "Pyxis"), "ok"),
            **dict.fromkeys(("udocker", "Sarus"), "warning"),
        }

    def test_none_is_said_with_what_to_do(self) -> None:
        found, (check,) = answers.read_runtimes({})
        assert (found, check.outcome) == ((), "warning")


class TestGridEngine:
    def test_queues_are_partitions_and_rubbish_is_told(self) -> None:
        version = {"version grid_engine": Answer(0, b"SGE 8.1.9\n", b"")}
        rubbish = {"partitions grid_engine": Answer(1, b"", b"error: commlib error")}
        partitions, *_, checks = answers.read_scheduler(
            version | rubbish, "grid_engine", asked="grid_engine"
        )
        assert (partitions, outcomes(checks)["Partitions"]) == ((), "failed")


def test_a_login_node_without_a_scheduler_is_a_machine_of_its_own(server: Server) -> None:
    """A real log-in: what this machine has is found, and nothing is left behind."""
    before = set(server.directory.iterdir())
    with SSH(server.address) as transport:
        reading = read_cluster(transport, scheduler="", work_directory="")
    assert reading.found
    found = reading.found
    assert found.home == str(server.directory)
    assert found.work_directory == f"{server.directory}/tare"
    (machine,) = found.partitions
    assert machine.cpus_per_node >= 1
    assert machine.memory_mb > 100
    assert found.max_live_jobs >= 1
    kinds = outcomes(reading.checks)
    assert kinds["Log-in"] == kinds["Work directory"] == "ok"
    assert set(server.directory.iterdir()) == before


def test_a_login_that_prints_loses_no_answer_and_is_told(server: Server) -> None:
    profile = server.directory / ".bashrc"
    profile.write_text("echo Welcome to the cluster; echo '--- tare preflight --'\n")
    try:
        with SSH(server.address) as transport:
            reading = read_cluster(transport, scheduler="direct", work_directory="/tmp")
    finally:
        profile.unlink()
    assert reading.found
    assert outcomes(reading.checks)["Quiet log-in"] == "failed"


def test_a_login_that_hangs_ends_with_words(server: Server) -> None:
    """The connection stays open and nobody answers: the limit of the command ends it."""
    with SSH(server.address) as transport:
        transport.run(["true"])
        transport.run = lambda *a, **b: SSH.run(transport, ["sleep", "60"], timeout=0.5)  # type: ignore[method-assign]
        reading = read_cluster(transport, scheduler="", work_directory="")
    assert reading.found is None
    assert reading.checks[-1].outcome == "failed"


def test_another_host_key_ends_it_before_anybody_logs_in(server: Server, tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    address = replace(server.address, host_key=(tmp_path / "other.pub").read_text())
    with SSH(address) as transport:
        reading = read_cluster(transport, scheduler="", work_directory="")
    assert reading.found is None
    assert outcomes(reading.checks)["Host key"] == "failed"


def test_a_directory_that_cannot_be_written_is_red_and_all_else_is_read() -> None:
    reading = read_cluster(Local(), scheduler="direct", work_directory="/proc/tare")
    assert reading.found
    assert outcomes(reading.checks)["Work directory"] == "failed"


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"scheduler": "slurm"},
        {"scheduler": "slurm", "partitions": [{"name": "a"}], "runtimes": []},
        {"scheduler": "slurm", "partitions": [], "runtimes": [], "left_out": 2.5},
    ],
)
def test_a_stored_document_of_another_shape_is_no_finding(document: dict[str, object]) -> None:
    assert Found.read(document) is None


class TestKnownHosts:
    KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDLJHbEtm7+rtjp1pPZQFglu9+WS2kMZJ3yJUNzbx1Ej"

    @pytest.mark.parametrize(
        ("before", "port"),
        [
            ("", 22),
            ("login.example ", 22),
            ("other.example,LOGIN.example ", 22),
            ("[login.example]:2222 ", 2222),
            ("[login.example]:22 ", 22),
            ("|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg= ", 22),
        ],
    )
    def test_a_line_of_this_host_gives_its_key(self, before: str, port: int) -> None:
        if before.startswith("|1|"):
            import paramiko

            before = f"{paramiko.HostKeys.hash_host('login.example')} "
        line = f"{before}{self.KEY} a comment\n"
        assert parse_known_hosts_line(line, "login.example", port) == self.KEY

    @pytest.mark.parametrize(
        ("line", "word"),
        [
            ("", "one line"),
            ("other.example {key}", "another host"),
            ("login.example {key}\nlogin.example {key}", "one line"),
            ("@revoked login.example {key}", "@revoked"),
            ("login.example ssh-ed25519 AAAAnonsense", "public key"),
            ("|1|rubbish|x {key}", "another host"),
            ("login.example", "no public key"),
            ("[login.example]:2222 {key}", "another host"),
        ],
    )
    def test_anything_else_is_refused_in_words(self, line: str, word: str) -> None:
        with pytest.raises(ValueError, match=word):
            parse_known_hosts_line(line.format(key=self.KEY), "login.example", 22)
