"""The command tare: reads its words, runs one command, ends with an exit code."""

from __future__ import annotations

import os
import sys
from importlib import import_module

from tare_client.command_parser import MODULE_OF_COMMAND, build_parser


def main(words: list[str] | None = None) -> int:
    """Run the command with the words of a shell; return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a letter shows "?" for it; it does not end the command.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        arguments = build_parser().parse_args(words)
    except SystemExit as end:  # of argparse, after --help or a usage error
        return int(end.code or 0)
    from tare_client.errors import TareError

    try:
        command = import_module(f"tare_client.commands.{MODULE_OF_COMMAND[arguments.command]}")
        code: int = getattr(command, f"run_{arguments.command}")(arguments)
        sys.stdout.flush()
        return code
    except TareError as error:
        from tare_client.terminal import print_error

        print_error(error, file=getattr(arguments, "file", ""), as_json=arguments.json)
        return error.exit_code
    except KeyboardInterrupt:
        from tare_client.exit_codes import INTERRUPTED

        print(file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # `tare results 3 | head`: who reads has enough. Python would complain when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
