#!/usr/bin/env python3
"""The only commands that a key of Tare's may run on this machine: those in the table below.

authorized_keys runs this script for every connection with that key:

    restrict,command="python3 -I ~/.ssh/tare-gate.py /scratch/me/tare slurm" ssh-ed25519 AAAA...

Its arguments are the work directory, which no path in a command may leave, and the scheduler. It
splits the command that the client sent into arguments and compares them with the table. Then it
becomes that command, without any shell, or refuses it, with a message here and in the system's log
and with exit code 77. The scripts that Tare sends are recognized by the SHA-256 of their text.

It does not limit jobs: a job runs whatever its script says, as this account. See docs/clusters.md.

Python 3.6 or newer, its standard library, and one file to read.
"""

import hashlib
import os
import re
import shlex
import sys
import syslog

VERSION = 0

# For each command its purpose, its scheduler ("" for any) and the pattern of its arguments, in
# which "sha256:..." stands for a text, "<path>" and the like for what KINDS says, and "..." for any
# number of what follows it.
KNOWN = []  # type: ignore[var-annotated]

REFUSED = 77
BEGIN = ["timeout", "--kill-after=5"]  # of every command; seconds follow
KINDS = {
    "number": r"\d{1,15}",
    "id": r"\d{1,12}(-\d{1,20})?",
    "ids": r"\d{1,12}(,\d{1,12})*",
    "name": r"[A-Za-z0-9][A-Za-z0-9_.-]*",
    "names": r"[A-Za-z0-9][A-Za-z0-9_.-]*(,[A-Za-z0-9][A-Za-z0-9_.-]*)*",
    "digest": r"([0-9a-f]{64})?",
    "key": r"[0-9a-f]{32,64}",
    "token": r"\.tare-check-[0-9a-f]{32}",
    "token_path": r"/([^/\0]+/)*\.tare-check-[0-9a-f]{32}",
    "text": r"(?s).*",
}
# Options of srun that only choose a job's resources: none that writes or runs something here.
OPTIONS = re.compile(
    r"--(account|clusters|constraint|cores-per-socket|cpu-bind|cpus-per-gpu|cpus-per-task"
    r"|distribution|exclude|gpu-bind|gpu-freq|gpus|gpus-per-node|gpus-per-task|gres|hint|licenses"
    r"|mem|mem-bind|mem-per-cpu|mem-per-gpu|network|nodelist|nodes|ntasks-per-node|partition|qos"
    r"|reservation|sockets-per-node|switches|threads-per-core|time|wckey)=.*"
    r"|--(contiguous|exclusive|overcommit|oversubscribe|spread-job|use-min-nodes)(=.*)?"
    r"|-[ACLNpqtwx]..*"
)


class Refusal(Exception):
    """The command is unknown, or one of its arguments is not allowed. Says which."""


def main(arguments: "list[str]") -> int:
    """Become the command that the client sent, or return the exit code of a refusal."""
    command = os.environ.get("SSH_ORIGINAL_COMMAND", "")
    try:
        if len(arguments) != 2:
            raise Refusal("everything: its line names no work directory and scheduler")
        work, scheduler = arguments
        argv = split_command(command)
        if argv[3:] == ["tare-gate"]:
            print(f"tare-gate {VERSION} {hash_this_file()}")
            return 0
        require_known(argv[3:], work, scheduler)
    except Refusal as problem:
        message = f"tare-gate {VERSION} refuses {problem}"
        syslog.openlog("tare-gate", syslog.LOG_PID, syslog.LOG_AUTH)
        syslog.syslog(syslog.LOG_WARNING, message)
        print(message, file=sys.stderr)
        return REFUSED
    os.execvp(argv[0], argv)


def split_command(command: str) -> "list[str]":
    """Return the arguments of the command. Refusal if it does not begin as all of Tare's do."""
    if not command:
        raise Refusal("a shell")
    try:
        argv = shlex.split(command)
    except ValueError:
        argv = []
    if argv[:2] != BEGIN or not re.fullmatch(KINDS["number"], "".join(argv[2:3])):
        raise Refusal(f"a command that is not Tare's: {make_printable(command)}")
    return argv


