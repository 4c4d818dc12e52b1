"""Checks of the scheduler's answers against what forms allow people to request. No I/O."""

import re
from collections.abc import Iterator, Sequence
from functools import partial

from runners.errors import Refused, TryAgain
from runners.preflight.checks import MESSAGE_LIMIT, Check, PartitionSpec
from runners.preflight.machine import check_for_silence
from runners.probes import Answer
from runners.schedulers import PartitionFacts, Scheduler

CHOICE = re.compile(r"[^\w.+=:-]")  # a pattern or a list, not the name of one partition
STARTABLE = {"idle", "mixed", "allocated", "completing", "reserved", "planned"}


def check_version(answer: Answer, label: str, *, area: str) -> Check:
    """Check that the scheduler's client prints its version."""
    cure = "Is the scheduler's client on the PATH of a log-in without a terminal?"
    if silent := check_for_silence(area, "Version", f"{label}'s client", answer, cure):
        return silent
    match = re.search(r"\d+(\.\d+)+\S*", answer.text)
    if answer.code or not match:
        return Check(
            area,
            "Version",
            "failed",
            f"{label}'s client prints no version.",
            cure,
            answer.message[:MESSAGE_LIMIT],
        )
    return Check(area, "Version", "ok", f"{label} {match[0]}.", value=match[0])


def check_partitions(
    answer: Answer, scheduler: Scheduler, allowed_partitions: Sequence[PartitionSpec], *, area: str
) -> Iterator[Check]:
    """Compare the scheduler's partitions with what forms allow people to request."""
    name = "Partitions"
    if silent := check_for_silence(area, name, f"{scheduler.label}'s list of partitions", answer):
        yield silent
        return
    try:
        reported = {facts.name: facts for facts in scheduler.parse_partitions(answer.completed)}
    except (Refused, TryAgain) as problem:
        yield Check(
            area,
            name,
            "failed",
            f"{scheduler.label} does not say which partitions there are.",
            "Does its controller run? Try again; if it stays so, ask the centre.",
            str(problem)[:MESSAGE_LIMIT],
        )
        return
    listed = ", ".join(_describe_partition(facts) for facts in reported.values())
    if not reported:
        yield Check(area, name, "failed", "There is no partition.", "Ask the centre for access.")
        return
    yield Check(area, name, "ok", f"{listed}.", value=listed)
    for allowed in allowed_partitions:
        facts = reported.get(allowed.name)
        if facts is None and CHOICE.search(allowed.name):
            yield Check(
                f"Partition {allowed.name}",
                "Limits",
                "not applicable",
                f"It leaves the choice to {scheduler.label}, which the trial job asks.",
            )
        elif facts is None:
            yield Check(
                f"Partition {allowed.name}",
                "Limits",
                "failed",
                f"{scheduler.label} has no partition {allowed.name}.",
                f"It has {', '.join(reported)}: mend the name under Edit.",
            )
        else:
            yield _check_limits(allowed, facts)
            yield _check_state(allowed, facts)


def _describe_partition(facts: PartitionFacts) -> str:
    gpus = f" of {facts.gpus_per_node} GPUs" if facts.gpus_per_node else ""
    return f"{facts.name} ({_count_nodes(facts)}{gpus}, {_describe_time_limit(facts)})"


def _count_nodes(facts: PartitionFacts) -> str:
    count = sum(facts.nodes.values())
    return f"{count} node{'s' if count != 1 else ''}"


def _describe_time_limit(facts: PartitionFacts) -> str:
    if facts.time_limit_seconds is None:
        return "no time limit"
    return f"at most {_format_duration(facts.time_limit_seconds)}"


