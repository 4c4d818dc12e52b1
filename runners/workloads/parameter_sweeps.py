"""Sweeps: several values for parameters of a workload, typed as text, and all their combinations.

A line for each parameter, `batch_size: 32, 64, 128`, or as a range, `batch_size: 32..128 x2`. Each
value passes the door that the parameter itself has, and each combination that of the workload.
Pure: text in, variants out.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice, product
from typing import Any

from runners.workloads.base import Workload
from runners.workloads.parameters import Parameter, ParameterError, Value, join_arguments

MOST_VARIANTS = 100
"""Combinations of one sweep."""
LONGEST_SWEEP = 4000
"""Characters of what is typed for one workload."""
MOST_PROBLEMS = 5
SHORT = 32
"""Characters of a value in the name of a variant."""
NOT_SWEPT = {"files", "metrics"}

LINE = re.compile(r"([^:=]{1,100})[:=](.*)", re.DOTALL)
NUMBER = r"[+-]?\d{1,30}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?"
RANGE = re.compile(rf"({NUMBER})\s*\.\.\s*({NUMBER})\s*(?:([x×*+])\s*({NUMBER}))?", re.ASCII)
QUOTED = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)')\s*(?:,|$)""")


class SweepError(ValueError):
    """A sweep that makes no variants; `messages` are sentences that say why."""

    def __init__(self, messages: Sequence[str]) -> None:
        super().__init__(" ".join(messages))
        self.messages = list(messages)


@dataclass(frozen=True)
class Axis:
    """One parameter with its values, in the order in which they were typed."""

    parameter: Parameter
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Variant:
    """One combination: the values that it sets, and all parameters of the workload with them."""

    values: Mapping[str, Value]
    parameters: Mapping[str, Value]

    @property
    def key(self) -> str:
        """Return a text that two variants share only if they set the same values."""
        return make_key(self.values)

    @property
    def label(self) -> str:
        """Return what sets the variant apart, such as "batch_size=64 precision=fp16"."""
        return " ".join(f"{name}={_write(value)}" for name, value in self.values.items())

    @property
    def order(self) -> str:
        """Return a text that sorts as the values do, numbers as numbers."""
        return " ".join(f"{name}={_write_in_order(value)}" for name, value in self.values.items())


def make_key(values: Mapping[str, Any]) -> str:
    """Return a text that stands for these values of parameters, in any order."""
    return json.dumps(values, sort_keys=True)


def expand_sweep(
    text: str, kind: type[Workload], parameters: Mapping[str, object]
) -> list[Variant]:
    """Return a variant for each combination of the typed values, the last parameter fastest.

    `parameters` are those of the workload, which each variant keeps where the sweep sets no other.
    Raises SweepError. Text without a line makes no variants.
    """
    axes = read_axes(text, kind)
    if not axes:
        return []
    count = math.prod(len(axis.values) for axis in axes)
    if count > MOST_VARIANTS:
        numbers = " x ".join(str(len(axis.values)) for axis in axes)
        many = (
            f"{numbers} values are {count:,} combinations" if len(axes) > 1 else f"{count} values"
        )
        raise SweepError([f"{many}; at most {MOST_VARIANTS} are allowed."])
    variants: list[Variant] = []
    problems: list[str] = []
    names = [axis.parameter.name for axis in axes]
    for combination in product(*(axis.values for axis in axes)):
        values = dict(zip(names, combination, strict=True))
        try:
            variants.append(Variant(values, kind.clean({**parameters, **values})))
        except ParameterError as error:
            label = Variant(values, {}).label
            problems += [
                f"With {label}, {name} {_shorten(message, 300)}."
                for name, message in error.messages.items()
            ]
    if problems:
        raise SweepError(_limit(problems))
    return variants


def read_axes(text: str, kind: type[Workload]) -> list[Axis]:
    """Return the parameters of a sweep with their values. Raises SweepError."""
    if len(text) > LONGEST_SWEEP:
        raise SweepError([f"A sweep has at most {LONGEST_SWEEP} characters; this has {len(text)}."])
    axes: dict[str, Axis] = {}
    problems: list[str] = []
    for line in filter(str.strip, text.splitlines()):
        match = LINE.fullmatch(line.strip())
        if not match:
            problems.append(
                f"“{_shorten(line.strip())}” is no parameter with values: write one parameter a "
                "line, such as batch_size: 32, 64, 128."
            )
            continue
        try:
            parameter = _find_parameter(match[1].strip(), kind)
            if parameter.name in axes:
                raise ValueError(f"{parameter.name} is there twice: write its values in one line.")
            axes[parameter.name] = Axis(parameter, tuple(_read_values(parameter, match[2])))
        except SweepError as error:
            problems += error.messages
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise SweepError(_limit(problems))
    return list(axes.values())


def list_swept_parameters(kind: type[Workload]) -> list[Parameter]:
    """Return the parameters of a kind that a sweep may vary."""
    return [parameter for parameter in kind.parameters if parameter.type not in NOT_SWEPT]


