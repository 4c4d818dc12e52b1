"""The door through which bundles come: nothing of one is believed before all of it was checked.

The checks are those of `verify.py`, which every bundle carries: what a referee is told and what
Tare accepts cannot differ. It is this site's copy that runs, never the bundle's own. What a server
needs besides stands here: bounds on what is read at once, before it is read.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from experiments.bundles import verify
from experiments.bundles.study_documents import FORMAT
from experiments.imports.archive import BoundedStream
from experiments.imports.problems import ImportProblem
from runners.untrusted import MOST_PARTS, clean_text, has_many_parts

MEBIBYTE = 1 << 20
MOST_LISTED = 16 * MEBIBYTE
"""Bytes of a zip's list of members: of some 120,000 files."""
MOST_UNPACKED = 4 * 10**9
MOST_OF_RUNS = 256 * MEBIBYTE
"""Of the documents of all runs together, without their steps: they are held at once."""
MOST_OF_RUNS_ON_PAGES = 16 * MEBIBYTE
"""The same in a process that shows pages to others meanwhile.

A run has about 3.6 kB there: 1,000 runs of 1,000 steps have 4 MB, and 4,000 runs fit.
"""
LIMITS = (
    (r"data/runs/[0-9a-f]{32}/run\.json", MEBIBYTE),
    (r"data/runs/[0-9a-f]{32}/steps\.json", 64 * MEBIBYTE),
    (r"data/runs/[0-9a-f]{32}/record\.json", 16 * MEBIBYTE),
    (r"data/runs/[0-9a-f]{32}/output\.txt", 64 * MEBIBYTE),
    (r"data/jobs/[0-9a-f]{32}/job\.sh", 4 * MEBIBYTE),
    (r"data/snapshots/[0-9a-f]{64}\.json", 8 * MEBIBYTE),
    (r"data/figures/[a-z-]+\.svg", 64 * MEBIBYTE),
    (r"data/ro-crate-metadata\.json|(tag)?manifest-sha256\.txt", 256 * MEBIBYTE),
    (r"data/events\.jsonl", 64 * MEBIBYTE),
    (r"data/provenance\.jsonld", 512 * MEBIBYTE),
    (r"data/images/[0-9a-f]{64}\.(spdx|cdx)\.json", 64 * MEBIBYTE),
    (r"data/[a-z_]+\.(json|txt)", 32 * MEBIBYTE),
    (r"data/(CITATION\.cff|artefact-evaluation\.md)", MEBIBYTE),
    (r"bagit\.txt|bag-info\.txt|README\.txt|verify\.py", MEBIBYTE),
    (r"allowed_signers|tagmanifest-sha256\.txt\.sig", MEBIBYTE),
)
"""What a bundle may hold, and how large each file of it may be."""
NAMED = 5
LONGEST = 300
UNREADABLE = (
    *(LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError),
    *(OSError, EOFError, zipfile.BadZipFile),
)
"""Errors of documents that are not what they should be."""


class BoundedBundle(verify.Bundle):
    """A bundle whose files have the names and sizes that Tare's bundles have."""

    def __init__(self, path: Path, most_of_runs: int) -> None:
        _require_short_list(path)
        super().__init__(str(path))
        if self.zip is None:
            raise ImportProblem("This is a folder: a bundle is imported as its zip file.")
        if not re.fullmatch(r"[^./\\:][^/\\:]*/", self.prefix):
            raise ImportProblem("A bundle is one folder in a zip file; this is something else.")
        if any(
            row.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
            for row in self.zip.infolist()
        ):
            raise ImportProblem("Of zip files only those are read that are packed by deflate.")
        in_all = of_runs = 0
        for name, size in self.sizes.items():
            most = _find_limit(name)
            if size > most:
                raise ImportProblem(f"{_shorten(name)} is larger than {most // MEBIBYTE} MiB.")
            in_all += size
            of_runs += size * name.endswith("/run.json")
        if in_all > MOST_UNPACKED or of_runs > MOST_OF_RUNS:
            raise ImportProblem("It is larger than any bundle that Tare imports.")
        if of_runs > most_of_runs:
            raise ImportProblem(
                f"It has {of_runs // MEBIBYTE} MiB of descriptions of runs, and a page reads "
                f"{most_of_runs // MEBIBYTE} MiB. An administrator can import it by "
                "manage.py import_bundle."
            )

    def read(self, name: str) -> bytes:
        """Return a file. Raises ImportProblem for JSON that would not fit into the memory."""
        content = super().read(name)
        if name.endswith((".json", ".jsonl")):
            if has_many_parts(content):
                raise ImportProblem(f"{name} has more than {MOST_PARTS:,} lists, tables and texts.")
            try:
                content.decode()
            except UnicodeDecodeError:
                raise ImportProblem(f"{name} is not text in UTF-8.") from None
        return content


def _find_limit(name: str) -> int:
    for pattern, most in LIMITS:
        if re.fullmatch(pattern, name):
            return most
    raise ImportProblem(f"{_shorten(name)} is no file of a bundle.")


