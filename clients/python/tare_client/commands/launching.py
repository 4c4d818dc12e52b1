"""`tare check`, `tare launch` and `tare cancel`."""

from __future__ import annotations

import argparse
import shlex
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypedDict

from tare_client.command_parser import StudyKey
from tare_client.commands.account import connect
from tare_client.errors import FieldProblem, Interrupted, NotReachable, Refused, UsageError
from tare_client.studies import STUDY_FILE
from tare_client.terminal import print_error, print_json, print_line

MOST_BYTES = 1_000_000
"""No site reads a larger file, and many a proxy cuts the connection."""


def run_check(arguments: argparse.Namespace) -> int:
    """Say whether a file is valid, and what it would cost."""
    definition, options = read_files(arguments)
    client = connect(arguments)
    try:
        check = client.check(definition, **options)
    except Refused as refusal:
        if refusal.type != STUDY_FILE:
            raise
        check = client.check_study(definition, **options)
    if not check.valid:
        raise Refused(
            f"{arguments.file} is not valid.", status=422, problems=list_problems(check.raw)
        )
    if arguments.json:
        print_json(dict(check.raw))
    else:
        plan = check.describe_plan()
        print_line(f"{arguments.file} is valid{': ' if plan else ''}{plan}.")
        for sentence in check.warnings:
            print_line(f"Note: {sentence}")
    return 0


def run_launch(arguments: argparse.Namespace) -> int:
    """Make an experiment or a study of a file, launch it, and follow it if that is asked for.

    The site says which of both a file is: it alone reads YAML.
    """
    if arguments.draft and arguments.wait:
        raise UsageError("A draft does not run: choose --draft or --wait.")
    definition, options = read_files(arguments)
    client = connect(arguments)
    arguments.key = arguments.key or str(uuid.uuid4())
    try:
        with explaining_how_to_ask_again(arguments):
            experiment = client.create(
                definition, launch=not arguments.draft, key=arguments.key, **options
            )
    except Refused as refusal:
        if refusal.type != STUDY_FILE:
            raise
        from tare_client.commands.studies import launch_study

        return launch_study(client, definition, options, arguments)
    address = client.find_page(experiment)
    if arguments.json:
        print_json({**experiment.raw, "address": address}, indent=None if arguments.wait else 2)
    else:
        what = "is a draft" if arguments.draft else "is launched"
        print_line(f"Experiment {experiment.id} {what}: {address}")
    if not arguments.wait:
        return 0
    from tare_client.commands.following import follow

    return follow(client, experiment.id, arguments)


@contextmanager
def explaining_how_to_ask_again(arguments: argparse.Namespace) -> Iterator[None]:
    """Name the key of a launch of which nobody knows whether it was done. Raises NotReachable."""
    sentence = (
        "It may have been made all the same. The same command with "
        f"--key {shlex.quote(arguments.key)} finds it, and makes it once within 24 hours."
    )
    try:
        yield
    except NotReachable as error:
        raise NotReachable(f"{error} {sentence}") from error
    except KeyboardInterrupt:
        print(file=sys.stderr)  # behind the ^C of a terminal
        print_error(Interrupted(sentence), as_json=arguments.json)
        raise


def run_cancel(arguments: argparse.Namespace) -> int:
    """Cancel an experiment, or what is alive of a study."""
    client = connect(arguments)
    if isinstance(arguments.id, StudyKey):
        from tare_client.commands.studies import cancel_study

        return cancel_study(client, arguments.id, arguments)
    answer = client.cancel(arguments.id)
    if arguments.json:
        print_json(dict(answer))
    else:
        print_line(f"Experiment {arguments.id} is cancelled.")
    return 0


class FileOptions(TypedDict):
    """How a file is to be read, for the methods of Client that take one."""

    is_json: bool
    names: bytes
    make_workloads: bool


def read_files(arguments: argparse.Namespace) -> tuple[bytes, FileOptions]:
    """Return the experiment file, and how it is to be read. Raises UsageError."""
    definition = read_file(arguments.file)
    return definition, {
        "is_json": is_json(arguments),
        "names": read_file(arguments.map) if arguments.map else b"",
        "make_workloads": arguments.make_workloads,
    }


def read_file(path: str) -> bytes:
    """Return what a file or standard input has, 1 MB at most. Raises UsageError."""
    try:
        if path == "-":
            content = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with open(path, "rb") as file:
                content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    if len(content) > MOST_BYTES:
        raise UsageError(f"{path} has more than 1 MB: is it an experiment file?")
    if not content.strip():
        raise UsageError(f"{path} is empty.")
    return content


def is_json(arguments: argparse.Namespace) -> bool:
    """Return whether the experiment file is JSON by its name; YAML can be read as either."""
    return str(arguments.file).lower().endswith(".json")


def list_problems(document: object) -> tuple[FieldProblem, ...]:
    """Return the problems that a check names."""
    problems = document.get("problems") if isinstance(document, dict) else None
    return tuple(
        FieldProblem(
            str(row.get("field") or ""),
            str(row.get("message") or ""),
            row.get("line"),
            row.get("column"),
        )
        for row in (problems if isinstance(problems, list) else ())
        if isinstance(row, dict)
    )