def _find_parameter(typed: str, kind: type[Workload]) -> Parameter:
    """Return the parameter of this name, or of this label of the form."""
    wanted = _simplify(typed)
    for parameter in kind.parameters:
        if wanted in (_simplify(parameter.name), _simplify(parameter.label or parameter.name)):
            if parameter.type in NOT_SWEPT:
                raise ValueError(f"{parameter.name} cannot be varied: make a workload for each.")
            return parameter
    names = [parameter.name for parameter in list_swept_parameters(kind)]
    near = difflib.get_close_matches(wanted, names, n=1)
    cure = f"Is {near[0]} meant?" if near else f"There are {', '.join(names)}."
    raise ValueError(f"{kind.kind} has no parameter “{_shorten(typed)}”. {cure}")


def _simplify(name: str) -> str:
    return re.sub(r"[\s_-]+", "_", name.strip().lower())


def _read_values(parameter: Parameter, text: str) -> list[Value]:
    """Return the values of one line, each as the parameter's own rule returns it."""
    values: dict[str, Value] = {}
    problems: list[str] = []
    texts = list(islice(_list_values(parameter, text), MOST_VARIANTS + 1))
    if len(texts) > MOST_VARIANTS:
        raise ValueError(f"{parameter.name} has more than {MOST_VARIANTS} values.")
    for typed in texts:
        try:
            value = parameter.clean(_prepare(parameter, typed))
        except ValueError as error:
            problems.append(f"{parameter.name} {_shorten(str(error), 300)}.")
            continue
        key = json.dumps(value)
        if key in values:
            problems.append(f"{parameter.name} has {_write(value)} twice.")
        values[key] = value
    if problems:
        raise SweepError(_limit(problems))
    if not values:
        raise ValueError(f"{parameter.name} has no values: write some, with commas between.")
    return list(values.values())


def _list_values(parameter: Parameter, text: str) -> Iterator[str]:
    """Yield the values between commas, those of a range one by one. Raises ValueError."""
    for typed in _split(text):
        match = RANGE.fullmatch(typed) if parameter.type in ("integer", "number") else None
        if match:
            yield from _list_range(parameter, typed, *match.groups())
        else:
            yield typed


def _list_range(
    parameter: Parameter, typed: str, start: str, end: str, sign: str | None, step: str | None
) -> Iterator[str]:
    """Yield the numbers of a range, its end included where a step leads to it."""
    value, last = Decimal(start), Decimal(end)
    if step is None and parameter.type == "number":
        raise ValueError(f"{parameter.name}: {typed} needs a step, {typed} +0.1 or {typed} x2.")
    by = Decimal(step or 1)
    if value > last:
        raise ValueError(f"{parameter.name}: {typed} is empty. Write the smaller number first.")
    is_product = sign not in (None, "+")
    if by <= (1 if is_product else 0) or (is_product and value <= 0):
        cure = "a factor above 1 and a start above 0" if is_product else "a step above 0"
        raise ValueError(f"{parameter.name}: {typed} never ends. It needs {cure}.")
    while value <= last:
        yield _write_decimal(value)
        value = value * by if is_product else value + by


def _write_decimal(value: Decimal) -> str:
    """Return a number as somebody would type it: a whole one without a point."""
    return str(int(value)) if value == value.to_integral_value() else str(value.normalize())


def _split(text: str) -> Iterator[str]:
    """Yield the values between commas; one in quotes may have commas in it."""
    position = 0
    while position < len(text):
        match = QUOTED.match(text, position)
        if match:
            yield match[1] if match[1] is not None else match[2]
            position = match.end()
            continue
        end = text.find(",", position)
        end = len(text) if end < 0 else end
        if value := text[position:end].strip():
            yield value
        position = end + 1


def _prepare(parameter: Parameter, typed: str) -> object:
    """Return a typed value in the spelling that the parameter's rule knows."""
    if parameter.type == "flag":
        return {"yes": True, "true": True, "no": False, "false": False}.get(typed.lower(), typed)
    if parameter.type == "choice" and typed == "none" and "none" not in parameter.choices:
        return ""
    return typed


def _write(value: Value) -> str:
    """Return a value as the name of a variant has it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.12g}"
    text = join_arguments(value) if _is_words(value) else str(value)  # type: ignore[arg-type]
    return _shorten(text, SHORT) if text else "none"


def _is_words(value: Value) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _write_in_order(value: Value) -> str:
    """Return a text that sorts as the value does: a number as 16 hexadecimal digits."""
    if isinstance(value, str | list | dict):
        return _write(value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    (bits,) = struct.unpack(">Q", struct.pack(">d", number))
    negative = bits >> 63
    return f"{bits ^ (2**64 - 1 if negative else 2**63):016x}"


def _shorten(text: str, length: int = 60) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _limit(problems: Sequence[str]) -> list[str]:
    """Return the first problems, each once, and how many more there are."""
    once = list(dict.fromkeys(problems))
    rest = len(once) - MOST_PROBLEMS
    return once if rest <= 1 else [*once[:MOST_PROBLEMS], f"And {rest} more like these."]
