"""What the commands do with studies: `tare launch` of their files, `study:ID`, `list --studies`."""

from __future__ import annotations

import argparse
import hashlib
import sys

from tare_client.client import Client
from tare_client.commands.following import (
    JsonLines,
    Screen,
    Shown,
    choose_pause,
    describe_counts,
    describe_rest,
    list_screen_lines,
    wait_for_end,
)
from tare_client.commands.launching import FileOptions, explaining_how_to_ask_again
from tare_client.commands.numbers import print_comparison
from tare_client.errors import Refused, UsageError
from tare_client.exit_codes import choose_exit_code, choose_gravest_word
from tare_client.studies import MemberProgress, Study, StudyProgress
from tare_client.terminal import clean_text, format_table, measure_width, print_json, print_line


def launch_study(
    client: Client, definition: bytes, options: FileOptions, arguments: argparse.Namespace
) -> int:
    """Make a study of a file, launch it, and follow it where that is asked for."""
    # A key of its own: the file was sent to the address of experiments with the other one, and
    # will be again, when the same command comes a second time.
    key = hashlib.sha256(f"study {arguments.key}".encode()).hexdigest()
    with explaining_how_to_ask_again(arguments):
        study = client.create_study(definition, launch=not arguments.draft, key=key, **options)
    address = client.find_page(study)
    count = len(study.experiments)
    if arguments.json:
        print_json({**study.raw, "address": address}, indent=None if arguments.wait else 2)
    else:
        what, members = ("made", "draft") if arguments.draft else ("launched", "experiment")
        counted = f"{count} {members}{'' if count == 1 else 's'}"
        print_line(f"study:{study.id} is {what}, {counted}: {address}")
    return follow_study(client, study.id, arguments) if arguments.wait else 0


def follow_study(client: Client, key: int, arguments: argparse.Namespace) -> int:
    """Show how far a study is until all of it has ended; return the exit code of the worst."""
    on_terminal = sys.stdout.isatty() and not arguments.json
    shown: Shown = JsonLines() if arguments.json else StudyScreen() if on_terminal else StudyLines()
    every = choose_pause(arguments, on_terminal=on_terminal)
    wait_for_end(lambda: client.study_progress(key), shown, every)
    shown.end()
    return compare_study(client, key, arguments, indent=None)


def compare_study(
    client: Client, key: int, arguments: argparse.Namespace, indent: int | None = 2
) -> int:
    """Print the verdicts of all experiments of a study; return the exit code of the worst."""
    study = client.study(key)
    words: list[str] = []
    documents = []
    for number in study.experiments:
        experiment = client.experiment(number)
        if not arguments.json:
            print_line(f"Experiment {number} on {experiment.cluster}: {experiment.question}")
        word, document = _compare_member(client, number, experiment.state, arguments)
        words.append(word)
        documents.append({"experiment": number, "exit_word": word, **document})
    gravest = choose_gravest_word(words)
    if arguments.json:
        content = {"study": key, "exit_word": gravest, "experiments": documents}
        print_json(content, indent=indent)
    else:
        print_line(f"Verdict of the study, the gravest: {gravest.replace('_', ' ')}")
    return choose_exit_code(gravest)


def _compare_member(
    client: Client, key: int, state: str, arguments: argparse.Namespace
) -> tuple[str, dict[str, object]]:
    """Return the word of an experiment and its comparison, and print it unless as JSON."""
    try:
        comparison = client.comparison(key)
    except Refused as error:
        if error.status not in (404, 409):
            raise
        if not arguments.json:
            print_line(f"It has no verdict: {state}.")
        return "failed", {"state": state}
    if not arguments.json:
        print_comparison(comparison)
        print_line("")
    return comparison.exit_word, dict(comparison.raw)


def cancel_study(client: Client, key: int, arguments: argparse.Namespace) -> int:
    """Cancel what is alive of a study."""
    answer = client.cancel_study(key)
    if arguments.json:
        print_json(dict(answer.raw))
    else:
        print_line(f"What was alive of study:{key} is cancelled.")
    return 0


def list_studies(client: Client, arguments: argparse.Namespace) -> int:
    """List studies."""
    filters: dict[str, list[str]] = {}
    for name, value in arguments.filter:
        filters.setdefault(name, []).append(value)
    if unknown := sorted(filters.keys() - {"q"}):
        raise UsageError(f"Studies are filtered by q=TEXT, not by {unknown[0]}.")
    studies = list(client.studies(limit=arguments.limit, **filters))
    if arguments.json:
        print_json([dict(study.raw) for study in studies])
    elif not studies:
        print_line("No studies.")
    else:
        names = ("id", "made", "owner", "experiments", "name")
        sys.stdout.write(
            format_table(names, (_describe_study(study) for study in studies), measure_width())
            + "\n"
        )
    return 0


def _describe_study(study: Study) -> tuple[object, ...]:
    count = len(study.experiments)
    return f"study:{study.id}", study.created_at[:10], study.owner, count, study.name


class StudyLines(Shown):
    """One line for each experiment whose state or counts have changed: for logs."""

    def __init__(self) -> None:
        self._last: dict[int, str] = {}

    def show(self, progress: StudyProgress) -> None:
        """Print the lines of experiments that have news."""
        for row in progress.experiments:
            line = describe_member(row)
            if line != self._last.get(row.id):
                self._last[row.id] = line
                print_line(line + describe_rest(row.progress))
        sys.stdout.flush()


class StudyScreen(Screen):
    """A bar over all runs, and a line for each experiment, drawn over again."""

    def __init__(self) -> None:
        super().__init__(with_tail=False)

    def show(self, progress: StudyProgress) -> None:  # type: ignore[override]
        """Draw the state over the one before."""
        self._remark = ""
        lines = list_screen_lines(progress.total, with_tail=False)
        lines += [
            clean_text(f"  {describe_member(row)}{describe_rest(row.progress)}")
            for row in progress.experiments
        ]
        self._draw(lines)


def describe_member(row: MemberProgress) -> str:
    """Return "hpc1, Does it slow down? (17): running: 3 of 10 runs ended, 1 running"."""
    counts = f": {describe_counts(row.progress)}" if row.progress.n_runs else ""
    return f"{row.cluster}, {row.question} ({row.id}): {row.progress.state}{counts}"
