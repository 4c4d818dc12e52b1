"""Files of experiments: what is written is read again as the same, and what is wrong is named."""

from __future__ import annotations

import json
import string
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from experiments.definitions.definition import (
    DataSetReference,
    Definition,
    EnvironmentDefinition,
    WorkloadDefinition,
    fill_in_values,
)
from experiments.definitions.definition_fields import (
    FIELDS,
    LONGEST_NOTES,
    LONGEST_TAG,
    MOST_TAGS,
    Field,
)
from experiments.definitions.definition_problems import Problem
from experiments.definitions.definition_reading import read_definition, read_mapping
from experiments.definitions.definition_schema import build_schema, write_schema
from experiments.definitions.definition_writing import (
    rewrite_yaml,
    to_document,
    write_json,
    write_yaml,
)
from experiments.definitions.sweep_texts import read_sweep, write_sweep
from experiments.definitions.written_units import PERCENT, write_percent
from experiments.models import Experiment
from runners.kept_output import DEFAULT_MIB
from runners.workloads import WORKLOADS
from tests.source_tree import BASE

DIGEST = "sha256:" + "a1" * 32
FILE = f"""\
# Asked by referee 2.
tare: 1
question: Does Apptainer slow ResNet-50 down?   # the question
cluster: hpc1            # by name
partition: gpu
workloads:
  # the network
  - name: resnet50
    kind: cnn
    parameters: {{batch_size: 256}}
    sweep: {{batch_size: [64, 256]}}
environments:
  - name: bare metal
    baseline: true
  # the container
  - name: apptainer
    runtime: apptainer
    image: {DIGEST}   # tf 2.21
scales: [1x1, 1x2]
design: {{repeats: 10, order: paired, warm_up: fixed, interim_analyses: 1, cooldown: 0 s}}
margin: 2 %
"""


def read(text: str | bytes) -> Definition:
    definition = read_definition(text)
    assert isinstance(definition, Definition), definition
    return definition


def list_problems(text: str | bytes) -> list[str]:
    problems = read_definition(text)
    assert isinstance(problems, tuple)
    assert all(isinstance(row, Problem) for row in problems)
    return [str(row) for row in problems]


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30)
TAGS = st.text(st.characters(exclude_categories=["C"], exclude_characters=","), max_size=40)
TAGS = TAGS.map(lambda text: " ".join(text.split())).filter(bool)
WORDS = st.text(string.ascii_letters + "_", min_size=1, max_size=12)
MARGINS = st.one_of(
    st.floats(0.01, 100).map(lambda percent: percent / 100),
    st.integers(1, 10_000).map(lambda hundredths: hundredths / 100 / 100),
)


def draw_value(row: Field) -> st.SearchStrategy[Any]:
    if row.name in ("margin", "margin_faster"):
        drawn: st.SearchStrategy[Any] = MARGINS
    elif row.kind == "choice":
        drawn = st.sampled_from(list(row.choices.values()))
    elif row.kind == "flag":
        drawn = st.booleans()
    elif row.kind == "whole":
        drawn = st.integers(row.minimum or 0, row.maximum)
    elif row.kind == "texts":
        drawn = st.lists(NAMES, min_size=1, max_size=3).map(tuple)
    elif row.kind == "tags":
        drawn = st.lists(TAGS, max_size=20, unique=True).map(tuple)
    elif row.kind == "notes":
        drawn = TEXTS.map(str.strip)
    elif row.kind == "text":
        drawn = NAMES
    elif row.unit and row.unit.is_whole:
        drawn = st.integers(0, 10**6)
    else:
        drawn = st.floats(1e-9, 1e6)
    return drawn if row.required else st.one_of(st.just(row.default), drawn)


@st.composite
def workloads(draw: st.DrawFn) -> WorkloadDefinition:
    kind = draw(st.sampled_from(["blas", "command"]))
    given_values: dict[str, Any] = {}
    if kind == "command":
        texts = st.text(st.characters(exclude_categories=["C", "Z"]), max_size=20)
        given_values["argv"] = draw(st.lists(texts, min_size=1, max_size=4))
        given_values["files"] = draw(st.sampled_from([{}, {"run.py": "ab" * 32}]))
        if given_values["files"]:
            given_values["argv"] = ["run.py"]
    else:
        given_values["seed"] = draw(st.integers(0, 2**32 - 1))
    try:
        parameters = WORKLOADS[kind].clean(given_values)
    except ValueError:
        parameters = WORKLOADS["startup"].clean({})
        kind = "startup"
    data_set = draw(st.sampled_from([None, DataSetReference("digits", DIGEST)]))
    sweep = draw(st.sampled_from(["", "seed: 1, 2, 3", "seed: 1..4", "seed = 1,2"]))
    return WorkloadDefinition(
        name=draw(NAMES),
        kind=kind,
        parameters=parameters,
        time_limit_seconds=draw(st.integers(10, 10**6)),
        sweep=sweep if kind == "blas" else "",
        data_set=data_set,
        data_proof=draw(st.sampled_from(["looks", "hashes"])) if data_set else "looks",
    )


