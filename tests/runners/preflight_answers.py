"""Answers of login nodes and nodes, for tests of the checks that read them."""

import json

from runners.jobs import EnvironmentSpec, Resources
from runners.preflight import node
from runners.preflight.checks import (
    PartitionSpec,
    RuntimeSpec,
)
from runners.probes import Answer

GPU = PartitionSpec(2, Resources(3600, gpus_per_node=4, partition="gpu"))
SIF = EnvironmentSpec("SIF", "apptainer", image_path="/x.sif", python="/opt/python")
RUNTIME = RuntimeSpec("Apptainer", "apptainer", "/usr/bin/apptainer", "1.4.5")
HTML = "<!DOCTYPE html>\n<html><body>503</body></html>"
OUTCOMES = {"ok", "warning", "failed", "not applicable"}


def reply(stdout="", stderr="", code=0):
    return Answer(code, stdout.encode(), stderr.encode(), seconds=5)


def inside(**facts):
    line = "tare:" + json.dumps({"python": "3.13.5", **facts})
    return reply(f"INFO: noise\r\n{line}\r\n")


def start(answer, spec=SIF, *, requested=1, on_node=1):
    return node.check_environment(answer, spec, area="x", gpus_asked=requested, gpus_there=on_node)
