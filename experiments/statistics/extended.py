"""What a comparison knows of an extension: the repeats that were added after its first verdict."""

from dataclasses import dataclass

from experiments.statistics import numbers


@dataclass(frozen=True, kw_only=True)
class Extended:
    """An extension as one pair has it.

    The error rates are those of the first verdict at 5 % and of the one after the extension
    together (`extension_levels.compute_error_rates`); None where that one is not judged, or has no
    value more than the first.
    """

    planned: int
    """How many repeats the plan had."""
    added: int
    level: float
    """The two-sided level of the verdict after the extension."""
    error_difference: float | None = None
    error_goal: float | None = None

    def describe_judgement(self, number: int, *, is_open: bool) -> str:
        """Return which of both judgements a verdict is of, as a sentence; "" if it is neither."""
        planned = numbers.count(self.planned, "planned repeat")
        added = numbers.count(self.added, "repeat")
        if number == 1:
            return f"{'This was' if is_open else 'Decided'} after {planned}, before its extension."
        if number == 0:
            return ""
        return (
            f"{'This was' if is_open else 'Decided'} after an extension by {added} that was not "
            f"planned, at the level {self.level:g}."
        )

    def describe_reservation(self, shown: str, detected: str) -> str:
        """Return the reason of the stamp.

        `shown` is the word for what was to be shown, such as "equivalent", and `detected` those for
        a difference, such as "slower or faster".
        """
        reason = (
            f"After {numbers.count(self.planned, 'planned repeat')} the verdict was open, and "
            f"{numbers.count(self.added, 'repeat')} {'was' if self.added == 1 else 'were'} added, "
            f"which the plan did not have. All are judged at the level {self.level:g}."
        )
        if self.error_difference is None or self.error_goal is None:
            return f"{reason} None of those that were added counts here."
        of_difference, of_goal = (
            numbers.percent(error, decimals=1) for error in (self.error_difference, self.error_goal)
        )
        return (
            f"{reason} Both verdicts together are wrong more often than one at 0.05: a ratio of 1 "
            f"is called {detected} in {of_difference} of experiments, and a ratio at the margin "
            f"{shown} in {of_goal}."
        )
