"""Bundles that somebody uploads: checked by a web process, which others need too."""

from __future__ import annotations

from collections.abc import Iterable

from experiments.imports.bundle_door import MOST_OF_RUNS_ON_PAGES
from experiments.imports.imported_bundles import Imported, import_bundle
from experiments.imports.problems import ImportProblem
from experiments.models import User
from experiments.models.database_locks import try_lock
from runners.scratch_folders import open_scratch_folder

LOCK = "tare: an uploaded bundle"


def import_uploaded_bundle(
    pieces: Iterable[bytes], owner: User, *, file_name: str, visibility: str
) -> Imported:
    """Store an uploaded bundle as an experiment, as `import_bundle`, in a web process's limits.

    One bundle of the site is imported at a time: a large one takes a process for 20 seconds.
    Raises ImportProblem or BundleKnown, with nothing stored.
    """
    with try_lock(LOCK) as is_held, open_scratch_folder("bundle") as folder:
        if not is_held:
            raise ImportProblem(
                "Another bundle is being imported at this moment: try again in a minute."
            )
        path = folder / "bundle.zip"
        with path.open("wb") as file:
            file.writelines(pieces)
        return import_bundle(
            path,
            owner,
            file_name=file_name,
            visibility=visibility,
            most_of_runs=MOST_OF_RUNS_ON_PAGES,
        )
