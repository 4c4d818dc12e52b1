"""What a researcher may set, and the words in which a wrong value is refused."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Value = int | float | str


class ParameterError(ValueError):
    """Parameters that cannot be run; `messages` says why for each name."""

    def __init__(self, messages: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {text}" for name, text in messages.items()))
        self.messages = dict(messages)


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One thing that may be set. The bounds are inclusive."""

    name: str
    type: Literal["integer", "number", "choice"]
    default: Value
    help: str
    minimum: float = -math.inf
    maximum: float = math.inf
    choices: tuple[str, ...] = ()
    unit: str = ""

    def clean(self, given: object) -> Value:
        """The value as the program gets it; text as a form sends it is understood.

        Raises ValueError with a message that names the limit and what was given.
        """
        if self.type == "choice":
            if given not in self.choices:
                raise ValueError(f"must be one of {', '.join(self.choices)}; got {given!r}")
            return str(given)
        unit = f" {self.unit}" if self.unit else ""
        try:
            number = self._number(given)
        except (ValueError, OverflowError):
            kind = "a whole number" if self.type == "integer" else "a number"
            raise ValueError(f"must be {kind}{unit and f' of{unit}'}; got {given!r}") from None
        if not self.minimum <= number <= self.maximum:
            limits = f"from {self.minimum:.12g} to {self.maximum:.12g}{unit}"
            raise ValueError(f"must be {limits}; got {given!r}")
        return number

    def _number(self, given: object) -> int | float:
        if isinstance(given, bool) or not isinstance(given, int | float | str):
            raise ValueError
        if self.type == "number":
            return float(given)
        number = int(given)
        if isinstance(given, float) and number != given:
            raise ValueError
        return number


def clean(parameters: tuple[Parameter, ...], given: Mapping[str, object]) -> dict[str, Value]:
    """A value for each parameter: what was given, checked, else its default.

    Raises ParameterError with a message for each name that is wrong or unknown.
    """
    known = {parameter.name: parameter for parameter in parameters}
    messages = {
        str(name): f"there is no such parameter; there are {', '.join(known)}"
        for name in given
        if name not in known
    }
    cleaned: dict[str, Value] = {}
    for name, parameter in known.items():
        try:
            cleaned[name] = parameter.clean(given.get(name, parameter.default))
        except ValueError as error:
            messages[name] = str(error)
    if messages:
        raise ParameterError(messages)
    return cleaned
