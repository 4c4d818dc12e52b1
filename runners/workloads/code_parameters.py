"""The parameters of `command` that name its code: a commit of a git repository, or an archive."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runners.code_copies import ARCHIVE, COMMIT, PLACEHOLDER, REPOSITORY, find_source
from runners.workloads.parameters import Parameter, Value

LONGEST_ADDRESS = 300
HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?(?::[0-9]{1,5})?"
PATH = r"(?:/[A-Za-z0-9_.~][A-Za-z0-9_.~+@%=-]*)+/?"
ADDRESS = re.compile(
    rf"https://{HOST}{PATH}|ssh://(?:[A-Za-z0-9_][\w.-]*@)?{HOST}{PATH}|file://{PATH}"
)
"""The only addresses that git is given: no options, no other protocol, no password."""
SHORT_SSH = re.compile(r"([\w.-]+@[\w.-]+):(?!/)([\w./~-]+)")
"""As `git clone` takes it: git@host:group/project.git."""
SHA1, SHA256 = re.compile(r"[0-9a-f]{40}"), re.compile(r"[0-9a-f]{64}")
GROUP = "Its code"


def explain_no_address(address: str) -> str:
    """Return why git is not given an address; "" if it is. The text goes on after a label."""
    if len(address) > LONGEST_ADDRESS:
        return f"is at most {LONGEST_ADDRESS} characters long"
    if ADDRESS.fullmatch(address) and ".." not in address.split("/"):
        return ""
    if short := SHORT_SSH.fullmatch(address):
        return f"is written as an address: ssh://{short[1]}/{short[2]}"
    if re.match(r"https://[^/]*@", address):
        return (
            "names no user and no password, which everybody could read: use ssh:// with a key of "
            "the cluster’s account, or send an archive"
        )
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", address)
    if scheme and scheme[1].lower() not in ("https", "ssh", "file"):
        return f"begins with https://, ssh:// or file://; {scheme[1][:20]} is not fetched from"
    return (
        "is https://HOST/PATH, ssh://USER@HOST/PATH or file:///PATH, of letters, digits and "
        f". _ ~ + @ % = -; not {address[:80]!r}"
    )


@dataclass(frozen=True, kw_only=True)
class RepositoryParameter(Parameter):
    """A parameter whose value is the address of a git repository, or empty."""

    def clean(self, value: object) -> Value:
        address = str(super().clean(value)).strip()
        if address and (why := explain_no_address(address)):
            raise ValueError(why)
        return address


@dataclass(frozen=True, kw_only=True)
class HexParameter(Parameter):
    """A parameter whose value is a check sum in hexadecimal digits, or empty."""

    pattern: re.Pattern[str]
    rule: str

    def clean(self, value: object) -> Value:
        text = str(super().clean(value)).strip()
        if text and not self.pattern.fullmatch(text):
            raise ValueError(f"must be {self.rule}; got {text[:80]!r}")
        return text


CODE_PARAMETERS = (
    HexParameter(
        name=ARCHIVE,
        type="text",
        default="",
        label="Archive",
        longest=64,
        group=GROUP,
        pattern=SHA256,
        rule="the sha256 of an archive that was sent to this site, 64 hexadecimal digits",
        help="The sha256 of a tar, tar.gz, tar.xz or zip of at most 64 MB, which each cluster gets "
        "once and unpacks. {code} in the command stands for its folder.",
    ),
    RepositoryParameter(
        name=REPOSITORY,
        type="text",
        default="",
        label="Git repository",
        longest=LONGEST_ADDRESS,
        group=GROUP,
        help="From where each cluster fetches the commit below, once: https://, ssh:// or file://, "
        "as its compute nodes reach it. {code} in the command stands for the folder of its files.",
    ),
    HexParameter(
        name=COMMIT,
        type="text",
        default="",
        label="Commit",
        longest=40,
        group=GROUP,
        pattern=SHA1,
        rule="a whole commit, 40 hexadecimal digits as `git rev-parse HEAD` prints them",
        help="All 40 digits, so that nobody can move it: no branch, no tag. Submodules are not "
        "fetched.",
    ),
)


def find_code_problems(cleaned: Mapping[str, Any], argv: Sequence[str]) -> dict[str, str]:
    """Return what is wrong with parameters of code that are valid one by one, by name."""
    if cleaned[ARCHIVE] and (cleaned[REPOSITORY] or cleaned[COMMIT]):
        return {ARCHIVE: "cannot be there beside a git repository: choose one of them"}
    if cleaned[REPOSITORY] and not cleaned[COMMIT]:
        return {COMMIT: "must say which commit of the repository: 40 hexadecimal digits"}
    if cleaned[COMMIT] and not cleaned[REPOSITORY]:
        return {REPOSITORY: "must say where the commit is fetched from"}
    if find_source(cleaned) is None and any(PLACEHOLDER in word for word in argv):
        return {"argv": "has {code} in it: name an archive, or a git repository and a commit"}
    return {}