def require_known(argv: "list[str]", work: str, scheduler: str) -> None:
    """Raise Refusal, with the reason, unless these are the arguments of a known command."""
    why = f"a command that it does not know: {make_printable(' '.join(argv))}"
    for purpose, its_scheduler, pattern in KNOWN:
        if its_scheduler in ("", scheduler):
            try:
                if is_match(list(pattern), list(argv), work, scheduler):
                    return
            except Refusal as problem:
                why = f"{purpose}: {problem}"
    raise Refusal(why)


def is_match(pattern: "list[str]", argv: "list[str]", work: str, scheduler: str) -> bool:
    """Return whether the arguments match the pattern. Refusal for a path that is not allowed."""
    for position, expected in enumerate(pattern):
        if expected == "...":
            group, rest = pattern[position + 1 :], argv[position:]
            for number, argument in enumerate(rest):
                if not is_allowed(group[number % len(group)], argument, work):
                    return False
            return len(rest) % len(group) == 0
        if expected == "<probes>":
            require_known_probes(argv[position:], work, scheduler)
            return True
        if expected == "<options>":
            end = argv.index("bash") if "bash" in argv else len(argv)
            require_harmless_options(argv[position:end])
            argv[position:end] = [expected]
        elif position >= len(argv) or not is_allowed(expected, argv[position], work):
            return False
    return len(argv) == len(pattern)


def is_allowed(expected: str, argument: str, work: str) -> bool:
    """Return whether one argument is what the pattern expects. Refusal for a path outside."""
    if expected.startswith("sha256:"):
        text = argument.encode("utf-8", "surrogateescape")
        return hashlib.sha256(text).hexdigest() == expected[7:]
    placeholder = re.match(r"(.*)<(\w+)>(.*)$", expected)
    if not placeholder:
        return argument == expected
    before, kind, after = placeholder.groups()
    if not (argument.startswith(before) and argument.endswith(after)):
        return False
    middle = argument[len(before) : len(argument) - len(after)]
    if kind in ("path", "work"):
        require_inside(middle + after, work, kind == "work")
        return True
    return re.fullmatch(KINDS[kind], middle) is not None and "/../" not in middle


def require_inside(path: str, work: str, may_be_work: bool) -> None:
    """Raise Refusal unless a path stays below the work directory, even where links lead."""
    if not path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise Refusal(f"the path {make_printable(path)} is not a plain one")
    normal_path, root = os.path.normpath(path), os.path.normpath(work)
    real = os.path.realpath(root)
    # A file is written under this name until it is complete.
    temporary = os.path.realpath(normal_path + ".part") if normal_path != root else real
    for candidate, folder in (
        (normal_path, root),
        (os.path.realpath(normal_path), real),
        (temporary, real),
    ):
        below = candidate.startswith(folder.rstrip("/") + "/")
        if not below and not (may_be_work and candidate == folder):
            raise Refusal(f"the path {make_printable(path)} leads out of {make_printable(work)}")


def require_known_probes(argv: "list[str]", work: str, scheduler: str) -> None:
    """Raise Refusal unless all questions of a check are known commands.

    Before each question come its seconds, its bytes and the number of its arguments.
    """
    while argv:
        head, rest = argv[:3], argv[3:]
        if len(head) < 3 or not all(re.fullmatch(KINDS["number"], argument) for argument in head):
            raise Refusal("the questions are not whole")
        count = int(head[2])
        if not 0 < count <= len(rest):
            raise Refusal("the questions are not whole")
        require_known(rest[:count], work, scheduler)
        argv = rest[count:]


def require_harmless_options(arguments: "list[str]") -> None:
    """Raise Refusal for an option of srun that is not in OPTIONS.

    The value of a short option may be an argument of its own.
    """
    is_value = False
    for argument in arguments:
        if is_value and not argument.startswith("-"):
            is_value = False
        elif re.fullmatch(r"-[ACLNpqtwx]", argument):
            is_value = True
        elif OPTIONS.fullmatch(argument):
            is_value = False
        else:
            raise Refusal(f"srun's option {make_printable(argument)}")


def make_printable(text: str) -> str:
    """Return the beginning of a text, on one line of plain characters."""
    plain = "".join(character if " " <= character <= "~" else "?" for character in text)
    return plain if len(plain) <= 160 else plain[:160] + "..."


def hash_this_file() -> str:
    """Return this script's SHA-256, in hexadecimal digits."""
    with open(__file__, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
