"""What the scheduler answers, held against what forms allow people to ask it for. Pure."""

import re
from collections.abc import Iterator, Sequence
from functools import partial

from runners.errors import Refused, TryAgain
from runners.preflight.checks import WORDS_LIMIT, Check, PartitionSpec
from runners.preflight.machine import unanswered
from runners.preflight.probes import Answer
from runners.schedulers import PartitionFacts, Scheduler

CHOICE = re.compile(r"[^\w.+=:-]")  # patterns and lists: no name of one partition
STARTABLE = {"idle", "mixed", "allocated", "completing", "reserved", "planned"}


def version(answer: Answer, label: str, *, area: str) -> Check:
    cure = "Is the scheduler's client on the PATH of a log-in without a terminal?"
    if silent := unanswered(area, "Version", f"{label}'s client", answer, cure):
        return silent
    found = re.search(r"\d+(\.\d+)+\S*", answer.text)
    if answer.code or not found:
        return Check(
            area,
            "Version",
            "failed",
            f"{label}'s client prints no version.",
            cure,
            answer.words[:WORDS_LIMIT],
        )
    return Check(area, "Version", "ok", f"{label} {found[0]}.", value=found[0])


def partitions(
    answer: Answer, scheduler: Scheduler, wanted: Sequence[PartitionSpec], *, area: str
) -> Iterator[Check]:
    """What the scheduler has, held against what forms allow people to ask for."""
    name = "Partitions"
    if silent := unanswered(area, name, f"{scheduler.label}'s list of partitions", answer):
        yield silent
        return
    try:
        found = {facts.name: facts for facts in scheduler.parse_partitions(answer.completed)}
    except (Refused, TryAgain) as problem:
        yield Check(
            area,
            name,
            "failed",
            f"{scheduler.label} does not say which partitions there are.",
            "Does its controller run? Try again; if it stays so, ask the centre.",
            str(problem)[:WORDS_LIMIT],
        )
        return
    listed = ", ".join(_partition(facts) for facts in found.values())
    if not found:
        yield Check(area, name, "failed", "There is no partition.", "Ask the centre for access.")
        return
    yield Check(area, name, "ok", f"{listed}.", value=listed)
    for one in wanted:
        facts = found.get(one.name)
        if facts is None and CHOICE.search(one.name):
            yield Check(
                f"Partition {one.name}",
                "Limits",
                "not applicable",
                f"It leaves the choice to {scheduler.label}, which the trial job asks.",
            )
        elif facts is None:
            yield Check(
                f"Partition {one.name}",
                "Limits",
                "failed",
                f"{scheduler.label} has no partition {one.name}.",
                f"It has {', '.join(found)}: mend the name under Edit.",
            )
        else:
            yield _limits(one, facts)
            yield _state(one, facts)


def _partition(facts: PartitionFacts) -> str:
    gpus = f" of {facts.gpus_per_node} GPUs" if facts.gpus_per_node else ""
    return f"{facts.name} ({_nodes(facts)}{gpus}, {_time(facts)})"


def _nodes(facts: PartitionFacts) -> str:
    count = sum(facts.nodes.values())
    return f"{count} node{'s' if count != 1 else ''}"


def _time(facts: PartitionFacts) -> str:
    if facts.time_limit_seconds is None:
        return "no time limit"
    return f"at most {_duration(facts.time_limit_seconds)}"


def _duration(seconds: int) -> str:
    hours, minutes = divmod(seconds // 60, 60)
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {minutes:02} min" if minutes else f"{hours} h"


def _limits(wanted: PartitionSpec, facts: PartitionFacts) -> Check:
    ask = wanted.resources
    count = sum(facts.nodes.values())
    too_much = []
    if wanted.nodes > count:
        too_much.append(f"{wanted.nodes} nodes, and there are {count}")
    if facts.gpus_per_node is not None and ask.gpus_per_node > facts.gpus_per_node:
        too_much.append(f"{ask.gpus_per_node} GPUs a node, and there are {facts.gpus_per_node}")
    if facts.time_limit_seconds is not None and ask.time_limit_seconds > facts.time_limit_seconds:
        too_much.append(
            f"{_duration(ask.time_limit_seconds)}, and the limit is "
            f"{_duration(facts.time_limit_seconds)}"
        )
    resources = f", {' '.join(facts.gres)}" if facts.gres else ""
    value = f"{_nodes(facts)}{resources}, {_time(facts)}"
    if too_much:
        return Check(
            f"Partition {wanted.name}",
            "Limits",
            "failed",
            f"Forms allow {'; '.join(too_much)}.",
            "Lower the numbers of this partition under Edit, or ask for more.",
            value=value,
        )
    return Check(f"Partition {wanted.name}", "Limits", "ok", f"{value}.", value=value)


def _state(wanted: PartitionSpec, facts: PartitionFacts) -> Check:
    make = partial(Check, f"Partition {wanted.name}", "State")
    said = ", ".join(f"{count} {state}" for state, count in sorted(facts.nodes.items()))
    startable = sum(count for state, count in facts.nodes.items() if state in STARTABLE)
    if facts.state != "up":
        cure = "Jobs wait there until the centre opens it again; choose another meanwhile."
        return make("failed", f"The partition is {facts.state}.", cure, value=facts.state)
    if not startable:
        cure = "Jobs would wait until a node comes back: ask the centre when."
        return make("failed", f"No node can start a job: {said}.", cure, value="no node")
    missing = sum(facts.nodes.values()) - startable
    if missing:
        cure = "Experiments on fewer nodes start; the others wait."
        return make("warning", f"Not all nodes can start jobs: {said}.", cure, value=said)
    return make("ok", f"Up; nodes: {said}.", value="up")


def trial(answer: Answer, scheduler: Scheduler, partition: str) -> Check:
    """Whether the largest job that forms allow on a node would be accepted."""
    area, name = f"Partition {partition}" if partition else "Scheduler", "Trial job"
    if silent := unanswered(area, name, f"{scheduler.label}'s trial", answer):
        return silent
    try:
        said = scheduler.parse_trial(answer.completed)
    except Refused as refusal:
        return Check(
            area,
            name,
            "failed",
            f"{scheduler.label} would refuse the largest job that forms allow here.",
            "Mend the partition's GPUs, CPUs, memory, time, account or QOS under Edit.",
            str(refusal)[:WORDS_LIMIT],
        )
    except TryAgain as problem:
        return Check(
            area,
            name,
            "failed",
            f"{scheduler.label} did not answer.",
            "Try again; if it stays so, ask the centre.",
            str(problem)[:WORDS_LIMIT],
        )
    return Check(
        area, name, "ok", "The largest job that forms allow would be accepted.", words=said
    )


def no_node(answer: Answer, scheduler: Scheduler, *, area: str, waited: int) -> Check:
    """Why nothing came back from a node of this partition."""
    name = "Node"
    if scheduler.is_full(answer.words):
        return Check(
            area,
            name,
            "warning",
            f"No node was free within {waited} s, so nothing was started on one.",
            "Check again when the partition is less busy.",
            answer.words[:WORDS_LIMIT],
        )
    if silent := unanswered(area, name, "The command on a node", answer):
        return silent
    return Check(
        area,
        name,
        "failed",
        "A command could not be run on a node.",
        "Try the same with the scheduler's own command by hand; the words below are its answer.",
        answer.words[:WORDS_LIMIT],
    )