def _require_short_list(path: Path) -> None:
    """Raise ImportProblem before the zip reader takes a list of a million members into memory."""
    with path.open("rb") as stream:
        bounded = cast(IO[bytes], BoundedStream(stream, MOST_LISTED))
        try:
            zipfile.ZipFile(bounded).close()
        except ImportProblem:
            raise
        except UNREADABLE as error:
            raise ImportProblem(f"This is no zip file, or a damaged one: {error}.") from None


class Findings(verify.Report):
    """What `verify.py` found wrong, in place of the lines that it prints."""

    def __init__(self) -> None:
        super().__init__(show_all=False)
        self.problems: list[str] = []

    def say(self, line: str) -> None:
        """Print nothing: `problems` has all that matters."""

    def add(self, what: str, printed: Any, computed: Any, show: bool = False) -> None:
        """Note a number that is not what it should be."""
        super().add(what, printed, computed, show)
        if not verify.is_same(printed, computed):
            values = verify.describe(printed), verify.describe(computed)
            self.problems.append("{}: {} is stated, {} computed".format(what, *values))

    def fail(self, text: str) -> None:
        """Note what is wrong, in words."""
        super().fail(text)
        self.problems.append(text.rstrip("."))


@dataclass(frozen=True)
class CheckedBundle:
    """A bundle all of whose files and numbers were checked."""

    files: BoundedBundle
    study: verify.Study
    sha256: str
    """Of the zip file."""
    signer: str
    """The fingerprint of the key that signed it; "" if it is not signed."""

    def read_json(self, name: str) -> Any:
        """Return a document. Raises ImportProblem if it is none."""
        with _explain_refusals():
            return self.files.read_json(name)

    def read_lines(self, name: str) -> list[str]:
        """Return the lines of a text."""
        with _explain_refusals():
            return self.files.read(name).decode().split("\n")


@contextmanager
def open_bundle(path: Path, most_of_runs: int = MOST_OF_RUNS) -> Iterator[CheckedBundle]:
    """Check all of a bundle and hand it out. Raises ImportProblem with what is wrong, in words."""
    with path.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    with _explain_refusals():
        files = BoundedBundle(path, most_of_runs)
    try:
        with _explain_refusals():
            study = _check(files)
            signer = _find_signer(files)
        yield CheckedBundle(files, study, sha256, signer)
    finally:
        if files.zip is not None:
            files.zip.close()


@contextmanager
def _explain_refusals() -> Iterator[None]:
    """Raise as ImportProblem what the checks refuse, and what breaks them."""
    try:
        yield
    except ImportProblem:
        raise
    except verify.Refused as why:
        raise ImportProblem(_shorten(str(why))) from None
    except UNREADABLE as error:
        what = _shorten(repr(error))
        raise ImportProblem(f"Its documents are not what they should be: {what}.") from None


def _check(files: BoundedBundle) -> verify.Study:
    """Return the study that a bundle states, after all that it states was checked."""
    for needed in ("bagit.txt", "bag-info.txt", "manifest-sha256.txt", "data/experiment.json"):
        if needed not in files.sizes:
            raise ImportProblem(f"{needed} is missing: this is no bundle, or not all of one.")
    _raise_problems(list(verify.check_sums(files)))
    about = files.read_json("data/experiment.json")
    if about.get("format") != FORMAT or about.get("rules") != verify.RULES:
        raise ImportProblem(
            f"It was made by another version of the method: “{about.get('format')}”, rules "
            f"{about.get('rules')}. This site reads “{FORMAT}”, rules {verify.RULES}."
        )
    study, findings = verify.Study(files), Findings()
    _require_own_folders(study, files)
    verify.check_definition(study, findings)
    _raise_problems(findings.problems)
    verify.check_runs(study, findings)
    _raise_problems(findings.problems)
    verify.check_pairs(study, findings)
    _raise_problems(findings.problems)
    return study


def _find_signer(files: BoundedBundle) -> str:
    """Return by which key the bundle is signed; ImportProblem for a signature that is wrong."""
    fingerprint, problem = verify.find_signer(files)
    _raise_problems([problem] if problem else [])
    return fingerprint


def _require_own_folders(study: verify.Study, files: BoundedBundle) -> None:
    """Raise ImportProblem where a run lies in another one's folder, or a folder has no run."""
    folders = {name.split("/")[2] for name in files.sizes if name.startswith("data/runs/")}
    runs = [run["run"] for run in study.runs]
    if set(runs) != folders or len(runs) != len(folders):
        raise ImportProblem("Its runs are not those of their folders: one is there twice, or none.")


def _raise_problems(problems: list[str]) -> None:
    if problems:
        more = f"; and {len(problems) - NAMED:,} more" if len(problems) > NAMED else ""
        named = "; ".join(_shorten(text).rstrip(".") for text in problems[:NAMED])
        raise ImportProblem(f"The bundle does not verify. {named}{more}.")


def _shorten(text: str) -> str:
    return clean_text(text)[:LONGEST]
