"""The forced command: its script, the table of commands, and the line of authorized_keys."""

import ast
import importlib
import runpy
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners import gate
from runners.gate.commands import COMMANDS
from runners.preflight import asking
from runners.probes import PROBES
from runners.schedulers import SCHEDULERS
from runners.transports.base import READ
from tests.runners.direct_jobs import make_job

# Of each script that was released with a version of Tare. Raise `runners.gate.VERSION` before the
# first change after that: whoever installed the released one is then told that it is older.
RELEASED = {1: "3be9f893d09d1f5f5ac32432ed3d0addb508ecc40dc1adbaee8113fb34717676"}
BASE = Path(__file__).parents[2]
# What runs on nodes or inside a job, and never on a login node.
ON_NODES = {asking.NODE, asking.CGROUP, asking.SHARED, ": 3<>/dev/fuse"}
IN_JOBS = (
    "runners/runtimes/",
    "runners/images/",
    "runners/conda_builds.py",
    "runners/file_builds.py",
    "runners/own_trees.py",
    "runners/recipes.py",
    "runners/workloads/",
    "runners/software.py",
    "experiments/execution/staging_operations.py",
    "runners/gate/",  # the table itself
)


class TestScript:
    def test_its_version_tells_it_from_those_that_were_released(self) -> None:
        """What is rendered is also a golden file, for a reviewer to read."""
        assert RELEASED.get(gate.VERSION, gate.hash_script()) == gate.hash_script()
        assert max(RELEASED, default=1) <= gate.VERSION

    def test_it_is_said_what_each_version_has_added(self) -> None:
        assert set(gate.ADDED) == set(range(2, gate.VERSION + 1))
        assert "when Slurm expects to start jobs" in gate.describe_missing(1)
        assert gate.describe_missing(gate.VERSION) == ""

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
                    assert kind in (*script["KINDS"], "path", "work")


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


@pytest.mark.parametrize("kind", SCHEDULERS)
def test_every_command_of_a_scheduler_passes(kind: str) -> None:
    script, scheduler, job = load(), SCHEDULERS[kind](), make_job()
    resources = replace(job.resources, partition="gpu", gpus_per_node=1, gres="gpu:a100")
    if kind == "slurm":
        resources = replace(
            resources, directives=("--exclusive", "-C a100", "--reservation=measure")
        )
    job = replace(job, resources=resources)
    ids = ["17-4", "18-5"] if kind == "direct" else ["17", "18"]
    commands = [
        scheduler.build_submit_command([job, job]),
        scheduler.build_find_command(job),
        scheduler.build_status_command(ids),
        scheduler.build_former_status_command(ids),
        scheduler.build_pending_command("gpu,debug") if scheduler.orders_by_priority else None,
        scheduler.build_cancel_command(ids),
        scheduler.build_accounting_command(ids),
        scheduler.build_version_command(),
        scheduler.build_partitions_command(),
        scheduler.build_trial_command(job),
        scheduler.build_immediate_command(
            job, ["bash", "-lc", PROBES, "probes", "module load x"], seconds=5
        ),
    ]
    for command in filter(None, commands):
        script["require_known"](command, "/scratch/tare", kind)
    others = [other for other in SCHEDULERS if other != kind]
    for other in others:
        with pytest.raises(script["Refusal"]):
            script["require_known"](
                scheduler.build_submit_command([job, job]), "/scratch/tare", other
            )


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
