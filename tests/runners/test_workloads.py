"""Parameters: what a form sends is understood, and what cannot run is refused in words."""

import json
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.workloads import (
    OTHER_SEEDS,
    WORKLOADS,
    Parameter,
    ParameterError,
    Workload,
    choose_repeat_seed,
)
from runners.workloads.page_cache import PREPARED

# `command` says nothing of its own before somebody has named a program: see test_command.py.
OURS = {kind: workload for kind, workload in WORKLOADS.items() if kind != "command"}
workloads = pytest.mark.parametrize("workload", OURS.values(), ids=OURS)
anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers())
)


TYPES = {"integer": int, "number": float, "flag": bool, "choice": str, "text": str, "words": list}


def typed(value: Any) -> str:
    """What a person types for a value."""
    return shlex.join(value) if isinstance(value, list) else str(value)


def valid(parameter: Parameter) -> st.SearchStrategy[Any]:
    if parameter.type == "choice":
        return st.sampled_from(parameter.choices)
    if parameter.type == "flag":
        return st.booleans()
    printable = st.text(st.characters(categories=("L", "N", "P", "Zs")), max_size=20)
    if parameter.type == "text":
        return printable.filter(str.isprintable)
    if parameter.type == "words":
        return st.lists(printable.filter(str.isprintable), max_size=3)
    if parameter.type == "integer":
        return st.integers(int(parameter.minimum), int(parameter.maximum))
    return st.floats(parameter.minimum, parameter.maximum)


@workloads
def test_the_defaults_are_complete_and_valid(workload: type[Workload]) -> None:
    cleaned = workload.clean({})
    names = [parameter.name for parameter in workload.parameters if parameter != PREPARED]
    assert list(cleaned) == names, "a page cache that stays as it is is left out"
    assert all(parameter.help.endswith(".") for parameter in workload.parameters)
    assert workload.primary in {metric.name for metric in workload.metrics}
    assert workload.kind in WORKLOADS


@workloads
@given(data=st.data())
def test_text_from_a_form_means_the_value_it_shows(
    workload: type[Workload], data: st.DataObject
) -> None:
    values = {parameter.name: data.draw(valid(parameter)) for parameter in workload.parameters}
    if {"burn_in", "steps"} <= set(values):
        values["burn_in"] %= values["steps"]
    cleaned = workload.clean(values)
    usual = {PREPARED.name: PREPARED.default}
    assert usual | cleaned == usual | values
    assert workload.clean({name: typed(value) for name, value in values.items()}) == cleaned
    assert workload.clean(json.loads(json.dumps(cleaned))) == cleaned
    assert [type(value) for value in workload.clean(cleaned).values()] == [
        TYPES[parameter.type] for parameter in workload.parameters if parameter.name in cleaned
    ]


@workloads
@given(data=st.data())
def test_whatever_is_given_runs_or_is_refused_at_its_name(
    workload: type[Workload], data: st.DataObject
) -> None:
    names = [parameter.name for parameter in workload.parameters]
    given = data.draw(st.dictionaries(st.sampled_from(names) | st.text(), anything, max_size=4))
    refused: set[str] = set()
    try:
        cleaned = workload.clean(given)
    except ParameterError as error:
        refused = set(error.messages)
    assert refused <= {*given, "burn_in"}
    if not refused:
        if {"burn_in", "steps"} <= set(cleaned):
            assert cleaned["burn_in"] < cleaned["steps"]
        for parameter in workload.parameters:
            value = cleaned.get(parameter.name, parameter.default)
            assert type(value) is TYPES[parameter.type]
            if parameter.type == "choice":
                assert value in parameter.choices
            elif parameter.type in {"integer", "number"}:
                assert parameter.minimum <= value <= parameter.maximum
        json.dumps(cleaned, allow_nan=False)


@pytest.mark.parametrize(
    ("given", "messages"),
    [
        (
            {"batch_size": "0"},
            {"batch_size": "must be from 1 to 65536 images; got '0'"},
        ),
        (
            {"image_size": "32.5"},
            {"image_size": "must be a whole number of pixels; got '32.5'"},
        ),
        ({"steps": 2.5}, {"steps": "must be a whole number; got 2.5"}),
        ({"steps": True}, {"steps": "must be a whole number; got True"}),
        ({"steps": "9" * 5000}, {"steps": f"must be a whole number; got '{'9' * 5000}'"}),
        ({"learning_rate": "fast"}, {"learning_rate": "must be a number; got 'fast'"}),
        ({"learning_rate": "nan"}, {"learning_rate": "must be from 0 to 1000000000; got 'nan'"}),
        (
            {"precision": "float16"},
            {"precision": "must be one of float32, mixed_float16, mixed_bfloat16; got 'float16'"},
        ),
        (
            {"steps": "10", "burn_in": 10},
            {"burn_in": "must be less than the 10 steps in all; it is 10"},
        ),
        (
            {"batch": 1, "seed": -1},
            {
                "batch": "there is no such parameter; there are "
                + ", ".join(parameter.name for parameter in WORKLOADS["cnn"].parameters),
                "seed": "must be from 0 to 4294967295; got -1",
            },
        ),
    ],
)
def test_a_refusal_names_the_parameter_the_limit_and_the_value(
    given: dict[str, object], messages: dict[str, str]
) -> None:
    with pytest.raises(ParameterError) as refusal:
        WORKLOADS["cnn"].clean(given)
    assert refusal.value.messages == messages
    for name, text in messages.items():
        assert f"{name}: {text}" in str(refusal.value)


SEEDED = [
    kind for kind in OURS if "seed" in {parameter.name for parameter in WORKLOADS[kind].parameters}
]


@given(st.integers(0, 2**32 - 1), st.integers(1, 10_000), st.sampled_from(SEEDED))
def test_a_seed_stays_or_goes_on_from_repeat_to_repeat(seed: int, repeat: int, kind: str) -> None:
    kept = WORKLOADS[kind].clean({"seed": seed})
    assert choose_repeat_seed(kept, repeat) == kept
    other = WORKLOADS[kind].clean({"seed": seed, "seeds": OTHER_SEEDS})
    assert choose_repeat_seed(other, 1) == other
    following = choose_repeat_seed(other, repeat + 1)
    assert following == {**other, "seed": (seed + repeat) % 2**32}
    assert WORKLOADS[kind].clean(following) == following, "it is a seed that may be asked for"


@pytest.mark.parametrize("parameters", [{}, {"seeds": OTHER_SEEDS}, {"steps": 3, "seed": 1}])
def test_parameters_without_a_choice_of_seeds_stay_as_they_are(parameters: dict[str, Any]) -> None:
    assert choose_repeat_seed(parameters, 7) == parameters


@workloads
def test_the_command_is_the_same_program_for_every_workload(workload: type[Workload]) -> None:
    assert workload.build_argv("/opt/my python", "/jobs/1/payload", "/jobs/1/runs/0-ä b") == [
        "/opt/my python",
        "/jobs/1/payload/main.py",
        "/jobs/1/runs/0-ä b/spec.json",
    ]
