#!/usr/bin/env python3
"""What a key of Tare's may do on this machine: run the commands in the table below, nothing else.

authorized_keys runs it for every connection with that key:

    restrict,command="python3 -I ~/.ssh/tare-gate.py /scratch/me/tare slurm" ssh-ed25519 AAAA...

Its arguments are the work directory, which no path in a command may leave, and the scheduler. It
takes the command that the client asked for apart into words, compares them with the table, and
becomes that command, without any shell, or refuses it: in words, in the system's log, and with
exit code 77. The scripts that Tare sends are known by the SHA-256 of exactly their text.

What it does not do: a job runs whatever its script says, as this account. See docs/clusters.md.

Python 3.6 or newer, its standard library, and one file to read.
"""

import hashlib
import os
import re
import shlex
import sys
import syslog

VERSION = 0

# What it is for, the scheduler that it belongs to ("" for any), and its words. In these,
# "sha256:..." stands for a text, "<path>" and the like for what KINDS says, and "..." for any
# number of what follows it.
KNOWN = []  # type: ignore[var-annotated]

REFUSED = 77
BEGIN = ["timeout", "--kill-after=5"]  # of every command; seconds follow
KINDS = {
    "number": r"\d{1,15}",
    "id": r"\d{1,12}(-\d{1,20})?",
    "ids": r"\d{1,12}(,\d{1,12})*",
    "name": r"[A-Za-z0-9][A-Za-z0-9_.-]*",
    "digest": r"([0-9a-f]{64})?",
    "token": r"\.tare-check-[0-9a-f]{32}",
    "token_path": r"/([^/\0]+/)*\.tare-check-[0-9a-f]{32}",
    "text": r"(?s).*",
}
# Options of srun that say what a job gets, and none of those that write or run something here.
OPTIONS = re.compile(
    r"--(account|clusters|constraint|cores-per-socket|cpu-bind|cpus-per-gpu|cpus-per-task"
    r"|distribution|exclude|gpu-bind|gpu-freq|gpus|gpus-per-node|gpus-per-task|gres|hint|licenses"
    r"|mem|mem-bind|mem-per-cpu|mem-per-gpu|network|nodelist|nodes|ntasks-per-node|partition|qos"
    r"|reservation|sockets-per-node|switches|threads-per-core|time|wckey)=.*"
    r"|--(contiguous|exclusive|overcommit|oversubscribe|spread-job|use-min-nodes)(=.*)?"
    r"|-[ACLNpqtwx]..*"
)


class Refusal(Exception):
    """The command is known, and one of its words is none that may be there."""


def main(arguments: "list[str]") -> int:
    command = os.environ.get("SSH_ORIGINAL_COMMAND", "")
    try:
        if len(arguments) != 2:
            raise Refusal("everything: its line names no work directory and scheduler")
        work, scheduler = arguments
        words = asked(command)
        if words[3:] == ["tare-gate"]:
            print(f"tare-gate {VERSION} {digest()}")
            return 0
        find(words[3:], work, scheduler)
    except Refusal as problem:
        said = f"tare-gate {VERSION} refuses {problem}"
        syslog.openlog("tare-gate", syslog.LOG_PID, syslog.LOG_AUTH)
        syslog.syslog(syslog.LOG_WARNING, said)
        print(said, file=sys.stderr)
        return REFUSED
    os.execvp(words[0], words)


def asked(command: str) -> "list[str]":
    """The words of the command. Refusal if no session of Tare's begins like this."""
    if not command:
        raise Refusal("a shell")
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if words[:2] != BEGIN or not re.fullmatch(KINDS["number"], "".join(words[2:3])):
        raise Refusal(f"a command that is not Tare's: {shown(command)}")
    return words


def find(words: "list[str]", work: str, scheduler: str) -> None:
    """Return if these are the words of a known command. Refusal says why not."""
    why = f"a command that it does not know: {shown(' '.join(words))}"
    for what, only, pattern in KNOWN:
        if only in ("", scheduler):
            try:
                if fits(list(pattern), list(words), work, scheduler):
                    return
            except Refusal as problem:
                why = f"{what}: {problem}"
    raise Refusal(why)


