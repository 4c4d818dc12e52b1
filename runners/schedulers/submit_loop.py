"""Submitting several scripts by one command, and reading what it prints about each of them."""

from __future__ import annotations

import re

from runners.errors import TryAgain
from runners.transports.base import Completed

LOOP_SECONDS = 60
"""After as many no further script is submitted: a busy controller takes seconds for each."""

# Calls the shell function `submit` for each argument, up to the first that is refused. Between
# "= N" and "= N CODE" stands what the N-th prints; its errors follow the "= N" among the errors.
# Bash counts the seconds itself; other shells ask `date`.
SUBMIT_EACH = f"""number=0 began=${{SECONDS-$(date +%s)}}
for job; do
    [ $((${{SECONDS-$(date +%s)}} - began)) -lt {LOOP_SECONDS} ] || break
    number=$((number + 1))
    printf '\\n= %s\\n' "$number"
    printf '\\n= %s\\n' "$number" >&2
    (submit "$job") </dev/null
    code=$?
    printf '\\n= %s %s\\n' "$number" "$code"
    [ "$code" = 0 ] || break
done
"""
PART = re.compile(rb"^= (\d+)\n(.*?)^= \1 (\d{1,3})$", re.MULTILINE | re.DOTALL)


def split_answer(done: Completed) -> list[Completed | TryAgain]:
    """Return the answers about single scripts, in order, for as many as were submitted or tried.

    TryAgain stands for an answer that was cut short: that script may have been submitted. If none
    was tried, the command itself has failed, and its answer is returned whole.
    """
    answers: list[Completed | TryAgain] = []
    errors = _split_errors(done.stderr)
    end = 0
    for part in PART.finditer(done.stdout):
        number, printed, code = part.groups()
        if int(number) != len(answers) + 1:
            raise TryAgain("The answers about several jobs are not whole.", kind="busy")
        about_it = errors[len(answers)] if len(errors) > len(answers) else b""
        answers.append(Completed(int(code), printed.removesuffix(b"\n"), about_it))
        end = part.end()
    if re.search(rb"^= %d$" % (len(answers) + 1), done.stdout[end:], re.MULTILINE):
        answers.append(TryAgain("The answer about a job was cut short.", kind="unreachable"))
    return answers or [done]


def _split_errors(printed: bytes) -> list[bytes]:
    """Return what was printed after each heading "= N", for as many as follow each other."""
    parts: list[bytes] = []
    _, *rest = re.split(rb"^= 1\n", printed, maxsplit=1, flags=re.MULTILINE)
    while rest:
        heading = rb"^= %d\n" % (len(parts) + 2)
        part, *rest = re.split(heading, rest[0], maxsplit=1, flags=re.MULTILINE)
        parts.append(part)
    return parts