@st.composite
def environments(draw: st.DrawFn) -> EnvironmentDefinition:
    runtime = draw(st.sampled_from(["bare_metal", "apptainer", "udocker", "podman"]))
    is_bare = runtime == "bare_metal"
    return EnvironmentDefinition(
        name=draw(NAMES),
        runtime=runtime,
        image="" if is_bare else DIGEST,
        reference="" if is_bare else draw(TEXTS),
        format="" if is_bare else draw(st.sampled_from(["", "sif"])),
        mode="P1" if runtime == "udocker" else "",
        python=draw(st.sampled_from(["python3", "/opt/conda/bin/python"])),
        binds=tuple(draw(st.lists(TEXTS, max_size=3))),
        variables=draw(st.dictionaries(WORDS, TEXTS, max_size=3)),
        setup_lines=draw(TEXTS),
        is_copy=draw(st.booleans()),
    )


@st.composite
def definitions(draw: st.DrawFn) -> Definition:
    rows = draw(st.lists(environments(), min_size=1, max_size=3, unique_by=lambda row: row.name))
    further = [
        {"metric": draw(NAMES), "margin": draw(MARGINS)} for _ in range(draw(st.integers(0, 2)))
    ]
    if further:
        further[0]["margin_faster"] = draw(MARGINS)
    return Definition(
        values=fill_in_values({row.name: draw(draw_value(row)) for row in FIELDS}),
        workloads=tuple(
            draw(st.lists(workloads(), min_size=1, max_size=2, unique_by=lambda row: row.name))
        ),
        environments=(replace(rows[0], is_baseline=True), *rows[1:]),
        further_metrics=tuple(further),
    )


@settings(max_examples=25)
@given(definitions())
def test_what_is_written_is_read_as_the_same(definition: Definition) -> None:
    assert read(write_yaml(definition)) == definition
    assert read(write_json(definition)) == definition


@settings(max_examples=25)
@given(definitions(), definitions())
def test_a_rewritten_file_says_what_it_is_to_say(before: Definition, after: Definition) -> None:
    assert read(rewrite_yaml(write_yaml(before), after)) == after
    assert read(rewrite_yaml(write_json(before), after)) == after


@settings(max_examples=25)
@given(definitions())
def test_what_is_written_is_valid_by_the_schema(definition: Definition) -> None:
    document = json.loads(write_json(definition))
    errors = [
        error
        for error in Draft202012Validator(build_schema()).iter_errors(document)
        if "scales" not in error.absolute_path  # any texts here; the form judges them
    ]
    assert errors == []


@given(st.one_of(TEXTS, st.binary(max_size=200)))
def test_no_text_crashes_the_door(text: str | bytes) -> None:
    problems = read_definition(text)
    assert isinstance(problems, tuple)
    assert problems


@given(st.integers(0, len(FILE)), st.integers(0, 30), TEXTS)
def test_no_damaged_file_crashes_the_door(start: int, length: int, text: str) -> None:
    damaged = FILE[:start] + text + FILE[start + length :]
    result = read_definition(damaged)
    assert isinstance(result, Definition) or all(row.message for row in result)


@given(st.floats(0.01, 100))
def test_margins_come_back_to_the_bit(percent: float) -> None:
    fraction = percent / 100
    assert PERCENT.parse(f"{write_percent(fraction)} %") == fraction


@given(st.text(max_size=80))
def test_sweeps_come_back_as_they_were_typed(text: str) -> None:
    text = read_sweep(text)
    assert read_sweep(write_sweep(text)) == text


def test_the_schema_in_the_docs_is_the_one_that_is_served() -> None:
    Draft202012Validator.check_schema(build_schema())
    assert (BASE / "docs" / "experiment.schema.json").read_text() == write_schema()


def test_the_limits_of_the_schema_are_those_of_the_model() -> None:
    for row in FIELDS:
        if row.kind == "whole" and row.maximum is not None:
            limits = {
                type(validator).__name__: validator.limit_value
                for validator in Experiment._meta.get_field(row.name).validators
            }
            assert limits["MaxValueValidator"] == row.maximum, row.name


