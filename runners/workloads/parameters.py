"""The parameters of workloads: what may be set, how it is checked, and messages if it is wrong."""

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Value = bool | int | float | str | list[str] | dict[str, str] | list[dict[str, str]]


def join_arguments(arguments: Sequence[str]) -> str:
    """Join arguments as a person types them: quoted only if a shell would change them."""
    return " ".join(
        argument if argument and not re.search(r"[\s'\"\\]", argument) else shlex.quote(argument)
        for argument in arguments
    )


class ParameterError(ValueError):
    """Parameters that cannot be run; `messages` says why for each name."""

    def __init__(self, messages: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {text}" for name, text in messages.items()))
        self.messages = dict(messages)


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a workload. The bounds are inclusive."""

    name: str
    type: Literal["integer", "number", "choice", "flag", "text", "words", "files", "metrics"]
    default: Value
    help: str
    minimum: float = -math.inf
    maximum: float = math.inf
    choices: tuple[str, ...] = ()
    unit: str = ""
    longest: int = 500  # characters of a text, or of all words together
    group: str = ""  # the heading under which a form shows it
    label: str = ""  # if it differs from the name with spaces for underscores
    when: tuple[str, tuple[str, ...]] | None = None
    """Another parameter and those of its values for which this one has a meaning."""

    def clean(self, value: object) -> Value:
        """Return the value as the program gets it, also from text as a form sends it.

        Raises ValueError with a message that names the limit and the value.
        """
        if self.type == "choice":
            if value not in self.choices:
                raise ValueError(f"must be one of {', '.join(self.choices)}; got {value!r}")
            return str(value)
        if self.type == "flag":
            return self._parse_flag(value)
        if self.type == "text":
            return self._parse_text(value)
        if self.type == "words":
            return self._parse_words(value)
        unit = f" {self.unit}" if self.unit else ""
        try:
            number = self._parse_number(value)
        except (ValueError, OverflowError):
            kind = "a whole number" if self.type == "integer" else "a number"
            raise ValueError(f"must be {kind}{unit and f' of{unit}'}; got {value!r}") from None
        if not self.minimum <= number <= self.maximum or number in (math.inf, -math.inf):
            limits = f"from {self.minimum:.12g} to {self.maximum:.12g}{unit}"
            raise ValueError(f"must be {limits}; got {value!r}")
        return number

    def describe(self, value: Any) -> str:
        """Return the value as pages show it; empty if it is shown like others of its type."""
        return ""

    def _parse_flag(self, value: object) -> bool:
        known = {True: True, False: False, "yes": True, "no": False, "True": True, "False": False}
        if isinstance(value, bool | str) and value in known:
            return known[value]
        raise ValueError(f"must be yes or no; got {value!r}")

    def _parse_text(self, value: object) -> str:
        if not isinstance(value, str):
            raise ValueError(f"must be a text; got {value!r}")
        if not value.isprintable():
            raise ValueError("must be one line without control characters")
        if len(value) > self.longest:
            raise ValueError(f"must have at most {self.longest} characters; it has {len(value)}")
        return value

    def _parse_words(self, value: object) -> list[str]:
        """Return a list of words; text is split as a shell splits it, with nothing expanded."""
        if isinstance(value, str):
            try:
                value = shlex.split(value)
            except ValueError as error:
                raise ValueError(f"cannot be split into words: {error}") from None
        if not isinstance(value, list | tuple):
            raise ValueError(f"must be words; got {value!r}")
        arguments = [self._parse_text(argument) for argument in value]
        if sum(map(len, arguments)) > self.longest:
            raise ValueError(f"must have at most {self.longest} characters")
        return arguments

    def _parse_number(self, value: object) -> int | float:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        if self.type == "number":
            return float(value)
        number = int(value)
        if isinstance(value, float) and number != value:
            raise ValueError
        return number


def clean_parameters(
    parameters: tuple[Parameter, ...], values: Mapping[str, object]
) -> dict[str, Value]:
    """Return a value for each parameter: the one in `values`, checked, else its default.

    Raises ParameterError with a message for each name that is wrong or unknown.
    """
    known = {parameter.name: parameter for parameter in parameters}
    messages = {
        str(name): f"there is no such parameter; there are {', '.join(known)}"
        for name in values
        if name not in known
    }
    cleaned: dict[str, Value] = {}
    for name, parameter in known.items():
        try:
            cleaned[name] = parameter.clean(values.get(name, parameter.default))
        except ValueError as error:
            messages[name] = str(error)
    if messages:
        raise ParameterError(messages)
    return cleaned
