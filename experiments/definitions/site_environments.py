"""The environments of a cluster that files mean: by runtime, image and settings, then by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from experiments.definitions.definition import EnvironmentDefinition
from experiments.definitions.definition_problems import shorten, suggest_near
from experiments.definitions.described_experiments import list_own_lines
from experiments.models import Cluster, Environment, Image, User


@dataclass(frozen=True)
class Why:
    """Why a row was not found, and which part of its entry says so."""

    text: str = ""
    part: str = ""


class EnvironmentFinder:
    """Finds the environments of one cluster that a person may view."""

    def __init__(
        self,
        cluster: Cluster,
        user: User,
        names: Mapping[str, str],
        digests: Mapping[str, str],
    ) -> None:
        rows = Environment.objects.visible_to(user).originals().filter(cluster=cluster)
        self.rows = list(rows.select_related("runtime", "staged_image__image").order_by("name"))
        self.cluster, self.user, self.names, self.digests = cluster, user, names, digests

    @property
    def choices(self) -> tuple[str, ...]:
        return tuple(row.name for row in self.rows)

    def find(self, entry: EnvironmentDefinition) -> tuple[Environment | None, Why]:
        """Return the environment that an entry means, or why there is none."""
        if site_name := self.names.get(entry.name):
            mapped = next((row for row in self.rows if row.name == site_name), None)
            if mapped:
                return mapped, Why()
            near = suggest_near(site_name, self.choices) if self.rows else "It has none."
            return None, Why(f"{self.cluster} has no environment “{shorten(site_name)}”. {near}")
        entry = replace(entry, image=self.digests.get(entry.image, entry.image))
        same = [row for row in self.rows if not list_differences(row, entry)]
        of_name = [row for row in same if entry.name == _name_of(row, is_copy=entry.is_copy)]
        if len(same) == 1 or of_name:
            return (of_name or same)[0], Why()
        if same:
            names = ", ".join(row.name for row in same)
            return None, Why(
                f"Several environments of {self.cluster} are like this: {names}. Map "
                "the name to one of them.",
                "name",
            )
        return None, self._explain(entry)

    def _explain(self, entry: EnvironmentDefinition) -> Why:
        """Return what to do about an environment that is not here."""
        images = Image.objects.visible_to(self.user)
        image = images.filter(digest=entry.image).first() if entry.image else None
        if entry.image and image is None:
            return Why(
                f"No image {entry.image[:19]}… is here: import it first, or map the environment "
                "to one of this site.",
                "image",
            )
        kinds = {row.kind for row in self.cluster.runtimes.all()}
        if entry.image and entry.runtime not in kinds:
            known = ", ".join(sorted(kinds)) or "none"
            return Why(
                f"{self.cluster} has no runtime {entry.runtime}; it has {known}. Map the "
                "environment to another.",
                "runtime",
            )
        named = next((row for row in self.rows if row.name == entry.name), None)
        if named:
            name, differences = shorten(entry.name), list_differences(named, entry)
            return Why(
                f"“{name}” is another one on {self.cluster}: its "
                f"{' and '.join(differences)} {'differ' if len(differences) > 1 else 'differs'}"
                f"{_tell_python(named, differences)}. If it is meant all the same, map the name to "
                f"it: map: {{environments: {{{name}: {shorten(named.name)}}}}}.",
                differences[0],
            )
        with_what = f"{entry.runtime} and {image}" if image else "bare metal"
        return Why(
            f"No environment of {self.cluster} is like this: make one with {with_what} and these "
            "settings, or map the name to another.",
            "name",
        )


def _tell_python(row: Environment, differences: list[str]) -> str:
    """Return which Python a row has, where that is all that differs: most files leave it out."""
    return f" (here {shorten(row.python)})" if differences == ["python"] else ""


def _name_of(row: Environment, *, is_copy: bool) -> str:
    """Return the name of an environment, or of its A/A copy."""
    if not is_copy:
        return row.name
    copy = Environment.objects.filter(copy_of=row.pk).only("name").first()
    return copy.name if copy else f"{row.name} again"


def list_differences(row: Environment, entry: EnvironmentDefinition) -> list[str]:
    """Return the names of the settings in which a row is not what an entry describes."""
    staged = row.staged_image
    of_row: dict[str, Any] = {
        "runtime": "recorded" if row.recorded_tool else row.kind,
        "image": staged.image.digest if staged else "",
        "format": staged.format if staged and entry.format else "",
        "mode": row.mode,
        "python": row.python,
        "binds": tuple(row.binds),
        "variables": dict(row.variables),
        "setup_lines": list_own_lines(row.setup_lines),
    }
    of_file = {name: getattr(entry, name) for name in of_row}
    of_file["setup_lines"] = list_own_lines(entry.setup_lines)
    of_file["variables"] = dict(entry.variables)
    return [name for name, value in of_row.items() if value != of_file[name]]
