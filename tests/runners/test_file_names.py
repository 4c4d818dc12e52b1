"""File names in a command that none of the files sent answers to."""

from __future__ import annotations

import shlex
from string import ascii_letters, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.workloads import ParameterError
from runners.workloads.command import Command
from runners.workloads.file_names import explain_unsent_file

SENT = ["config.yaml", "data1.csv", "go.sh", "train.py"]
NAMES = st.text(ascii_letters + digits + "_-.", min_size=1, max_size=20).filter(str.isidentifier)


@pytest.mark.parametrize(
    ("command", "named", "near"),
    [
        ("{python} trian.py", "starts trian.py", "the nearest is train.py"),
        ("python3.11 -u -W ignore Train.py", "starts Train.py", "the nearest is train.py"),
        ("{python} ./train.py", "starts ./train.py", "the nearest is train.py"),
        ("{python} src/train.py --epochs 3", "starts src/train.py", "the nearest is train.py"),
        ("bash -x run.sh", "starts run.sh", "config.yaml, data1.csv, go.sh, train.py"),
        ("./go.sh", "starts ./go.sh", "the nearest is go.sh"),
        ("trian.py", "names trian.py", "the nearest is train.py"),
        ("torchrun --nproc_per_node 2 trian.py", "names trian.py", "the nearest is train.py"),
        ("{python} train.py config.yml", "names config.yml", "write ./config.yml"),
        ("{python} train.py {files}/confg.yaml", "{files}/confg.yaml", "is config.yaml"),
        ("cat --from={files}/nothing", "{files}/nothing", "config.yaml, data1.csv"),
    ],
)
def test_a_name_that_no_file_sent_has_is_refused_with_the_near_match(
    command: str, named: str, near: str
) -> None:
    why = explain_unsent_file(shlex.split(command), SENT)
    assert named in why
    assert near in why


@pytest.mark.parametrize(
    "command",
    [
        "{python} train.py --config config.yaml",
        "{python} -m torch.distributed.run train.py",
        "{python} -c 'import a.py' other.py",
        "{python} /benchmarks/trian.py",
        "{python} {files}/train.py --out {run}/train.py",
        "{python} train.py --out trains.py",
        "{python} train.py --log-file ./trains.py",
        "{python} train.py data2.csv",
        "{python} {files}/tare.py",
        "sh -ec 'python trian.py'",
        "bash -o pipefail go.sh",
        "sort --version",
        "mpirun -n 2 /opt/run.sh",
        "",
    ],
)
def test_what_may_be_there_is_not_refused(command: str) -> None:
    assert explain_unsent_file(shlex.split(command), SENT) == ""


def test_a_script_is_refused_where_no_file_is_sent_at_all() -> None:
    why = explain_unsent_file(["{python}", "train.py"], [])
    assert why == (
        "starts train.py, but no file is sent: add it, or write its whole path on the cluster"
    )


def test_the_kind_itself_refuses_it() -> None:
    """So that the form, the administration, presets and the launch all do."""
    sent = {"train.py": "0" * 64}
    with pytest.raises(ParameterError) as refusal:
        Command.clean({"argv": "{python} trian.py", "files": sent, "read": "nothing"})
    assert "the nearest is train.py" in refusal.value.messages["argv"]
    Command.clean({"argv": "{python} train.py", "files": sent, "read": "nothing"})


@given(NAMES, st.lists(NAMES, max_size=5), st.lists(st.text(max_size=10), max_size=5))
def test_a_file_that_is_sent_is_never_refused(
    name: str, others: list[str], rest: list[str]
) -> None:
    names = [f"{name}.py", *others]
    argv = ["{python}", names[0], *(word for word in rest if word.startswith("-"))]
    assert explain_unsent_file(argv, names) == ""


@given(st.lists(st.text(max_size=30), max_size=30), st.lists(NAMES, max_size=20))
def test_any_words_get_an_answer(argv: list[str], names: list[str]) -> None:
    assert isinstance(explain_unsent_file(argv, names), str)
