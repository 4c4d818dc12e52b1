"""Every command in the documents names a program, a target and options that there are."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import cache
from pathlib import Path

import pytest
from django.core.management import call_command, get_commands, load_command_class
from django.core.management.base import BaseCommand, CommandError

from runners.payload.data_files import Entry, compute_digest
from tests.factories import AdminFactory
from tests.source_tree import BASE

DOCUMENTS = sorted(
    [
        *(BASE / "docs").rglob("*.md"),
        *(BASE / name for name in ("README.md", "CONTRIBUTING.md")),
        *(BASE / folder / "README.md" for folder in ("lab", "benchmarks")),
    ]
)
CLIENT = BASE / "clients" / "python"
BLOCK = re.compile(r"^[ \t]*```sh\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`((?:[A-Z_]+=\S+ )*(?:manage\.py|make|tare) [^`\n]+)`")
ASSIGNED = re.compile(r"([A-Z][A-Z_]*)=")
NOT_TRIED = {
    "docker": "needs a Docker engine: `make compose-proof` runs the same commands",
    "git": "would change the checkout",
    "cd": "goes into a folder that the line before has made",
    "export": "sets variables of a shell",
    "curl": "asks a site that is not there",
    "cut": "reads a file that the line before has fetched; a standard program",
    "ssh-keygen": "needs a key and a signature: the tests of signed bundles run it",
    "pip": "installs into the environment of the tests",
    "source": "reads what a command prints into a shell",
    "uv": "asks a package index: `make locks` has the same commands",
    "unzip": "needs a bundle; a standard program",
}
"""Programs whose commands are not tried, each with the reason."""
EXECUTED = {
    "status": "No worker runs",
    "new_credential_key": "=",
    "rotate_credentials": "",
    "new_signing_key": "",
    "unstage_unused --dry-run": "",
    "update_advisories": "",
}
"""Commands of manage.py, each with something that it prints where the site is empty."""
NOT_EXECUTED = {
    "checkcluster": "logs in to a cluster: tests/lab does",
    "createsuperuser": "asks for a password",
    "import_by_hand_study": "needs a folder of results: its own tests execute it",
    "import_tf_cnn_logs": "needs a folder of logs: its own tests execute it",
    "export_bundle": "needs an experiment that has ended: the tests of bundles execute it",
}
DATA_SET = "/projects/data/digits"
"""The folder of a block that is a loop: it is executed as a whole, on another folder."""
VERIFY = "experiments/bundles/verify.py"


def split_commands(block: str) -> Iterator[list[str]]:
    """Yield the simple commands of a block of shell, as lists of words."""
    joined = block.replace("\\\n", " ")
    for line in joined.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="&;|<>()")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in lexer:
            if set(word) & set("&;|()") and set(word) <= set("&;|()<>"):
                if words:
                    yield words
                words = []
            else:
                words.append(word)
        if words:
            yield words


def drop_files(words: list[str]) -> list[str]:
    """Return the words without what leads into files or out of them."""
    kept: list[str] = []
    skips = False
    for word in words:
        if skips:
            skips = False
        elif set(word) <= set("<>"):
            skips = True
        else:
            kept.append(word)
    return kept


TARGETS = {
    words[1]
    for path in DOCUMENTS
    for block in BLOCK.findall(path.read_text())
    for words in split_commands(block)
    if words[0] == "make" and len(words) > 1
}
"""Targets of the blocks of all documents."""


@cache
def list_targets() -> set[str]:
    return set(re.findall(r"^([\w-]+):", (BASE / "Makefile").read_text(), re.MULTILINE))


@cache
def read_sources() -> str:
    """Return where variables of the environment are read."""
    paths = [BASE / "Makefile", *(BASE / "standalone").rglob("*.py"), *(BASE / "lab").rglob("*.py")]
    paths += [*(BASE / "tests").glob("*.py"), *(BASE / "dashboard").glob("*.py")]
    paths.remove(Path(__file__))
    return "\n".join(path.read_text() for path in paths)


def try_make(words: list[str]) -> str:
    targets = [word for word in words if "=" not in word]
    missing = [target for target in targets if target not in list_targets()]
    names = [match[1] for word in words if (match := ASSIGNED.match(word))]
    missing += [name for name in names if name not in read_sources()]
    return f"make has no {missing}" if missing else ""


def try_manage(words: list[str]) -> str:
    """Have the command's own parser read the words; nothing is executed."""
    if not words or words[0] not in get_commands():
        return f"manage.py has no command {words[:1]}"
    application = get_commands()[words[0]]
    command = (
        application
        if isinstance(application, BaseCommand)
        else load_command_class(application, words[0])
    )
    parser = command.create_parser("manage.py", words[0])
    try:
        parser.parse_args(words[1:])
    except (CommandError, SystemExit) as error:
        return f"manage.py {' '.join(words)}: {error}"
    return ""


def try_tare(words: list[str]) -> str:
    """Have the client's own parser read the words, in a process of its own."""
    if not CLIENT.exists():
        return "" if words else "tare needs a command"
    program = (
        "import sys; from tare_client.command_parser import build_parser; "
        "build_parser().parse_args(sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words], cwd=CLIENT, capture_output=True, text=True
    )
    return done.stderr if done.returncode else ""


def try_python(words: list[str]) -> str:
    """Return what is wrong with a program of Python: its module or file, or its options."""
    if words[:1] == ["-c"]:
        compile(words[1], "a document", "exec")
        return ""
    if words[:1] == ["-m"]:
        return "" if importlib.util.find_spec(words[1]) else f"no module {words[1]}"
    if words and words[0] == "manage.py":
        return try_manage(words[1:])
    if words and Path(words[0]).name == "verify.py":
        done = subprocess.run([sys.executable, VERIFY, "--help"], cwd=BASE, capture_output=True)
        unknown = [w for w in words[1:] if w.startswith("-") and w not in done.stdout.decode()]
        return f"verify.py has no {unknown}" if unknown else ""
    return "" if words and (BASE / words[0]).exists() else f"no file {words[:1]}"


