"""Completion, by the shells themselves."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tare_client.command_line import main
from tare_client.command_parser import MODULE_OF_COMMAND

BASH = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_tare
printf '%s\\n' "${COMPREPLY[@]}"
"""
# zsh completes in its line editor alone: one drives another, which prints what it would complete.
# “ready” is written so that the line's own echo, which may come first, is not taken for it.
ZSH = """
zmodload zsh/zpty
zpty -b shell zsh -f -i
zpty -w shell "PS1=; stty -echo; autoload -Uz compinit; compinit -D -u; source $1; cd $2"
zpty -w shell "compadd () { local -a given; builtin compadd -O given -A given \\"\\$@\\"; \\
  print -r -- \\"<\\${(j: :)given}>\\"; builtin compadd \\"\\$@\\" }; print rea''dy"
zpty -r shell output '*ready*'
zpty -w -n shell "$3"$'\\t'
zpty -r shell output '*<*>*'
print -r -- "$output"
zpty -d shell
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my study.yaml").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_script(shell: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["completion", shell]) == 0
    path = folder / f".completion.{shell}"
    path.write_text(capsys.readouterr().out)
    return path


def complete(script: Path, *words: str) -> list[str]:
    done = subprocess.run(
        ["bash", "--norc", "-c", BASH, "bash", script, *words], capture_output=True, text=True
    )
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["tare", "la"], ["launch"]),
        (["tare", "co"], ["compare", "completion"]),
        (["tare", "launch", "--dr"], ["--draft"]),
        (["tare", "launch", "my"], ["my study.yaml"]),
        (["tare", "launch", "x.yaml", "--map", "my"], ["my study.yaml"]),
        (["tare", "follow", "3", "--every", ""], [""]),
        (["tare", "completion", "z"], ["zsh"]),
        (["tare", "export", "3", "--bu"], ["--bundle"]),
        (["tare", "nonsense", "x"], [""]),
    ],
)
def test_bash_completes(
    folder: Path, words: list[str], expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert complete(write_script("bash", folder, capsys), *words) == expected


def test_bash_knows_every_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = write_script("bash", folder, capsys)
    assert set(complete(script, "tare", "")) == {*MODULE_OF_COMMAND, "--help", "--version"}
    for name in MODULE_OF_COMMAND:
        assert "--json" in complete(script, "tare", name, "--")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tare la", "launch"),
        ("tare launch --dr", "--draft"),
        ("tare completion z", "zsh"),
        ("tare launch my", "my study.yaml"),
    ],
)
def test_zsh_completes(
    folder: Path, line: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script = write_script("zsh", folder, capsys)
    done = subprocess.run(
        ["zsh", "-f", "-c", ZSH, "zsh", script, folder, line],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert expected in done.stdout, (done.stdout, done.stderr)
