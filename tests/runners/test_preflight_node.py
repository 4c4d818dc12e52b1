"""What a check reads of a node, and of the containers that it starts there."""

import pytest

from runners.preflight import node
from tests.runners.preflight_answers import HTML, RUNTIME, inside, reply, start


def test_a_node_says_which_processors_it_has():
    silent = {"namespaces": reply(), "fuse": reply(), "cgroup": reply("2")}
    answers = {"node": reply("a line of a profile\nn1\n6.1.0\naarch64\n"), **silent}
    checks = {check.name: check for check in node.check_node(answers, area="Partition gpu")}
    assert checks["Node"].found == "Ran on n1, kernel 6.1.0."
    assert (checks["Architecture"].outcome, checks["Architecture"].value) == ("ok", "aarch64")
    answers = {"node": reply("n1\n"), **silent}
    checks = {check.name: check for check in node.check_node(answers, area="Partition gpu")}
    assert checks["Node"].outcome == "warning"
    assert "Architecture" not in checks


def test_an_environment_that_starts_says_what_is_inside():
    check = start(inside(os="Debian 13", gpus=1))
    assert check.outcome == "ok"
    assert check.found == "Starts: Python 3.13.5, Debian 13; 1 GPU inside."


def test_a_container_without_the_nodes_gpu_is_red_though_it_ended_well():
    missing = "libcuda.so.1: cannot open shared object file: No such file or directory"
    check = start(inside(gpus=0, driver=missing))
    assert check.outcome == "failed"
    assert "sees no GPU where the node has 1" in check.found
    assert "--nv" in check.cure
    assert check.words == missing


def test_without_a_gpu_on_the_node_nothing_is_expected_inside():
    assert start(inside(gpus=0), on_node=0).outcome == "ok"
    assert "GPU inside" not in start(inside(gpus=True), on_node=0).found, "yes is no count"
    assert start(inside(gpus=0), requested=0).outcome == "ok"


@pytest.mark.parametrize(
    ("answer", "message", "cure"),
    [
        (reply(stderr="FATAL: could not open image /x.sif: no such file or directory", code=255),
         "/x.sif is not there", "Is the image staged"),
        (reply(stderr="timeout: failed to run command 'apptainer': No such file or directory",
              code=127), "The runtime is not there", "executable's path"),
        (reply(stderr="env: '/opt/python': No such file or directory", code=127),
         "/opt/python is not in the image", "interpreter's path"),
        (reply(stderr="FATAL: squashfuse_ll mount: fuse: device not found", code=255),
         "cannot be mounted", "sandbox"),
        (reply(stderr="ERROR: could not write /proc/1/uid_map: Operation not permitted", code=1),
         "may not make a container", "user namespaces"),
        (reply(code=124), "did not start within 5 s", "load"),
        (reply(HTML), "does not start (exit code 0)", "by hand"),
        (reply("", code=0), "does not start", "by hand"),
        (reply("tare:{not json"), "does not start", "by hand"),
    ],
)  # fmt: skip
def test_an_environment_that_does_not_start_is_red_with_its_cure(answer, message, cure):
    check = start(answer)
    assert check.outcome == "failed"
    assert message in check.found
    assert cure in check.cure


@pytest.mark.parametrize(
    ("answer", "outcome", "message"),
    [
        (reply("apptainer version 1.4.5"), "ok", "is 1.4.5."),
        (reply(stderr="1.4.5"), "ok", "is 1.4.5."),
        (reply("apptainer version 1.5.0"), "warning", "is 1.5.0; the catalogue says 1.4.5."),
        (reply("", code=127), "failed", "is not there."),
        (reply(HTML), "failed", "answered with a web page."),
        (reply("hello"), "failed", "prints no version."),
        (reply(code=124), "failed", "did not end in 5 s."),
    ],
)
def test_a_runtimes_version_is_held_against_the_catalogue(answer, outcome, message):
    check = node.check_runtime(answer, RUNTIME, area="x")
    assert check.outcome == outcome
    assert check.found.endswith(message)


def test_the_nodes_gpus_are_read():
    text = "GPU 0: NVIDIA H200 (UUID: GPU-1)\nGPU 1: NVIDIA H200 (UUID: GPU-2)\n"
    check, count = node.check_gpus(reply(text), area="x")
    assert (check.found, count) == ("2 x NVIDIA H200.", 2)
    check, count = node.check_gpus(reply(stderr="No such file", code=127), area="x")
    assert (check.outcome, count) == ("warning", 0)
