"""Files of studies: what is common is read once, and what is wrong is named with its entry."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from experiments.definitions.definition import Definition
from experiments.definitions.definition_reading import parse_definition
from experiments.definitions.definition_schema import build_study_schema, write_study_schema
from experiments.definitions.study_reading import (
    MOST_EXPERIMENTS,
    StudyDefinition,
    is_study,
    parse_study,
    read_study,
)
from experiments.definitions.study_writing import (
    rewrite_study_yaml,
    write_study_json,
    write_study_yaml,
)
from experiments.models import Study
from tests.experiments.definitions.test_definitions import (
    DIGEST,
    FILE,
    NAMES,
    TEXTS,
    definitions,
)
from tests.source_tree import BASE

STUDY = f"""\
# Asked by referee 2.
tare: 1
study: Containers on three machines   # the name
question: What do containers cost?
notes: For the rebuttal.
margin: 2 %
workloads:
  # the network
  - name: resnet50
    kind: cnn
environments:
  - name: bare metal
    baseline: true
  - name: apptainer
    runtime: apptainer
    image: {DIGEST}   # tf 2.21
experiments:
  # the first machine
  - cluster: hpc1
    partition: gpu   # H200
  - cluster: hpc2
    question: And on hpc2?
    margin: 5 %
    environments:
      - name: bare
        baseline: true
      - name: podman
        runtime: podman
        image: {DIGEST}
  - {{cluster: hpc3, scales: [1x2]}}   # the last machine
