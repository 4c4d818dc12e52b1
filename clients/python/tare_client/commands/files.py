"""`tare export`, and files that are there whole or not at all."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from tare_client.command_parser import EXPORTS, StudyKey
from tare_client.commands.account import connect
from tare_client.errors import UsageError
from tare_client.terminal import print_json, print_line


def run_export(arguments: argparse.Namespace) -> int:
    """Save a file of an experiment."""
    of_study = isinstance(arguments.id, StudyKey)
    if of_study and arguments.kind != "definition":
        raise UsageError("Of a study its file is exported: choose --definition.")
    ending, _ = EXPORTS[arguments.kind]
    what = "study" if of_study else "experiment"
    address = f"/{'studies' if of_study else 'experiments'}/{arguments.id}/{ending}"
    target = arguments.output or f"{what}-{arguments.id}-{ending}"
    client = connect(arguments)
    if target == "-":
        if arguments.json:
            raise UsageError("Choose --json or -o -: both would print.")
        # Held back until it is whole: what was printed cannot be taken back.
        with tempfile.TemporaryFile() as file:
            client.save(address, file)
            file.seek(0)
            import shutil

            shutil.copyfileobj(file, sys.stdout.buffer)
        return 0
    check_target(target, force=arguments.force)
    with writing(target) as file:
        client.save(address, file)
    n_bytes = os.path.getsize(target)
    if arguments.json:
        print_json({"id": arguments.id, "saved_as": target, "bytes": n_bytes})
    else:
        print_line(f"Saved {target}, {n_bytes:,} bytes.")
    return 0


def check_target(path: str, *, force: bool) -> None:
    """Raise UsageError where a file would be replaced that nobody has named for it."""
    if os.path.isdir(path):
        raise UsageError(f"{path} is a folder: name a file in it.")
    if os.path.exists(path) and not force:
        raise UsageError(f"{path} is there already: choose another name, or --force.")


@contextmanager
def writing(path: str) -> Iterator[IO[bytes]]:
    """Hold a file open that takes the path's place once all is written. Raises UsageError."""
    temporary = ""
    try:
        folder, name = os.path.split(path)
        handle, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=folder or ".")
        with open(handle, "w+b") as file:
            yield file
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)