TRIED: dict[str, Callable[[list[str]], str]] = {
    "make": try_make,
    "manage.py": try_manage,
    "python": try_python,
    "python3": try_python,
    ".venv/bin/python": try_python,
    "tare": try_tare,
}


def find_problem(words: list[str]) -> str:
    """Return what is wrong with a simple command; nothing where it can be executed."""
    words = drop_files(words)
    while words and ASSIGNED.match(words[0]):
        name = words.pop(0).partition("=")[0]
        if name not in read_sources():
            return f"nothing reads the variable {name}"
    if not words:
        return ""
    if words[0] == "docker" and "manage.py" in words:
        return try_manage(words[words.index("manage.py") + 1 :])
    if words[0] in TRIED:
        return TRIED[words[0]](words[1:])
    if words[0] in NOT_TRIED or (BASE / words[0]).is_file():
        return ""
    return f"{words[0]!r} is neither tried nor in the table of what is not"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(BASE)))
def test_every_command_of_a_document_can_be_executed(document: Path) -> None:
    text = document.read_text()
    blocks = [block for block in BLOCK.findall(text) if DATA_SET not in block]
    commands = [words for block in blocks for words in split_commands(block)]
    problems = [problem for words in commands if (problem := find_problem(words))]
    assert problems == []


def list_manage_commands() -> set[str]:
    """Return what the blocks of all documents have behind `manage.py`."""
    blocks = [block for path in DOCUMENTS for block in BLOCK.findall(path.read_text())]
    commands = [drop_files(words) for block in blocks for words in split_commands(block)]
    return {
        " ".join(words[words.index("manage.py") + 1 :])
        for words in commands
        if "manage.py" in words
    }


def test_each_command_of_manage_py_is_executed_or_has_a_reason() -> None:
    names = {command.split()[0] for command in list_manage_commands() - set(EXECUTED)}
    assert names == set(NOT_EXECUTED), "add them to EXECUTED, or to NOT_EXECUTED with the reason"
    assert set(EXECUTED) <= list_manage_commands()


@pytest.mark.django_db
@pytest.mark.parametrize("command", EXECUTED)
def test_a_command_of_manage_py_does_what_it_does(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    AdminFactory()
    ends = pytest.raises(SystemExit, match="1") if command == "status" else nullcontext()
    with ends:
        call_command(*command.split())
    assert EXECUTED[command] in capsys.readouterr().out


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_make_knows_how_to_make_each_target(target: str) -> None:
    done = subprocess.run(
        ["make", "--dry-run", target], cwd=BASE, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_digest_of_a_data_set_that_anybody_works_out_is_tare_s(tmp_path: Path) -> None:
    text = (BASE / "docs" / "data-sets.md").read_text()
    (block,) = (block for block in BLOCK.findall(text) if DATA_SET in block)
    entries = {}
    for name, content in (("b", b"1"), ("a/c d", b""), ("Z", b"\0\n")):
        path = tmp_path / name
        entries[name.encode()] = Entry(len(content), 0, hashlib.sha256(content).hexdigest())
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    done = subprocess.run(
        ["bash", "-c", block.replace(DATA_SET, shlex.quote(str(tmp_path)))],
        capture_output=True,
        text=True,
        check=True,
    )
    assert compute_digest(entries) == f"sha256:{done.stdout.split()[0]}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(BASE)))
def test_every_command_in_a_sentence_has_its_options(document: Path) -> None:
    problems = []
    for code in INLINE.findall(document.read_text()):
        for words in split_commands(code):
            problem = find_named_problem(words)
            if problem:
                problems.append(f"{code}: {problem}")
    assert problems == []


def find_named_problem(words: list[str]) -> str:
    """Return which command or option is missing that a sentence names; it need not name all."""
    words = [word for word in words if not ASSIGNED.match(word)]
    if words[0] == "make":
        return try_make(words[1:])
    if words[0] != "manage.py":
        return "" if words[0] != "tare" or len(words) < 3 else try_tare([words[1], "--help"])
    if words[1] not in get_commands():
        return f"no command {words[1]}"
    application = get_commands()[words[1]]
    assert isinstance(application, str)
    parser = load_command_class(application, words[1]).create_parser("manage.py", words[1])
    known = {option for action in parser._actions for option in action.option_strings}
    unknown = [word for word in words[2:] if word.startswith("-") and word not in known]
    return f"no option {unknown}" if unknown else ""


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("make demo", False),
        ("make no-such-target", True),
        ("TARE_PORT=8001 make demo", False),
        ("NO_SUCH_VARIABLE=1 make demo", True),
        ("manage.py status worker", False),
        ("manage.py status --no-such-option", True),
        ("manage.py no_such_command", True),
        ("docker compose run --rm web python manage.py createsuperuser", False),
        ("docker compose run --rm web python manage.py no_such_command", True),
        ("docker compose exec postgres pg_dump -U tare -Fc tare > tare.dump", False),
        ("unzip study.zip && python3 tare-12-*/verify.py", False),
        ("unzip study.zip && python3 tare-12-*/verify.py --no-such-option", True),
        ("no-such-program --help", True),
        ("source <(make no-such-target)", True),
        ("make demo    # it's ready", False),
    ],
)
def test_what_is_not_there_is_noticed(line: str, problem: bool) -> None:
    assert any(find_problem(words) for words in split_commands(line)) == problem
