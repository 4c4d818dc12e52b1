"""Code that Tare puts on a cluster for `command`: its steps there, and how a job proves it. No I/O.

Code is a commit of a git repository, which a node fetches, or an archive, which is sent. It lies
once on each cluster, in a folder that nobody may write to.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from runners.jobs import CodeSpec, Step

PROGRAM = "payload/code_tree.py"  # steps start in the job's directory
RESULT_NAME = "result.json"
PROOF_NAME = "code.json"
ARCHIVE_NAME = "code-archive"
"""The name under which an archive travels."""
PLACEHOLDER = "{code}"
"""What stands for the folder of the code in a command."""
VARIABLE = "TARE_CODE"
"""The variable in which a program finds that folder."""
ARCHIVE, REPOSITORY, COMMIT = "code_archive", "code_repository", "code_commit"
"""The parameters of a workload that name its code."""


@dataclass(frozen=True)
class CodeSource:
    """Where code comes from: the sha256 of an archive, or a commit of a repository."""

    archive: str = ""
    repository: str = ""
    commit: str = ""

    @property
    def key(self) -> str:
        """Return what the code is known by on each cluster: the commit, or the archive's sha256."""
        return self.commit or self.archive

    @property
    def label(self) -> str:
        """Return what pages call it."""
        return f"commit {self.commit[:12]}" if self.commit else f"archive {self.archive[:12]}"


def find_source(parameters: Mapping[str, Any]) -> CodeSource | None:
    """Return where the code of a workload comes from; None where it names none."""
    source = CodeSource(
        archive=str(parameters.get(ARCHIVE) or ""),
        repository=str(parameters.get(REPOSITORY) or ""),
        commit=str(parameters.get(COMMIT) or ""),
    )
    return source if source.key else None


def explain_missing_path(argv: Iterable[str], paths: Collection[str], label: str) -> str:
    """Return which path below {code} its files do not have; "" if they have all of them.

    `paths` are its files, and its links with a "/" behind: what lies below a link is not known, and
    counts as there. The text goes on after the name of what has the command.
    """
    links = tuple(path for path in paths if path.endswith("/"))
    known = {path.rstrip("/") for path in paths}
    for word in argv:
        path = _find_path(word)
        if path in ("", *known) or f"{path}/".startswith(links):
            continue
        if any(other.startswith(f"{path}/") for other in known):
            continue
        name = path.rpartition("/")[2]
        near = sorted(other for other in known if other.rpartition("/")[2] == name)
        hint = f"there is {near[0]}" if near else _describe_top(known)
        return f"names {word}, which {label} does not have; {hint}"
    return ""


def _find_path(word: str) -> str:
    """Return the path below {code} that a word names; "" where it is not certain that it does.

    Programs have their own marks: `test_x.py::test_y`, `a,b`, `*.yaml`, `{code}/{gpus}.yaml`.
    """
    path = word.removeprefix(f"{PLACEHOLDER}/")
    if path == word or any(mark in path for mark in ":,;=*?[{") or ".." in path.split("/"):
        return ""
    path = posixpath.normpath(path.lstrip("/"))
    return "" if path == "." else path


def _describe_top(paths: Iterable[str]) -> str:
    tops = sorted({path.partition("/")[0] for path in paths})
    return f"at its top there are {', '.join(tops[:5])}"


def make_code_spec(frozen: Mapping[str, Any]) -> CodeSpec:
    """Return the code of a run from what the plan keeps of it."""
    return CodeSpec(**{name: str(frozen[name]) for name in ("source", "digest", "path")})


def describe_code(code: CodeSpec) -> dict[str, str]:
    """Return what the payload is told of the code."""
    return {"source": code.source, "digest": code.digest, "path": code.path}


def plan_unpacking(folder: str, sha256: str, digest: str) -> Step:
    """Return the step that unpacks an archive that travels with the operation."""
    words = (ARCHIVE_NAME, sha256, digest)
    return Step(
        "Unpacking the archive", ("python3", PROGRAM, "unpack", folder, RESULT_NAME, *words)
    )


def plan_fetching(folder: str, source: CodeSource, digest: str) -> Step:
    """Return the step that fetches a commit; `digest` is what it has to have, "" if it is new."""
    words = (source.repository, source.commit, digest)
    return Step("Fetching the commit", ("python3", PROGRAM, "fetch", folder, RESULT_NAME, *words))


def plan_check(folder: str, digest: str) -> Step:
    """Return the step that reads all files of the code."""
    return Step("Reading its files", ("python3", PROGRAM, "check", folder, RESULT_NAME, digest))


def plan_removal(folder: str) -> Step:
    """Return the step that removes the code from its cluster."""
    return Step("Removing its files", ("python3", PROGRAM, "remove", folder))


def build_proof_command(code: CodeSpec) -> list[str]:
    """Return the program and arguments by which a job proves its code before it measures."""
    return [PROGRAM, "prove", code.path, PROOF_NAME, code.digest]
