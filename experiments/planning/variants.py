"""The variants of workloads that an experiment's sweeps ask for, as rows of the catalogue.

A workload that is swept is no member of the experiment: its variants are. Two experiments that ask
for the same values of the same workload share a variant, so that their results have one name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from django.db import transaction

from experiments.models import Experiment, Workload
from experiments.planning.free_names import LONGEST_NAME
from experiments.planning.workloads import count_launched
from runners.workloads import WORKLOADS, ParameterError
from runners.workloads.parameter_sweeps import (
    MOST_VARIANTS,
    SweepError,
    Variant,
    expand_sweep,
    make_key,
)

FEWEST_OF_NAME = 40
"""Characters that stay of a workload's name, however long its variants' values are."""


class CannotBeSwept(Exception):
    """Sweeps that make no variants; `messages` says why, by the key of the workload.

    `rows` are what an experiment would run without these sweeps, with the others.
    """

    rows: Sequence[Workload] = ()

    def __init__(self, messages: Mapping[int, Sequence[str]]) -> None:
        super().__init__("; ".join(text for texts in messages.values() for text in texts))
        self.messages = {key: list(texts) for key, texts in messages.items()}


def list_chosen(experiment: Experiment) -> list[Workload]:
    """Return the workloads that a person has chosen: those swept in place of their variants."""
    rows = experiment.workloads.select_related("parent") if experiment.pk else ()
    return list(dict.fromkeys(row.parent or row for row in rows))


def preview_workloads(chosen: Iterable[Workload], texts: Mapping[int, str]) -> list[Workload]:
    """Return what an experiment would run: rows that are not stored stand for variants.

    `texts` is what was typed, by the key of the workload. Raises CannotBeSwept.
    """
    expanded, problems = _expand(chosen, texts)
    rows: list[Workload] = []
    for workload, variants in expanded.items():
        names = _name_variants(workload, variants, ())
        rows += [
            _make_row(workload, variant, name)
            for variant, name in zip(variants, names, strict=True)
        ] or [workload]
    for number, row in enumerate(row for row in rows if row.pk is None):
        row.pk = number - MOST_VARIANTS  # so that it can be counted and compared
    if problems:
        refusal = CannotBeSwept(problems)
        refusal.rows = rows
        raise refusal
    return rows


def store_sweeps(
    experiment: Experiment, chosen: Iterable[Workload], texts: Mapping[int, str]
) -> None:
    """Make the chosen workloads, or their variants, those of a stored draft.

    Variants that no experiment needs any more are deleted. Raises CannotBeSwept, and changes
    nothing then.
    """
    chosen = list(chosen)
    with transaction.atomic():
        if not Experiment.objects.lock_drafts().filter(pk=experiment.pk):
            return  # launched by somebody else in the meantime: it stays as it is
        before = {int(key) for key in experiment.sweeps}
        swept = {row.pk for row in chosen if texts.get(row.pk, "").strip()}
        lock_workloads(before | swept)
        current = Workload.objects.in_bulk(swept)
        expanded, problems = _expand([current.get(row.pk, row) for row in chosen], texts)
        if problems:
            raise CannotBeSwept(problems)
        rows = [
            row
            for workload, variants in expanded.items()
            for row in (_get_or_create(workload, variants) if variants else [workload])
        ]
        experiment.sweeps = {str(key): texts[key] for key in sorted(swept)}
        experiment.save(update_fields=["sweeps"])
        experiment.workloads.set(rows)
        drop_unused(before | swept)


def refresh_sweeps(experiment: Experiment) -> None:
    """Make the variants of a draft anew, after a change of its workloads. Raises CannotBeSwept."""
    if experiment.sweeps:
        texts = {int(key): text for key, text in experiment.sweeps.items()}
        store_sweeps(experiment, list_chosen(experiment), texts)


def drop_unused(parents: Collection[int]) -> None:
    """Delete the variants of these workloads that no experiment has."""
    if parents:
        with transaction.atomic():
            lock_workloads(parents)
            Workload.objects.filter(parent__in=parents, experiments=None).delete()


def refresh_variants(workload: Workload) -> None:
    """Give the variants of a workload that was changed its name, time limit and parameters.

    Those that it no longer allows stay as they are: their drafts cannot be launched.
    """
    with transaction.atomic():
        lock_workloads([workload.pk])
        for row in workload.variants.order_by("pk"):
            try:
                parameters = WORKLOADS[workload.kind].clean({**workload.parameters, **row.swept})
            except ParameterError:
                continue
            variant = Variant(row.swept, parameters)
            _update(row, workload, variant, _find_free([variant], workload, except_for=row.pk)[0])


def copy_workloads(source: Experiment, draft: Experiment) -> None:
    """Give a draft the workloads of another experiment. To be called in a transaction."""
    lock_workloads([row.pk for row in list_chosen(source)])  # so that no variant goes before
    draft.workloads.set(source.workloads.all())


def lock_workloads(keys: Collection[int]) -> None:
    """Hold changes of these workloads, and of their variants, until the transaction ends.

    In one order, so that two who lock some do not wait for each other; experiments may still
    begin to name them.
    """
    rows = Workload.objects.select_for_update(of=("self",), no_key=True).filter(pk__in=keys)
    list(rows.order_by("pk").values_list("pk"))


def _expand(
    chosen: Iterable[Workload], texts: Mapping[int, str]
) -> tuple[dict[Workload, list[Variant]], dict[int, list[str]]]:
    """Return the variants of each workload, and why there are none by the keys of others."""
    problems: dict[int, list[str]] = {}
    expanded: dict[Workload, list[Variant]] = {}
    for workload in chosen:
        expanded[workload] = []
        if not (text := texts.get(workload.pk, "").strip()):
            continue
        try:
            expanded[workload] = expand_sweep(text, WORKLOADS[workload.kind], workload.parameters)
        except SweepError as error:
            problems[workload.pk] = error.messages
    count = sum(map(len, expanded.values()))
    if count > MOST_VARIANTS and not problems:
        last = next(row for row in reversed(expanded) if expanded[row])
        problems[last.pk] = [
            f"All sweeps together make {count} variants; at most {MOST_VARIANTS} are allowed."
        ]
        expanded[last] = []
    return expanded, problems


def _get_or_create(workload: Workload, variants: Sequence[Variant]) -> list[Workload]:
    """Return the stored rows of these variants, of a workload that is locked."""
    known = {make_key(row.swept): row for row in workload.variants.order_by("pk")}
    names = _find_free(variants, workload)
    rows: list[Workload] = []
    for variant, name in zip(variants, names, strict=True):
        row = known.get(variant.key)
        if row is None or (_differs(row, workload, variant) and count_launched(row)):
            row = _make_row(workload, variant, name)
            row.save()
        elif _differs(row, workload, variant):
            _update(row, workload, variant, row.name)
        rows.append(row)
    return rows


def _make_row(workload: Workload, variant: Variant, name: str) -> Workload:
    return Workload(
        name=name,
        kind=workload.kind,
        parameters=dict(variant.parameters),
        time_limit_seconds=workload.time_limit_seconds,
        owner_id=workload.owner_id,
        visibility=workload.visibility,
        data_set=workload.data_set,  # the row, so that it is fetched once for all variants
        data_proof=workload.data_proof,
        parent=workload,
        swept=dict(variant.values),
        sweep_order=f"{workload.name} {variant.order}",
    )


def _differs(row: Workload, workload: Workload, variant: Variant) -> bool:
    return (
        row.parameters != variant.parameters
        or row.time_limit_seconds != workload.time_limit_seconds
        or (row.data_set_id, row.data_proof) != (workload.data_set_id, workload.data_proof)
    )


def _update(row: Workload, workload: Workload, variant: Variant, name: str) -> None:
    Workload.objects.filter(pk=row.pk).update(
        name=name,
        parameters=dict(variant.parameters),
        time_limit_seconds=workload.time_limit_seconds,
        data_set_id=workload.data_set_id,
        data_proof=workload.data_proof,
        sweep_order=f"{workload.name} {variant.order}",
    )
    row.refresh_from_db()


def _find_free(
    variants: Sequence[Variant], workload: Workload, *, except_for: int = 0
) -> list[str]:
    """Return a name for each variant that no other row has."""
    begin = workload.name[:FEWEST_OF_NAME]
    rows = Workload.objects.filter(name__startswith=begin).exclude(pk=except_for)
    taken = rows.values_list("name", flat=True)
    return _name_variants(workload, variants, taken)


def _name_variants(
    workload: Workload, variants: Sequence[Variant], taken: Iterable[str]
) -> list[str]:
    """Return names by what differs, such as "cnn batch_size=64", each of them once.

    What is too long for a name is cut, and numbered where that leaves two alike.
    """
    known = set(taken)
    names: list[str] = []
    for variant in variants:
        number, name = 1, _write_name(workload.name, variant.label, "")
        while name in known:
            number += 1
            name = _write_name(workload.name, variant.label, f" ({number})")
        known.add(name)
        names.append(name)
    return names


def _write_name(name: str, label: str, end: str) -> str:
    room = LONGEST_NAME - len(end) - 1
    most_of_name = max(FEWEST_OF_NAME, room - len(label))
    if len(name) > most_of_name:
        name = name[: most_of_name - 1] + "…"
    if len(name) + len(label) > room:
        label = label[: room - len(name) - 1] + "…"
    return f"{name} {label}{end}"
