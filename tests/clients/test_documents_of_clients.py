"""The documents of the client: every command and every piece of Python in them works."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path

import matplotlib as mpl
import pytest
import yaml
from tare_client.command_parser import EXPORTS, MODULE_OF_COMMAND

from tests.clients.conftest import CLIENT
from tests.clients.contract_server import RUN, TOKEN, Site, describe_progress
from tests.source_tree import BASE

DOCS = BASE / "docs"
COMMANDS = (DOCS / "command-line.md").read_text()
RUN_ELSEWHERE = ("login", "open", "completion")
"""Commands of the document that other tests run: they ask, open a browser, are for a shell."""


def list_blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def list_commands() -> Iterator[list[str]]:
    """Yield the words of each command of tare in the document, in blocks and in sentences."""
    text = re.sub(r"^```.*?^```", "", COMMANDS, flags=re.MULTILINE | re.DOTALL)
    lines = [line for block in list_blocks(COMMANDS, "sh") for line in block.splitlines()]
    for line in [*lines, *re.findall(r"`(tare [^`]+)`", text)]:
        inside = re.search(r"<\((.*)\)", line)
        words = shlex.split(inside[1] if inside else line, comments=True)
        if words[:1] == ["tare"]:
            yield list(takewhile(lambda word: word not in ("<", ">"), words[1:]))


@pytest.fixture
def finished(site: Site) -> Site:
    """A site with an experiment that has ended as equivalent."""
    site.exit_word = "equivalent"
    site.progress.append(describe_progress(False))
    return site


@pytest.mark.parametrize("words", list(list_commands()), ids=" ".join)
def test_every_command_of_the_document_works(
    finished: Site, tare: Callable[..., int], words: list[str]
) -> None:
    Path("experiment.yaml").write_text("tare: 1\n")
    Path("names.yaml").write_text("clusters: {a: b}\n")
    if words[0] not in RUN_ELSEWHERE:
        finished.bundle = b"x"
        assert tare(*words) == 0
    else:
        assert words[0] in MODULE_OF_COMMAND


def test_the_document_names_every_command_every_export_and_every_exit_code() -> None:
    for name in MODULE_OF_COMMAND:
        assert f"tare {name}" in COMMANDS
    for name in EXPORTS:
        assert f"--{name}" in COMMANDS
    for code in (0, 1, 2, 3, 4, 64, 130):
        assert f"\n| {code} |" in COMMANDS


@pytest.mark.parametrize("place", range(3))
def test_python_of_the_document_runs(
    finished: Site, tare: Callable[..., int], place: int, capsys: pytest.CaptureFixture[str]
) -> None:
    finished.runs = [RUN]
    Path("experiment.yaml").write_text("tare: 1\n")
    blocks = list_blocks((DOCS / "python-client.md").read_text(), "python")
    assert len(blocks) == 3
    exec(compile(blocks[place], f"block {place}", "exec"), {})
    assert {0: "apptainer 1x1", 1: "SLOWER", 2: "20 runs"}[place] in capsys.readouterr().out


def test_the_notebook_draws_its_figure(
    finished: Site, tare: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    notebook = json.loads((DOCS / "notebooks" / "figure.ipynb").read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    names: dict[str, object] = {}
    with mpl.rc_context({"backend": "Agg"}):
        for cell in cells:
            exec(compile("".join(cell["source"]), "figure.ipynb", "exec"), names)
    assert Path("figure.pdf").read_bytes().startswith(b"%PDF")
    assert "slower than bare metal" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("word", "code", "sentence"),
    [
        ("slower", 1, "::error::The container is slower"),
        ("equivalent", 0, ""),
        ("inconclusive", 0, "::warning::"),
        ("failed", 3, "::error::"),
    ],
)
def test_the_workflow_fails_where_the_container_is_slower(
    finished: Site, tmp_path: Path, word: str, code: int, sentence: str
) -> None:
    workflow = yaml.safe_load((DOCS / "ci-example.yml").read_text())
    steps = workflow["jobs"]["measure"]["steps"]
    finished.exit_word = word
    program = tmp_path / "tare"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tare_client "$@"\n')
    program.chmod(0o755)
    (tmp_path / "experiment.yaml").write_text("tare: 1\n")
    path = f"{tmp_path}:{os.environ['PATH']}"
    environment = {"PATH": path, "PYTHONPATH": str(CLIENT), "TARE_URL": finished.url}
    for step in [step for step in steps if "tare " in step.get("run", "") and "name" in step]:
        assert step["env"] == {"TARE_TOKEN": "${{ secrets.TARE_TOKEN }}"}
        done = subprocess.run(
            ["bash", "-e", "-c", step["run"]],
            cwd=tmp_path,
            env={**environment, "TARE_TOKEN": TOKEN},
            capture_output=True,
            text=True,
        )
    assert (done.returncode, done.stderr) == (code, "")
    assert sentence in done.stdout