def fits(pattern: "list[str]", words: "list[str]", work: str, scheduler: str) -> bool:
    """Whether the words are the pattern's; Refusal if one of them is none that may be there."""
    for place, wanted in enumerate(pattern):
        if wanted == "...":
            group, rest = pattern[place + 1 :], words[place:]
            for number, word in enumerate(rest):
                if not allowed(group[number % len(group)], word, work):
                    return False
            return len(rest) % len(group) == 0
        if wanted == "<probes>":
            probes(words[place:], work, scheduler)
            return True
        if wanted == "<options>":
            end = words.index("bash") if "bash" in words else len(words)
            options(words[place:end])
            words[place:end] = [wanted]
        elif place >= len(words) or not allowed(wanted, words[place], work):
            return False
    return len(words) == len(pattern)


def allowed(wanted: str, word: str, work: str) -> bool:
    """Whether a word is the one that the pattern wants. Refusal for a path that leads away."""
    if wanted.startswith("sha256:"):
        text = word.encode("utf-8", "surrogateescape")
        return hashlib.sha256(text).hexdigest() == wanted[7:]
    found = re.match(r"(.*)<(\w+)>(.*)$", wanted)
    if not found:
        return word == wanted
    before, kind, after = found.groups()
    if not (word.startswith(before) and word.endswith(after)):
        return False
    middle = word[len(before) : len(word) - len(after)]
    if kind in ("path", "work", "folder"):
        inside(middle + after, work, kind == "work")
        if kind == "folder":
            without_links(middle)
        return True
    return re.fullmatch(KINDS[kind], middle) is not None and "/../" not in middle


def inside(path: str, work: str, may_be_it: bool) -> None:
    """Return if a path stays below the work directory, whatever links are on its way."""
    if not path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise Refusal(f"the path {shown(path)} is not a plain one")
    asked, root = os.path.normpath(path), os.path.normpath(work)
    real = os.path.realpath(root)
    # What is written lies beside its place until it is whole.
    beside = os.path.realpath(asked + ".part") if asked != root else real
    for one, other in ((asked, root), (os.path.realpath(asked), real), (beside, real)):
        below = one.startswith(other.rstrip("/") + "/")
        if not below and not (may_be_it and one == other):
            raise Refusal(f"the path {shown(path)} leads out of {shown(work)}")


def without_links(folder: str) -> None:
    """Return if no link to a folder is there, over which files would be written elsewhere."""
    for where, folders, _ in os.walk(folder):
        for name in folders:
            if os.path.islink(os.path.join(where, name)):
                raise Refusal(f"the folder {shown(folder)} holds links")


def probes(words: "list[str]", work: str, scheduler: str) -> None:
    """Questions, each with its seconds, its bytes and the number of its words: all are known."""
    while words:
        head, rest = words[:3], words[3:]
        if len(head) < 3 or not all(re.fullmatch(KINDS["number"], word) for word in head):
            raise Refusal("the questions are not whole")
        count = int(head[2])
        if not 0 < count <= len(rest):
            raise Refusal("the questions are not whole")
        find(rest[:count], work, scheduler)
        words = rest[count:]


def options(words: "list[str]") -> None:
    """Options of srun; the value of a short one may be a word of its own."""
    is_value = False
    for word in words:
        if is_value and not word.startswith("-"):
            is_value = False
        elif re.fullmatch(r"-[ACLNpqtwx]", word):
            is_value = True
        elif OPTIONS.fullmatch(word):
            is_value = False
        else:
            raise Refusal(f"srun's option {shown(word)}")


def shown(text: str) -> str:
    """The beginning of a text, on one line of plain characters."""
    plain = "".join(one if " " <= one <= "~" else "?" for one in text)
    return plain if len(plain) <= 160 else plain[:160] + "..."


def digest() -> str:
    with open(__file__, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
