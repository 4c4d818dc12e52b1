"""Several studies beside each other: experiments, imports and published tables, read for a page.

Verdicts are those of kept comparisons; nothing is computed for experiments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from django.db.models import Prefetch

from dashboard.comparisons.environment_labels import (
    choose_label,
    label_environment,
    label_name,
    propose_environment,
)
from dashboard.comparisons.metric_names import MetricNames, name_metrics
from dashboard.comparisons.study_choice import EXPERIMENT, TABLE, StudyChoice
from dashboard.lists import MOST_COMPARED
from experiments.comparisons import Comparison, Group, Latest, read_all_kept
from experiments.comparisons.published_tables import MOST_BYTES, compare_published
from experiments.comparisons.same_data import identify_data
from experiments.models import Environment, Experiment, PublishedTable, User
from experiments.statistics import Pair
from experiments.statistics.across_studies import (
    AcrossStudies,
    Study,
    name_studies,
    summarise_studies,
)
from experiments.statistics.claims import choose_wording, describe_margin
from experiments.statistics.margins import Margin
from experiments.statistics.published.printed import TableError
from experiments.statistics.several_metrics import Overall
from experiments.statistics.values import JOINT

COMPUTED_SOON = "Its comparison is being computed by a worker: open this page again in a minute."
TOO_MUCH_TEXT = "The chosen tables together have too much text to be read for one page."
NEWER_LEFT_OUT = "Its comparison is an earlier one: newer runs are left out until it is computed."


@dataclass(frozen=True)
class Chosen:
    """One configuration of a study as it is shown, with the environment as its container."""

    number: int
    """The number of the configuration in its comparison, from 1."""
    group: Group
    pair: Pair
    overall: Overall | None = None
    """What several decisive metrics of the study show together; `pair` is the main one's."""

    @property
    def name(self) -> str:
        return self.group.name or self.group.title


@dataclass(frozen=True)
class StudyRow:
    """One study: what may be chosen of it, what is chosen, and what that shows."""

    number: int
    key: str
    """Its name in addresses: "e12", "t3"."""
    source: Experiment | PublishedTable
    comparison: Comparison | None
    labels: dict[str, str]
    """The label of each environment but the baseline, by its name."""
    baseline: str = ""
    baseline_label: str = ""
    proposed: str = ""
    """The environment that is taken for the container unless the reader chooses another one."""
    environment: str = ""
    """The one that is shown; "" where none is."""
    configurations: list[tuple[str, bool]] = field(default_factory=list)
    """The names of all its configurations, and whether each was chosen."""
    chosen: list[Chosen] = field(default_factory=list)
    reason: str = ""
    """A sentence on why it shows nothing."""
    note: str = ""
    """A sentence on what it shows."""
    identities: frozenset[str] = frozenset()
    """Texts that studies of the same data share."""

    @property
    def name(self) -> str:
        return self.source.question

    @property
    def experiment(self) -> Experiment | None:
        return self.source if isinstance(self.source, Experiment) else None

    @property
    def place(self) -> str:
        """Return where its runs were, or where it was published."""
        if isinstance(self.source, Experiment):
            return self.source.cluster.name
        return self.source.source or "published table"

    @property
    def margins(self) -> Margin | None:
        return self.comparison.margins if self.comparison else None

    @property
    def margin_text(self) -> str:
        """Return its margin in the words of what it shows, "2 % less to 5 % more"; "" for none."""
        if self.comparison is None:
            return ""
        metrics = [each.group.metric for each in self.chosen]
        wording = choose_wording(metrics) if metrics else self.comparison.wording
        return describe_margin(self.comparison.margins, wording)

    @property
    def has_choice(self) -> bool:
        """Return whether only some of its configurations are shown."""
        return any(is_chosen for _, is_chosen in self.configurations)


@dataclass(frozen=True)
class Studies:
    """The chosen studies, ready to be shown."""

    choice: StudyChoice
    rows: list[StudyRow]
    labels: dict[str, int]
    """What the container may be called, with the number of studies that have it."""
    label: str
    notes: list[str]
    """Sentences on what was chosen and is not shown."""
    not_understood: list[str]
    """Sentences on names of the address that nothing has; something else is shown instead."""

    @property
    def shown(self) -> list[StudyRow]:
        return [row for row in self.rows if row.chosen]

    @property
    def pairs(self) -> list[Pair]:
        return [each.pair for row in self.shown for each in row.chosen]

    @property
    def name(self) -> str:
        """Return what the container is called in sentences."""
        return self.label or "the container"

    @cached_property
    def summary(self) -> AcrossStudies:
        return summarise_studies(
            [_describe_study(row, self.metric_names) for row in self.shown], self.name
        )

    @cached_property
    def metric_names(self) -> MetricNames:
        return name_metrics(each.group.metric for row in self.shown for each in row.chosen)

    @cached_property
    def remarks(self) -> list[str]:
        """Return what is to be known of the shown rows, and of their summary, as sentences."""
        several = [row.number for row in self.shown if any(each.overall for each in row.chosen)]
        remarks = self.metric_names.remarks
        if several:
            remarks = [
                f"Of several decisive metrics the main one is shown of {name_studies(several)}; "
                "the table has what all of them show together.",
                *remarks,
            ]
        return [*remarks, *self.summary.remarks]


