"""What a researcher may set, and the words in which a wrong value is refused."""

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Value = bool | int | float | str | list[str] | dict[str, str] | list[dict[str, str]]


def joined(words: Sequence[str]) -> str:
    """Words as a person types them: only what would be taken apart or away is quoted."""
    return " ".join(
        word if word and not re.search(r"[\s'\"\\]", word) else shlex.quote(word) for word in words
    )


class ParameterError(ValueError):
    """Parameters that cannot be run; `messages` says why for each name."""

    def __init__(self, messages: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {text}" for name, text in messages.items()))
        self.messages = dict(messages)


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One thing that may be set. The bounds are inclusive."""

    name: str
    type: Literal["integer", "number", "choice", "flag", "text", "words", "files", "metrics"]
    default: Value
    help: str
    minimum: float = -math.inf
    maximum: float = math.inf
    choices: tuple[str, ...] = ()
    unit: str = ""
    longest: int = 500  # characters of a text, or of all words together
    group: str = ""  # what a form puts together under one heading
    label: str = ""  # where the name with spaces for underscores would not do
    when: tuple[str, tuple[str, ...]] | None = None
    """Another parameter and those of its values with which this one means anything."""

    def clean(self, given: object) -> Value:
        """The value as the program gets it; text as a form sends it is understood.

        Raises ValueError with a message that names the limit and what was given.
        """
        if self.type == "choice":
            if given not in self.choices:
                raise ValueError(f"must be one of {', '.join(self.choices)}; got {given!r}")
            return str(given)
        if self.type == "flag":
            return self._flag(given)
        if self.type == "text":
            return self._text(given)
        if self.type == "words":
            return self._words(given)
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

    def in_words(self, value: Any) -> str:
        """The value as pages show it; empty where that is as any of its type."""
        return ""

    def _flag(self, given: object) -> bool:
        known = {True: True, False: False, "yes": True, "no": False, "True": True, "False": False}
        if isinstance(given, bool | str) and given in known:
            return known[given]
        raise ValueError(f"must be yes or no; got {given!r}")

    def _text(self, given: object) -> str:
        if not isinstance(given, str):
            raise ValueError(f"must be a text; got {given!r}")
        if not given.isprintable():
            raise ValueError("must be one line without control characters")
        if len(given) > self.longest:
            raise ValueError(f"must have at most {self.longest} characters; it has {len(given)}")
        return given

    def _words(self, given: object) -> list[str]:
        """A list of words, or text that is split as a shell splits it; nothing is expanded."""
        if isinstance(given, str):
            try:
                given = shlex.split(given)
            except ValueError as error:
                raise ValueError(f"cannot be split into words: {error}") from None
        if not isinstance(given, list | tuple):
            raise ValueError(f"must be words; got {given!r}")
        words = [self._text(word) for word in given]
        if sum(map(len, words)) > self.longest:
            raise ValueError(f"must have at most {self.longest} characters")
        return words

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
