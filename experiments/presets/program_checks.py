"""Checks before a launch whether what commands start is there, by the inspections of environments.

An inspection looks for the programs that known programs start, and for what the commands of
workloads in the catalogue name: the first word, scripts and folders by absolute paths, and modules
of Python. What a shell script starts by itself nobody can know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from experiments.models import Environment, Workload
from experiments.planning.frozen_code import Copies, find_code_copies
from experiments.presets.commands import COMMANDS
from experiments.presets.preset_drafts import has_package, list_known_packages
from experiments.software import inspections, parity
from runners.code_copies import PLACEHOLDER

MOST_WORDS, LONGEST_WORD = 100, 300
"""Of what one inspection looks for: all words stand in one command."""
MOST_WORKLOADS = 200
SEEN_BY_ALL = (Workload.Visibility.MEMBERS, Workload.Visibility.PUBLIC)
KNOWN = frozenset(name for ready in COMMANDS.values() for name in ready.programs)
SETTING = re.compile(r"(?:--?)?[A-Za-z_][\w-]*=")
"""The beginning of a variable for `env`, or of an option with its value."""
NAME = re.compile(r"[A-Za-z0-9_][\w.+-]*")
SCRIPT = re.compile(r"/[^:]*\.(?:py|sh|pl|R|jl)")
CODE = f"{PLACEHOLDER}/"
CODE_SCRIPT = re.compile(re.escape(CODE) + r"[^:]*\.py")
PYTHON = "{python}"
LEGACY_KERAS = "TF_USE_LEGACY_KERAS=1"
KERAS_3_SINCE = (2, 16)
"""The version of TensorFlow from which on Keras 2 is the package tf_keras."""
PACKAGES: Mapping[str, tuple[str, ...]] = {
    "pyperf": ("pyperf",),
    "pytest": ("pytest", "pytest-benchmark"),
}
"""Modules that known programs start -> the packages that they need."""


@dataclass(frozen=True)
class Needs:
    """What a command starts: programs by name or absolute path, and packages of Python."""

    words: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    keras_folder: str = ""
    """Where tf_keras may lie beside a script that wants Keras 2; "" for other commands."""


def list_needs(parameters: Mapping[str, Any]) -> Needs:
    """Return what the command of a workload `command` starts, as far as it shows that."""
    argv, files = list(parameters.get("argv", ())), parameters.get("files", {})
    words: list[str] = []
    packages: list[str] = []
    is_first = True
    for index, word in enumerate(argv):
        if word == PYTHON:
            if argv[index + 1 : index + 2] == ["-m"] and index + 2 < len(argv):
                module = argv[index + 2].partition(".")[0]
                packages += _list_packages(module, argv)
            is_first = False
        elif SETTING.match(word):
            continue
        elif is_first and word not in files:
            is_first = word == "env"
            if word.startswith("/") or NAME.fullmatch(word):
                words.append(word)
        elif word in KNOWN or SCRIPT.fullmatch(word):
            words.append(word)
    known = [word for word in words if len(word) <= LONGEST_WORD and "{" not in word]
    scripts = [word for word in known if SCRIPT.fullmatch(word)]
    scripts += [word for word in argv if CODE_SCRIPT.fullmatch(word)]
    keras = f"{scripts[0].rpartition('/')[0]}/tf_keras" if LEGACY_KERAS in argv and scripts else ""
    return Needs(tuple(dict.fromkeys(known)), tuple(packages), keras)


def _list_packages(module: str, argv: Sequence[str]) -> tuple[str, ...]:
    if module == "pytest" and not any(word.startswith("--benchmark") for word in argv):
        return ("pytest",)
    return PACKAGES.get(module, ())


def list_words_to_look_for() -> list[str]:
    """Return what an inspection looks for; one query.

    Its script can be read by everybody who can log in, and so only words of workloads that they
    may view stand in it.
    """
    rows = Workload.objects.filter(kind="command", visibility__in=SEEN_BY_ALL).order_by("-pk")
    words = sorted(KNOWN)
    for parameters in rows.values_list("parameters", flat=True)[:MOST_WORKLOADS]:
        needs = list_needs(parameters)
        words += needs.words
        if needs.keras_folder and not needs.keras_folder.startswith(CODE):
            words.append(needs.keras_folder)
    return list(dict.fromkeys(words))[:MOST_WORDS]


def list_known_programs(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return name and path of each known program that an inspection looked for; "" if missing.

    Other words are of workloads, which not everybody may view who may view an environment.
    """
    paths = facts.get("programs") or {}
    return [(name, str(paths[name])) for name in sorted(KNOWN) if name in paths]