def read_studies(user: User, choice: StudyChoice) -> Studies:
    """Return the studies that an address chooses and the reader may see, in its order."""
    experiments = _read_experiments(user, choice.experiments)
    tables = PublishedTable.objects.visible_to(user).in_bulk(choice.tables)
    rows_with_results = Experiment.objects.filter(pk__in=experiments).with_results()
    with_results = list(rows_with_results.values_list("pk", flat=True))
    kept_ones = read_all_kept([experiments[pk] for pk in with_results])
    kept = dict(zip(with_results, kept_ones, strict=True))
    letters = 0
    rows: list[StudyRow] = []
    for key in choice.keys:
        kind, pk = key[0], int(key[1:])
        if kind == EXPERIMENT and pk in experiments:
            rows.append(_read_experiment(len(rows) + 1, key, experiments[pk], kept.get(pk)))
        elif kind == TABLE and pk in tables:
            letters += len(tables[pk].text)
            rows.append(_read_table(len(rows) + 1, key, tables[pk], letters))
    all_labels = [list(dict.fromkeys(row.labels.values())) for row in rows]
    counts = Counter(label for labels in all_labels for label in labels)
    label = choice.label if choice.label in counts else choose_label(all_labels)
    usual = Counter(name for row in rows for name, own in row.labels.items() if own == label)
    chosen = [_choose(row, choice, label, usual) for row in _note_same_data(rows)]
    return Studies(
        choice,
        chosen,
        dict(counts.most_common()),
        label,
        _list_notes(choice, rows),
        _list_unknown_names(choice, chosen, counts),
    )


def _note_same_data(rows: Sequence[StudyRow]) -> list[StudyRow]:
    """Return the studies with what they share with others of the same data, and notes on that."""
    identities = identify_data({row.key: row.source for row in rows})
    noted = []
    for row in rows:
        own = identities[row.key]
        others = [
            other.number for other in rows if other is not row and identities[other.key] & own
        ]
        note = row.note
        if others and not row.experiment:
            note = f"It has data of {name_studies(others)}. {note}".strip()
        noted.append(replace(row, identities=own, note=note))
    return noted


def _read_experiments(user: User, keys: Iterable[int]) -> dict[int, Experiment]:
    environments = Environment.objects.select_related("runtime", "staged_image__image")
    rows = (
        Experiment.objects.visible_to(user)
        .filter(pk__in=list(keys))
        .select_related("cluster", "partition", "baseline__runtime", "owner")
        .without_plan()
        .prefetch_related(
            Prefetch("environments", environments.order_by("name")),
            "workloads",
        )
    )
    return {row.pk: row for row in rows}


def _read_experiment(
    number: int,
    key: str,
    row: Experiment,
    kept: tuple[Comparison | None, Latest] | None,
) -> StudyRow:
    comparison, latest = kept or (None, None)
    reason = note = ""
    if row.is_draft:
        reason = "It is a draft: nothing of it has run yet."
    elif latest is None:
        reason = "No run of it has succeeded yet."
    elif comparison is None:
        reason = COMPUTED_SOON
        if latest.problem:
            reason = f"Its comparison could not be computed: {latest.problem}"
    elif latest.is_behind:
        note = NEWER_LEFT_OUT
    environments = [each for each in row.environments.all() if each.pk != row.baseline_id]
    return StudyRow(
        number,
        key,
        row,
        comparison,
        {each.name: label_environment(each) for each in environments},
        row.baseline.name,
        label_environment(row.baseline),
        reason=reason,
        note=note,
    )


def _read_table(number: int, key: str, row: PublishedTable, letters: int) -> StudyRow:
    """Return a published table as a study; `letters` is how much text is read with it."""
    if letters > MOST_BYTES:
        return StudyRow(number, key, row, None, {}, row.baseline, reason=TOO_MUCH_TEXT)
    try:
        comparison = compare_published(row)
    except TableError as error:
        return StudyRow(number, key, row, None, {}, row.baseline, reason=str(error))
    labels = {name: label_name(name) for name in comparison.environments[1:]}
    label = label_name(comparison.baseline)
    return StudyRow(number, key, row, comparison, labels, comparison.baseline, label)


