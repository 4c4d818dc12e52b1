"""Sentences for what stops a build of an image: what it printed in, one line out."""

from __future__ import annotations

import platform
import re
from typing import List

LONGEST = 300  # characters of a line that is repeated
NO_ANSWER = re.compile(
    r"temporary failure (in name resolution|resolving)|could not resolve|no such host|"
    r"name or service not known|network is unreachable|no route to host|could not connect to|"
    r"unable to connect to|failed to connect|connection refused|connection timed out|"
    r"NewConnectionError|proxyconnect|dial tcp|i/o timeout|could not connect|"
    r"failed to establish a new connection",
    re.IGNORECASE,
)
NO_IDS = re.compile(
    r"newuidmap|newgidmap|/etc/subuid|/etc/subgid|insufficient UIDs or GIDs|no subuid ranges|"
    r"cannot find mappings|setgroups.*not permitted|unshare failed",
    re.IGNORECASE,
)
FULL = re.compile("No space left on device|Disk quota exceeded")
NOT_THERE = re.compile(r"image not known|short-name|pinging container registry|no such image")
NO_PACKAGE = re.compile(r"E: (?:Unable to locate package (\S+)|Package '([^']+)' has no )")
NO_VERSION = re.compile(r"E: Version '([^']+)' for '([^']+)' was not found")
STEP = re.compile(r'building at STEP "(.*?)": .*exit (?:status|code) (\d+)', re.DOTALL)


def explain(output: str, code: int) -> str:
    """Return one line about a build that has ended with this exit code."""
    node = platform.node()
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if FULL.search(output):
        return "The disk of %s is full, or the quota: nothing of this was kept." % node
    missing, version = NO_PACKAGE.search(output), NO_VERSION.search(output)
    answerless = [line for line in lines if NO_ANSWER.search(line)]
    if answerless:
        return (
            "The build asked the network for something, and %s got no answer (%s). Send what it "
            "needs along, choose a base that has it, or name a proxy in the cluster's set-up lines."
            % (node, cut(answerless[-1]))
        )
    if missing:
        name = missing[1] or missing[2]
        return "No index that the base knows has the Debian package %s." % cut(name)
    if version:
        pair = (cut(version[1]), cut(version[2]))
        return "No index that the base knows has version %s of the Debian package %s." % pair
    if NOT_THERE.search(output):
        return (
            "The file takes something from an image that is not here: it can name its base by the "
            "digest, and its own earlier stages. (%s)" % cut(find_last_error(lines))
        )
    step = STEP.search(output)
    if step:
        return "%s ended with exit code %s." % (cut(" ".join(step[1].split())), step[2])
    ids = [line for line in lines if NO_IDS.search(line)]
    if ids:
        return (
            "%s does not let this account build: it needs a range of subordinate user ids "
            "(/etc/subuid), which an administrator gives. (%s)" % (node, cut(ids[-1]))
        )
    return cut(find_last_error(lines)) if lines else "It ended with exit code %d." % code


def find_last_error(lines: List[str]) -> str:
    """Return the last line that says it is an error, or else the last one."""
    errors = [line for line in lines if re.match(r"(error|fatal|e):", line, re.IGNORECASE)]
    return (errors or lines or [""])[-1]


def cut(line: str) -> str:
    """Return a line, shortened in the middle if it is long."""
    if len(line) <= LONGEST:
        return line
    return "%s ... %s" % (line[: LONGEST // 2], line[-LONGEST // 2 :])