def describe_missing_programs(
    workloads: Iterable[Workload], environments: Sequence[Environment]
) -> list[str]:
    """Return sentences on what the workloads start and environments lack, or may lack.

    No query if no workload is a command that starts anything by name; else five, and one more
    where Tare puts the code of any there.
    """
    needs = [(row, list_needs(row.parameters)) for row in workloads if row.kind == "command"]
    needs = [(row, need) for row, need in needs if need.words or need.packages]
    if not needs:
        return []
    related = Environment.objects.select_related("cluster", "runtime", "staged_image__image")
    rows = related.in_bulk([environment.pk for environment in environments])
    chosen = [rows[environment.pk] for environment in environments if environment.pk in rows]
    software = inspections.find_known_software(chosen)
    copies = find_code_copies([row for row, _ in needs], chosen[0].cluster) if chosen else {}
    sentences = [
        sentence
        for row, need in needs
        for sentence in _describe_workload(
            row, _leave_out_keras_of_code(row, need, copies), chosen, software
        )
    ]
    return list(dict.fromkeys(sentences))


def _leave_out_keras_of_code(row: Workload, needs: Needs, copies: Copies) -> Needs:
    """Return the needs without tf_keras, where that is known to lie in the code beside the script.

    Where the files of the code are not known yet, nothing is said of it.
    """
    source = row.code_source
    if source is None or not needs.keras_folder.startswith(CODE):
        return needs
    paths = copies[source.key].paths if source.key in copies else None
    inner = needs.keras_folder.removeprefix(CODE)
    if not paths or any(f"{path.rstrip('/')}/".startswith(f"{inner}/") for path in paths):
        return replace(needs, keras_folder="")
    return needs


def _describe_workload(
    row: Workload,
    needs: Needs,
    environments: Sequence[Environment],
    software: Mapping[int, inspections.KnownSoftware],
) -> Iterator[str]:
    unknown: dict[str, list[str]] = {}
    for environment in environments:
        known = software[environment.pk]
        missing, not_looked_for = _find_missing(needs, known)
        if missing:
            yield (
                f"{row} starts {' and '.join(missing)}, which the inspection of {environment} did "
                "not find there: its runs would fail. Install it, or change the command; then "
                "inspect again."
            )
        if not_looked_for:
            unknown.setdefault(" and ".join(not_looked_for), []).append(str(environment))
    cure = (
        "inspect what is not inspected yet, or was inspected before this workload was added."
        if row.visibility in SEEN_BY_ALL or KNOWN.issuperset(needs.words)
        else "inspections look for programs of workloads that everybody who can log in can view."
    )
    for words, names in unknown.items():
        unknown_of = ", ".join(names)
        yield f"{row} starts {words}. Whether that is there is not known of {unknown_of}: {cure}"


def _find_missing(needs: Needs, known: inspections.KnownSoftware) -> tuple[list[str], list[str]]:
    """Return what is missing in an environment, and what nobody has looked for."""
    if not (known.is_known and known.inspection):
        return [], [*needs.words, *needs.packages]
    paths = known.inspection.facts.get("programs") or {}
    packages = list_known_packages(known.environment, known)
    missing = [word for word in needs.words if paths.get(word) == ""]
    missing += [f"the package {name}" for name in needs.packages if not has_package(packages, name)]
    is_in_code = needs.keras_folder.startswith(CODE)
    is_looked_for = is_in_code or paths.get(needs.keras_folder) == ""
    if needs.keras_folder and is_looked_for and _lacks_keras_2(known):
        missing.append(f"{needs.keras_folder} or the package tf_keras")
    return missing, [word for word in needs.words if word not in paths]


def _lacks_keras_2(known: inspections.KnownSoftware) -> bool:
    """Return whether an environment's TensorFlow has Keras 3 alone."""
    packages = parity.list_packages(known.inspection.facts) if known.inspection else {}
    for name, version in packages.items():
        release = re.match(r"(\d{1,4})\.(\d{1,4})", version)
        if has_package({name}, "tensorflow") and release:
            return (
                int(release[1]),
                int(release[2]),
            ) >= KERAS_3_SINCE and "tf-keras" not in packages
    return False
