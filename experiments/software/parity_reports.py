"""The parity passport: before a launch, is each container's software that of the baseline?

An environment is looked into by a chore (`ask`); what was found counts as long as the environment
and its staged image are what they were then. A difference is waived by a person, in writing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils import timezone

from experiments.access.permissions import why_not_use
from experiments.design import content_hash
from experiments.models import (
    Chore,
    Environment,
    EnvironmentSurvey,
    Event,
    Experiment,
    Partition,
    User,
    Waiver,
)
from experiments.planning.freeze import environment_spec
from experiments.software.parity import Difference, Grade, counts, differences
from runners.workloads import KNOWN_WORKLOADS

NAMED = 5
"""More differences than this are counted, not named, where a sentence names them."""


class NotAsked(Exception):
    """Nobody will look; the message says why, to the person who asked."""


@dataclass(frozen=True)
class Sight:
    """What is known of one environment's software: a survey that counts, or why there is none."""

    environment: Environment
    survey: EnvironmentSurvey | None
    """The newest, also where it counts no more."""
    why_not: str
    """Why nothing is known, in words; "" where the survey counts."""
    chore: Chore | None
    """The look that is under way, or the last one where it failed."""

    @property
    def is_known(self) -> bool:
        return not self.why_not

    @property
    def under_way(self) -> bool:
        return self.chore is not None and not self.chore.is_final


@dataclass(frozen=True)
class Passport:
    """One environment beside the baseline."""

    baseline: Sight
    sight: Sight
    differences: list[Difference]
    waivers: list[Waiver]

    @property
    def environment(self) -> Environment:
        return self.sight.environment

    @property
    def is_known(self) -> bool:
        return self.baseline.is_known and self.sight.is_known

    @property
    def is_same(self) -> bool:
        return self.is_known and not self.differences

    @property
    def unknown(self) -> list[Sight]:
        return [sight for sight in (self.baseline, self.sight) if not sight.is_known]

    @property
    def rows(self) -> list[tuple[Difference, Waiver | None]]:
        """Each difference with the waiver that covers it."""
        return [
            (one, next((w for w in self.waivers if w.covers(one)), None))
            for one in self.differences
        ]

    @property
    def unwaived(self) -> list[Difference]:
        return [difference for difference, waiver in self.rows if waiver is None]

    @property
    def counts(self) -> dict[Grade, int]:
        return counts(self.differences)

    @property
    def answer(self) -> str:
        """Same software as the baseline?"""
        if not self.is_known:
            return "not looked at yet"
        count = len(self.differences)
        return f"{count} difference{'s' * (count != 1)}" if count else "yes"


def fingerprint(environment: Environment) -> str:
    """Return a hash of all that decides which software a program finds there."""
    staged = environment.staged_image
    spec = environment_spec(environment)
    del spec["label"]
    return content_hash(
        {
            **spec,
            "cluster_setup_lines": environment.cluster.setup_lines,
            "image_sha256": staged.sha256 if staged else "",
        }
    )


def sights(environments: Iterable[Environment]) -> dict[int, Sight]:
    """Return what is known of each, by primary key. The number of queries does not grow."""
    rows = {environment.pk: environment for environment in environments}
    surveys = EnvironmentSurvey.objects.filter(environment__in=rows).select_related("chore")
    newest = {
        survey.environment_id: survey
        for survey in surveys.order_by("environment_id", "-looked_at").distinct("environment_id")
    }
    looks = Chore.objects.filter(kind=Chore.Kind.SURVEY, environment__in=rows)
    last = {
        chore.environment_id: chore
        for chore in looks.order_by("environment_id", "-pk").distinct("environment_id")
    }
    staged = {row.staged_image_id for row in rows.values() if row.staged_image_id}
    stagings = Chore.objects.filter(
        kind=Chore.Kind.STAGE, staged_image__in=staged, state=Chore.State.DONE
    ).order_by("staged_image_id", "-ended_at")
    made = {chore.staged_image_id: chore for chore in stagings.distinct("staged_image_id")}
    return {
        pk: _sight(row, newest.get(pk), last.get(pk), made.get(row.staged_image_id))
        for pk, row in rows.items()
    }