"""


def list_problems(text: str | bytes) -> list[str]:
    problems = read_study(text)
    assert isinstance(problems, tuple)
    return [str(row) for row in problems]


@st.composite
def studies(draw: st.DrawFn) -> StudyDefinition:
    first = draw(definitions())
    others = []
    for _ in range(draw(st.integers(0, 2))):  # alike in most fields, as those of a study are
        other = draw(definitions())
        values = {**first.values, "cluster": other.values["cluster"]}
        names = draw(st.lists(st.sampled_from(sorted(values)), max_size=3))
        values |= {name: other.values[name] for name in names}
        workloads = draw(st.sampled_from([first.workloads, other.workloads]))
        others.append(replace(first, values=values, workloads=workloads))
    usual = draw(st.sampled_from(["", "members", "private"]))
    rows = [
        replace(row, values={**row.values, "visibility": row.values["visibility"] or usual})
        for row in (first, *others)
    ]
    return StudyDefinition(
        name=draw(NAMES.map(lambda text: " ".join(text.split())).filter(bool)),
        question=draw(
            st.sampled_from(["", "What do containers cost?", rows[0].values["question"]])
        ),
        notes=draw(TEXTS.map(str.strip)),
        visibility=usual,
        groups=(),
        experiments=tuple(rows),
    )


@settings(max_examples=25, deadline=None)
@given(studies())
def test_what_is_written_is_read_as_the_same(study: StudyDefinition) -> None:
    assert parse_study(write_study_yaml(study)) == study
    assert parse_study(write_study_json(study)) == study


@settings(max_examples=25, deadline=None)
@given(studies(), studies())
def test_a_rewritten_file_says_what_it_is_to_say(
    before: StudyDefinition, after: StudyDefinition
) -> None:
    assert parse_study(rewrite_study_yaml(write_study_yaml(before), after)).says_the_same(after)


@settings(max_examples=15, deadline=None)
@given(studies())
def test_what_is_written_is_valid_by_the_schema(study: StudyDefinition) -> None:
    errors = [
        error
        for error in Draft202012Validator(build_study_schema()).iter_errors(
            json.loads(write_study_json(study))
        )
        if "scales" not in error.absolute_path and "scales" not in str(error.instance)
    ]
    assert errors == []


@given(st.integers(0, len(STUDY)), st.integers(0, 30), TEXTS)
def test_no_damaged_file_crashes_the_door(start: int, length: int, text: str) -> None:
    result = read_study(STUDY[:start] + text + STUDY[start + length :])
    assert isinstance(result, StudyDefinition) or all(row.message for row in result)


def test_an_entry_is_the_experiment_that_its_fields_and_the_common_ones_define() -> None:
    study = parse_study(STUDY)
    first, second, third = study.experiments
    assert (study.name, study.notes) == ("Containers on three machines", "For the rebuttal.")
    assert first.values["question"] == study.question == "What do containers cost?"
    assert [row.values["cluster"] for row in study.experiments] == ["hpc1", "hpc2", "hpc3"]
    assert [row.values["margin"] for row in study.experiments] == [0.02, 0.05, 0.02]
    assert [row.name for row in second.environments] == ["bare", "podman"]
    assert third.values["scales"] == ("1x2",)
    assert first.values["notes"] == ""  # those beside the entries are the study's
    alone = parse_definition(FILE)
    [entry] = parse_study(
        FILE.replace("tare: 1", "tare: 1\nstudy: one") + "experiments: [{cluster: hpc1}]"
    ).experiments
    assert isinstance(entry, Definition)
    assert entry == alone


def test_problems_name_the_line_and_the_entry() -> None:
    wrong = STUDY.replace("runtime: apptainer", "runtime: apttainer")
    wrong = wrong.replace("margin: 5 %", "margin: 5").replace("scales: [1x2]", "scale: [1x2]")
    wrong = wrong.replace("- cluster: hpc1\n    partition", "- clutser: hpc1\n    partition")
    assert list_problems(wrong) == [
        "line 15, column 5: environments[1].runtime: “apttainer” is no runtime. "
        "Is apptainer meant?",
        "line 19, column 5: experiments[0].cluster: “cluster” is missing. The cluster’s name here.",
        "line 19, column 5: experiments[0].clutser: “clutser” is not known here. Is cluster meant?",
        "line 23, column 5: experiments[1].margin: “5” has no unit: write it such as 2 %.",
        "line 30, column 21: experiments[2].scale: “scale” is not known here. Is scales meant?",
    ]


def test_what_is_missing_in_all_entries_is_said_once() -> None:
    assert list_problems("tare: 1\nstudy: a\nexperiments: [{cluster: a}, {cluster: b}]\n") == [
        "line 1, column 1: environments: “environments” is missing: a list.",
        "line 1, column 1: margin: “margin” is missing. "
        "The largest difference that still counts as the same.",
        "line 1, column 1: question: “question” is missing. What is to be answered.",
        "line 1, column 1: workloads: “workloads” is missing: a list.",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "The file is empty"),
        (b"tare: \xff", "Byte 7 is not UTF-8"),
        ("[]", "to be a table"),
        ("study: a", "The file has to begin with “tare: 1”"),
        ("tare: 2\nstudy: a", "reads the format 1, not 2"),
        ("tare: 1\nstudy: a", "“experiments” is missing"),
        ("tare: 1\nexperiments: []", "“study” is missing: the name"),
        ("tare: 1\nstudy: []\nexperiments: []", "This is to be a text: the name"),
        ("tare: 1\nstudy: ' '\nexperiments: []", "The study has no name"),
        (f"tare: 1\nstudy: {'x' * 201}\nexperiments: []", "It has 201 characters; 200 at most"),
        ("tare: 1\nstudy: a\nexperiments: []", "has no experiment"),
        ("tare: 1\nstudy: a\nexperiments: 5", "experiments: This is to be a list"),
        ("tare: 1\nstudy: a\nexperiments: [1]", "experiments[0]: This is to be a table"),
        ("tare: 1\nstudy: a\nexperiments: [" + "{}, " * 5000 + "]", "at most 50 experiments"),
        ("tare: 1\nstudy: a\nexperiments: [{tare: 1}]", "experiments[0].tare: “tare” is not known"),
        ("tare: 1\nstudy: a\nexperiments: [{experiments: []}]", "experiments[0].experiments"),
        ("tare: 1\nstudy: a\nexperiment: []", "Is experiments meant?"),
        ("tare: 1\nstudy: &a a\nexperiments: [*a]", "Aliases (*a) are not allowed"),
    ],
)
def test_odd_texts_are_refused_in_words(text: str | bytes, message: str) -> None:
    assert any(message in problem for problem in list_problems(text)), list_problems(text)


def test_a_file_says_by_its_names_what_it_is() -> None:
    assert is_study(STUDY)
    assert is_study('{"experiments": 5}')
    assert not is_study(FILE)
    assert not is_study("question: the experiments:\n")
    assert not is_study(b"\xff")


def change(study: StudyDefinition, number: int, **values: Any) -> StudyDefinition:
    rows = list(study.experiments)
    rows[number] = replace(rows[number], values={**rows[number].values, **values})
    return replace(study, experiments=tuple(rows))


def test_comments_stay_where_their_values_do() -> None:
    before = parse_study(STUDY)
    assert rewrite_study_yaml(STUDY, before) == STUDY
    after = change(before, 0, repeats=20, margin=0.03)
    after = change(replace(after, name="Two machines", notes=""), 1, margin=0.02)
    text = rewrite_study_yaml(STUDY, after)
    assert parse_study(text).says_the_same(after)
    kept = ("# Asked by referee 2.", "# the network", "# tf 2.21", "# H200", "# the last machine")
    assert all(comment in text for comment in (*kept, "# the name", "# the first machine")), text
    everywhere = before
    for number in range(3):
        everywhere = change(everywhere, number, repeats=7, margin=0.04)
    text = rewrite_study_yaml(STUDY, everywhere)
    assert parse_study(text).says_the_same(everywhere)
    assert "# the network" in text
    assert text.count("4 %") == 2  # where they stood: beside the entries, and in one of them


def test_the_schema_in_the_docs_is_the_one_that_is_served() -> None:
    Draft202012Validator.check_schema(build_study_schema())
    assert (BASE / "docs" / "study.schema.json").read_text() == write_study_schema()
    assert Study.MOST_EXPERIMENTS == MOST_EXPERIMENTS


def test_what_experiments_need_may_stand_beside_them_or_in_each() -> None:
    schema = Draft202012Validator(build_study_schema())
    document = json.loads(write_study_json(parse_study(STUDY)))
    assert schema.is_valid(document)
    del document["experiments"][0]["cluster"]
    assert not schema.is_valid(document)
    document["cluster"] = "hpc1"
    assert schema.is_valid(document)
