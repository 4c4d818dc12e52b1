"""The entries of an experiment's file for its environments."""

from __future__ import annotations

import re
from collections.abc import Mapping

from experiments.definitions import definition_fields as fields
from experiments.definitions.definition import EnvironmentDefinition
from experiments.definitions.definition_problems import shorten, suggest_near
from experiments.definitions.part_reader import PartReader
from experiments.definitions.yaml_tree import Node
from runners.runtimes import RUNTIMES

DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
WRITTEN_BARE_METAL = ("bare metal", fields.BARE_METAL)
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def read_environment(reader: PartReader, node: Node, path: str) -> EnvironmentDefinition:
    """Return an entry as values; what is wrong with it goes to `reader`."""
    table = reader.read_table(node, path, fields.ENVIRONMENT_KEYS)
    runtime = reader.read_text(table, path, "runtime", usual=fields.BARE_METAL)
    runtime = fields.BARE_METAL if runtime in WRITTEN_BARE_METAL else runtime
    if runtime not in RUNTIMES:
        reader.add(
            f"{path}.runtime",
            f"“{shorten(runtime)}” is no runtime. {suggest_near(runtime, RUNTIMES)}",
        )
    image = reader.read_text(table, path, "image")
    if image and not DIGEST.fullmatch(image):
        reader.add(
            f"{path}.image",
            "An image is named by its digest, sha256: and 64 hex digits, which its page shows. "
            "Its name may stand beside it as “reference”.",
        )
    elif image and runtime == fields.BARE_METAL:
        reader.add(f"{path}.image", "Bare metal has no image: leave it out, or name a runtime.")
    elif not image and runtime in RUNTIMES and runtime != fields.BARE_METAL:
        reader.add(
            f"{path}.image",
            f"{runtime} needs an image: its digest, sha256:…, which the page of the image shows.",
        )
    mode = reader.read_text(table, path, "mode", longest=10)
    modes = RUNTIMES[runtime].modes if runtime in RUNTIMES else {}
    if mode and runtime in RUNTIMES and mode not in modes:
        known = suggest_near(mode, modes) if modes else "It has none."
        reader.add(f"{path}.mode", f"{runtime} has no mode “{shorten(mode)}”. {known}")
    return EnvironmentDefinition(
        name=reader.read_text(table, path, "name", required=True, longest=100),
        runtime=runtime,
        image=image,
        reference=reader.read_text(table, path, "reference", longest=300),
        format=reader.read_text(table, path, "format", longest=20),
        mode=mode,
        python=reader.read_text(table, path, "python", usual="python3", longest=500),
        binds=_read_binds(reader, table, path),
        variables=_read_variables(reader, table, path),
        setup_lines=reader.read_text(table, path, "setup_lines", longest=20_000),
        is_baseline=reader.read_flag(table, path, "baseline"),
        is_copy=reader.read_flag(table, path, "once_more"),
    )


def _read_binds(reader: PartReader, table: Mapping[str, Node], path: str) -> tuple[str, ...]:
    if "binds" not in table or table["binds"].value is None:
        return ()
    value = table["binds"].to_plain()
    if not isinstance(value, list) or not all(isinstance(row, str) for row in value):
        reader.add(f"{path}.binds", "This is to be a list of texts, such as [/data:/data].")
        return ()
    return tuple(value)


def _read_variables(reader: PartReader, table: Mapping[str, Node], path: str) -> dict[str, str]:
    if "variables" not in table or table["variables"].value is None:
        return {}
    node = table["variables"]
    if not isinstance(node.value, dict):
        reader.add(f"{path}.variables", 'This is to be a table, such as OMP_NUM_THREADS: "1".')
        return {}
    variables: dict[str, str] = {}
    for name, inner in node.value.items():
        place = f"{path}.variables.{name}"
        if not VARIABLE.fullmatch(name):
            reader.add(place, f"A variable cannot be called “{shorten(name)}”.")
        elif not isinstance(inner.value, str):
            reader.add(place, f'The value of {name} is to be a text: write it in quotes, "1".')
        elif "\0" in inner.value:
            reader.add(place, f"The value of {name} has a NUL character.")
        else:
            variables[name] = inner.value
    return variables