def _format_duration(seconds: int) -> str:
    hours, minutes = divmod(seconds // 60, 60)
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {minutes:02} min" if minutes else f"{hours} h"


def _check_limits(allowed: PartitionSpec, facts: PartitionFacts) -> Check:
    largest_request = allowed.resources
    count = sum(facts.nodes.values())
    too_much = []
    if allowed.nodes > count:
        too_much.append(f"{allowed.nodes} nodes, and there are {count}")
    if facts.gpus_per_node is not None and largest_request.gpus_per_node > facts.gpus_per_node:
        too_much.append(
            f"{largest_request.gpus_per_node} GPUs a node, and there are {facts.gpus_per_node}"
        )
    if (
        facts.time_limit_seconds is not None
        and largest_request.time_limit_seconds > facts.time_limit_seconds
    ):
        too_much.append(
            f"{_format_duration(largest_request.time_limit_seconds)}, and the limit is "
            f"{_format_duration(facts.time_limit_seconds)}"
        )
    resources = f", {' '.join(facts.gres)}" if facts.gres else ""
    value = f"{_count_nodes(facts)}{resources}, {_describe_time_limit(facts)}"
    if too_much:
        return Check(
            f"Partition {allowed.name}",
            "Limits",
            "failed",
            f"Forms allow {'; '.join(too_much)}.",
            "Lower the numbers of this partition under Edit, or ask for more.",
            value=value,
        )
    return Check(f"Partition {allowed.name}", "Limits", "ok", f"{value}.", value=value)


def _check_state(allowed: PartitionSpec, facts: PartitionFacts) -> Check:
    make_check = partial(Check, f"Partition {allowed.name}", "State")
    node_states = ", ".join(f"{count} {state}" for state, count in sorted(facts.nodes.items()))
    startable = sum(count for state, count in facts.nodes.items() if state in STARTABLE)
    if facts.state != "up":
        cure = "Jobs wait there until the centre opens it again; choose another meanwhile."
        return make_check("failed", f"The partition is {facts.state}.", cure, value=facts.state)
    if not startable:
        cure = "Jobs would wait until a node comes back: ask the centre when."
        return make_check(
            "failed", f"No node can start a job: {node_states}.", cure, value="no node"
        )
    missing = sum(facts.nodes.values()) - startable
    if missing:
        cure = "Experiments on fewer nodes start; the others wait."
        return make_check(
            "warning", f"Not all nodes can start jobs: {node_states}.", cure, value=node_states
        )
    return make_check("ok", f"Up; nodes: {node_states}.", value="up")


def check_trial(answer: Answer, scheduler: Scheduler, partition: str) -> Check:
    """Check that the largest job that forms allow on a node would be accepted."""
    area, name = f"Partition {partition}" if partition else "Scheduler", "Trial job"
    if silent := check_for_silence(area, name, f"{scheduler.label}'s trial", answer):
        return silent
    try:
        message = scheduler.parse_trial(answer.completed)
    except Refused as refusal:
        return Check(
            area,
            name,
            "failed",
            f"{scheduler.label} would refuse the largest job that forms allow here.",
            "Mend the partition's GPUs, CPUs, memory, time, account or QOS under Edit.",
            str(refusal)[:MESSAGE_LIMIT],
        )
    except TryAgain as problem:
        return Check(
            area,
            name,
            "failed",
            f"{scheduler.label} did not answer.",
            "Try again; if it stays so, ask the centre.",
            str(problem)[:MESSAGE_LIMIT],
        )
    return Check(
        area, name, "ok", "The largest job that forms allow would be accepted.", words=message
    )


def explain_no_node(answer: Answer, scheduler: Scheduler, *, area: str, waited: int) -> Check:
    """Return a check that says why nothing came back from a node of this partition."""
    name = "Node"
    if scheduler.is_full(answer.message):
        return Check(
            area,
            name,
            "warning",
            f"No node was free within {waited} s, so nothing was started on one.",
            "Check again when the partition is less busy.",
            answer.message[:MESSAGE_LIMIT],
        )
    if silent := check_for_silence(area, name, "The command on a node", answer):
        return silent
    return Check(
        area,
        name,
        "failed",
        "A command could not be run on a node.",
        "Try the same with the scheduler's own command by hand; the words below are its answer.",
        answer.message[:MESSAGE_LIMIT],
    )