def test_tags_and_notes_have_the_limits_of_the_model() -> None:
    limits = Experiment.MOST_TAGS, Experiment.LONGEST_TAG, Experiment.LONGEST_NOTES
    assert limits == (MOST_TAGS, LONGEST_TAG, LONGEST_NOTES)


def test_tags_and_notes_are_read() -> None:
    values = read(FILE + "tags: [nightly, nightly, ' H200  NVL ']\nnotes: |\n  one\n  two\n").values
    assert values["tags"] == ("nightly", "H200 NVL")
    assert values["notes"] == "one\ntwo"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("tags: nightly", "tags: This is to be a list of texts."),
        ("tags: [1]", "tags: This is to be a list of texts."),
        ("tags: ['a,b']", "no comma or control character"),
        ("tags: ['']", "A tag is empty."),
        ("tags: [" + "x" * 41 + "]", "40 characters at most"),
        ("tags: [" + ", ".join(f"t{n}" for n in range(5000)) + "]", "at most 20 tags, not 5,000"),
        ("notes: 5", "notes: This is to be a text. Write it in quotes."),
        ("notes: " + "x" * 10_001, "It has 10,001 characters; 10,000 at most."),
    ],
)
def test_tags_and_notes_have_limits(written: str, message: str) -> None:
    [problem] = list_problems(FILE + written)
    assert problem.startswith("line 22, column 1")
    assert message in problem


def test_the_default_values_are_those_of_the_model() -> None:
    for row in FIELDS:
        if row.required or row.name in (
            "tags",
            "estimand",
            "visibility",
            "groups",
            "partition",
            "scales",
        ):
            continue
        field = Experiment._meta.get_field(row.name)
        usual = field.get_default()
        assert (usual if usual != "" or row.default == "" else None) == row.default, row.name


def test_what_is_usual_need_not_be_written() -> None:
    definition = read(FILE)
    assert definition.values["output_mib"] == DEFAULT_MIB
    assert definition.values["repeats"] == 10
    assert "reject" not in to_document(definition)
    assert definition.workloads[0].parameters["batch_size"] == 256
    assert definition.workloads[0].sweep == "batch_size: 64, 256"


def test_all_problems_come_at_once_with_their_lines() -> None:
    wrong = FILE.replace("parameters:", "paramters:").replace("cooldown: 0 s", "cooldown: 30 ms")
    wrong = wrong.replace("2 %", "2").replace("repeats: 10", "repeat: 10").replace(DIGEST, "tf:2")
    wrong = wrong.replace("runtime: app", "runtime: apt").replace("question:", "questoin:")
    wrong += "scales: [1x1]\nvisibility: &all members\n"
    assert list_problems(wrong) == [
        "line 3, column 1: questoin: “questoin” is not known here. Is question meant?",
        "line 10, column 5: workloads[0].paramters: “paramters” is not known here. "
        "Is parameters meant?",
        "line 17, column 5: environments[1].runtime: “apttainer” is no runtime. "
        "Is apptainer meant?",
        "line 18, column 5: environments[1].image: An image is named by its digest, sha256: and "
        "64 hex digits, which its page shows. Its name may stand beside it as “reference”.",
        "line 20, column 10: design.repeat: “repeat” is not known here. Is repeats meant?",
        "line 20, column 74: design.cooldown: The unit ms does not fit: it takes s, min, h.",
        "line 21, column 1: margin: “2” has no unit: write it such as 2 %.",
        "line 22, column 1: scales: “scales” stands here twice.",
        "line 23, column 13: visibility: Anchors (&all) are not allowed: write the value out "
        "in each place.",
    ]


