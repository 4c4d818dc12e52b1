"""The words that the command takes. Imports nothing but argparse: help has to come at once."""

from __future__ import annotations

import argparse
import sys

from tare_client import __version__

EXIT_CODES = """
exit codes of follow, compare and launch --wait:
  0  equivalent, not slower, or faster       1  slower
  2  inconclusive                            3  failed, or no verdict
  4  the site refused or was not reachable   64 wrong usage   70 a mistake of tare
"""
MODULE_OF_COMMAND = {
    "login": "account",
    "open": "account",
    "check": "launching",
    "launch": "launching",
    "cancel": "launching",
    "follow": "following",
    "results": "numbers",
    "compare": "numbers",
    "list": "numbers",
    "export": "files",
    "completion": "shell_completion",
}
EXPORTS = {
    "bundle": ("bundle.zip", "everything, as a bundle that checks itself (the usual)"),
    "definition": ("definition.yaml", "the experiment as a file that launches it again"),
    "methods": ("methods.txt", "the paragraph for a paper's methods section"),
    "csv": ("comparison.csv", "the comparison as CSV"),
    "tex": ("comparison.tex", "the comparison as a LaTeX table"),
    "parquet": ("comparison.parquet", "the comparison as Parquet"),
}
"""What `tare export` saves: the last part of its address, and what it is."""


class StudyKey(int):
    """The number of a study, where that of an experiment may stand, too."""


class Parser(argparse.ArgumentParser):
    """Ends with 64 after wrong usage: 2 means inconclusive."""

    as_json = False

    def error(self, message: str) -> None:  # type: ignore[override]
        """Print what is wrong and how it is used; exit with 64."""
        if self.as_json:
            import json

            self.exit(64, json.dumps({"error": message, "exit_code": 64}) + "\n")
        self.print_usage(sys.stderr)
        self.exit(64, f"{self.prog}: {message}\n")


class JsonParser(Parser):
    """The same for programs: what is wrong is an object."""

    as_json = True


def build_parser(*, as_json: bool = False) -> argparse.ArgumentParser:
    """Return the parser of all commands; `as_json`: its errors are objects."""
    parser_class = JsonParser if as_json else Parser
    parser = parser_class(
        prog="tare",
        description="Measure what containers cost: launch experiments, follow and compare them.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"tare {__version__}")
    common = Parser(add_help=False)
    common.add_argument("--json", action="store_true", help="print JSON, for programs")
    common.add_argument(
        "--insecure-http", action="store_true", help="send the token over http, unencrypted"
    )
    common.add_argument(
        "--timeout", type=_seconds, default=30.0, metavar="S", help="seconds of silence (30)"
    )
    commands = parser.add_subparsers(
        dest="command",
        metavar="COMMAND",
        required=True,
        parser_class=parser_class,
    )

    def add(name: str, about: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=about,
            description=about[0].upper() + about[1:] + ".",
            parents=[common],
            allow_abbrev=False,
        )

    login = add("login", "store the address of a site and a token for it")
    login.add_argument("url", metavar="URL", help="such as https://tare.example.org")

    check = add("check", "say whether an experiment file is valid, and what it would cost")
    launch = add("launch", "make an experiment, or a study, of a file and launch it")
    for command in (check, launch):
        command.add_argument("file", metavar="FILE", help="YAML or JSON; - reads standard input")
        command.add_argument(
            "--map", metavar="FILE", help="a table from names in the file to names on the site"
        )
        command.add_argument(
            "--make-workloads",
            action="store_true",
            help="make the workloads of the file that are not on the site",
        )
    launch.add_argument("--draft", action="store_true", help="make a draft, launch nothing")
    launch.add_argument(
        "--key", default="", metavar="TEXT", help="never launch twice with this key within 24 h"
    )
    launch.add_argument("--wait", action="store_true", help="follow it; exit code by verdict")

    follow = add("follow", "show how far an experiment is, until its verdict")
    results = add("results", "print the runs of an experiment")
    compare = add("compare", "print the verdicts of an experiment; exit code by verdict")
    cancel = add("cancel", "cancel an experiment")
    export = add("export", "save a file of an experiment")
    page = add("open", "open an experiment's page in the browser")
    results.add_argument("id", type=_whole, metavar="ID", help="the number in its address")
    for command in (follow, compare, cancel, export, page):
        command.add_argument(
            "id", type=_key, metavar="ID", help="the number in its address; study:ID for a study"
        )
    for command in (follow, launch):
        command.add_argument(
            "--every", type=_seconds, metavar="S", help="ask every S seconds (2; no terminal: 10)"
        )
    follow.add_argument("--no-tail", action="store_true", help="without the runs' output")

    results.add_argument("--metrics", default="", metavar="A,B", help="columns of these metrics")
    results.add_argument("--limit", type=_whole, metavar="N", help="N runs at most")
    form = results.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="as CSV")
    form.add_argument("--parquet", action="store_true", help="as Parquet (needs pyarrow, and -o)")
    kinds = export.add_mutually_exclusive_group()
    for name, (_, about) in EXPORTS.items():
        kinds.add_argument(
            f"--{name}", dest="kind", action="store_const", const=name, default="bundle", help=about
        )
    for command in (results, export):
        command.add_argument("-o", "--output", metavar="FILE", help="save it here; - prints it")
        command.add_argument("--force", action="store_true", help="replace a file that is there")

    rows = add("list", "list experiments, the newest first")
    rows.add_argument("--studies", action="store_true", help="list studies")
    rows.add_argument("--limit", type=_whole, default=20, metavar="N", help="N at most (20)")
    rows.add_argument(
        "--filter",
        action="append",
        default=[],
        type=_pair,
        metavar="NAME=VALUE",
        help="a filter of the page Experiments, such as state=alive",
    )
    shells = add("completion", "print a shell's completion")
    shells.add_argument("shell", choices=["bash", "zsh"])
    return parser


def _whole(text: str) -> int:
    """Return a positive whole number that an address can have."""
    if not (text.isascii() and text.isdigit() and 0 < int(text[:30]) < 2**63):
        raise argparse.ArgumentTypeError(f"“{text[:50]}” is no positive whole number")
    return int(text)


def _key(text: str) -> int:
    """Return the number of an experiment, or that of a study."""
    prefix, sign, number = text.partition(":")
    if not sign:
        return _whole(text)
    if prefix != "study":
        raise argparse.ArgumentTypeError(f"“{text[:50]}” is neither ID nor study:ID")
    return StudyKey(_whole(number))


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.05 <= value <= 86400:
        raise argparse.ArgumentTypeError(f"“{text[:50]}” is no number of seconds")
    return value


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"“{text[:50]}” is not NAME=VALUE")
    return name, value
