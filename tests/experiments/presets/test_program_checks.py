"""Before a launch: is what a command starts there, in every environment, as far as is known?"""

from __future__ import annotations

from typing import Any

import pytest

from experiments.models import Environment, Workload
from experiments.presets.commands import COMMANDS
from experiments.presets.program_checks import (
    KNOWN,
    MOST_WORDS,
    Needs,
    describe_missing_programs,
    list_known_programs,
    list_needs,
    list_words_to_look_for,
)
from experiments.software import inspections
from runners.workloads import WORKLOADS
from tests.factories import (
    ClusterFactory,
    CodeCopyFactory,
    EnvironmentFactory,
    WorkloadFactory,
)


@pytest.mark.parametrize(
    ("argv", "needs"),
    [
        (["sysbench", "cpu", "run"], Needs(("sysbench",))),
        (["sh", "hpcc.sh", "hpcc"], Needs(("sh", "hpcc"))),
        (["/opt/bin/solve", "in.txt", "/data/input.nc"], Needs(("/opt/bin/solve",))),
        (["{python}", "/bench/run.py", "--data=/data"], Needs(("/bench/run.py",))),
        (["env", "A=1", "{python}", "/b/tf.py"], Needs(("env", "/b/tf.py"))),
        (
            ["env", "TF_USE_LEGACY_KERAS=1", "{python}", "/b/tf.py"],
            Needs(("env", "/b/tf.py"), (), "/b/tf_keras"),
        ),
        (
            ["env", "TF_USE_LEGACY_KERAS=1", "{python}", "{code}/b/tf.py"],
            Needs(("env",), (), "{code}/b/tf_keras"),
        ),
        (["env", "A=/x/y.py", "fio", "--name=x"], Needs(("env", "fio"))),
        (["{python}", "-m", "pyperf", "timeit"], Needs((), ("pyperf",))),
        (["{python}", "-m", "pytest", "-q"], Needs((), ("pytest",))),
        (
            ["{python}", "-m", "pytest", "--benchmark-json=a.json"],
            Needs((), ("pytest", "pytest-benchmark")),
        ),
        (["{python}", "train.py"], Needs()),
        (["go.sh"], Needs()),
        (["{files}/go.sh", "{run}/x.py"], Needs()),
        (["./a.out"], Needs()),
        (["-x", ""], Needs()),
        ([], Needs()),
        (["/" + "x" * 400], Needs()),
    ],
)
def test_needs_are_what_the_command_shows(argv: list[str], needs: Needs) -> None:
    files = dict.fromkeys(("train.py", "go.sh", "hpcc.sh"), "0" * 64)
    assert list_needs({"argv": argv, "files": files}) == needs


def test_each_known_program_needs_what_it_says() -> None:
    for key, ready in COMMANDS.items():
        needs = list_needs(ready.piece.parameters)
        assert set(ready.programs) <= set(needs.words), key
        assert needs.words or needs.packages, key


@pytest.fixture
def environments(db: None) -> list[Environment]:
    cluster = ClusterFactory()
    return [EnvironmentFactory(name=name, cluster=cluster) for name in ("bare", "box")]


def command(*argv: str, code: Any = (), **columns: Any) -> Workload:
    parameters = WORKLOADS["command"].clean({"argv": list(argv), "read": "nothing", **dict(code)})
    name = columns.pop("name", " ".join(["mine", *argv])[:60])
    made: Workload = WorkloadFactory(name=name, kind="command", parameters=parameters, **columns)
    return made


def inspected(environment: Environment, **programs: str) -> None:
    facts = {"packages": {"pytest": "9"}, "programs": programs}
    inspections.keep_inspection(environment, facts, inspections.compute_fingerprint(environment))


def test_a_program_that_an_inspection_did_not_find_is_named(
    environments: list[Environment],
) -> None:
    inspected(environments[0], sysbench="/usr/bin/sysbench")
    inspected(environments[1], sysbench="")
    (sentence,) = describe_missing_programs([command("sysbench", "cpu", "run")], environments)
    assert sentence.startswith(
        "mine sysbench cpu run starts sysbench, which the inspection of box did not find"
    )
    assert "bare" not in sentence


def test_what_nobody_has_looked_for_is_not_known(environments: list[Environment]) -> None:
    inspected(environments[0], fio="/usr/bin/fio")
    (sentence,) = describe_missing_programs([command("solve")], environments)
    assert "mine solve starts solve. Whether that is there is not known of bare, box" in sentence


def test_an_inspection_that_counts_no_more_says_nothing(environments: list[Environment]) -> None:
    for row in environments:
        inspected(row, fio="")
        row.python = "/another/python3"
        row.save()
    (sentence,) = describe_missing_programs([command("fio")], environments)
    assert "not known of bare, box" in sentence