def _choose(row: StudyRow, choice: StudyChoice, label: str, usual: Counter[str]) -> StudyRow:
    """Return the study with the environment and the configurations that it shows."""
    proposed = propose_environment([n for n, own in row.labels.items() if own == label], usual)
    asked = choice.environments.get(row.key, "")
    environment = asked if asked in row.labels else proposed
    only = choice.configurations.get(row.key, [])
    groups = row.comparison.groups if row.comparison else []
    names = [group.name or group.title for group in groups]
    decisive = row.comparison.decisive if row.comparison else {}
    chosen = [
        Chosen(number, group, pair, decisive.get((number, environment)))
        for number, (group, name) in enumerate(zip(groups, names, strict=True), start=1)
        if not only or name in only
        for pair in group.pairs
        if pair.environment == environment
    ]
    reason = row.reason or ("" if chosen else _explain_nothing(row, groups, environment, label))
    return replace(
        row,
        proposed=proposed,
        environment=environment,
        configurations=[(name, name in only) for name in names],
        chosen=chosen,
        reason=reason,
    )


def _explain_nothing(row: StudyRow, groups: Sequence[Group], environment: str, label: str) -> str:
    if not environment:
        return f"No environment of it looks like {label or 'a container'}: choose one of its own."
    stage = getattr(row.comparison, "stage", None)
    if not any(group.pairs for group in groups):
        problems = [group.problem for group in groups if group.problem]
        return (stage.waiting if stage else "") or (
            f"Nothing is compared in it: {problems[0]}"
            if problems
            else "Nothing is compared in it."
        )
    return f"{environment} is not compared in any of its chosen configurations."


def _list_notes(choice: StudyChoice, rows: Sequence[StudyRow]) -> list[str]:
    """Return sentences on studies that are not shown; nothing tells whether hidden ones exist."""
    notes = []
    by_key = {row.key: row for row in rows}
    if choice.left_out:
        notes.append(
            f"The page shows {MOST_COMPARED} experiments at most: "
            f"{choice.left_out:,} more were chosen."
        )
    unknown = len(choice.keys) - len(rows) + choice.unreadable
    if unknown:
        some = "1 chosen experiment is" if unknown == 1 else f"{unknown:,} chosen ones are"
        notes.append(f"{some} not shown: there is none of that number that you may see.")
    repeated = [by_key[key].number for key in choice.repeated if key in by_key]
    if repeated:
        notes.append(f"Chosen twice, and shown once: {name_studies(repeated)}.")
    return notes


def _list_unknown_names(
    choice: StudyChoice, rows: Sequence[StudyRow], labels: Iterable[str]
) -> list[str]:
    """Return a sentence for each chosen label, environment and configuration that there is not."""
    sentences = []
    known = list(labels)
    if choice.label and known and choice.label not in known:
        others = ", ".join(known)
        sentences.append(f"No container is called “{_shorten(choice.label)}” here, but: {others}.")
    for row in rows:
        name = choice.environments.get(row.key, "")
        if name and name not in row.labels:
            sentences.append(
                f"Experiment {row.number} compares no environment “{_shorten(name)}” with its "
                "baseline."
            )
        configurations = [name for name, _ in row.configurations]
        sentences += [
            f"Experiment {row.number} has no configuration “{_shorten(name)}”."
            for name in choice.configurations.get(row.key, [])
            if configurations and name and name not in configurations
        ]
    return sentences


def _shorten(name: str) -> str:
    return name if len(name) <= 60 else f"{name[:60]}…"


def _describe_study(row: StudyRow, names: MetricNames) -> Study:
    source = row.source
    cluster = source.cluster.name if isinstance(source, Experiment) else ""
    return Study(
        number=row.number,
        identities=row.identities,
        metrics=tuple(dict.fromkeys(names.find(each.group.metric) for each in row.chosen)),
        pairs=tuple(
            # Baselines are alike by their kind: each cluster gives them names of its own.
            replace(each.pair, baseline=row.baseline_label or row.baseline)
            for each in row.chosen
        ),
        nodes=frozenset(
            f"{node} of {cluster}"
            for each in row.chosen
            for names in each.pair.nodes
            for node in names.split(JOINT)  # of a job on several nodes, one name has all of them
            if cluster
        ),
    )
