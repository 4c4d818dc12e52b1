"""The order in which the documents are listed, in groups, each with what it is about."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from dashboard.docs.documents import DECISIONS, find_address, map_files, read_title

GROUPS = {
    "Measure and compare": {
        "experiments": "the form of an experiment, field by field",
        "comparison-page": "the page of a comparison, section by section",
        "workloads": "programs, their parameters and metrics, scales, presets",
        "bring-your-own-benchmark": "measure any program, with its own numbers",
        "images": "add, find and stage images, and make environments of them",
        "data-sets": "what workloads read: digest, copies on clusters, proof before each job",
        "runtimes": "container runtimes: what each setting becomes, GPUs, modes",
        "confounders": "facts compared between both sides, with grade and reason",
        "parity": "reports, waivers, one lock file for both",
        "lists": "columns, filters, saved views",
        "reproducing": "an experiment done again, and whether it shows the same",
        "exports": "files of results, runs and steps: CSV, JSON, Parquet",
        "command-line": "the command tare: launch, follow and fetch from a shell or a nightly job",
        "python-client": "the same numbers in scripts and notebooks",
        "publishing": "authors, licence, citation, signed bundles, deposits at Zenodo",
        "api": "what programs do: tokens, lists, errors, and requests that are done once",
        "notifications": "what Tare tells people, where, and what each person chooses",
        "statistics": "estimates, intervals, verdicts, stamps, power, calibration",
        "published-tables": "formats of tables and results that are read, and how",
        "imports": "logs of others as experiments",
        "measurements": "bare metal and Apptainer on NVIDIA H200",
    },
    "Clusters and the site": {
        "clusters": "connect a cluster: keys, limits, partitions, the check",
        "permissions": "roles, visibility, links, logging in, the audit log",
        "how-runs-end": "every reason why a job or a run ended, with advice",
        "operations": "the page Operations: processes, queues, what to do",
        "compose": "docker-compose.yml: health checks, upgrades",
        "reliability": "what is promised when machines and networks fail",
    },
    "How Tare is made": {
        "architecture": "rooms, the way from the form to the verdict, how to add to them",
        "life-of-a-run": "states, and what lies on the cluster",
        "formats": "what may be imported, how forms are made and proved to be the same",
        "newcomer": "from the README to a verdict of one's own script, by the clock",
        "mutants": "mistakes made on purpose, and what noticed them",
        DECISIONS: "what was decided, why, and what was given up",
    },
}
FURTHER = "Further"
"""The group of documents that the table above does not name."""


@dataclass(frozen=True)
class Line:
    """A document in a list of documents."""

    name: str
    title: str
    about: str

    def get_absolute_url(self) -> str:
        return find_address(self.name)


@cache
def list_groups() -> tuple[tuple[str, tuple[Line, ...]], ...]:
    """Return all documents in groups; decisions stand on a page of their own."""
    listed = {name for group in GROUPS.values() for name in group} | {"words"}
    further = {name: "" for name in map_files() if name not in listed and "/" not in name}
    groups = {**GROUPS, FURTHER: further}
    return tuple(
        (title, tuple(Line(name, read_title(name), about) for name, about in group.items()))
        for title, group in groups.items()
        if group
    )


@cache
def list_decisions() -> tuple[Line, ...]:
    """Return the decisions, the last one first."""
    names = [name for name in map_files() if name.startswith(f"{DECISIONS}/")]
    return tuple(Line(name, read_title(name), "") for name in sorted(names, reverse=True))
