"""The command tare: reads its words, runs one command, ends with an exit code."""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from tare_client.command_parser import MODULE_OF_COMMAND, StudyKey, build_parser

if TYPE_CHECKING:
    import argparse

    from tare_client.errors import TareError

MAKE_WORKLOADS = "With --make-workloads, workloads that are not on the site are made of the file."


def main(words: list[str] | None = None) -> int:
    """Run the command with the words of a shell; return its exit code."""
    _prepare_streams()
    as_json = "--json" in (sys.argv[1:] if words is None else words)
    try:
        arguments = build_parser(as_json=as_json).parse_args(words)
    except SystemExit as end:  # of argparse, after --help or a usage error
        return int(end.code or 0)
    from tare_client.errors import TareError, UsageError
    from tare_client.terminal import discard_output, print_error, print_line

    try:
        command = import_module(f"tare_client.commands.{MODULE_OF_COMMAND[arguments.command]}")
        code: int = getattr(command, f"run_{arguments.command}")(arguments)
        sys.stdout.flush()
        return code
    except TareError as error:
        error = _name_missing(error, arguments)
        print_error(error, file=_find_wrong_file(error, arguments), as_json=as_json)
        if _lacks_workloads(error, arguments) and not as_json:
            print_line(MAKE_WORKLOADS, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        from tare_client.exit_codes import INTERRUPTED

        print(file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # `tare results 3 | head`: who reads has enough. Python would complain when it flushes.
        discard_output(sys.stdout)
        return _choose_code_without_reader(arguments.command, getattr(arguments, "wait", False))
    except OSError as error:  # of the disk on which the output lies: files have errors of their own
        discard_output(sys.stdout)
        failure = UsageError(f"The output cannot be written: {error.strerror or error}.")
        print_error(failure, as_json=as_json)
        return failure.exit_code
    # Python itself would end with 1, which means that the container is slower.
    except Exception:  # noqa: BLE001
        import traceback

        from tare_client.exit_codes import MISTAKE

        traceback.print_exc()
        return MISTAKE


def _name_missing(error: TareError, arguments: argparse.Namespace) -> TareError:
    """Return an error that names the experiment or study where the site has none of its number."""
    from tare_client.errors import Refused

    if not isinstance(error, Refused) or error.status != 404 or not hasattr(arguments, "id"):
        return error
    what = f"{'study' if isinstance(arguments.id, StudyKey) else 'experiment'} {arguments.id}"
    return Refused(f"There is no {what}, or you may not view it.", status=404, title=error.title)


def _lacks_workloads(error: TareError, arguments: argparse.Namespace) -> bool:
    """Return whether a file was refused for a workload that could be made of it."""
    if getattr(arguments, "make_workloads", True):
        return False
    fields = [problem.field for problem in getattr(error, "problems", ())]
    return any(re.search(r"(^|\.)workloads\[\d+\]\.name$", field) for field in fields)


def _find_wrong_file(error: Exception, arguments: argparse.Namespace) -> str:
    """Return the file that an error is about: that of --map, or that of the experiment."""
    from tare_client.studies import NAMES_TABLE

    if getattr(error, "type", "") == NAMES_TABLE:
        return str(arguments.map)
    return getattr(arguments, "file", None) or ""


def _prepare_streams() -> None:
    """Have all three streams there, whatever the shell has closed, and able to take any text."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a letter shows "?" for it; it does not end the command.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _choose_code_without_reader(command: str, is_waiting: bool) -> int:
    """Return the exit code of a command whose reader went away before it had a verdict."""
    from tare_client.exit_codes import FINE, NO_VERDICT

    return NO_VERDICT if command in ("follow", "compare") or is_waiting else FINE
