"""The images that the lab can build. What one is made from is in `image/`, by its name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lab import host

FOLDER = host.HERE / "image"


@dataclass(frozen=True)
class Recipe:
    name: str
    main: str
    """The package that it is for, whose version is the image's."""
    debian: str = "packages.txt"
    """The list of its Debian packages."""
    wheel: tuple[Path, ...] = ()
    """Files that a wheel is made from which no index has: the script first."""
    is_small: bool = False
    """Whether each lab can have it in all forms: Podman keeps a copy for every user."""
    is_on_demand: bool = False
    """Whether it is built only where it is named."""
    formats: tuple[str, ...] = ("sandbox", "sif", "udocker")
    """Its forms: Apptainer's sandbox, which all have, and SIF file, and udocker's containers."""

    @property
    def lock(self) -> Path:
        return FOLDER / f"{self.name}.lock"

    @property
    def files(self) -> list[Path]:
        return [self.lock, FOLDER / self.debian, *self.wheel]


def index_by_name(recipes: Iterable[Recipe]) -> dict[str, Recipe]:
    return {recipe.name: recipe for recipe in recipes}


RECIPES = index_by_name(
    [
        Recipe("numpy", "numpy", is_small=True),
        Recipe("tensorflow", "tensorflow-cpu"),
        Recipe(
            "horovod",
            "horovod",
            debian="packages-mpi.txt",
            wheel=(FOLDER / "horovod.sh", FOLDER / "horovod-source.lock"),
            is_on_demand=True,
            formats=("sandbox", "udocker"),
        ),
        Recipe(
            "torch",
            "torch",
            wheel=(FOLDER / "torch.sh",),
            is_on_demand=True,
            formats=("sandbox", "udocker"),
        ),
        Recipe(
            "benchmarks",
            "pyperf",
            debian="packages-benchmarks.txt",
            is_on_demand=True,
            formats=("sandbox",),
        ),
    ]
)
USUAL = [name for name, recipe in RECIPES.items() if not recipe.is_on_demand]
