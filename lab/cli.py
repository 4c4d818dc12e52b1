"""The command `lab/lab`, which starts and ends the one-machine cluster."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from lab import host, prune, rootfs, software
from lab.instance import Instance
from lab.recipes import RECIPES, USUAL

Verb = Callable[[Instance, argparse.Namespace], int]


def up(lab: Instance, options: argparse.Namespace) -> int:
    lab.directory.mkdir(parents=True, exist_ok=True)
    if options.foreground:
        host.end_with_parent(signal.SIGTERM)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: sys.exit(0))
    with lab.hold_lock():
        complete = lab.grid_engine or not options.grid_engine
        runs_already = lab.is_started() and lab.facts_path.exists() and complete
        if runs_already:
            host.say(f"already running on port {lab.port}; see {lab.facts_path}")
        else:
            lab.stop()
            lab.grid_engine = lab.grid_engine or options.grid_engine
            process = start(lab, options)
    if not options.foreground:
        return 0
    if runs_already:  # started by another process, so it may outlive this one
        lab.wait()
        return 0
    try:
        return process.wait()
    finally:
        lab.stop()


def start(lab: Instance, options: argparse.Namespace) -> subprocess.Popen[bytes]:
    """Start the cluster, test it, and write how to reach it."""
    rootfs.ensure_cluster_root(grid_engine=lab.grid_engine)
    prune.prune()
    began = time.monotonic()
    if lab.facts_path.exists():
        host.say("starting again, with the keys, files and jobs of the last time")
    grid_engine = ", sge_qmaster and sge_execd" if lab.grid_engine else ""
    host.say(f"starting sshd, munge, MariaDB, slurmdbd, slurmctld and two slurmd{grid_engine} ...")
    try:
        process = lab.start(options.port, with_caller=options.foreground)
        host.say("running a step on both nodes and a batch job, over SSH ...")
        lab.run_readiness_test()
        facts = {**lab.describe(), "images": software.stage_again(lab)}
        lab.write_facts(facts)
    except BaseException:
        lab.stop()
        raise
    parts = {
        facts["os"]: "",
        "Slurm": facts["scheduler"]["version"],
        "Python": facts["python"]["version"],
    }
    if lab.grid_engine:
        parts["Grid Engine"] = facts["grid_engine"]["version"]
    parts |= {kind: runtime["version"] for kind, runtime in facts["runtimes"].items()}
    host.say(", ".join(f"{name} {version}".strip() for name, version in parts.items()))
    took = time.monotonic() - began
    host.say(
        f"a cluster of two nodes is up on port {lab.port} ({took:.1f} s); see {lab.facts_path}"
    )
    return process


def down(lab: Instance, options: argparse.Namespace) -> int:
    if not lab.directory.is_dir():
        host.say("nothing was running")
        return 0
    with lab.hold_lock():
        host.say("stopped" if lab.stop() else "nothing was running")
    return 0


def status(lab: Instance, options: argparse.Namespace) -> int:
    if not lab.is_started():
        print(f"no lab is running in {lab.directory}")
        return 1
    print(f"port {lab.port}")
    print(lab.run_inside(["sinfo", "-N", "-o", "%N %P %T %G %C %m"]), end="")
    return 0


def build(lab: Instance, options: argparse.Namespace) -> int:
    if not lab.is_started():
        raise host.LabError(f"no lab is running in {lab.directory}: `up` comes first")
    software.build_images(lab, options.image or USUAL)
    return 0


def tidy(lab: Instance, options: argparse.Namespace) -> int:
    if prune.is_any_lab_running():
        raise host.LabError("a lab of this machine runs and may need what would go: end it first")
    if not prune.prune(options.days):
        host.say(f"nothing in {host.cache_folder()} was left unused for {options.days:g} days")
    return 0


def execute(lab: Instance, options: argparse.Namespace) -> int:
    argv = options.argv[1:] if options.argv[:1] == ["--"] else options.argv
    return subprocess.run(lab.wrap_command(argv, options.user), check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    default = Path(__file__).resolve().parent.parent / "var" / "lab"

    def verb(name: str, function: Verb, text: str) -> argparse.ArgumentParser:
        added = verbs.add_parser(name, help=text)
        added.set_defaults(function=function)
        added.add_argument(
            "--dir", type=Path, default=default, help="the lab's folder (%(default)s)"
        )
        return added

    added = verb("up", up, "start the cluster, test it, write DIR/lab.json")
    added.add_argument("--port", type=int, help="sshd's port; the twelve after it are used too")
    added.add_argument(
        "--grid-engine", action="store_true", help="with Grid Engine beside Slurm, from now on"
    )
    added.add_argument(
        "--foreground", action="store_true", help="stay; a lab started here ends with the caller"
    )
    verb("down", down, "end the cluster; its files stay")
    verb("status", status, "say whether it runs, and Slurm's nodes")
    added = verb("build", build, "build and stage the images and their bare metal twins")
    added.add_argument("image", nargs="*", choices=[*RECIPES, []], metavar="|".join(RECIPES))
    added = verb("prune", tidy, "remove from the cache what was not used for a while")
    added.add_argument("--days", type=float, default=prune.DAYS, help="how long (%(default)s)")
    added = verb("exec", execute, "run a command inside, without SSH")
    added.add_argument("--user", default="root")
    added.add_argument("argv", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    options = parser.parse_args()
    try:
        host.require_root()
        function: Verb = options.function
        return function(Instance(options.dir), options)
    except host.NeedsRoot as error:
        print(f"lab: {error}", file=sys.stderr)
        return 3
    except host.LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