def test_packages_of_python_are_looked_up_too(environments: list[Environment]) -> None:
    for row in environments:
        inspected(row)
    workload = command("{python}", "-m", "pytest", "--benchmark-json=x.json")
    sentences = describe_missing_programs([workload], environments)
    assert len(sentences) == 2
    assert all("the package pytest-benchmark, which" in sentence for sentence in sentences)


@pytest.mark.parametrize(
    ("packages", "folder", "is_missing"),
    [
        ({"tensorflow-cpu": "2.21.0"}, "", True),
        ({"tensorflow": "2.16.1"}, "", True),
        ({"tensorflow": "2.21.0", "tf_keras": "2.21.0"}, "", False),
        ({"tensorflow": "2.21.0"}, "/b/tf_keras", False),
        ({"tensorflow": "2.15.1"}, "", False),
        ({"tensorflow": "1.10.0"}, "", False),
        ({"tensorflow": "unknown"}, "", False),
        ({}, "", False),
    ],
)
def test_keras_2_is_beside_the_script_or_installed_from_tensorflow_2_16_on(
    packages: dict[str, str],
    folder: str,
    is_missing: bool,
    environments: list[Environment],
) -> None:
    programs = {"env": "/usr/bin/env", "/b/tf.py": "/b/tf.py", "/b/tf_keras": folder}
    facts = {"packages": packages, "programs": programs}
    for row in environments:
        mark = inspections.compute_fingerprint(row)
        inspections.keep_inspection(row, facts, mark)
    workload = command("env", "TF_USE_LEGACY_KERAS=1", "{python}", "/b/tf.py")
    sentences = describe_missing_programs([workload], environments)
    assert len(sentences) == 2 * is_missing
    assert all("/b/tf_keras or the package tf_keras" in sentence for sentence in sentences)


@pytest.mark.parametrize(
    ("paths", "is_missing"),
    [
        (["b/tf.py"], True),
        (["b/tf.py", "b/tf_keras/__init__.py"], False),
        (["b/tf.py", "b/tf_keras/"], False),
        (["b/tf.py", "tf_keras/__init__.py", "b/tf_keras2.py"], True),
        (None, False),
    ],
)
def test_keras_2_may_lie_in_the_code(
    paths: list[str] | None, is_missing: bool, environments: list[Environment]
) -> None:
    facts = {"packages": {"tensorflow": "2.21.0"}, "programs": {"env": "/usr/bin/env"}}
    for row in environments:
        inspections.keep_inspection(row, facts, inspections.compute_fingerprint(row))
    argv = ("env", "TF_USE_LEGACY_KERAS=1", "{python}", "{code}/b/tf.py")
    commit = "1" * 40
    code = {"code_repository": "https://a.org/b", "code_commit": commit}
    workload = command(*argv, name="mine", code=code)
    assert describe_missing_programs([workload], environments) == [], "it is not there yet"
    CodeCopyFactory(cluster=environments[0].cluster, commit=commit, paths=paths)
    sentences = describe_missing_programs([workload], environments)
    assert len(sentences) == 2 * is_missing
    assert all("{code}/b/tf_keras or the package tf_keras" in text for text in sentences)
    assert "{code}/b/tf_keras" not in list_words_to_look_for()


def test_all_there_or_nothing_by_name_says_nothing(
    environments: list[Environment], django_assert_num_queries: Any
) -> None:
    plain = command("{python}", "-c", "pass")
    with django_assert_num_queries(0):
        assert describe_missing_programs([plain], environments) == []
    for row in environments:
        inspected(row, fio="/usr/bin/fio")
    workload = command("fio")
    with django_assert_num_queries(3):  # two more where there are staged images
        assert describe_missing_programs([workload], environments) == []


def test_the_inventory_of_an_environment_names_known_programs_alone() -> None:
    facts = {"programs": {"fio": "/usr/bin/fio", "hpcc": "", "/private/solve": "/private/solve"}}
    assert list_known_programs(facts) == [("fio", "/usr/bin/fio"), ("hpcc", "")]
    assert list_known_programs({}) == []


def test_words_of_workloads_that_not_everybody_may_view_are_not_looked_for(
    environments: list[Environment],
) -> None:
    """Everybody who can log in may read the script of an inspection."""
    command("/mine/solve", visibility="members")
    command("env", "TF_USE_LEGACY_KERAS=1", "{python}", "/mine/tf.py", visibility="public")
    private = command("/others/solve", visibility="private")
    command("/groups/solve", visibility="groups")
    words = list_words_to_look_for()
    assert set(words) >= KNOWN | {"/mine/solve", "/mine/tf.py", "/mine/tf_keras"}
    assert not {"/others/solve", "/groups/solve"} & set(words)
    (sentence,) = describe_missing_programs([private], environments)
    assert sentence.endswith("workloads that everybody who can log in can view.")
    for number in range(MOST_WORDS):
        command(f"/mine/{number}", visibility="members")
    assert len(list_words_to_look_for()) == MOST_WORDS