def _sight(
    environment: Environment,
    survey: EnvironmentSurvey | None,
    chore: Chore | None,
    staging: Chore | None,
) -> Sight:
    why_not = ""
    if survey is None:
        why_not = "not inspected yet"
    else:
        day = f"{survey.looked_at:%Y-%m-%d %H:%M} UTC"
        if survey.definition != fingerprint(environment):
            why_not = f"inspected on {day}, and edited since"
        elif staging and staging.ended_at and staging.ended_at > survey.looked_at:
            why_not = f"inspected on {day}, and its image was staged anew since"
    done = chore is not None and chore.state == Chore.State.DONE
    return Sight(environment, survey, why_not, None if done else chore)


def passports(experiment: Experiment) -> list[Passport]:
    """Return one for each environment beside the baseline, in the order of their names."""
    rows = list(
        experiment.environments.select_related(
            "cluster", "runtime", "staged_image__image"
        ).order_by("name")
    )
    known = sights(rows)
    baseline = known.get(experiment.baseline_id)
    if baseline is None:  # a draft that is not whole yet
        return []
    waivers: dict[int, list[Waiver]] = {}
    for waiver in Waiver.objects.filter(experiment=experiment).select_related("by"):
        waivers.setdefault(waiver.environment_id, []).append(waiver)
    return [
        _passport(baseline, known[row.pk], waivers.get(row.pk, []))
        for row in rows
        if row.pk != experiment.baseline_id
    ]


def _passport(baseline: Sight, sight: Sight, waivers: list[Waiver]) -> Passport:
    found: list[Difference] = []
    ours, theirs = baseline.survey, sight.survey
    if baseline.is_known and sight.is_known and ours and theirs:
        found = differences(ours.facts, theirs.facts)
    return Passport(baseline, sight, found, waivers)


def ask(environment: Environment, user: User, partition: Partition | None = None) -> Chore:
    """Have the cluster look into an environment. Raises NotAsked.

    A look that is under way is not doubled: it is returned. Whoever asks rings for the cluster.
    """
    if environment.recorded_tool or environment.cluster.recorded:
        raise NotAsked(f"{environment} is only known from imported logs.")
    for row in (environment.cluster, environment):
        if refusal := why_not_use(user, row):
            raise NotAsked(refusal)
    staged = environment.staged_image
    if staged and staged.state != staged.State.READY:
        raise NotAsked(f"{environment}: {staged} is {staged.state}.")
    with transaction.atomic():
        Environment.objects.select_for_update().get(pk=environment.pk)
        alive = environment.chores.filter(kind=Chore.Kind.SURVEY).exclude(state__in=Chore.FINAL)
        return alive.first() or Chore.objects.create(
            kind=Chore.Kind.SURVEY,
            cluster=environment.cluster,
            environment=environment,
            partition=partition,
            owner=user,
        )


def keep(
    environment: Environment, facts: Mapping[str, Any], definition: str, chore: Chore | None = None
) -> EnvironmentSurvey:
    """Write down what a look has found, of the environment as it was when it was sent."""
    return EnvironmentSurvey.objects.create(
        environment=environment,
        chore=chore,
        definition=definition,
        facts=dict(facts),
        looked_at=timezone.now(),
    )


def waive(
    experiment: Experiment, environment: Environment, wanted: Sequence[str], reason: str, by: User
) -> int:
    """Waive those of today's differences that are `wanted` by name; returns how many.

    A reason that says nothing waives nothing.
    """
    if not reason.strip():
        return 0
    found = next((p for p in passports(experiment) if p.environment == environment), None)
    rows = [one for one in found.differences if one.what in wanted] if found else []
    with transaction.atomic():
        draft = Experiment.objects.select_for_update().filter(
            pk=experiment.pk, launched_at=None, imported_at=None
        )
        if not draft.exists():
            return 0
        for row in rows:
            Waiver.objects.update_or_create(
                experiment=experiment,
                environment=environment,
                what=row.what,
                defaults={
                    "here": row.here,
                    "there": row.there,
                    "reason": reason.strip(),
                    "by": by,
                    "at": timezone.now(),
                },
            )
        if rows:
            what = f"waived {len(rows)} of {environment}"[:100]
            why = f"{reason.strip()} ({', '.join(row.what for row in rows)})"
            Event.objects.create(experiment=experiment, what=what, why=why, actor=by)
    return len(rows)


