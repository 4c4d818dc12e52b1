"""Environment files of conda (`environment.yml`) for recipes: the parser. No files, no network."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement, Requirement

from experiments.definitions.definition_problems import BadDefinition, shorten
from experiments.definitions.yaml_tree import Node, read_tree
from runners.images.dockerfiles import ABOUT_SPACK

MOST_CHARACTERS, MOST_PACKAGES, MOST_CHANNELS = 200_000, 2_000, 20
IGNORED = ("name", "prefix")
"""Keys that conda writes and that say nothing about what is installed."""
LONGEST_SPEC = 300
CHANNEL_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)*(/label/[\w.-]+)?", re.ASCII)
TOKEN = re.compile(r"/t/[^/]+/")
SPEC = re.compile(
    r"(?:(?P<channel>[^\s\[\]]+)::)?(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]*)"
    r"(?P<rest>(?:[\s=<>!~][^\[\]\x00-\x1f]*)?(?:\[[^\[\]\x00-\x1f]*\])?)",
    re.ASCII,
)
LOCKED = re.compile(
    r"(?P<channel>[a-z]+://\S+)/[\w-]+/(?P<name>[^\s/]+)-(?P<version>[^\s/-]+)-(?P<build>[^\s/-]+)"
    r"(?:\.tar\.bz2|\.conda)#(?:sha256:(?P<sha256>[0-9a-f]{64})|(?P<md5>[0-9a-f]{32}))",
    re.ASCII,
)
"""A package in a lock of conda: its address and its check sum."""
LOCKED_BY_PIP = re.compile(r"[A-Za-z0-9][\w.-]*==[\w.!+-]+ --hash=sha256:[0-9a-f]{64}", re.ASCII)
"""A package in the comments at its end, which pip has installed."""
PREFIX = re.compile(r"^prefix[ \t]*:[ \t]*[^\s|>].*\n?", re.MULTILINE)
PYTHON = re.compile(r"(\S*::)?python(?![\w.-])")
DEFAULTS = (
    "defaults stands for Anaconda’s own channels, for which many need a licence: name conda-forge, "
    "or the address, as in https://repo.anaconda.com/pkgs/main."
)


class CondaFileError(Exception):
    """The text is no environment file that can be built from; the message says where and why."""


@dataclass(frozen=True)
class CondaEnvironment:
    """What an environment file asks for."""

    channels: tuple[str, ...]
    specs: tuple[str, ...]
    """What conda installs, such as `numpy=2.1`."""
    pip: tuple[str, ...]
    """What pip installs beside it."""


def read_environment(text: str) -> CondaEnvironment:
    """Return what an environment file asks for. Raises CondaFileError."""
    if len(text) > MOST_CHARACTERS:
        raise CondaFileError(
            f"The environment file has {len(text):,} characters; {MOST_CHARACTERS:,} are the most."
        )
    try:
        root = read_tree(text)
    except BadDefinition as error:
        raise CondaFileError(str(error.problems[0])) from None
    if not isinstance(root.value, dict):
        raise _refuse(root, "an environment file has channels: and dependencies:.")
    if "spack" in root.value or "concrete_specs" in root.value:
        raise CondaFileError(ABOUT_SPACK)
    for key, (line, _) in root.keys.items():
        if key == "variables":
            raise CondaFileError(
                f"Line {line}: variables: are not taken. Enter them in the environments that use "
                "the image."
            )
        if key not in (*IGNORED, "channels", "dependencies"):
            raise CondaFileError(
                f"Line {line}: {shorten(key)} is not known here. An environment file has name, "
                "channels and dependencies."
            )
    specs, pip = _read_dependencies(root.value.get("dependencies"), root)
    channels = _read_channels(root.value.get("channels"), root)
    return CondaEnvironment(channels, specs, pip)


def leave_out_prefix(text: str) -> str:
    """Return an environment file without its `prefix`, a folder that often names who wrote it.

    Recipes are shown to all who may view the image, and it says nothing of what is installed.
    """
    shorter = PREFIX.sub("", text)
    try:
        return shorter if read_environment(shorter) == read_environment(text) else text
    except CondaFileError:
        return text


def has_python(environment: CondaEnvironment) -> bool:
    """Return whether an environment names Python itself."""
    return any(map(PYTHON.match, environment.specs))


def read_lock(text: str) -> CondaEnvironment:
    """Return what the lock of a finished build names, one package each. Raises CondaFileError."""
    channels: dict[str, None] = {}
    specs = []
    pip = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("# ") and "==" in line:
            pip.append(line.removeprefix("# "))
            if not LOCKED_BY_PIP.fullmatch(pip[-1]):
                raise CondaFileError(f"Line {number} of the lock is not understood: {line[:80]}")
        if not line or line.startswith(("#", "@")):
            continue
        match = LOCKED.fullmatch(line)
        if match is None:
            raise CondaFileError(f"Line {number} of the lock is not understood: {line[:80]}")
        kind = "sha256" if match["sha256"] else "md5"
        channels[match["channel"]] = None
        specs.append(
            f"{match['name']}[version='=={match['version']}',build='{match['build']}',"
            f"{kind}='{match['sha256'] or match['md5']}']"
        )
    return CondaEnvironment(tuple(channels), tuple(specs), tuple(pip))


def _read_channels(node: Node | None, root: Node) -> tuple[str, ...]:
    channels: list[str] = []
    for row in _list(node, root, "channels"):
        channel = _text(row, "a channel")
        if channel == "nodefaults":
            continue
        if problem := explain_bad_channel(channel):
            raise _refuse(row, problem)
        if channel not in channels:
            channels.append(channel.rstrip("/"))
    if not channels:
        raise _refuse(root, "channels: has to name where packages come from, such as conda-forge.")
    if len(channels) > MOST_CHANNELS:
        raise _refuse(root, f"{len(channels)} channels; {MOST_CHANNELS} are the most.")
    return tuple(channels)


def explain_bad_channel(channel: str) -> str:
    """Return why packages cannot come from this channel, or ""."""
    if channel == "defaults":
        return DEFAULTS
    if "://" not in channel:
        if CHANNEL_NAME.fullmatch(channel):
            return ""
        return f"{shorten(channel)} is no channel. Write its name or its address."
    try:
        parts = urlsplit(channel)
    except ValueError:
        return f"{shorten(channel)} is no address."
    if parts.scheme not in ("https", "http", "file"):
        return f"{shorten(channel)}: channels are reached by https://, http:// or file://."
    if parts.username is not None or parts.password is not None or TOKEN.search(parts.path + "/"):
        return (
            "the address of a channel holds a password or a token, and everybody who may view the "
            "image would read it. Use a channel without."
        )
    if parts.scheme == "file" and (parts.netloc or ".." in parts.path.split("/")):
        return f"{shorten(channel)}: write file:///PATH, a folder on the cluster’s nodes."
    if parts.query or parts.fragment or re.search(r"[\s\x00-\x1f]", channel):
        return f"{shorten(channel)} is no address of a channel."
    return "" if parts.netloc or parts.scheme == "file" else f"{shorten(channel)} names no host."


def _read_dependencies(node: Node | None, root: Node) -> tuple[tuple[str, ...], tuple[str, ...]]:
    specs: list[str] = []
    pip: list[str] = []
    for row in _list(node, root, "dependencies"):
        if isinstance(row.value, dict):
            if set(row.value) != {"pip"}:
                raise _refuse(
                    row, "beside packages of conda, dependencies has a list pip: at most."
                )
            pip += [_read_requirement(inner) for inner in _list(row.value["pip"], row, "pip")]
            continue
        specs.append(_read_spec(row))
    if not specs:
        raise _refuse(
            root,
            "dependencies: names no package of conda. Of Python packages alone, make a lock file.",
        )
    if len(specs) + len(pip) > MOST_PACKAGES:
        raise _refuse(root, f"more than {MOST_PACKAGES:,} packages.")
    if pip and not any(map(PYTHON.match, specs)):
        raise _refuse(root, "a list pip: needs python among the dependencies.")
    return tuple(dict.fromkeys(specs)), tuple(dict.fromkeys(pip))


def _read_spec(row: Node) -> str:
    spec = _text(row, "a package").strip()
    match = SPEC.fullmatch(spec)
    if match is None or len(spec) > LONGEST_SPEC:
        raise _refuse(
            row,
            f"{shorten(spec)} is no package. Write NAME, NAME=VERSION or NAME=VERSION=BUILD, as "
            "conda takes them.",
        )
    if match["channel"] and (problem := explain_bad_channel(match["channel"])):
        raise _refuse(row, problem)
    if re.search(r"\b(url|channel)\s*=", match["rest"]):
        raise _refuse(row, "a package is named by its name, not by an address.")
    return spec


def _read_requirement(row: Node) -> str:
    text = _text(row, "a package of pip").strip()
    if text.startswith("-"):
        raise _refuse(
            row,
            f"{shorten(text)} is an option of pip: write each package out. Which index is used, "
            "the cluster’s set-up lines or pip’s configuration there decide.",
        )
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        raise _refuse(
            row, f"{shorten(text)} is no package of pip. Write NAME or NAME==VERSION."
        ) from None
    if requirement.url:
        raise _refuse(row, "a package of pip is named by its name, not by an address.")
    return str(requirement)


def _list(node: Node | None, parent: Node, name: str) -> list[Node]:
    if node is None or node.value is None:
        return []
    if not isinstance(node.value, list):
        raise _refuse(node, f"{name}: has to be a list.")
    return node.value


def _text(row: Node, what: str) -> str:
    if not isinstance(row.value, str) or not row.value.strip():
        raise _refuse(row, f"{what} is a text.")
    return row.value


def _refuse(node: Node, sentence: str) -> CondaFileError:
    return CondaFileError(f"Line {node.line}: {sentence}")
