"""`tare follow`: how far an experiment is, until its verdict."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

from tare_client.client import Client
from tare_client.command_parser import StudyKey
from tare_client.commands.account import connect
from tare_client.commands.numbers import print_comparison
from tare_client.errors import NotReachable, Refused
from tare_client.exit_codes import NO_VERDICT
from tare_client.retries import PASSING
from tare_client.studies import StudyProgress
from tare_client.terminal import (
    clean_text,
    print_json,
    print_line,
    printing_verdict,
    split_by_width,
)
from tare_client.values import Progress

Answer = TypeVar("Answer")
Followed = TypeVar("Followed", Progress, StudyProgress)
EVERY_SECONDS, EVERY_SECONDS_IN_LOGS = 2.0, 10.0
LONGEST_SILENCE = 1800.0
"""A site that is restarted or upgraded meanwhile is waited for, in seconds."""
BAR, TAIL_LINES = 30, 5


def run_follow(arguments: argparse.Namespace) -> int:
    """Follow an experiment or a study; the exit code is that of its verdict."""
    client = connect(arguments)
    if isinstance(arguments.id, StudyKey):
        from tare_client.commands.studies import follow_study

        return follow_study(client, arguments.id, arguments)
    return follow(client, arguments.id, arguments)


def follow(client: Client, key: int, arguments: argparse.Namespace) -> int:
    """Show an experiment's progress until it has ended; return the exit code of its verdict."""
    on_terminal = sys.stdout.isatty() and not arguments.json
    every = choose_pause(arguments, on_terminal=on_terminal)
    with_tail = not getattr(arguments, "no_tail", False)
    shown: Shown = (
        JsonLines() if arguments.json else Screen(with_tail) if on_terminal else PlainLines()
    )
    progress = wait_for_end(lambda: client.progress(key), shown, every)
    shown.end()
    try:
        comparison = ask_patiently(lambda: client.comparison(key), PlainLines(), every)
    except Refused as error:
        if error.status not in (404, 409):
            raise
        if arguments.json:
            print_json({"exit_word": "failed", "state": progress.state}, indent=None)
        else:
            print_line(f"Experiment {key} ended without a verdict: {progress.state}.")
        return NO_VERDICT
    with printing_verdict():
        if arguments.json:
            print_json(
                {"exit_word": comparison.exit_word, "sentences": list(comparison.sentences)},
                indent=None,
            )
        else:
            print_comparison(comparison)
    return comparison.exit_code


def choose_pause(arguments: argparse.Namespace, *, on_terminal: bool) -> float:
    """Return the seconds between two questions: those that were asked for, or the usual ones."""
    return arguments.every or (EVERY_SECONDS if on_terminal else EVERY_SECONDS_IN_LOGS)


def wait_for_end(ask: Callable[[], Followed], shown: Shown, every: float) -> Followed:
    """Show each state that `ask` returns until it has ended; return the last one."""
    while True:
        progress = ask_patiently(ask, shown, every)
        shown.show(progress)
        if not progress.is_alive:
            return progress
        time.sleep(every)


def ask_patiently(ask: Callable[[], Answer], shown: Shown, every: float) -> Answer:
    """Return what the site answers; one that does not is asked again for half an hour.

    Raises TareError.
    """
    began_at = time.monotonic()
    while True:
        try:
            return ask()
        except (NotReachable, Refused) as error:
            is_passing = isinstance(error, NotReachable) or error.status in PASSING
            if not is_passing or time.monotonic() - began_at > LONGEST_SILENCE:
                raise
            shown.remark(f"{error} Asking again.")
        time.sleep(every)


class Shown:
    """A way to show progress."""

    def show(self, progress: Any) -> None:
        """Show a state: a Progress, or the StudyProgress of a study."""

    def remark(self, sentence: str) -> None:
        """Say what does not go as it should."""
        print_line(sentence, file=sys.stderr)

    def end(self) -> None:
        """Leave room for the verdict."""