BOMB = "a: &a [x, x]\n" + "".join(
    f"{name}: &{name} [*{before}, *{before}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "The file is empty"),
        (b"tare: \xff", "line 1, column 7: Byte 7 is not UTF-8"),
        ("x" * 1_000_001, "larger than 1 MB"),
        ("[" * 5000, "nested deeper than 16"),
        ("- x\n" * 30_000, "more than 20,000 values"),
        (BOMB, "Aliases (*a) are not allowed"),
        ("<<: {tare: 1}", "Merge keys (<<) are not allowed"),
        ("tare: !!int 1", "Tags (tag:yaml.org,2002:int) are not allowed"),
        ("%YAML 1.1\n---\ntare: 1", "Only YAML 1.2 is read"),
        ("tare: 1\n---\ntare: 1", "second document"),
        ("training: {loss_margin: .nan}", ".nan is no number"),
        ('{"training": {"loss_margin": Infinity}}', "Infinity is no number"),
        ("tare: " + "9" * 5000, "at most 30 digits"),
        ("tare: 1e999", "too large a number"),
        ("tare: 2", "reads the format 1, not 2"),
        ("- tare: 1", "to be a table"),
        ("tare: 1\x00", "no YAML"),
        ("{[1]: 2}", "A name has to be a text"),
        ('tare: "\\ud800"', "half a surrogate pair"),
        ("tare: 1\nworkloads: 5", "workloads: This is to be a list"),
    ],
)
def test_odd_texts_are_refused_in_words(text: str | bytes, message: str) -> None:
    assert any(message in problem for problem in list_problems(text)), list_problems(text)


def test_json_has_tabs_and_letters_beyond_the_first_plane() -> None:
    document = to_document(read(FILE)) | {"question": "Fast 😀?"}
    assert read(json.dumps(document, indent="\t")).values["question"] == "Fast 😀?"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("cooldown: 30", "has no unit: write it such as 30 s"),
        ("cooldown: 30 MiB", "The unit MiB does not fit: it takes s, min, h"),
        ("cooldown: 0.5 s", "no whole number of s"),
        ("cooldown: soon", "is no number with a unit"),
        ("cooldown: [1]", "a number with its unit"),
        ("repeats: many", "a number without a unit"),
        ("repeats: 2000", "from 1 to 1000"),
        ("one_block_a_node: maybe", "true or false"),
        ("warm_up: found", "Write one of fixed, detected"),
    ],
)
def test_wrong_values_say_what_to_write(written: str, message: str) -> None:
    name = written.partition(":")[0]
    wrong = FILE.replace("cooldown: 0 s", written)
    if name in ("repeats", "warm_up"):
        wrong = wrong.replace("repeats: 10, " if name == "repeats" else "warm_up: fixed, ", "")
    [problem] = list_problems(wrong)
    assert message in problem
    assert f"design.{name}" in problem


def test_comments_stay_where_their_values_do() -> None:
    before = read(FILE)
    values = {**before.values, "repeats": 20, "margin": 0.023, "reject_swap": True}
    added = EnvironmentDefinition(name="podman", runtime="podman", image=DIGEST, is_baseline=False)
    after = replace(before, values=values, environments=(*before.environments, added))
    text = rewrite_yaml(FILE, after)
    assert read(text) == after
    for comment in ("# Asked by referee 2.", "# the question", "# the container", "# tf 2.21"):
        assert comment in text
    assert "parameters: {batch_size: 256}" in text
    assert rewrite_yaml(FILE, before) == FILE


def test_a_workload_may_bring_its_small_files_along() -> None:
    text = FILE.replace("kind: cnn", "kind: command").replace(
        "    sweep: {batch_size: [64, 256]}\n", ""
    )
    text = text.replace("{batch_size: 256}", "{argv: [run.py], files: {run.py: {text: print(1)}}}")
    [workload] = read(text).workloads
    [(sha256, content)] = workload.contents.items()
    assert content == b"print(1)"
    assert workload.parameters["files"] == {"run.py": sha256}


def test_a_table_of_names_is_read_alone_and_in_the_file() -> None:
    table = "clusters: {hpc1: ours}\nenvironments:\n  apptainer: apptainer 1.3\n"
    expected = {"clusters": {"hpc1": "ours"}, "environments": {"apptainer": "apptainer 1.3"}}
    assert read_mapping(table) == expected
    assert read(FILE + "map:\n  clusters: {hpc1: ours}\n").mapping == {"clusters": {"hpc1": "ours"}}
    [problem] = read_mapping("cluster: {a: b}")
    assert "Is clusters meant?" in str(problem)


def test_reading_is_a_pure_matter() -> None:
    """The command for researchers is to check files without a site."""
    for name in ("definition_reading", "definition_writing", "definition_schema"):
        path: Path = BASE / "experiments" / "definitions" / f"{name}.py"
        assert "django" not in path.read_text()


def test_a_misspelt_name_is_one_problem_and_not_missing_as_well() -> None:
    problems = read_definition("tare: 1\nquestoin: Why?\ncluster: a\nmargin: 2 %\nenviroments:\n")
    assert isinstance(problems, tuple)
    assert [problem.field for problem in problems] == ["workloads", "questoin", "enviroments"]