def withdraw(experiment: Experiment, environment: Environment, by: User) -> int:
    """Take back what was waived for a draft; returns how many."""
    drafts = Experiment.objects.filter(pk=experiment.pk, launched_at=None)
    count = Waiver.objects.filter(experiment__in=drafts, environment=environment).delete()[0]
    if count:
        what = f"took back {count} waived of {environment}"[:100]
        Event.objects.create(experiment=experiment, what=what, actor=by)
    return count


def refusals(found: Iterable[Passport]) -> list[str]:
    """Return what stands against a launch, in words."""
    return [
        f"{passport.environment} differs from {passport.baseline.environment} in "
        f"{named([row.what for row in passport.unwaived])}. Make the software the same, or waive "
        "it with a reason."
        for passport in found
        if passport.unwaived
    ]


def named(names: Sequence[str]) -> str:
    """Return "Python, numpy and 3 more"."""
    if len(names) > NAMED:
        return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"
    return " and ".join([*filter(None, [", ".join(names[:-1])]), *names[-1:]])


def frozen(found: Iterable[Passport]) -> dict[str, Any]:
    """Return what launch keeps in the plan, by the environment's primary key."""
    return {
        str(passport.environment.pk): {
            "unknown": [f"{sight.environment}: {sight.why_not}" for sight in passport.unknown],
            "looked_at": [
                sight.survey.looked_at.isoformat() if sight.survey and sight.is_known else None
                for sight in (passport.baseline, passport.sight)
            ],
            "differences": [
                {
                    "what": difference.what,
                    "here": difference.here,
                    "there": difference.there,
                    "grade": str(difference.grade),
                    "reason": waiver.reason if waiver else "",
                    "by": str(waiver.by) if waiver else "",
                    "at": waiver.at.isoformat() if waiver else "",
                }
                for difference, waiver in passport.rows
            ],
        }
        for passport in found
    }


def kept(experiment: Experiment) -> dict[str, dict[str, Any]]:
    """Return what the plan keeps, by the environment's name today.

    Empty for a plan of before there were passports, and for an import.
    """
    parity = (experiment.plan or {}).get("parity", {})
    names = dict(experiment.environments.values_list("pk", "name")) if parity else {}
    return {names[int(pk)]: found for pk, found in parity.items() if int(pk) in names}


def own_programs(experiment: Experiment) -> list[str]:
    """Return the names of its workloads that start a program of the user's."""
    kinds = [kind for kind, known in KNOWN_WORKLOADS.items() if known.is_the_users]
    rows = experiment.workloads.filter(kind__in=kinds).order_by("name")
    return list(rows.values_list("name", flat=True))


def known_before(parity: Mapping[str, Any], *, own_program: bool = False) -> str:
    """Return in a sentence what `frozen` kept of one environment.

    `own_program`: the runs start a program of the user's, of which a survey sees nothing.
    """
    if unknown := parity["unknown"]:
        return f"Software not compared before the launch: {'; '.join(unknown)}."
    if not parity["differences"]:
        day = max(parity["looked_at"])[:10]
        same = "Python, packages and libraries were" if own_program else "software was"
        return f"Before the launch the same {same} found on both sides (looked at {day})."
    count = len(parity["differences"])
    return (
        f"{count} difference{'s' * (count != 1)} in software "
        f"{'were' if count != 1 else 'was'} known before the launch, and waived."
    )


def why_waived(parity: Mapping[str, Any]) -> str:
    """Return what was waived, by whom and why; "" where nothing was."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for row in parity["differences"]:
        told = f"{row['what']} ({row['here']} on the baseline, {row['there']} here)"
        groups.setdefault((row["reason"], row["by"], row["at"][:10]), []).append(told)
    return " ".join(
        f"{named(rows)}: waived by {by} on {day}, “{reason}”."
        for (reason, by, day), rows in groups.items()
    )