class JsonLines(Shown):
    """One line of JSON for each state that is another one than before."""

    def __init__(self) -> None:
        self._last: object = None

    def show(self, progress: Progress | StudyProgress) -> None:
        """Print the state as the site sent it."""
        if progress.raw != self._last:
            self._last = progress.raw
            print_json(dict(progress.raw), indent=None)


class PlainLines(Shown):
    """One line for each change: for logs of other programs."""

    def __init__(self) -> None:
        self._last, self._problems = "", ""

    def show(self, progress: Progress) -> None:
        """Print a line where the counts have changed, and problems that are new."""
        line = f"{progress.state}: {describe_counts(progress)}"
        if line != self._last:
            self._last = line
            print_line(line + describe_rest(progress))
        problems = " ".join(progress.problems)
        if problems != self._problems:
            self._problems = problems
            if problems:
                print_line(problems)
        sys.stdout.flush()


class Screen(Shown):
    """A bar, what runs now, and the last lines of its output, drawn over again."""

    def __init__(self, with_tail: bool) -> None:
        self._with_tail, self._n_lines, self._remark = with_tail, 0, ""

    def show(self, progress: Progress) -> None:
        """Draw the state over the one before."""
        self._remark = ""
        self._draw(list_screen_lines(progress, with_tail=self._with_tail))

    def remark(self, sentence: str) -> None:
        """Draw a remark below the last state, once."""
        if sentence != self._remark:
            self._remark = sentence
            lines = split_by_width(clean_text(sentence), measure_screen()[0])
            sys.stdout.write("".join(f"{line}\n" for line in lines))
            self._n_lines += len(lines)
            sys.stdout.flush()

    def _draw(self, lines: list[str]) -> None:
        width, n_lines = measure_screen()
        del lines[n_lines:]  # what has scrolled away cannot be drawn over
        if self._n_lines:
            sys.stdout.write(f"\x1b[{self._n_lines}A\x1b[J")
        sys.stdout.write("".join(f"{split_by_width(line, width)[0]}\n" for line in lines))
        self._n_lines = len(lines)
        sys.stdout.flush()


def measure_screen() -> tuple[int, int]:
    """Return how many places a line of the terminal has, and how many lines there are, less one."""
    width, height = shutil.get_terminal_size()
    return max(1, width - 1), max(1, height - 1)


def list_screen_lines(progress: Progress, *, with_tail: bool) -> list[str]:
    """Return what a screen shows of a state, made safe for a terminal."""
    share = progress.n_ended / progress.n_runs if progress.n_runs else 0.0
    full = min(BAR, round(BAR * share))
    lines = [
        f"[{'#' * full}{'-' * (BAR - full)}] {share:.0%}  {describe_counts(progress)}"
        f"{describe_rest(progress)}",
        f"State: {progress.state}",
    ]
    for run in progress.running[:8]:
        steps = f", step {run.step} of {run.of_steps}" if run.of_steps else ""
        lines.append(f"  {run.environment}: {run.phase or 'running'}{steps}")
        if with_tail:
            tail = run.output_tail.splitlines()[-TAIL_LINES:]
            lines.extend(f"    | {line}" for line in tail)
    if len(progress.running) > 8:
        lines.append(f"  and {len(progress.running) - 8} more")
    lines.extend(progress.problems)
    return [clean_text(line) for line in lines]


def describe_counts(progress: Progress) -> str:
    """Return "12 of 20 runs ended, 2 running, 1 failed"."""
    text = f"{progress.n_ended} of {progress.n_runs} runs ended"
    named = [(n, state) for state, n in progress.runs.items() if n and state != "planned"]
    return ", ".join([text, *(f"{n} {state}" for n, state in named)])


def describe_rest(progress: Progress) -> str:
    """Return ", about 12 min left", or nothing where nobody can say."""
    if progress.seconds_left is None or not progress.is_alive:
        return ""
    minutes = progress.seconds_left / 60
    text = f"{minutes / 60:.1f} h" if minutes >= 90 else f"{max(1, round(minutes))} min"
    return f", about {text} left"
