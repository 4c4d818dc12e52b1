"""What can go wrong, as sentences for a person. None of them ever has a token in it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tare_client.exit_codes import INTERRUPTED, REFUSED, USAGE


@dataclass(frozen=True)
class FieldProblem:
    """What is wrong at one place of what was sent."""

    field: str
    message: str
    line: int | None = None
    column: int | None = None

    def locate(self, file: str) -> str:
        """Return the problem as compilers print one: `experiment.yaml:12:3: environments: ...`."""
        places = [file]
        if self.line is not None:
            places.append(str(self.line))
            if self.column is not None:
                places.append(str(self.column))
        field = f"{self.field}: " if self.field else ""
        return f"{':'.join(places)}: {field}{self.message}"


class TareError(Exception):
    """Something went wrong; `str` of it is a sentence that says what to do."""

    exit_code = REFUSED

    def describe(self) -> dict[str, Any]:
        """Return the error as JSON has it."""
        return {"error": str(self), "exit_code": self.exit_code}


class UsageError(TareError):
    """The command or the function was called wrongly: nothing was sent."""

    exit_code = USAGE


class NotReachable(TareError):
    """The site did not answer, or its answer was cut off, each time that it was asked."""


class Interrupted(TareError):
    """A person has stopped the command while it waited for an answer."""

    exit_code = INTERRUPTED


class NotTrusted(NotReachable):
    """The certificate of the site is not one that this machine trusts: nothing was sent."""


class UnexpectedAnswer(TareError):
    """Something answered that is not Tare's API."""


class Refused(TareError):
    """The site answered, and its answer is no."""

    def __init__(
        self,
        detail: str,
        *,
        status: int,
        title: str = "",
        problems: tuple[FieldProblem, ...] = (),
        retry_after: float | None = None,
        type: str = "",  # noqa: A002  (its name in RFC 9457)
    ) -> None:
        super().__init__(detail)
        self.status, self.title, self.problems = status, title, problems
        self.retry_after, self.type = retry_after, type

    def describe(self) -> dict[str, Any]:
        """Return the error as JSON has it, with its problems."""
        problems = [asdict(problem) for problem in self.problems]
        return {**super().describe(), "status": self.status, "problems": problems}
