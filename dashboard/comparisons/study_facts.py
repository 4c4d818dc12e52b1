"""What differs between several studies: their designs, environments, workloads and software."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter

from dashboard.comparisons.paired_facts import cut_lines, name_values
from dashboard.comparisons.sides import describe_settings
from dashboard.comparisons.studies import Studies, StudyRow
from dashboard.comparisons.two_experiments import describe_design
from experiments.comparisons.environment_facts import Facts, read_facts_of_all
from experiments.models import Environment, Experiment
from experiments.natural_order import sort_naturally
from experiments.planning.workloads import describe_settings as describe_workload
from experiments.statistics import numbers
from experiments.statistics.across_studies import name_studies

MOST_SHOWN = 12
"""Of more facts the rest is folded."""
MOST_FACTS = 300

Sections = dict[str, dict[str, str]]
"""A section of facts -> fact -> its value, of one study."""


@dataclass(frozen=True)
class StudyFact:
    """A fact that differs, with each of its values and the numbers of the studies that have it."""

    name: str
    values: list[tuple[str, list[int]]]

    @property
    def texts(self) -> list[tuple[str, str]]:
        return [
            (cut_lines(value.split("\n")), name_studies(studies)) for value, studies in self.values
        ]


@dataclass(frozen=True)
class StudyFacts:
    """The facts that differ, ready to be shown."""

    differing: list[StudyFact]
    same: int
    """How many facts all studies share."""

    @property
    def first(self) -> list[StudyFact]:
        return self.differing[:MOST_SHOWN]

    @property
    def folded(self) -> list[StudyFact]:
        return self.differing[MOST_SHOWN:MOST_FACTS]

    @property
    def more(self) -> int:
        """Return how many differing facts are left out."""
        return max(len(self.differing) - MOST_FACTS, 0)


def list_study_facts(studies: Studies) -> StudyFacts:
    """Return what differs between the studies; two statements for all of them."""
    keys = [row.source.pk for row in studies.rows if row.experiment]
    software = read_facts_of_all(keys)
    return find_differences({row.number: _read_sections(row, software) for row in studies.rows})


def find_differences(studies: Mapping[int, Sections]) -> StudyFacts:
    """Return the facts with more than one value, in the order in which studies name them.

    A fact that a study lacks is a value too, but not where nothing is known of its whole section:
    a published table says nothing of its software.
    """
    names: dict[tuple[str, str], None] = {}
    for sections in studies.values():
        for section, facts in sections.items():
            names |= dict.fromkeys((section, fact) for fact in facts)
    order = list(dict.fromkeys(section for section, _ in names))
    differing, same = [], 0
    for section, fact in sorted(names, key=lambda name: order.index(name[0])):
        holders: dict[str, list[int]] = {}
        for number, sections in studies.items():
            if known := sections.get(section):
                value = known.get(fact) or numbers.MISSING
                holders.setdefault(value, []).append(number)
        if len(holders) > 1:
            name = f"{section}: {fact}" if section else fact
            differing.append(StudyFact(name, list(holders.items())))
        elif sum(map(len, holders.values())) > 1:
            same += 1
    return StudyFacts(differing, same)


def _read_sections(row: StudyRow, software: Mapping[int, Facts]) -> Sections:
    if not isinstance(row.source, Experiment):
        return {
            "": {
                "Kind": "published table",
                "Baseline": row.baseline,
                "Margin": row.margin_text,
            }
        }
    source = row.source
    environments = list(source.environments.all())
    workloads = sorted(source.workloads.all(), key=attrgetter("natural_key"))
    design = dict(describe_design(source, [each.name for each in environments], workloads))
    if row.comparison:
        design["Margin"] = row.margin_text
    kind = "import" if source.imported_at else "experiment"
    if source.is_from_bundle:
        kind = f"{kind}, from a bundle"
    sections: Sections = {"": {"Kind": kind, **design}}
    by_name = {each.name: each for each in environments}
    facts = software.get(source.pk, {})
    for section, name in (("Container", row.environment), ("Baseline", row.baseline)):
        sections[section] = _describe_environment(by_name.get(name))
        known = facts.get(name, {})
        sections[f"{section}, its runs"] = {
            fact: name_values(known[fact]) for fact in sort_naturally(known)
        }
    for workload in workloads:
        settings = describe_workload(workload)
        sections[workload.name] = {"kind": workload.kind} | {
            setting.label: setting.value for setting in (*settings.differing, *settings.others)
        }
    return sections


def _describe_environment(row: Environment | None) -> dict[str, str]:
    return dict(describe_settings(row, is_member=True)) if row else {}
