"""Fields of a preset that starts a script of others: where it lies, and who puts it there."""

from __future__ import annotations

import re
from typing import Any

from django import forms

from dashboard.planning.command_forms import KNOWN_ARCHIVE
from dashboard.planning.sent_files import keep_sent_archive
from experiments.code_copies.archives import (
    ARCHIVE,
    COMMIT,
    LARGEST_MB,
    REPOSITORY,
    find_kept,
    list_paths,
)
from experiments.models import CodeArchive, User
from experiments.planning.closed_sums import is_closed_archive
from experiments.presets import Preset
from experiments.presets.commands import FOLDER
from experiments.presets.preset_drafts import ScriptPlace
from runners.workloads.code_parameters import CODE_PARAMETERS, find_code_problems

SCRIPT_FOLDER, CODE_FILE = "script_folder", "code_file"
NAMES = (SCRIPT_FOLDER, REPOSITORY, COMMIT, CODE_FILE, ARCHIVE)
LONGEST_FOLDER = 300
PART = r"[\w.@+-]+"
ABSOLUTE = re.compile(rf"(?:/{PART}){{1,40}}/?")
BELOW_CODE = re.compile(rf"(?:\{{code\}}/?)?(?:{PART}(?:/{PART}){{0,39}})?/?")
CHARACTERS = "of letters, digits and . _ @ + -"


class ScriptFields(forms.Form):
    """The fields of a preset with a script; of one without they are not there."""

    preset: Preset
    user: User

    script_folder = forms.CharField(
        required=False, max_length=LONGEST_FOLDER, label="Folder of the script"
    )
    code_repository = forms.CharField(required=False, label="Git repository")
    code_commit = forms.CharField(required=False, label="Commit")
    code_file = forms.FileField(
        required=False,
        allow_empty_file=True,
        label="Send an archive",
        help_text=f"A tar, tar.gz, tar.xz or zip of at most {LARGEST_MB} MB, with its subfolders.",
    )
    code_archive = forms.CharField(
        required=False,
        label=KNOWN_ARCHIVE,
        help_text="The sha256 of an archive that was sent before, instead of sending it again.",
    )

    def ask_for_script(self) -> None:
        """Leave the fields out where the preset starts no script of others."""
        if not self.preset.script:
            for name in NAMES:
                del self.fields[name]
            return
        self.fields[SCRIPT_FOLDER].help_text = (
            f"Where {self.preset.script} lies: one path in every environment, {FOLDER} if left "
            "empty. With a commit or an archive below: the folder within it; if left empty "
            f"{self.preset.usual_folder}, or wherever the archive has it."
        )
        self.fields[REPOSITORY].help_text = (
            "https://, ssh:// or file://, as compute nodes reach it. The cluster fetches the "
            "commit once, as soon as the draft is made."
        )
        self.fields[COMMIT].help_text = "All 40 digits, as git rev-parse HEAD prints them."

    def clean_code_file(self) -> CodeArchive | None:
        """Keep the archive, so that nobody has to choose it again; raises ValidationError."""
        return keep_sent_archive(self, self.cleaned_data.get(CODE_FILE))

    def read_script(self, cleaned: dict[str, Any]) -> ScriptPlace | None:
        """Return where the script lies, after its fields are clean; None where they are wrong."""
        if SCRIPT_FOLDER not in self.fields or self.errors.keys() & set(NAMES):
            return None
        if row := cleaned.get(CODE_FILE):
            cleaned[ARCHIVE] = row.sha256
        code: dict[str, str] = {}
        for parameter in CODE_PARAMETERS:
            try:
                code[parameter.name] = str(parameter.clean(cleaned.get(parameter.name) or ""))
            except ValueError as error:
                self._refuse(parameter.name, str(error))
        problems = {} if self.errors else find_code_problems(code, ())
        for name, problem in problems.items():
            self._refuse(name, problem)
        if self._is_closed(code.get(ARCHIVE, ""), is_sent=bool(cleaned.get(CODE_FILE))):
            self.add_error(ARCHIVE, "No archive with this sha256 is on this site: send it.")
        code = {name: text for name, text in code.items() if text}
        if self.errors.keys() & set(NAMES):
            return None
        folder = self._choose_folder(str(cleaned.get(SCRIPT_FOLDER) or "").strip(), code)
        return ScriptPlace(folder, code) if folder else None

    def _is_closed(self, sha256: str, *, is_sent: bool) -> bool:
        """Return whether an archive is not here, or is of a workload that one may not view."""
        if not sha256 or is_sent:
            return False
        return find_kept(sha256) is None or is_closed_archive(sha256, self.user)

    def _refuse(self, name: str, problem: str) -> None:
        self.add_error(name, f"{self.fields[name].label} {problem}.")

    def _choose_folder(self, typed: str, code: dict[str, str]) -> str:
        """Return the folder of the script; "", with an error at its field, if there is none."""
        if not code:
            if typed and not ABSOLUTE.fullmatch(typed):
                self._refuse(
                    SCRIPT_FOLDER,
                    f"is an absolute path {CHARACTERS}, or one within a commit or an archive that "
                    "you name below",
                )
                return ""
            return typed.rstrip("/") or FOLDER
        if not BELOW_CODE.fullmatch(typed):
            self._refuse(
                SCRIPT_FOLDER,
                f"is a path within the code, {CHARACTERS}, without a / before it. For a script "
                "that lies elsewhere name no commit and no archive",
            )
            return ""
        inner = typed.removeprefix("{code}").strip("/")
        if code.get(ARCHIVE):
            return self._find_in_archive(inner, typed, code[ARCHIVE])
        return _join(inner if typed else self.preset.usual_folder)

    def _find_in_archive(self, inner: str, typed: str, sha256: str) -> str:
        """Return the folder of the script in an archive; "", with an error, if it is not there."""
        script = self.preset.script
        places = [
            path.rpartition("/")[0]
            for path in list_paths(sha256)
            if path.rpartition("/")[2] == script
        ]
        if typed and inner in places:
            return _join(inner)
        if not places:
            name = CODE_FILE if self.cleaned_data.get(CODE_FILE) else ARCHIVE
            self.add_error(name, f"There is no {script} in the archive.")
            return ""
        if not typed and len(places) == 1:
            return _join(places[0])
        shown = ", ".join(place or "its top" for place in places[:5])
        where = f"is not {inner or 'its top'}" if typed else "has to be chosen"
        self._refuse(SCRIPT_FOLDER, f"{where}: the archive has {script} in {shown}")
        return ""


def _join(inner: str) -> str:
    return f"{{code}}/{inner}" if inner else "{code}"
