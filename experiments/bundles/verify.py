#!/usr/bin/env python3
"""Check a bundle of Tare: every check sum, and the printed numbers, computed anew from the runs.

    python3 verify.py             the folder in which this file lies
    python3 verify.py BUNDLE      another folder, or a zip file, which is not unpacked
    python3 verify.py --all       prints every number, not only those that matter most
    python3 verify.py --signer SHA256:...   wants it signed by the key with this fingerprint

It needs Python 3.8 or newer and nothing else, reads nothing but the bundle, and changes nothing. It
ends with 0 only if all check sums and all numbers agree, and says what it did not compute.

In order:

1. the bundle: names, sizes and check sums (BagIt)
2. Student's t
3. the estimate of one pair
4. the verdict and its stamps
5. facts of snapshots: what may not be put down to the container
6. many pairs: Holm's correction, and several decisive metrics
7. the study: which runs are judged, when, and with which values
8. second jobs, rejected runs, and whether environments trained alike
9. what is printed, beside what was computed
10. the signature (SSHSIG by Ed25519, as `ssh-keygen -Y verify` reads it)
"""

from __future__ import annotations

import argparse
import base64
import datetime
import fnmatch
import hashlib
import json
import math
import os
import posixpath
import re
import statistics
import struct
import sys
import zipfile
from functools import lru_cache
from typing import (
    Any,
    Dict,
    FrozenSet,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

RULES = 1
"""The version of the rules by which this file computes; a bundle says by which it was made."""

# -- 1. The bundle: names, sizes and check sums ---------------------------------------------------

MOST_FILES = 500_000
MOST_BYTES = 20 * 10**9
MOST_OF_ONE_FILE = 2 * 10**9
MOST_OF_ONE_DOCUMENT = 400 * 10**6
"""Bytes of a document that is read as a whole."""
TIMES_SMALLER = 1100
"""No file of a zip is smaller than its content by more: the method itself allows 1032."""
PIECE = 1 << 20
SIGNATURE = "tagmanifest-sha256.txt.sig"
"""Of the manifest that has the sums of all others; no manifest lists it."""


class Refused(Exception):
    """A bundle that is not read any further, and why."""


class Bundle:
    """The files of a bundle by name; a folder or a zip file."""

    def __init__(self, path: str) -> None:
        self.zip = None if os.path.isdir(path) else open_zip(path)
        self.root, self.prefix = path, ""
        self.sizes = self.list_zip(path) if self.zip else self.list_folder()
        if len(self.sizes) > MOST_FILES or sum(self.sizes.values()) > MOST_BYTES:
            raise Refused("It has %d files, %d bytes: too much." % self.count())
        for name, size in self.sizes.items():
            require_plain_name(name)
            if size > MOST_OF_ONE_FILE:
                raise Refused("%s would be %d bytes." % (name, size))

    def count(self) -> Tuple[int, int]:
        return len(self.sizes), sum(self.sizes.values())

    def list_zip(self, path: str) -> Dict[str, int]:
        """Return the sizes of the files in the one folder that the zip holds."""
        sizes: Dict[str, int] = {}
        packed = 0
        entries = self.zip.infolist()  # type: ignore[union-attr]
        self.prefix = entries[0].filename.partition("/")[0] + "/" if entries else ""
        for entry in entries:
            name = entry.filename[len(self.prefix) :]
            if not entry.filename.startswith(self.prefix):
                raise Refused("%s lies outside of %s." % (entry.filename, self.prefix))
            if name in sizes:
                raise Refused("%s is in it twice." % entry.filename)
            if entry.external_attr >> 16 & 0o170000 not in (0, 0o100000):
                raise Refused("%s is no plain file." % entry.filename)
            if entry.file_size > TIMES_SMALLER * max(entry.compress_size, 64):
                raise Refused("%s would unpack to %d bytes." % (entry.filename, entry.file_size))
            sizes[name] = entry.file_size
            packed += entry.compress_size
        if packed > os.path.getsize(path):
            raise Refused("Its files overlap.")
        return sizes

    def list_folder(self) -> Dict[str, int]:
        sizes: Dict[str, int] = {}
        for folder, folders, names in os.walk(self.root):
            for name in [*names, *folders]:
                path = os.path.join(folder, name)
                relative = os.path.relpath(path, self.root).replace(os.sep, "/")
                if os.path.islink(path):
                    raise Refused("%s is a link." % relative)
                if name in names:
                    sizes[relative] = os.path.getsize(path)
        return sizes

    def read_pieces(self, name: str) -> Iterator[bytes]:
        """Yield the content of a file; no more bytes than its size says."""
        try:
            path = os.path.join(self.root, *name.split("/"))
            with self.zip.open(self.prefix + name) if self.zip else open(path, "rb") as file:
                left = self.sizes[name]
                while left > 0:
                    piece = file.read(min(PIECE, left))
                    if not piece:
                        raise Refused("%s is shorter than it says." % name)
                    left -= len(piece)
                    yield piece
                if file.read(1):
                    raise Refused("%s is longer than it says." % name)
        except (OSError, EOFError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
            raise Refused("%s cannot be read: %s" % (name, error)) from None
        except Exception as error:
            if type(error).__name__ != "error":  # zlib's, which need not be there to be named
                raise
            raise Refused("%s cannot be unpacked: %s" % (name, error)) from None

    def read(self, name: str) -> bytes:
        if name not in self.sizes:
            raise Refused("%s is missing." % name)
        if self.sizes[name] > MOST_OF_ONE_DOCUMENT:
            raise Refused("%s is too large to be read." % name)
        return b"".join(self.read_pieces(name))

    def read_json(self, name: str) -> Any:
        def refuse(word: str) -> None:
            raise ValueError("%s is no number" % word)

        try:
            return json.loads(self.read(name).decode("utf-8"), parse_constant=refuse)
        except (ValueError, RecursionError) as error:
            raise Refused("%s is not what it should be: %s" % (name, error)) from None


def open_zip(path: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise Refused("%s is no folder and no zip file: %s" % (path, error)) from None


def require_plain_name(name: str) -> None:
    """Refuse a name that leads out of the bundle, or that systems read in different ways."""
    plain = name and not name.startswith("/") and posixpath.normpath(name) == name
    if not plain or ".." in name.split("/") or "\\" in name or ":" in name or min(name) < " ":
        raise Refused("%r is no name of a file in a bundle." % name)


def read_manifest(bundle: Bundle, name: str) -> Dict[str, str]:
    """Return the check sum of each file that a manifest lists."""
    listed: Dict[str, str] = {}
    for line in bundle.read(name).decode("utf-8", "replace").splitlines():
        digest, _, file = line.partition("  ")
        if len(digest) != 64 or not file or file in listed:
            raise Refused("%s has the line %r." % (name, line[:200]))
        listed[file] = digest
    return listed


def check_sums(bundle: Bundle) -> Iterator[str]:
    """Yield what is wrong with the files: their list, their number, their size, their sums."""
    if not bundle.read("bagit.txt").startswith(b"BagIt-Version: "):
        yield "bagit.txt does not begin as that of a bag."
    payload = read_manifest(bundle, "manifest-sha256.txt")
    tags = read_manifest(bundle, "tagmanifest-sha256.txt")
    is_payload = {name: name.startswith("data/") for name in bundle.sizes}
    for name in sorted(bundle.sizes):
        if name in ("tagmanifest-sha256.txt", SIGNATURE):
            continue
        known = (payload if is_payload[name] else tags).pop(name, None)
        if known is None:
            yield "%s is in no manifest: somebody has added it." % name
            continue
        digest = hashlib.sha256()
        for piece in bundle.read_pieces(name):
            digest.update(piece)
        if digest.hexdigest() != known:
            yield "%s has another check sum than its manifest says." % name
    for name in sorted([*payload, *tags]):
        yield "%s is missing." % name
    sizes = [size for name, size in bundle.sizes.items() if is_payload[name]]
    oxum = "Payload-Oxum: %d.%d" % (sum(sizes), len(sizes))
    if oxum not in bundle.read("bag-info.txt").decode("utf-8", "replace").splitlines():
        yield "bag-info.txt does not say %s." % oxum


# -- 2. Student's t -------------------------------------------------------------------------------


def log_gamma_ratio(a: float) -> float:
    """Return ln(gamma(a + 1/2) / gamma(a)): Stirling's series, from a = 12 on to 15 digits."""
    log = 0.0
    while a < 12:
        log += math.log(a / (a + 0.5))
        a += 1
    terms = (-1 / 8, 1 / 192, -1 / 640, 17 / 14336, -31 / 18432, 691 / 180224)
    return log + math.log(a) / 2 + sum(term / a ** (2 * k + 1) for k, term in enumerate(terms))


def continued_fraction(a: float, b: float, x: float, y: float) -> float:
    """Return the fraction of the incomplete beta function at x = 1 - y (Didonato and Morris 1992).

    Evaluated by Lentz's method; y has digits of its own where x is close to 1.
    """

    value = a * (a * y - b * x + 1) / (a + 1) or 1e-300
    c, d = value, 0.0
    for m in range(1, 100_000):
        middle = a + 2 * m - 1
        above = (a + m - 1) * (a + b + m - 1) * m * (b - m) * x * x / middle**2
        below = m + m * (b - m) * x / middle
        below += (a + m) * (a * y - b * x + 1 + m * (2 - x)) / (middle + 2)
        d = 1 / (below + above * d or 1e-300)
        c = below + above / c or 1e-300
        value *= c * d
        if abs(c * d - 1) < 3e-16:
            break
    return value


def find_tail(t: float, df: float) -> float:
    """Return P(T > t) of Student's t with so many degrees of freedom, which may be a fraction."""
    if t <= 0:
        return 0.5 if t == 0 else 1 - find_tail(-t, df)
    if t == math.inf:
        return 0.0
    a, square = df / 2, t * t
    outside, inside = df / (df + square), square / (df + square)
    log_front = log_gamma_ratio(a) - math.log(math.pi) / 2 - a * math.log1p(square / df)
    front = math.exp(log_front + math.log(inside) / 2)
    if outside < (a + 1) / (a + 2.5):
        return front / continued_fraction(a, 0.5, outside, inside) / 2
    return 0.5 - front / continued_fraction(0.5, a, inside, outside) / 2


@lru_cache(maxsize=4096)
def find_quantile(tail: float, df: float) -> float:
    """Return the t above which lies this share, below 0.5: Newton's method within a bracket."""
    low, high = 0.0, 1.0
    while find_tail(high, df) > tail:
        low, high = high, 2 * high
    t = (low + high) / 2
    log_front = log_gamma_ratio(df / 2) - math.log(math.pi * df) / 2
    for _ in range(200):
        above = find_tail(t, df)
        low, high = (t, high) if above > tail else (low, t)
        density = math.exp(log_front - (df + 1) / 2 * math.log1p(t * t / df))
        step = math.log(above / tail) * above / density
        following = t + step if low <= t + step <= high else (low + high) / 2
        if abs(following - t) <= 1e-15 * t:
            return following
        t = following
    return t


# -- 3. The estimate of one pair ------------------------------------------------------------------

ALPHA = 0.05
POCOCK = (0.05, 0.0294, 0.0221, 0.0182, 0.0158)
"""The level of each of 1 to 5 planned analyses (Pocock, Biometrika 64, 1977)."""
Interval = Tuple[float, float]


class Sample(NamedTuple):
    """The value of one run that is compared."""

    run: str
    block: str
    environment: str
    repeat: int
    value: float
    node: str
    started: Optional[float]
    source: str
    settles: bool
    nodes: Tuple[str, ...] = ()


class Arm(NamedTuple):
    """The variance of n independent logarithms."""

    variance: float
    n: float


class Estimate(NamedTuple):
    """ln(environment / baseline) and where its uncertainty comes from.

    One arm, the log-ratios of blocks: a paired t. Two arms: Welch's, with Satterthwaite's df.
    """

    log_ratio: float
    arms: Tuple[Arm, ...]

    @property
    def flaw(self) -> str:
        if min(arm.n for arm in self.arms) < 2:
            return "n = 1"
        return "" if any(arm.variance > 1e-24 for arm in self.arms) else "identical values"

    @property
    def se(self) -> float:
        return math.sqrt(sum(arm.variance / arm.n for arm in self.arms))

    @property
    def df(self) -> float:
        squares = self.se**2
        return 1 / sum((arm.variance / arm.n / squares) ** 2 / (arm.n - 1) for arm in self.arms)

    def find_log_interval(self, level: float) -> Interval:
        half = find_quantile((1 - level) / 2, round_df(self.df)) * self.se
        return self.log_ratio - half, self.log_ratio + half

    def find_interval(self, level: float) -> Interval:
        low, high = self.find_log_interval(level)
        return exp(low), exp(high)

    def find_p(self, distance: float) -> float:
        return find_tail(distance / self.se, self.df)


def round_df(df: float) -> float:
    """Return a whole number of degrees of freedom as such, so that its quantile is found once."""
    return round(df) if abs(df - round(df)) < 1e-12 * df else df


def exp(log: float) -> float:
    return math.exp(min(max(log, -700.0), 700.0))


def make_arm(logs: Sequence[float]) -> Tuple[float, Arm]:
    mean = math.fsum(logs) / len(logs)
    squares = math.fsum((log - mean) ** 2 for log in logs)
    return mean, Arm(squares / max(len(logs) - 1, 1), len(logs))


def estimate(baseline: Sequence[float], environment: Sequence[float], pairs: bool) -> Estimate:
    if pairs:
        mean, arm = make_arm([e - b for b, e in zip(baseline, environment)])
        return Estimate(mean, (arm,))
    (mean_b, arm_b), (mean_e, arm_e) = make_arm(baseline), make_arm(environment)
    return Estimate(mean_e - mean_b, (arm_b, arm_e))


def average(named: Sequence[Tuple[str, float]]) -> Dict[str, float]:
    """Return the mean of the values of each name, the names in their order."""
    values: Dict[str, List[float]] = {}
    for name, value in named:
        values.setdefault(name, []).append(value)
    return {name: statistics.fmean(values[name]) for name in sorted(values)}


def name_nodes(samples: Sequence[Sample], paired: bool) -> Dict[str, str]:
    """Return what each node counts as: nodes of one run, or block, are one. {} if any is unknown.

    So are two such sets with a node in common.
    """
    if not all(sample.node for sample in samples):
        return {}
    sets: Dict[str, set] = {}  # type: ignore[type-arg]
    for sample in samples:
        unit = sample.block if paired else sample.run
        sets.setdefault(unit, set()).update((sample.node, *sample.nodes))
    counts_as: Dict[str, set] = {}  # type: ignore[type-arg]
    for nodes in sets.values():
        joined = nodes.union(*(counts_as[node] for node in nodes if node in counts_as))
        counts_as.update((node, joined) for node in joined)
    return {node: " and ".join(sorted(joined)) for node, joined in counts_as.items()}


class Arms:
    """The runs of both environments that are compared: of the same blocks, if the plan pairs."""

    def __init__(self, baseline: List[Sample], environment: List[Sample], plan: Dict[str, Any]):
        self.paired = plan["design"] == "paired"
        self.by_node = plan["estimand"] == "partition"
        if self.paired:
            in_both = {run.block for run in baseline} & {run.block for run in environment}
            baseline = [run for run in baseline if run.block in in_both]
            environment = [run for run in environment if run.block in in_both]
        elif self.by_node and (names := name_nodes([*baseline, *environment], False)):
            on_both = {names[run.node] for run in baseline} & {
                names[run.node] for run in environment
            }
            baseline = [run for run in baseline if names[run.node] in on_both]
            environment = [run for run in environment if names[run.node] in on_both]
        self.baseline, self.environment = baseline, environment
        self.node_names = name_nodes([*baseline, *environment], self.paired)
        self.blocks = sorted({run.block for run in baseline}) if self.paired else []
        self.has_pairs = self.paired or self.by_node
        self.logs = (self.list_logs(baseline), self.list_logs(environment))

    def list_logs(self, samples: List[Sample]) -> List[float]:
        """Return the logarithms that count as independent: one a block, a run or a node."""
        by_node = self.by_node and bool(self.node_names)
        if not self.paired:
            if not by_node:
                return [math.log(run.value) for run in samples]
            named = [(self.node_names[run.node], math.log(run.value)) for run in samples]
            return list(average(named).values())
        blocks = average([(run.block, math.log(run.value)) for run in samples])
        if not by_node:
            return list(blocks.values())
        node_of = {run.block: self.node_names[run.node] for run in samples}
        return list(average([(node_of[name], log) for name, log in blocks.items()]).values())

    def estimate(self) -> Optional[Estimate]:
        baseline, environment = self.logs
        if not baseline or not environment:
            return None
        if self.by_node and not self.node_names:
            difference = statistics.fmean(environment) - statistics.fmean(baseline)
            return Estimate(difference, (Arm(0.0, 1),))
        return estimate(baseline, environment, self.has_pairs)

    def leave_one_out(self) -> Iterator[Estimate]:
        baseline, environment = self.logs
        if min(len(baseline), len(environment)) < 2:
            return
        for i in range(len(baseline)):
            rest = baseline[:i] + baseline[i + 1 :]
            others = environment[:i] + environment[i + 1 :] if self.has_pairs else environment
            yield estimate(rest, others, self.has_pairs)
        for i in range(0 if self.has_pairs else len(environment)):
            yield estimate(baseline, environment[:i] + environment[i + 1 :], False)


# -- 4. The verdict and its stamps ----------------------------------------------------------------

KEPT_PARTS = ("n_", "facts_", "loss_", "accuracy_")
"""What a pair keeps that the plan does not judge."""
FEWEST = 5
"""Below this many values the verdict is provisional."""
PROVED = {"equivalence": "EQUIVALENT", "not slower": "NOT SLOWER"}
COMPUTED_STAMPS = {
    *("PROVISIONAL", "FEW NODES", "OUTLIER-SENSITIVE", "TAIL", "NO STEADY STATE"),
    *("NOT AFTER HOLM", "EXTENDED", "STOPPED EARLY", "TRIED AGAIN AFTER A VERDICT"),
    *("COLLECTED AFTER A VERDICT", "DIFFERENCES WAIVED", "EXCLUDED BY HAND"),
    *("EXCLUDED AFTER A VERDICT", "CONFOUNDED", "PAIRED ACROSS JOBS", "REJECTIONS DIFFER"),
    "TRAINED DIFFERENTLY",
}


class Question(NamedTuple):
    """What is asked of a pair: the metric's direction, the margins and what is to be shown."""

    better: str
    goal: str
    slower: float
    faster: float

    @property
    def log_cost_bounds(self) -> Interval:
        return -math.log1p(self.faster), math.log1p(self.slower)

    @property
    def log_bounds(self) -> Interval:
        low, high = self.log_cost_bounds
        return (-high, -low) if self.better == "higher" else (low, high)


def decide(estimate: Estimate, question: Question, alpha: float) -> Tuple[str, str]:
    """Return the verdict and its detail, by the intervals of 1 - alpha and of 1 - 2 alpha."""
    if estimate.flaw:
        return "NO INFERENCE", estimate.flaw
    narrow, wide = estimate.find_log_interval(1 - 2 * alpha), estimate.find_log_interval(1 - alpha)
    if question.better == "higher":
        narrow, wide = (-narrow[1], -narrow[0]), (-wide[1], -wide[0])
    lowest, highest = question.log_cost_bounds
    if lowest < narrow[0] and narrow[1] < highest:
        if question.goal == "not slower" and wide[1] < 0:
            return "NOT SLOWER", "faster"
        return PROVED[question.goal], "difference detectable" if wide[0] > 0 or wide[1] < 0 else ""
    unresolved = "size against the margin unresolved"
    if wide[0] > 0:
        return "SLOWER", "beyond margin" if wide[0] > highest else unresolved
    if wide[1] < 0:
        return "FASTER", "beyond margin" if wide[1] < lowest else unresolved
    return "INCONCLUSIVE", "not slower than the margin" if narrow[1] < highest else ""


def list_stamps(
    arms: Arms, estimate: Estimate, verdict: str, question: Question, alpha: float
) -> Iterator[str]:
    nodes = len(set(arms.node_names.values()))
    fewest = min(arm.n for arm in estimate.arms)
    if arms.by_node:
        counts = (len(arms.baseline), len(arms.environment))
        fewest = len(arms.blocks) if arms.paired else min(counts)
    if fewest < FEWEST:
        yield "PROVISIONAL"
    without_one = (rest for rest in arms.leave_one_out() if min(arm.n for arm in rest.arms) > 1)
    if any(decide(rest, question, alpha)[0] != verdict for rest in without_one):
        yield "OUTLIER-SENSITIVE"
    if not all(run.settles for run in [*arms.baseline, *arms.environment]):
        yield "NO STEADY STATE"
    if has_tail(arms.baseline, question) or has_tail(arms.environment, question):
        yield "TAIL"
    most = len(arms.blocks) if arms.paired else max(len(arms.baseline), len(arms.environment))
    if nodes < FEWEST if arms.by_node else 1 < nodes < most:
        yield "FEW NODES"


def has_tail(samples: List[Sample], question: Question) -> bool:
    """Return whether a run is slower than the median by the margin and by 5 robust SDs."""
    if len(samples) < FEWEST:
        return False
    sign = -1 if question.better == "higher" else 1
    costs = [sign * math.log(run.value) for run in samples]
    centre = statistics.median(costs)
    spread = 1.4826 * statistics.median(abs(cost - centre) for cost in costs)
    return max(costs) - centre > max(math.log1p(question.slower), 5 * spread)


def ran_apart(first: Sample, second: Sample) -> bool:
    """Return whether two runs ran on different nodes; on several, by all where they are known."""
    if first.nodes and second.nodes:
        return set(first.nodes) != set(second.nodes)
    return first.node != second.node


def join_nodes(samples: Sequence[Sample]) -> set:  # type: ignore[type-arg]
    return {name for sample in samples for name in (sample.node, *sample.nodes) if name}


def is_confounded(arms: Arms) -> bool:
    """Return whether nodes or times alone confound both environments."""
    runs_b, runs_e = (
        {run.block: run for run in arm if run.node} for arm in (arms.baseline, arms.environment)
    )
    if arms.paired:
        if any(ran_apart(runs_b[name], runs_e[name]) for name in runs_b if name in runs_e):
            return True
    elif runs_b and runs_e and not join_nodes(arms.baseline) & join_nodes(arms.environment):
        return True
    times_b = [run.started for run in arms.baseline if run.started is not None]
    times_e = [run.started for run in arms.environment if run.started is not None]
    counts = (len(arms.baseline), len(arms.environment))
    if not times_b or not times_e or (len(times_b), len(times_e)) != counts:
        return False
    return max(times_b) < min(times_e) or max(times_e) < min(times_b)


def compare(
    samples: Sequence[Sample], names: Tuple[str, str], question: Question, plan: Any, alpha: float
) -> Dict[str, Any]:
    """Return what is printed of a pair, by the names of the printed columns."""
    baseline, environment = ([run for run in samples if run.environment == name] for name in names)
    arms = Arms(baseline, environment, plan)
    values = [[run.value for run in arm] for arm in (arms.baseline, arms.environment)]
    pair: Dict[str, Any] = {"verdict": "NO INFERENCE", "stamps": set(), "alpha": alpha}
    for side, numbers in zip(("baseline", "environment"), values):
        pair["n_" + side] = len(numbers)
        pair[side + "_mean"] = statistics.fmean(numbers) if numbers else None
        pair[side + "_sd"] = statistics.stdev(numbers) if len(numbers) > 1 else None
    pair["n_blocks"] = len(arms.blocks)
    pair["n_nodes"] = len(set(arms.node_names.values()))
    pair["to_infer"] = pair["n_nodes"] if arms.by_node else pair["n_blocks"]
    if not arms.has_pairs:
        pair["to_infer"] = min(map(len, values))
    estimate = arms.estimate()
    if estimate is None or len({run.source for run in [*arms.baseline, *arms.environment]}) > 1:
        return pair
    pair["ratio"] = exp(estimate.log_ratio)
    pair["verdict"], pair["detail"] = decide(estimate, question, alpha)
    if estimate.flaw:
        return pair
    low, high = question.log_bounds
    p_lower, p_upper = (
        estimate.find_p(estimate.log_ratio - low),
        estimate.find_p(high - estimate.log_ratio),
    )
    is_one_sided = question.goal == "not slower"
    narrow = estimate.find_log_interval(1 - 2 * alpha)
    smallest = exp(max(-narrow[0], narrow[1])) - 1
    if is_one_sided:
        end = narrow[1] if question.better == "lower" else -narrow[0]
        smallest = max(exp(end) - 1, 0.0)
    pair["stamps"] = set(list_stamps(arms, estimate, pair["verdict"], question, alpha))
    pair["confounded"] = is_confounded(arms)
    pair.update(
        log_se=estimate.se,
        df=estimate.df,
        ci95=estimate.find_interval(0.95),
        ci90=estimate.find_interval(0.90),
        ci_difference=estimate.find_interval(1 - alpha),
        ci_equivalence=estimate.find_interval(1 - 2 * alpha),
        p_difference=2 * estimate.find_p(abs(estimate.log_ratio)),
        p_goal=max(p_lower, p_upper),
        p_lower_bound=None if low == -math.inf else p_lower,
        p_upper_bound=None if high == math.inf else p_upper,
        smallest_margin=smallest,
    )
    pair["p_not_slower" if is_one_sided else "p_equivalence"] = pair["p_goal"]
    return pair


def find_extension_level(first: int, added: int) -> float:
    """Return the level after an extension: that of two planned analyses at these sizes (Pocock)."""
    share = first / (first + added)
    normal = statistics.NormalDist()

    def find_alarms(level: float) -> float:
        limit, pieces = -normal.inv_cdf(level / 2), 400
        sd, total = math.sqrt(1 - share), 0.0
        for i in range(pieces + 1):  # Simpson's rule
            z = limit * (2 * i / pieces - 1)
            middle = math.sqrt(share) * z
            inside = normal.cdf((limit - middle) / sd) - normal.cdf((-limit - middle) / sd)
            total += (1 if i in (0, pieces) else 2 + 2 * (i % 2)) * normal.pdf(z) * inside
        return 1 - total * 2 * limit / pieces / 3

    low, high = ALPHA / 2, ALPHA
    while high - low > 1e-7:
        middle = (low + high) / 2
        low, high = (low, middle) if find_alarms(middle) > ALPHA else (middle, high)
    return round((low + high) / 2, 4)


# -- 5. Facts of snapshots: what may not be put down to the container -----------------------------

TABLE_SHA256 = "ced84413b2ab2a66e508c41b20a0e32fa6a22d51b40e70664f4ffb334f0e389b"
"""Of data/confounders.json, the table by whose grades this file computes. It is known here, as a
forger could grade a difference as cosmetic in the bundle."""
EARLIER_TABLES = {
    "1126f201407ed530d2bccd99e858bc4282fab351179383474163b1158e2059db": (
        *("data_set", "modules", "segments"),
    ),
    "6aaa17c5d19b8a41e0e126033835d45e5f65bb481d4db27044be812524f8b1ea": ("modules", "segments"),
    "954013a2dbddcff17b46456e25c2f419829abd8443e63f3635c76f81096b047f": ("segments",),
}
"""By which earlier versions compared, and the parts of snapshots that these did not know."""
GRADES = ("blocking", "likely", "cosmetic")
NOTHING = "nothing"
"""Stands for what is absent, such as a package, where others of its kind were recorded."""
NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?")
OF_ONE_SIDE = {"modules"}
"""Groups of which each side needs members of its own: what it lacks is no difference."""
MOST_DIFFERENCES = 200
"""That are printed of a pair, the gravest first."""
LIBRARIES = {"BLAS that answered": "BLAS", "cuDNN that was loaded": "cuDNN"}
"""What runs had loaded, and how a waiver names the library."""
VERSIONS = {
    "cudnn": r"libcudnn[a-z_0-9]*\.so\.?([0-9.]*)",
    "cublas": r"libcublas(?:Lt)?\.so\.?([0-9.]*)",
    "cuda_runtime": r"libcudart\.so\.?([0-9.]*)",
    "cuda_driver": r"libcuda\.so\.?([0-9.]*)",
    "nccl": r"libnccl\.so\.?([0-9.]*)",
    "openmp": r"(lib(?:gomp|iomp5|omp)(?:-[0-9a-f]+)?\.so[0-9.]*)",
    "allocator": r"(lib(?:jemalloc|tcmalloc|mimalloc)[a-z_]*\.so[0-9.]*)",
}
"""What tells the version of a loaded library in the name of its file."""
STARTERS = re.compile(
    r"(ba|da|a|k|z|c|tc)?sh|busybox|coreutils|env|nice|ionice|nohup|setsid|stdbuf|time|timeout"
    r"|taskset|numactl|chrt|prlimit|xargs"
)
"""Programs that only start another one."""
C_LIBRARY = re.compile(
    r"(ld-|linux-vdso|lib(c|m|mvec|pthread|dl|rt|resolv|util|nsl|anl|crypt|c\.musl.*)\.so).*"
)
Facts = Dict[str, str]
Values = Dict[str, FrozenSet[str]]


class Row:
    """A row of the table: a fact, or all facts whose names begin alike, and how it is compared."""

    def __init__(self, row: Dict[str, str]) -> None:
        self.key, self.fact, self.compared = row["key"], row["fact"], row["compared"]
        self.grade, self.grade_of_one_side = row["grade"], row["known_on_one_side"]
        self.parent, _, rest = self.key.partition("/")
        self.patterns = rest.strip("{}").split() if "{" in rest else [rest] if "*" in rest else []
        self.beginning = self.fact.partition("*")[0]
        if self.patterns and "{" not in rest and rest != "*":
            self.beginning = self.fact.rpartition(" ")[0] + " "
        self.members = re.compile("|".join(map(fnmatch.translate, self.patterns)) or "(?!)")
        within = re.match(r"within ([0-9]+) %$", self.compared)
        self.tolerance = int(within.group(1)) / 100 if within else 0.0

    def is_about(self, name: str) -> bool:
        if not self.patterns:
            return name == self.fact
        is_of_group = name.startswith(self.beginning)
        return is_of_group and bool(self.members.match(name[len(self.beginning) :]))


class Table:
    """The rows in their order: the first that is about a fact counts."""

    def __init__(self, rows: List[Dict[str, str]]) -> None:
        self.rows = [Row(row) for row in rows]
        self.compared = [row for row in self.rows if row.grade != "treatment"]
        self.parents = list(dict.fromkeys(row.parent for row in self.rows if row.patterns))
        self.known: Dict[Tuple[str, str], Optional[Row]] = {}

    def find(self, name: str) -> Row:
        if ("", name) not in self.known:
            rows = sorted(self.rows, key=lambda row: bool(row.patterns))
            unlisted = {"key": "?", "fact": name, "compared": "equal"}
            unlisted.update(grade="likely", known_on_one_side="likely")
            about = (row for row in rows if row.is_about(name))
            self.known["", name] = next(about, None) or Row(unlisted)
        return self.known["", name]  # type: ignore[return-value]

    def find_member(self, parent: str, name: str) -> Optional[Row]:
        if (parent, name) not in self.known:
            key = "%s/%s" % (parent, name)
            rows = [row for row in self.rows if row.parent == parent]
            rows = [row for row in rows if row.key == key or row.members.match(name)]
            self.known[parent, name] = rows[0] if rows else None
        return self.known[parent, name]


def read_facts(table: Table, snapshot: Any) -> Facts:
    """Return the facts of a snapshot by their names; those that it does not know are left out."""
    inside = snapshot.get("inside")
    if not isinstance(inside, dict):
        return {}
    known = derive_facts(inside)
    known["modules"] = split_modules(snapshot.get("modules"))
    facts: Facts = {}
    for row in table.compared:
        if not row.patterns:
            text = cut_fact(write_fact(look_up(known, row.key))) or name_absent(inside, row.parent)
            if text:
                facts[row.fact] = text
    for parent in table.parents:
        members = known.get(parent)
        for name, value in sorted(members.items())[:10_000] if isinstance(members, dict) else ():
            member = table.find_member(parent, name)
            text = cut_fact(write_fact(value))
            if member and member.patterns and member.grade != "treatment" and text:
                facts[member.beginning + name[:200]] = text
    return facts


def name_absent(inside: Dict[str, Any], parent: str) -> str:
    """Return what stands for a fact that was looked for and is not there; "" if nobody looked."""
    part, text = {"variables": ("variables", "not set"), "loaded": ("libraries", "none")}.get(
        parent, ("", "")
    )
    return text if isinstance(inside.get(part), (dict, list)) else ""


def derive_facts(inside: Dict[str, Any]) -> Dict[str, Any]:
    """Return what a snapshot says, with what the table takes from several of its parts."""
    known = dict(inside)
    cpus, gpus, blas = (inside.get(name) for name in ("cpus", "gpus", "blas_loaded"))
    if isinstance(cpus, list) and cpus:
        known.update(cpu_count=len(cpus), cpu_list=write_ranges(cpus))
    gpus = [gpu for gpu in gpus if isinstance(gpu, dict)] if isinstance(gpus, list) else []
    if gpus:
        known["gpus"] = gpus
        known.setdefault("gpu_model", join_facts(write_fact(gpu.get("name")) for gpu in gpus))
        known["gpu_by_index"] = {
            write_fact(gpu.get("index")) or "?": gpu.get("uuid") or gpu.get("name") for gpu in gpus
        }
    if isinstance(blas, list):
        libraries = [describe_blas(library) for library in blas if isinstance(library, dict)]
        known["blas_answered"] = join_facts(libraries)
    if "variables" not in inside and "tensorflow_variables" in inside:  # of imported logs
        known["variables"] = inside["tensorflow_variables"]
    loaded = inside.get("loaded")
    files = loaded.get("files") if isinstance(loaded, dict) else None
    if isinstance(files, dict):
        known["loaded"] = find_versions(files)
        known["loaded_sums"] = {
            write_fact(file.get("soname")) or path.rpartition("/")[2]: identify_loaded(file)
            for path, file in files.items()
            if isinstance(file, dict)
        }
    else:
        first = inside.get("libraries")
        known["loaded"] = find_versions(first) if isinstance(first, list) else None
    known.update(describe_program(inside.get("program")))
    return known


def split_modules(modules: Any) -> Facts:
    """Return the versions of environment modules outside by name: "gcc/13.2" is 13.2 of gcc."""
    names = modules.get("names") if isinstance(modules, dict) else None
    versions: Dict[str, Set[str]] = {}
    for module in names if isinstance(names, list) else []:
        if isinstance(module, str) and module:
            name, slash, version = module.rpartition("/")
            versions.setdefault(name if slash else module, set()).add(
                version if slash else "loaded"
            )
    return {name: join_facts(texts) for name, texts in versions.items()}


ENDS = "ends_sha256"
"""The check sum of both ends of a file that is too large to be summed up."""


def describe_program(program: Any) -> Dict[str, Facts]:
    """Return check sums of the files of a user's program, and of what they are linked with."""
    described: Dict[str, Facts] = {"programs": {}, "linked": {}}
    if not isinstance(program, dict):
        return described
    files, libraries = program.get("files"), program.get("libraries")
    for file in files if isinstance(files, list) else []:
        if not isinstance(file, dict):
            continue
        if not STARTERS.fullmatch(str(file.get("path", "")).rpartition("/")[2]):
            text = "the environment\u2019s Python" if file.get("is_python") else identify(file)
            described["programs"][str(file.get("word", ""))[:80]] = text
    for name, file in libraries.items() if isinstance(libraries, dict) else ():
        if isinstance(file, dict) and not C_LIBRARY.fullmatch(name):
            described["linked"][name[:80]] = identify(file)
    return described


def identify(file: Dict[str, Any]) -> str:
    if file.get("sha256"):
        return shorten_sum(str(file["sha256"]))
    where = " (%s, %s bytes)" % (file["path"], file.get("bytes")) if file.get("path") else ""
    return ("not read: %s%s" % (file.get("problem", "no reason"), where))[:200]


NOT_READ, OF_ENDS = "not read", "sha256 of its ends"
"""What stands for a check sum that is not known; what begins one of both ends of a file alone."""


def identify_loaded(file: Dict[str, Any]) -> str:
    if file.get("sha256"):
        return shorten_sum(file["sha256"])
    return "%s %s" % (OF_ENDS, write_fact(file[ENDS])[:12]) if file.get(ENDS) else NOT_READ


def are_of_two_kinds(values: Iterable[str]) -> bool:
    """Return whether some are check sums of both ends of a file, and others of all of it."""
    return len({value.startswith(OF_ENDS) for value in values if value != NOTHING}) > 1


def shorten_sum(digest: Any) -> str:
    return "sha256 %s" % write_fact(digest)[:12]


def find_versions(paths: Iterable[Any]) -> Facts:
    """Return the versions in the names of loaded libraries: of 9 and 9.1.0 the longer one."""
    names = {str(path).rpartition("/")[2] for path in paths}
    versions: Facts = {}
    for library, pattern in VERSIONS.items():
        matches = [re.fullmatch(pattern, name) for name in names]
        texts = {match.group(1).strip(".") for match in matches if match}
        longest = {
            text for text in texts if not any(other.startswith(text + ".") for other in texts)
        }
        if texts:
            versions[library] = join_facts(text or "without a version" for text in longest)
    return versions


def describe_blas(library: Dict[str, Any]) -> str:
    text = " ".join(str(library[key]) for key in ("name", "version") if library.get(key))
    text += " (%s)" % library["kernels"] if library.get("kernels") else ""
    return text + (", threads %s" % library["threads"] if library.get("threads") else "")


def look_up(known: Dict[str, Any], key: str) -> Any:
    """Return the value at a key of the table; of several GPUs all values that differ."""
    parent, _, rest = key.partition("/")
    value = known.get(parent)
    if rest and isinstance(value, list):
        return join_facts(write_fact(item.get(rest)) for item in value if isinstance(item, dict))
    if rest:
        return value.get(rest) if isinstance(value, dict) else None
    return value


def write_fact(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        parts = sorted((key, write_fact(item)) for key, item in value.items())
        return ", ".join("%s %s" % part for part in parts)
    return ", ".join(map(write_fact, value)) if isinstance(value, list) else str(value)


def write_ranges(numbers: List[Any]) -> str:
    """Return whole numbers as Linux writes them: "0-3,8"; anything else as it is."""
    if not all(type(number) is int for number in numbers):
        return write_fact(numbers)
    ranges: List[List[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join("%d-%d" % (low, high) if high > low else str(low) for low, high in ranges)


def cut_fact(text: str) -> str:
    if len(text) <= 200:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    return "%s... (sha256 %s)" % (text[:160], digest[:12])


def join_facts(texts: Iterable[str]) -> str:
    return ", ".join(sorted(set(filter(None, texts))))


class Side:
    """What one side knows: the values of each fact, and of which facts it would know the lack."""

    def __init__(self, table: Table, runs: Iterable[Facts]) -> None:
        values: Dict[str, Set[str]] = {}
        for facts in runs:
            for name, value in facts.items():
                values.setdefault(name, set()).add(value)
        self.values: Values = {name: frozenset(texts) for name, texts in values.items()}
        rows = [table.find(name) for name in values]
        self.parents = {row.parent for row in rows}
        groups = (row for row in table.compared if row.patterns and row.parent in self.parents)
        self.titles = {row.fact for row in rows} | {row.fact for row in groups}

    @property
    def is_from_before(self) -> bool:
        """Return whether an earlier version of Tare stored it, by which nothing was blocking."""
        return "CPUs at hand" in self.values and "CPUs of the affinity mask" not in self.values

    def read(self, name: str, row: Row) -> FrozenSet[str]:
        """Return the values of a fact, `NOTHING` for one that is absent; empty for unknown."""
        is_absent = row.patterns and row.parent in self.parents - OF_ONE_SIDE
        if name not in self.values:
            return frozenset([NOTHING] if is_absent else [])
        return self.values[name] - {NOT_READ}


class Differences:
    """Which facts differ between both sides, by the blocks of a pair or by all of its runs."""

    def __init__(self, table: Table) -> None:
        self.table, self.blocks = table, 0
        self.titles: Optional[Set[str]] = None
        self.grades: Dict[str, Set[str]] = {}
        self.counts: Dict[str, int] = {}
        self.values: Dict[str, Tuple[Set[str], Set[str]]] = {}

    def add(
        self, first: Side, second: Side, count: int, waived: Dict[str, Tuple[str, str]]
    ) -> None:
        """Compare both sides of so many blocks."""
        titles = first.titles & second.titles
        for name in set(first.values) | set(second.values):
            if first.values.get(name) == second.values.get(name):
                continue
            row = self.table.find(name)
            both = first.read(name, row), second.read(name, row)
            answer = compare_values(row, *both) if all(both) else None
            if answer:
                continue
            grade = row.grade
            if answer is None:
                titles.discard(row.fact)
                grade = row.grade_of_one_side
            if grade == "blocking" and (
                is_waived(name, both, waived) or first.is_from_before or second.is_from_before
            ):
                grade = "likely"
            self.grades.setdefault(name, set()).add(grade)
            self.counts[name] = self.counts.get(name, 0) + count
            for known, values in zip(self.values.setdefault(name, (set(), set())), both):
                known.update(values)
        self.titles = titles if self.titles is None else self.titles & titles
        self.blocks += count

    def add_unbalanced(self, first: List[Facts], second: List[Facts]) -> None:
        """Note facts of independent runs whose values lie mostly on one side: they are likely."""
        sides = [count_values(runs) for runs in (first, second)]
        for name in set(sides[0]) & set(sides[1]) - set(self.values):
            row, both = self.table.find(name), [side[name] for side in sides]
            values = set(both[0]) | set(both[1])
            if len(values) < 2 or are_of_two_kinds(values):
                continue
            if row.grade not in ("blocking", "likely"):
                continue
            totals = [sum(counts.values()) for counts in both]
            is_exact = len(values) > MOST_TOLERATED
            shares = [
                [count_same(row, v, c, is_exact) / n for c, n in zip(both, totals)] for v in values
            ]
            if any(abs(here - there) > UNBALANCED for here, there in shares):
                self.grades[name] = {"likely"}
                self.counts[name] = 1
                named = "%s (%d of %d runs)"
                texts = [{named % (v, n, sum(c.values())) for v, n in c.items()} for c in both]
                self.values[name] = (texts[0], texts[1])

    def list_by_grade(self) -> Dict[str, List[str]]:
        named = [(min(map(GRADES.index, self.grades[name])), name) for name in self.grades]
        kept = sorted(named)[:MOST_DIFFERENCES]
        return {grade: [name for i, name in kept if GRADES[i] == grade] for grade in GRADES}

    @property
    def columns(self) -> Dict[str, Any]:
        known = {row.fact for row in self.table.compared}
        columns = {"facts_compared": len(known & (self.titles or set())), "facts_of": len(known)}
        names = self.list_by_grade()
        return {**columns, **{"facts_" + grade: "; ".join(names[grade]) for grade in GRADES}}

    def describe(self, name: str) -> str:
        """Return a difference as the sentence of a pair prints it."""
        where = "" if self.counts[name] == self.blocks else " (in %d of %d blocks)"
        sides = []
        for values in self.values[name]:
            more = " and %d more" % (len(values) - 3) if len(values) > 3 else ""
            sides.append(", ".join(sorted(values)[:3])[:300] + more or "not known")
        where = where and where % (self.counts[name], self.blocks)
        return "%s: %s on the baseline, %s here%s" % (name, *sides, where)


UNBALANCED = 0.5
MOST_TOLERATED = 100


def count_values(runs: List[Facts]) -> Dict[str, Dict[str, int]]:
    """Return how many runs have each value of each fact."""
    counts: Dict[str, Dict[str, int]] = {}
    for facts in runs:
        for name, value in facts.items():
            if value != NOT_READ:
                known = counts.setdefault(name, {})
                known[value] = known.get(value, 0) + 1
    return counts


def count_same(row: Row, value: str, counts: Dict[str, int], is_exact: bool) -> int:
    """Return how many runs have this value, or one within the tolerance."""
    if not row.tolerance or is_exact:
        return counts.get(value, 0)
    return sum(n for other, n in counts.items() if is_same_fact(row, value, other))


def compare_values(row: Row, first: FrozenSet[str], second: FrozenSet[str]) -> Optional[bool]:
    """Return whether two sides have the same values of a fact; None where that cannot be told."""
    if first != second and are_of_two_kinds(first | second):
        return None
    answers: Set[Optional[bool]] = set()
    for values, others in ((first, second), (second, first)):
        for value in values:
            best = {is_same_fact(row, value, other) for other in others}
            answers.add(True if True in best else None if None in best else False)
    return False if False in answers else None if None in answers else True


def is_same_fact(row: Row, first: str, second: str) -> Optional[bool]:
    if first == second:
        return True
    if row.compared == "version":  # 9 and 9.1.0 may be the same
        may_be = first.startswith(second + ".") or second.startswith(first + ".")
        return None if may_be else False
    both = first.split(", "), second.split(", ")
    if not row.tolerance or len(both[0]) != len(both[1]):
        return False
    for texts in zip(*both):
        numbers = [
            float(match.group()) for match in map(NUMBER.match, map(str.strip, texts)) if match
        ]
        if len(numbers) < 2 or not all(map(math.isfinite, numbers)):
            return False
        if abs(numbers[0] - numbers[1]) > row.tolerance * max(map(abs, numbers)):
            return False
    return True


def is_waived(
    name: str, both: Tuple[FrozenSet[str], FrozenSet[str]], waived: Dict[str, Tuple[str, str]]
) -> bool:
    """Return whether a person let a difference pass before the launch, with these very values."""
    if LIBRARIES.get(name) in waived:
        threads = [set(re.findall("threads [0-9]+", ", ".join(values))) for values in both]
        return threads[0] == threads[1]
    known = waived.get(name[len("package ") :] if name.startswith("package ") else name)
    if known is None:
        return False
    return both == tuple(frozenset([NOTHING if text == "none" else text]) for text in known)


def attribute(pair: Dict[str, Any], facts: Differences, name: str, baseline: str) -> None:
    """Make a verdict NOT ATTRIBUTABLE where a blocking fact differs, and begin its sentence."""
    pair.update(facts.columns, facts_verdict_by_numbers=None)
    blocking = facts.list_by_grade()["blocking"]
    if not blocking or pair["verdict"] == "NO INFERENCE":
        return
    names = blocking[:3] + ["%d more" % (len(blocking) - 3)] * (len(blocking) > 3)
    named = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    detail = "%s differ%s" % (named, "s" * (len(blocking) == 1))
    sentence = (
        "%s against %s is not attributable to the container: %s (%s). The numbers alone would"
    )
    sentence += " say %s: "
    first = facts.describe(blocking[0])
    pair["sentence_begins"] = sentence % (name, baseline, detail, first, pair["verdict"])
    pair["facts_verdict_by_numbers"] = pair["verdict"]
    pair.update(verdict="NOT ATTRIBUTABLE", detail=detail)


# -- 6. Many pairs: Holm's correction, and several decisive metrics -------------------------------

Ps = Sequence[Optional[float]]


def adjust_by_holm(ps: Ps) -> List[Optional[float]]:
    ordered = sorted((p, i) for i, p in enumerate(ps) if p is not None)
    adjusted: List[Optional[float]] = [None] * len(ps)
    largest = 0.0
    for rank, (p, i) in enumerate(ordered):
        adjusted[i] = largest = max(largest, min(1.0, p * (len(ordered) - rank)))
    return adjusted


def take_largest_so_far(row: Ps) -> List[Optional[float]]:
    path: List[Optional[float]] = []
    largest: Optional[float] = 0.0
    for p in row:
        largest = None if largest is None or p is None else max(largest, p)
        path.append(largest)
    return path


def adjust_in_order(rows: Sequence[Ps]) -> List[List[Optional[float]]]:
    """Return adjusted p of metrics in a fixed order, over many comparisons (Bretz et al. 2009)."""
    paths = [take_largest_so_far(row) for row in rows]
    ends = [1.0 if path[-1] is None else path[-1] for path in paths]
    order = sorted((i for i, path in enumerate(paths) if path[0] is not None), key=ends.__getitem__)
    count, levels = len(order), [0.0]
    for done, i in enumerate(order):
        levels.append(max(levels[-1], min(1.0, ends[i] * (count - done))))
    adjusted: List[List[Optional[float]]] = [[None] * len(row) for row in rows]
    for place, i in enumerate(order):
        adjusted[i] = [
            None
            if p is None
            else min(max(levels[k], min(1.0, p * (count - k))) for k in range(place + 1))
            for p in paths[i]
        ]
    return adjusted


def correct(rows: List[List[Optional[Dict[str, Any]]]], rule: str, goal: str) -> None:
    """Add the adjusted p to all pairs: a row for each pair, in it one of each decisive metric."""
    several = len(rows[0]) > 1 if rows else False
    width = len(rows[0]) if rows else 0
    flat = [pair.get("p_difference") if pair else None for row in rows for pair in row]
    differences = adjust_by_holm(flat)
    goals = [[pair.get("p_goal") if pair else None for pair in row] for row in rows]
    if several and rule == "in order":
        adjusted = adjust_in_order(goals)
    else:
        columns = [adjust_by_holm(list(column)) for column in zip(*goals)]
        adjusted = [list(row) for row in zip(*columns)]
    for i, row in enumerate(rows):
        goes_on = True
        for k, pair in enumerate(row):
            if pair is not None and goes_on:
                take_adjusted(pair, differences[i * width + k], adjusted[i][k], goal)
            elif pair is not None:
                kept = ("ratio", "log_se", "df", "ci95", "ci90", "ci_difference", "alpha")
                for name in [name for name in pair if not name.startswith(KEPT_PARTS)]:
                    if name not in kept and not name.endswith(("_mean", "_sd")):
                        del pair[name]
                pair.update(verdict="NOT JUDGED BY THE PLAN", stamps=set(), detail="")
                pair["facts_verdict_by_numbers"] = None
            is_shown = pair is not None and pair["verdict"] in PROVED.values()
            goes_on = goes_on and (is_shown or not several or rule != "in order")


def take_adjusted(pair: Any, difference: Any, p_goal: Any, goal: str) -> None:
    pair["p_difference_holm"] = difference
    pair["p_not_slower_holm" if goal == "not slower" else "p_equivalence_holm"] = p_goal
    pair["p_goal_holm"] = p_goal
    verdict = pair["facts_verdict_by_numbers"] or pair["verdict"]
    is_of_difference = verdict in ("SLOWER", "FASTER")
    deciding = difference if is_of_difference else p_goal
    is_decided = is_of_difference or verdict in PROVED.values()
    if is_decided and deciding is not None and deciding > pair["alpha"]:
        pair["stamps"].add("NOT AFTER HOLM")


# -- 7. The study: which runs are judged, when, and with which values -----------------------------

FINAL = ("succeeded", "failed", "cancelled", "excluded")
EXCLUDED, INCLUDED = "succeeded → excluded", "excluded → succeeded"
Place = Tuple[str, str]
Key = Tuple[int, str, str, str]
"""The rank of the metric from 1, the workload, the scale and the environment."""


class Analysis(NamedTuple):
    """Runs that are judged together: those of the first repeats, or all (None)."""

    number: int
    repeats: Optional[int]
    decides: bool
    alpha: float


class Study:
    """What a bundle says was planned and run."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.about = bundle.read_json("data/experiment.json")
        if self.about.get("rules") != RULES:
            raise Refused(
                "It was made by version %r of the rules; this file computes by version %d. Take "
                "the verify.py that belongs to it." % (self.about.get("rules"), RULES)
            )
        self.plan: Optional[Dict[str, Any]] = None
        if self.about["plan_hash"] or not self.about["import_hash"]:
            self.plan = dict(bundle.read_json("data/plan.json"))
        self.definition = self.about["definition"]
        runs = (name for name in sorted(bundle.sizes) if name.startswith("data/runs/"))
        self.runs = [bundle.read_json(name) for name in runs if name.endswith("/run.json")]
        self.runs.sort(key=lambda run: (run["block"], run["position"]))
        self.events = self.read_events()
        self.comparison = bundle.read_json("data/comparison.json")
        self.workloads: Dict[str, str] = self.about["workloads"]
        self.environments: Dict[str, str] = self.about["environments"]
        self.baseline = self.environments[self.definition["baseline"]]
        self.metrics: List[Dict[str, Any]] = self.about["metrics"]
        self.means: Dict[Tuple[str, str, Optional[int]], Optional[float]] = {}
        self.added = self.about["extended_repeats"] or 0
        self.table = Table(bundle.read_json("data/confounders.json"))
        self.as_stored: Dict[str, Facts] = {}
        if "data/facts_as_stored.json" in bundle.sizes:
            self.as_stored = bundle.read_json("data/facts_as_stored.json")
        self.facts: Dict[Tuple[str, bool], Facts] = {}
        table = hashlib.sha256(bundle.read("data/confounders.json")).hexdigest()
        self.unknown_parts = EARLIER_TABLES.get(table, ())

    def read_facts(self, digest: str, as_stored: bool) -> Facts:
        """Return the facts of a snapshot: as an earlier version of Tare stored them, if it did.

        If not `as_stored`, only of snapshots that it recorded too, which lack what came later.
        """
        is_old = digest in self.as_stored
        if (digest, is_old and as_stored) not in self.facts:
            snapshot = self.bundle.read_json("data/snapshots/%s.json" % digest)
            inside = snapshot.get("inside") or {}
            for part in self.unknown_parts:
                if part in snapshot or part in inside:
                    raise Refused("A snapshot has %s, of which its table knows nothing." % part)
            recorded_later = "cpus" not in inside or "limits" in inside or "scheduling" in inside
            if is_old and (as_stored or not recorded_later):
                facts = {name: str(text) for name, text in self.as_stored[digest].items()}
            else:
                facts = read_facts(self.table, snapshot)
            self.facts[digest, is_old and as_stored] = facts
        return self.facts[digest, is_old and as_stored]

    def compare_facts(
        self,
        place: Place,
        name: str,
        with_excluded: bool,
        repeats: Optional[int],
        as_stored: bool = True,
    ) -> Differences:
        """Compare the snapshots of an environment's runs with those of the baseline's.

        Those of the first `repeats`, or all (None).
        """
        snapshots: Dict[str, Dict[str, str]] = {name: {}, self.baseline: {}}
        for run in self.list_counted(with_excluded):
            side = snapshots.get(self.environments[run["environment_key"]])
            if (
                (run["workload_key"], run["scale"]) == place
                and run["snapshot"]
                and side is not None
                and (repeats is None or run["repeat"] <= repeats)
            ):
                is_paired = self.definition["design"] == "paired"
                side[str(run["block"]) if is_paired else run["run"]] = run["snapshot"]
        first, second = snapshots[self.baseline], snapshots[name]
        differences = Differences(self.table)
        if self.definition["design"] != "paired":
            sides = [
                [self.read_facts(digest, as_stored) for digest in side.values()]
                for side in (first, second)
            ]
            if any(sides[0]) and any(sides[1]):
                both = [Side(self.table, side) for side in sides]
                differences.add(both[0], both[1], 1, self.read_waived(name))
                differences.add_unbalanced(sides[0], sides[1])
            return differences
        counts: Dict[Tuple[str, str], int] = {}
        for block in set(first) & set(second):
            pair = first[block], second[block]
            counts[pair] = counts.get(pair, 0) + 1
        for pair, count in counts.items():
            facts = [self.read_facts(digest, as_stored) for digest in pair]
            if all(facts):
                both = [Side(self.table, [known]) for known in facts]
                differences.add(both[0], both[1], count, self.read_waived(name))
        return differences

    def find_repeats(self, pair: Dict[str, Any], is_extended: bool) -> Optional[int]:
        """Return the number of repeats on which a pair's verdict rests; None for all."""
        after = list(self.definition["after_repeats"]) + [0] * (self.added > 0 and is_extended)
        number = pair.get("look_number") or 0
        return int(after[number - 1]) if 0 < number < len(after) else None

    def read_waived(self, name: str) -> Dict[str, Tuple[str, str]]:
        """Return the values of the differences that were waived with a reason, by the plan."""
        parity = (self.plan or {}).get("parity", {})
        keys = [key for key, known in self.environments.items() if known == name]
        return {
            row["what"]: (str(row["here"]), str(row["there"]))
            for key in keys
            for row in parity.get(key, {}).get("differences", [])
            if row["reason"]
        }

    def read_events(self) -> List[Dict[str, Any]]:
        lines = self.bundle.read("data/events.jsonl").decode("utf-8").split("\n")
        return [dict(json.loads(line)) for line in lines if line]

    def list_counted(self, with_excluded: bool) -> List[Dict[str, Any]]:
        states = ("succeeded", "excluded") if with_excluded else ("succeeded",)
        return [run for run in self.runs if run["state"] in states]

    # Which analyses have all their runs, by the plan.

    def list_analyses(self, is_extended: bool) -> List[Analysis]:
        planned = list(self.definition["after_repeats"])
        level = POCOCK[len(planned) - 1]
        after = [*planned, self.definition["repeats"] + self.added] if self.added else planned
        blocks: Dict[Any, Tuple[int, bool, bool]] = {}
        cancelled_at = read_time(self.about["cancelled_at"])
        for run in self.runs:
            block: Any = (run["workload_key"], run["scale"], run["repeat"])
            if self.definition["design"] != "paired":
                block = (*block, run["environment_key"])
            ended_at = read_time(run["job_ended_at"])
            is_cut = False
            if run["state"] == "cancelled" and cancelled_at is not None:
                is_cut = ended_at is None or ended_at >= cancelled_at
            _, ended, cut = blocks.get(block, (0, True, False))
            blocks[block] = run["repeat"], ended and run["state"] in FINAL, cut or is_cut
        taken = 0
        for number, repeats in enumerate(after, start=1):
            waits_for = [b for b in blocks.values() if number == len(after) or b[0] <= repeats]
            if not all(ended and not cut for _, ended, cut in waits_for):
                break
            taken = number
        if self.added and not is_extended:
            after, taken = planned, min(taken, len(planned))
        alive = not all(ended for _, ended, _ in blocks.values())
        stopped_at = self.about["stopped_at_look"]
        levels = [level] * len(planned) + [self.about["extension_level"]] * (self.added > 0)
        analyses = [
            Analysis(number, repeats if number < len(after) else None, True, levels[number - 1])
            for number, repeats in enumerate(
                after[: taken if stopped_at is None else stopped_at], 1
            )
        ]
        if cancelled_at is not None and not alive and taken < len(after):
            late = levels[-1] if self.added and is_extended else level
            analyses.append(Analysis(0, None, stopped_at is None, late))
        return analyses

    # The value of each run: as it was reported, or after the warm-up that was detected.

    def make_samples(self, rank: int, with_excluded: bool) -> Dict[Place, List[Sample]]:
        runs = self.list_counted(with_excluded)
        cuts = self.find_cuts(rank, runs)
        samples: Dict[Place, List[Sample]] = {}
        for run in runs:
            metric = self.metrics[rank - 1][run["workload_key"]]
            measured = run["measurements"].get(metric["name"])
            if measured is None:
                continue
            place = (run["workload_key"], run["scale"])
            began = read_time(run["began_at"])
            start = find_start(run, metric)
            sample = Sample(
                run=run["run"],
                block=str(run["block"]),
                environment=self.environments[run["environment_key"]],
                repeat=run["repeat"],
                value=self.find_value(run, metric, float(measured["value"]), cuts.get(place)),
                node=run["node"],
                started=began.timestamp() if began else None,
                source=measured["source"],
                settles=not start or start["shape"] != "no steady state",
                nodes=tuple(run.get("nodes") or ()),  # bundles of before have none
            )
            samples.setdefault(place, []).append(sample)
        return samples

    def find_cuts(self, rank: int, runs: List[Dict[str, Any]]) -> Dict[Place, Optional[int]]:
        """Return the cut that the runs of a configuration have in common, where they have one."""
        if self.definition["warm_up"] != "found" or len(self.definition["after_repeats"]) > 1:
            return {}
        starts: Dict[Place, List[Any]] = {}
        for run in runs:
            start = find_start(run, self.metrics[rank - 1][run["workload_key"]])
            if start and start["warm_up"] is not None:
                starts.setdefault((run["workload_key"], run["scale"]), []).append(start)
        return {
            place: max(start["warm_up"] for start in group)
            for place, group in starts.items()
            if all(start["shape"] != "slowdown" for start in group)
        }

    def find_value(self, run: Any, metric: Any, reported: float, cut: Optional[int]) -> float:
        start = find_start(run, metric)
        if not start or self.definition["warm_up"] != "found":
            return reported
        block = None if cut is None else cut // start["block_steps"]
        mean = self.read_mean(run, metric["series"], block)
        measured = float(run["measurements"][metric["series"]]["value"])
        ratio = 1.0 if mean is None else mean / measured
        return reported * ratio if metric["unit"] == "s" else reported / ratio

    def read_parameters(self, run: Any) -> Dict[str, Any]:
        """Return the parameters of a run's workload by the plan, with the seed of its repeat."""
        workload = ((self.plan or {}).get("workloads") or {}).get(run["workload_key"]) or {}
        parameters = dict(workload.get("parameters") or {})
        seed = parameters.get("seed")
        if parameters.get("seeds") == OTHER_SEEDS and isinstance(seed, int):
            parameters["seed"] = (seed + run["repeat"] - 1) % 2**32
        return parameters

    def has_labels(self, place: Place, parameters: Dict[str, Any]) -> bool:
        """Return whether an accuracy means something: not on made-up data.

        Of imported logs, which have no plan, the printed comparison alone says it.
        """
        if self.plan is not None:
            return "synthetic" not in "%s %s" % (parameters.get("data"), parameters.get("dataset"))
        named = self.workloads[place[0]], place[1]
        return any(
            row.get("accuracy_trained")
            for row in self.comparison["comparison"]
            if (row["workload"], row["scale"]) == named
        )

    def read_losses(self, run: Any) -> List[float]:
        """Return the losses of a run, step by step; none where they were not summarised."""
        known = run["steps"].get("loss")
        if not known or not known.get("summarised", True):
            return []
        steps = self.bundle.read_json("data/runs/%s/steps.json" % run["run"])
        return [float(value) for value in steps["loss"]["values"]]

    def read_mean(self, run: Any, series: str, block: Optional[int]) -> Optional[float]:
        """Return the mean of the steps from a block on; None: after the run's own warm-up."""
        key = (run["run"], series, block)
        if key not in self.means:
            steps = self.bundle.read_json("data/runs/%s/steps.json" % run["run"])[series]
            self.means[key] = find_mean(steps, run["steps"][series]["warm_up"], block)
        return self.means[key]


def find_start(run: Dict[str, Any], metric: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    start = run["steps"].get(metric["series"])
    return start if start and start["shape"] and metric["series"] in run["measurements"] else None


def find_mean(steps: Any, warm_up: Optional[int], block: Optional[int]) -> Optional[float]:
    """Return the mean of all steps from a block on, or after so many steps of warm-up."""
    values, ends = list(map(float, steps["values"])), steps["steps"]
    last = ends or list(range(1, len(values) + 1))
    counts = [end - before for end, before in zip(last, [0, *last])]
    usual = int(statistics.median(counts[1:])) if len(last) > 1 else 1
    size = max(-(-10 // usual), -(-len(last) // 1000))
    if block is not None:
        first = block * size
    elif warm_up is None:
        return None
    else:
        before = [end - count for end, count in zip(last, counts)]
        if warm_up not in before:
            return None
        first = before.index(warm_up)
    if first > len(values) - size:
        return None
    total = math.fsum(value * count for value, count in zip(values[first:], counts[first:]))
    return float(total / sum(counts[first:]))


def read_time(text: Optional[str]) -> Optional[datetime.datetime]:
    return datetime.datetime.fromisoformat(text) if text else None


def compute_pairs(study: Study, with_excluded: bool) -> Dict[Key, Dict[str, Any]]:
    """Return all pairs of a study, corrected for each other."""
    pairs: Dict[Key, Dict[str, Any]] = {}
    facts: Dict[Tuple[str, str, str, Optional[int]], Differences] = {}
    extended = {
        (run["workload_key"], run["scale"])
        for run in study.runs
        if run["repeat"] > study.definition["repeats"]
    }
    for rank in range(1, len(study.metrics) + 1):
        samples = study.make_samples(rank, with_excluded)
        for workload in study.workloads:
            for scale in study.definition["scales"]:
                place = (workload, scale)
                analyses = study.list_analyses(place in extended)
                judged = judge_place(
                    study, rank, place, samples.get(place, []), analyses, place in extended
                )
                for name, pair in judged.items():
                    key = (*place, name, study.find_repeats(pair, place in extended))
                    if key not in facts:
                        facts[key] = study.compare_facts(place, name, with_excluded, key[-1])
                    stamp_confounded(study, pair, samples.get(place, []), facts[key])
                    attribute(pair, facts[key], name, study.baseline)
                    if was_paired_across_jobs(study, samples.get(place, []), name):
                        pair["stamps"].add("PAIRED ACROSS JOBS")
                    pairs[(rank, *place, name)] = pair
    stamp_rejections(study, pairs, extended)
    stamp_trainings(study, pairs, with_excluded)
    places = list(dict.fromkeys(key[1:] for key in pairs))
    ranks = range(1, len(study.metrics) + 1)
    rows = [[pairs.get((rank, *place)) for rank in ranks] for place in places]
    correct(rows, study.definition["metrics_rule"], study.definition["goal"])
    return pairs


def stamp_confounded(
    study: Study, pair: Dict[str, Any], samples: List[Sample], facts: Differences
) -> None:
    """Stamp a pair whose runs differ in nodes, times or facts that are not cosmetic."""
    names = facts.list_by_grade()
    has_no_times = study.about["imported_at"] and any(run.started is None for run in samples)
    differs = pair.get("confounded") or names["blocking"] or names["likely"] or has_no_times
    if "confounded" in pair and differs:
        pair["stamps"].add("CONFOUNDED")


MORE_NODES = re.compile(r"0*([2-9]|[1-9]\d+)[x\u00d7]\d+([x\u00d7]\d+)?( +(srun|mpirun))?$")
"""Scales of jobs on several nodes."""


def count_nodes(scale: str) -> int:
    """Return the nodes of a scale that MORE_NODES matches."""
    return int(scale.strip().replace("\u00d7", "x").partition("x")[0])


def judge_place(
    study: Study,
    rank: int,
    place: Place,
    samples: List[Sample],
    analyses: List[Analysis],
    is_extended: bool,
) -> Dict[str, Dict[str, Any]]:
    """Return each environment's pair: at the first analysis with a verdict, or at the last one."""
    definition, metric = study.definition, study.metrics[rank - 1][place[0]]
    margins = definition["margins"][rank - 1]
    is_one_sided = definition["goal"] == "not slower"
    faster = margins["margin_faster"] if margins["margin_faster"] else margins["margin"]
    question = Question(
        metric["better"],
        definition["goal"],
        margins["margin"],
        math.inf if is_one_sided else faster,
    )
    planned = len(definition["after_repeats"]) + (study.added > 0 and is_extended)
    names = list(study.environments.values())
    if study.plan is None:  # imported logs
        here = {
            study.environments[run["environment_key"]]
            for run in study.runs
            if (run["workload_key"], run["scale"]) == place
        }
        names = [name for name in names if name in here] if study.baseline in here else []
    pairs: Dict[str, Dict[str, Any]] = {}
    for analysis in analyses:
        until_then = [
            run for run in samples if analysis.repeats is None or run.repeat <= analysis.repeats
        ]
        if not all(0 < run.value <= 1e100 for run in until_then):
            return {}
        for name in names:
            if name == study.baseline:
                continue
            both = (study.baseline, name)
            pair = compare(until_then, both, question, definition, analysis.alpha)
            if planned > 1:
                pair["look_number"], pair["look_alpha"] = analysis.number, analysis.alpha
            if (
                MORE_NODES.match(place[1].strip())
                and pair["n_nodes"] > 1
                and pair.get("ratio") is not None
                and any(
                    len(run.nodes) < count_nodes(place[1])
                    for run in until_then
                    if run.environment in both
                )
            ):
                pair["stamps"].add("FEW NODES")  # a job counts by its first node alone
            if not analysis.number:
                pair["stamps"].add("STOPPED EARLY")
            earlier = pairs.get(name)
            if earlier and planned > 1 and is_decided(earlier):
                sizes = [
                    (one["n_blocks"], one["n_baseline"], one["n_environment"])
                    for one in (earlier, pair)
                ]
                if sizes[0] != sizes[1]:
                    earlier["look_later_ratio"] = pair.get("ratio")
            elif analysis.decides:
                if earlier and is_extended and study.added:
                    pair["stamps"].add("EXTENDED")
                pairs[name] = pair
    for name, pair in pairs.items():
        add_stamps_of_events(study, place, name, pair)
    return pairs


def is_decided(pair: Dict[str, Any]) -> bool:
    return pair["verdict"] not in ("INCONCLUSIVE", "NO INFERENCE")


def add_stamps_of_events(study: Study, place: Place, name: str, pair: Dict[str, Any]) -> None:
    stamps = {
        "tried again after a verdict": "TRIED AGAIN AFTER A VERDICT",
        "collected after a verdict": "COLLECTED AFTER A VERDICT",
    }
    for event in study.events:
        if event["what"] in stamps and (event["workload_key"], event["scale"]) == place:
            pair["stamps"].add(stamps[event["what"]])
    keys = [key for key, known in study.environments.items() if known == name]
    parity = (study.plan or {}).get("parity", {})
    if any(parity.get(key, {}).get("differences") for key in keys):
        pair["stamps"].add("DIFFERENCES WAIVED")


def stamp_exclusions(study: Study, pairs: Any, before: Any) -> None:
    """Add to each pair what it is with the runs that persons have excluded, and its stamp."""
    excluded = [run for run in study.runs if run["state"] == "excluded"]
    after = study.definition["after_repeats"]
    for (rank, workload, scale, name), pair in pairs.items() if excluded else ():
        then = before.get((rank, workload, scale, name))
        last = math.inf
        if 0 < pair.get("look_number", 0) < len(after) + (study.added > 0):
            last = after[pair["look_number"] - 1]
        own = [
            run
            for run in excluded
            if (run["workload_key"], run["scale"]) == (workload, scale)
            and study.environments[run["environment_key"]] in (name, study.baseline)
            and run["repeat"] <= last
        ]
        results = [
            one and (one["verdict"], one.get("ratio"), "NOT AFTER HOLM" in one["stamps"])
            for one in (pair, then)
        ]
        if not own and (then is None or results[0] == results[1]):
            continue
        moments = [run["exclusion"]["moment"] for run in own or excluded]
        late = any(moment != "before any verdict" for moment in moments)
        pair["stamps"].add("EXCLUDED AFTER A VERDICT" if late else "EXCLUDED BY HAND")
        known = then or {"verdict": "NO INFERENCE"}
        for column in ("verdict", "ratio", "ci_difference", *P_COLUMNS):
            pair["before_exclusion_" + column] = known.get(column)


# -- 8. Second jobs, rejected runs, and whether environments trained alike -------------------------

OTHER_SEEDS = "another in each repeat"
TRAINING_LEVEL, FLOOR, MOST_DECIMALS = 0.02, 0.001, 6
LEARNT, FEWEST_SEEDS, FAR = 0.1, 3, 0.1
BEYOND, WORSE = "beyond the noise between seeds", "worse by far"
TRAINING_COLUMNS = (
    *("trained", "runs_compared", "runs_equal", "difference_rms", "difference_mean"),
    *("seeds", "sd_between_seeds", "apart", "p", "p_holm"),
)


def was_paired_across_jobs(study: Study, samples: List[Sample], name: str) -> bool:
    """Return whether runs of one block are of two jobs, as a second job ran the rest of it."""
    if study.definition["design"] != "paired":
        return False
    second = {run["run"]: run["job"] for run in study.runs if run["repairs_job"]}
    runs = {(sample.block, sample.environment): sample.run for sample in samples}
    return any(
        environment == name
        and (block, study.baseline) in runs
        and second.get(run) != second.get(runs[block, study.baseline])
        for (block, environment), run in runs.items()
    )


def compute_fisher_p(first: Tuple[int, int], second: Tuple[int, int]) -> float:
    """Return the two-sided p of "as often" by Fisher's exact test; each: rejected, of how many."""

    def log_choose(total: int, chosen: int) -> float:
        logs = (math.lgamma(part + 1) for part in (chosen, total - chosen))
        return math.lgamma(total + 1) - math.fsum(logs)

    rejected = first[0] + second[0]
    low, high = max(0, rejected - second[1]), min(rejected, first[1])
    logs = [
        log_choose(first[1], count) + log_choose(second[1], rejected - count)
        for count in range(low, high + 1)
    ]
    most = max(logs)
    weights = [math.exp(log - most) for log in logs]
    seen = weights[first[0] - low]
    kept = [weight for weight in weights if weight <= seen * (1 + 1e-7)]
    return min(math.fsum(kept) / math.fsum(weights), 1.0)


def is_unequal(first: Tuple[int, int], second: Tuple[int, int]) -> bool:
    """Return whether rejections differ at 5 %, or have left nothing of one of both sides."""
    if not (first[1] and second[1]):
        return False
    if (first[0] == first[1]) != (second[0] == second[1]):
        return True
    return compute_fisher_p(first, second) < ALPHA


def stamp_rejections(study: Study, pairs: Dict[Key, Dict[str, Any]], extended: Any) -> None:
    """Stamp pairs of which rules of the plan have rejected one side more often than the other."""
    if not (study.plan or {}).get("reject"):
        return
    by_uid = {run["run"]: run for run in study.runs}
    rejected = [r for r in study.runs if r["state"] == "failed" and r["reason"] == "rejected"]
    again = "rejected, tried again by rule"
    rejected += [by_uid[e["run"]] for e in study.events if e["what"] == again and e["run"]]
    passed = [run for run in study.runs if run["state"] in ("succeeded", "excluded")]
    if not rejected:
        return
    places = {(run["workload_key"], run["scale"]) for run in rejected}

    def count(name: str, repeats: Optional[int], place: Optional[Place]) -> Tuple[int, int]:
        found = [
            sum(
                study.environments[run["environment_key"]] == name
                and (repeats is None or run["repeat"] <= repeats)
                and (run["workload_key"], run["scale"]) in ([place] if place else places)
                for run in runs
            )
            for runs in (rejected, passed)
        ]
        return found[0], found[0] + found[1]

    for (_, workload, scale, name), pair in pairs.items():
        place = (workload, scale)
        repeats = study.find_repeats(pair, place in extended)
        if repeats is None and study.added and place not in extended:
            repeats = study.definition["repeats"]
        sides = [
            [count(one, repeats, where) for one in (study.baseline, name)]
            for where in (place, None)
        ]
        excess = [side[1][0] * side[0][1] - side[0][0] * side[1][1] for side in sides]
        if is_unequal(*sides[0]) or (is_unequal(*sides[1]) and excess[0] * excess[1] > 0):
            pair["stamps"].add("REJECTIONS DIFFER")


class End(NamedTuple):
    """The end of one run's training; runs of one draw have the same seed, where that is known."""

    environment: str
    draw: str
    last: float
    first: Optional[float] = None
    digest: str = ""

    def equals(self, other: "End") -> bool:
        if self.digest and other.digest:
            return self.digest == other.digest
        return self.last == other.last


class Training:
    """An environment's training against the baseline's."""

    def __init__(self, name: str, what: str, is_relative: bool) -> None:
        self.name, self.what, self.is_relative = name, what, is_relative
        self.values: Dict[str, Any] = {"trained": "nothing to compare with"}
        self.values.update(runs_compared=0, runs_equal=0)

    def scale(self, value: float) -> float:
        return math.log(value) if self.is_relative else value


def find_f_tail(first: float, second: float, f: float) -> float:
    """Return P(F > f) of the F distribution with so many degrees of freedom."""
    if f <= 0:
        return 1.0
    inside, outside = first * f / (first * f + second), second / (first * f + second)
    a, b = second / 2, first / 2
    front = math.exp(
        math.lgamma(a + b)
        - math.lgamma(a)
        - math.lgamma(b)
        + a * math.log(outside)
        + b * math.log(inside)
    )
    if outside < (a + 1) / (a + b + 2):
        return front / continued_fraction(a, b, outside, inside)
    return 1 - front / continued_fraction(b, a, inside, outside)


def stamp_trainings(study: Study, pairs: Dict[Key, Dict[str, Any]], with_excluded: bool) -> None:
    """Compare the ends of all trainings, and stamp the pairs of environments that trained worse."""
    trainings: Dict[Place, List[Training]] = {}
    for place, by_what in read_ends(study, with_excluded).items():
        for what, (ends, seeds_known) in by_what.items():
            trainings.setdefault(place, []).extend(
                compare_trainings(study, what, ends, seeds_known)
            )
    adjust_trainings([training for group in trainings.values() for training in group])
    for (_, workload, scale, name), pair in pairs.items():
        for training in trainings.get((workload, scale), ()):
            if training.name == name:
                if training.values["trained"] in (BEYOND, WORSE):
                    pair["stamps"].add("TRAINED DIFFERENTLY")
                for column in TRAINING_COLUMNS:
                    pair["%s_%s" % (training.what, column)] = training.values.get(column)


def read_ends(study: Study, with_excluded: bool) -> Dict[Place, Dict[str, Tuple[List[End], bool]]]:
    """Return the ends of losses and, beside them, of accuracies on real data, in the plan's order.

    With each, whether the seeds of all its runs are known.
    """
    ends: Dict[Place, Dict[str, Tuple[List[End], bool]]] = {}
    for run in study.list_counted(with_excluded):
        place = (run["workload_key"], run["scale"])
        parameters = study.read_parameters(run)
        seed = parameters.get("seed")
        draw = "repeat %s" % run["repeat"] if seed is None else "seed %s" % seed
        environment = study.environments[run["environment_key"]]
        loss = study.read_losses(run)
        if loss:
            packed = struct.pack(">%dd" % len(loss), *(value + 0.0 for value in loss))
            end = End(environment, draw, loss[-1], loss[0], hashlib.sha256(packed).hexdigest())
            add_end(ends, place, "loss", end, seed is not None)
        if study.has_labels(place, parameters):
            for name in ("accuracy", "top_1_accuracy"):
                measured = run["measurements"].get(name)
                if measured and measured["unit"] == "1":
                    end = End(environment, draw, float(measured["value"]))
                    add_end(ends, place, "accuracy", end, seed is not None)
    return {place: by_what for place, by_what in ends.items() if "loss" in by_what}


def add_end(ends: Any, place: Place, what: str, end: End, is_known: bool) -> None:
    of_place = ends.setdefault(place, {})
    known, are_known = of_place.get(what, ([], True))
    known.append(end)
    of_place[what] = (known, are_known and is_known)


def group_by_draw(ends: Iterable[End]) -> Dict[str, List[End]]:
    groups: Dict[str, List[End]] = {}
    for end in ends:
        groups.setdefault(end.draw, []).append(end)
    return groups


def compare_trainings(
    study: Study, what: str, ends: List[End], seeds_known: bool
) -> List[Training]:
    """Compare the training of each environment that has runs with that of the baseline."""
    is_relative = what == "loss" and all(end.last > 0 for end in ends)
    baseline = group_by_draw(end for end in ends if end.environment == study.baseline)
    if not baseline:
        return []
    scale = Training("", what, is_relative).scale
    means = [statistics.fmean(scale(end.last) for end in group) for group in baseline.values()]
    seed_sd = statistics.stdev(means) if len(means) >= FEWEST_SEEDS else 0.0
    least = find_least_difference([end.last for end in ends], is_relative)
    trainings = []
    for name in dict.fromkeys(study.environments.values()):
        of_name = group_by_draw(end for end in ends if end.environment == name)
        if name == study.baseline or not of_name:
            continue
        training = Training(name, what, is_relative)
        training.values.update(seeds=len(baseline), sd_between_seeds=seed_sd or None)
        compare_ends = compare_by_seed if seeds_known else compare_unpaired
        compare_ends(training, baseline, of_name, seed_sd, least)
        trainings.append(training)
    return trainings


def compare_by_seed(
    training: Training,
    baseline: Dict[str, List[End]],
    ends: Dict[str, List[End]],
    seed_sd: float,
    least: float,
) -> None:
    """Compare each run with the baseline's first run of the same seed."""
    shared = [draw for draw in ends if draw in baseline]
    pairs = [(end, baseline[draw][0]) for draw in shared for end in ends[draw]]
    if not pairs:
        return

    def average_of(group: List[End]) -> float:
        if len(group) == 1:
            return training.scale(group[0].last)
        return statistics.fmean(training.scale(end.last) for end in group)

    differences = [average_of(ends[draw]) - average_of(baseline[draw]) for draw in shared]
    n, equal = len(differences), sum(end.equals(other) for end, other in pairs)
    rms, shift = (
        math.sqrt(statistics.fmean(d * d for d in differences)),
        statistics.fmean(differences),
    )
    training.values.update(
        runs_compared=len(pairs), runs_equal=equal, difference_rms=rms, difference_mean=shift
    )
    p = None
    if seed_sd:
        training.values["apart"] = rms / (math.sqrt(2) * seed_sd)
        if equal < len(pairs):
            beyond = [take_beyond(d, least) for d in differences]
            squares = statistics.fmean(d * d for d in beyond) / (2 * seed_sd**2)
            se = statistics.stdev(differences) / math.sqrt(n) if n > 1 else math.inf
            p_shift = find_shift_p(take_beyond(shift, least), seed_sd, se, n - 1)
            seeds = training.values["seeds"]
            p = min(1.0, 2 * min(find_f_tail(n, seeds - 1, squares), p_shift))
    of_baseline = [end for draw in shared for end in baseline[draw]]
    decide_without_p(
        training, of_baseline, [end for draw in shared for end in ends[draw]], baseline, p
    )


def compare_unpaired(
    training: Training,
    baseline: Dict[str, List[End]],
    ends: Dict[str, List[End]],
    seed_sd: float,
    least: float,
) -> None:
    """Compare all runs with all of the baseline: a repeat says nothing about a seed."""
    first, second = ([end for group in side.values() for end in group] for side in (baseline, ends))
    values = [[training.scale(end.last) for end in side] for side in (first, second)]
    m, n, centre = len(first), len(second), statistics.fmean(values[0])
    differences = [value - centre for value in values[1]]
    digests = {end.digest for end in first if end.digest}
    lasts = {end.last for end in first}
    equal = sum(
        end.digest in digests if end.digest and digests else end.last in lasts for end in second
    )
    shift = statistics.fmean(differences)
    training.values.update(
        runs_compared=n,
        runs_equal=equal,
        difference_rms=math.sqrt(statistics.fmean(d * d for d in differences)),
        difference_mean=shift,
    )

    def sum_squares(numbers: List[float]) -> float:
        return math.fsum(d * d for d in numbers) - math.fsum(numbers) ** 2 / (len(numbers) + m)

    p = None
    if seed_sd:
        training.values["apart"] = math.sqrt(sum_squares(differences) / n) / seed_sd
        if equal < n:
            squares = sum_squares([take_beyond(d, least) for d in differences]) / n / seed_sd**2
            mean = statistics.fmean(values[1])
            within = (m - 1) * seed_sd**2 + math.fsum((value - mean) ** 2 for value in values[1])
            se = math.sqrt(within / (n + m - 2) * (1 / n + 1 / m))
            p_shift = find_shift_p(take_beyond(shift, least), seed_sd, se, n + m - 2)
            p = min(1.0, 2 * min(find_f_tail(n, m - 1, squares), p_shift))
    decide_without_p(training, first, second, baseline, p)


def find_least_difference(values: List[float], is_relative: bool) -> float:
    """Return the size up to which a difference is none: rounding, or too small to matter."""
    for decimals in range(MOST_DECIMALS + 1):
        if all(abs(round(value, decimals) - value) <= 1e-12 * abs(value) for value in values):
            return max(FLOOR, 10.0**-decimals / (min(map(abs, values)) if is_relative else 1.0))
    return FLOOR


def take_beyond(difference: float, least: float) -> float:
    return math.copysign(max(abs(difference) - least, 0.0), difference)


def find_shift_p(shift: float, seed_sd: float, se: float, df: float) -> float:
    """Return the p of no shift, by Student's t; 1 where the shift is within the noise."""
    if abs(shift) <= seed_sd or se == math.inf:
        return 1.0
    return 0.0 if se == 0 else 2 * find_tail(abs(shift) / se, df)


def decide_without_p(
    training: Training,
    baseline: List[End],
    ends: List[End],
    all_of_baseline: Dict[str, List[End]],
    p: Optional[float],
) -> None:
    """Say how it trained as far as that is known without p, and keep the p."""
    lacks = find_missing_share(baseline, ends) if training.what == "loss" else None
    values = training.values
    if values["runs_equal"] == values["runs_compared"]:
        values.update(trained="equal to the bit", p=None)
        return
    values["p"] = p
    if p is not None:
        return
    worst = max(end.last for group in all_of_baseline.values() for end in group)
    is_worse = lacks is not None and lacks > FAR
    is_worse = is_worse and statistics.fmean(end.last for end in ends) > worst
    values["trained"] = WORSE if is_worse else "noise between seeds unknown"


def find_missing_share(baseline: List[End], ends: List[End]) -> Optional[float]:
    """Return which share of the baseline's fall is missing; None where it learnt nothing."""
    firsts = [end.first for end in baseline if end.first is not None]
    if not firsts:
        return None
    lasts = [end.last for end in baseline]
    first, last = statistics.fmean(firsts), statistics.fmean(lasts)
    fall = first - last
    if fall <= LEARNT * abs(first) or fall <= max(lasts) - min(lasts):
        return None
    return (statistics.fmean(end.last for end in ends) - last) / fall


def adjust_trainings(trainings: List[Training]) -> None:
    """Correct the p of all trainings for each other by Holm, and decide by them."""
    ordered = sorted(
        (t.values["p"], i) for i, t in enumerate(trainings) if t.values.get("p") is not None
    )
    largest = 0.0
    for rank, (p, i) in enumerate(ordered):
        largest = max(largest, min(1.0, p * (len(ordered) - rank)))
        is_beyond = largest < TRAINING_LEVEL
        trained = BEYOND if is_beyond else "within the noise between seeds"
        trainings[i].values.update(p_holm=largest, trained=trained)


# -- 9. What is printed, beside what was computed -------------------------------------------------

P_COLUMNS = (
    *("p_difference", "p_equivalence", "p_difference_holm", "p_equivalence_holm"),
    *("p_not_slower", "p_not_slower_holm"),
)
FIRST = ("verdict", "ratio", "ci95", "p_equivalence", "p_not_slower", "p_difference", "stamps")
"""What is shown of each pair where it agrees; all others are counted."""
BLOCKING = "facts_blocking"
COLUMNS = (
    *("detail", "n_baseline", "n_environment", "n_blocks", "n_nodes", "log_se", "df", "ci90"),
    *("baseline_mean", "baseline_sd", "environment_mean", "environment_sd"),
    *("p_lower_bound", "p_upper_bound", "smallest_margin", "p_difference_holm"),
    *("p_equivalence_holm", "p_not_slower_holm", "look_number", "look_alpha", "look_later_ratio"),
    *("look_ci_difference", "look_ci_equivalence", "margin", "margin_faster", "goal"),
    *("before_exclusion_" + name for name in ("verdict", "ratio", "ci_difference", *P_COLUMNS)),
    *("overall_verdict", "overall_p", "overall_p_holm"),
    *("facts_compared", "facts_of", *("facts_" + grade for grade in GRADES)),
    *("%s_%s" % (what, name) for what in ("loss", "accuracy") for name in TRAINING_COLUMNS),
)


class Report:
    """The lines that are printed, and how many of them disagree."""

    def __init__(self, show_all: bool) -> None:
        self.show_all, self.agreed, self.disagreed = show_all, 0, 0

    def say(self, line: str) -> None:
        print(line)

    def add(self, what: str, printed: Any, computed: Any, show: bool = False) -> None:
        agrees = is_same(printed, computed)
        self.agreed += agrees
        self.disagreed += not agrees
        if show or self.show_all or not agrees:
            texts = (what, describe(printed), describe(computed))
            self.say("  %-24s %-26s %-26s %s" % (*texts, "agrees" if agrees else "DISAGREES"))

    def fail(self, text: str) -> None:
        self.disagreed += 1
        self.say("  WRONG: " + text)


def is_same(printed: Any, computed: Any) -> bool:
    """Return whether two values are the same; numbers to 9 digits, as sums may be rounded."""
    if isinstance(printed, (list, tuple)) and isinstance(computed, (list, tuple)):
        return len(printed) == len(computed) and all(map(is_same, printed, computed))
    numbers = all(isinstance(value, (int, float)) for value in (printed, computed))
    if numbers and not isinstance(printed, bool):
        return math.isclose(printed, computed, rel_tol=1e-9, abs_tol=1e-15)
    return bool((printed or None) == (computed or None))


def describe(value: Any) -> str:
    if isinstance(value, float):
        return "%.10g" % value
    if isinstance(value, (list, tuple)):
        return " ".join(map(describe, value))
    return "-" if value is None or value == "" else str(value)


def check_definition(study: Study, report: Report) -> None:
    """Compare the plan with its hash, and all that says what was planned with the plan."""
    about, definition, plan = study.about, study.definition, study.plan
    methods = {about["method"], study.comparison["method"]}
    info = study.bundle.read("bag-info.txt").decode("utf-8", "replace").splitlines()
    if len(methods) > 1 or "Tare-Method: %s" % about["method"] not in info:
        report.fail("the files are not all of one version of the method.")
    table = hashlib.sha256(study.bundle.read("data/confounders.json")).hexdigest()
    report.add("table of confounders", table, table if table in EARLIER_TABLES else TABLE_SHA256)
    if plan is None:
        report.say("  not recomputed: a plan, as these are imported logs")
        return
    text = study.bundle.read("data/plan.json")
    report.add("hash of the plan", about["plan_hash"], hashlib.sha256(text).hexdigest(), True)
    further = plan.get("further_metrics", [])
    expected = {
        "design": plan["design"],
        "estimand": plan.get("estimand", ""),
        "goal": plan.get("goal", "equivalence"),
        "warm_up": plan.get("warm_up", "fixed"),  # not in plans that are older than the choice
        "repeats": plan["repeats"],
        "after_repeats": plan.get("looks", {}).get("after_repeats", [plan["repeats"]]),
        "scales": plan["scales"],
        "baseline": plan["baseline"],
        "metrics_rule": plan.get("metrics_rule", definition["metrics_rule"]),
        "margins": [
            {"margin": row["margin"], "margin_faster": row.get("margin_faster")}
            for row in (plan, *further)
        ],
    }
    for name, value in expected.items():
        if definition.get(name) != value:
            report.add("planned " + name, str(definition.get(name)), str(value))
    names = [metric["name"] for metric in (table[key] for table in study.metrics for key in table)]
    wanted = [plan["primary_metric"], *(row["metric"] for row in further)]
    if any(name and name not in names for name in wanted) or len(study.metrics) != len(wanted):
        report.fail("the metrics are not those of the plan.")
    if sorted(study.workloads) != sorted(plan["workloads"]):
        report.fail("the workloads are not those of the plan.")
    if sorted(study.environments) != sorted(plan["environments"]):
        report.fail("the environments are not those of the plan.")
    blocks = list(plan["blocks"])
    if study.added:
        extension = study.bundle.read("data/extension.json")
        digest = hashlib.sha256(extension).hexdigest()
        report.add("hash of the extension", about["extension_hash"], digest)
        blocks += json.loads(extension.decode("utf-8"))["blocks"]
        level = find_extension_level(definition["repeats"], study.added)
        report.add("level of the extension", about["extension_level"], level)
    planned = {
        (block["workload"], block["scale"], block["repeat"], environment)
        for block in blocks
        for environment in block["environments"]
    }
    keys = ("workload_key", "scale", "repeat", "environment_key")
    runs = {tuple(run[key] for key in keys) for run in study.runs}
    report.add("runs, each planned once", len(study.runs), len(planned), True)
    for missing in sorted(planned - runs)[:5]:
        report.fail("a planned run is missing: %s" % (missing,))
    for added in sorted(runs - planned)[:5]:
        report.fail("a run was never planned: %s" % (added,))


def check_runs(study: Study, report: Report) -> None:
    """Check each run on its own: its exclusion, its snapshot, the means of its steps."""
    excluded: Dict[str, bool] = {}
    for event in study.events:
        if event["run"] and event["what"] in (EXCLUDED, INCLUDED):
            excluded[event["run"]] = event["what"] == EXCLUDED
    steps = unexplained = without_record = without_output = 0
    for run in study.runs:
        has_record, has_output = check_record(study, run, report)
        without_record += not has_record
        without_output += has_record and not has_output
        is_excluded = run["state"] == "excluded"
        if is_excluded != bool(run["exclusion"]) or is_excluded != excluded.get(run["run"], False):
            report.fail("run %s: its state and its exclusion contradict." % run["run"])
        for digest in (run["snapshot"], run["job_snapshot"]):
            name = "data/snapshots/%s.json" % digest
            if digest and hashlib.sha256(study.bundle.read(name)).hexdigest() != digest:
                report.fail("run %s: its snapshot is another one." % run["run"])
        series = (
            study.bundle.read_json("data/runs/%s/steps.json" % run["run"]) if run["steps"] else {}
        )
        for metric, known in run["steps"].items():
            steps += len(series[metric]["values"])
            mean = find_mean(series[metric], known["warm_up"], None) if known["shape"] else None
            report.add("%s after its warm-up" % metric, known["settled_mean"], mean)
            study.means[run["run"], metric, None] = mean
            if known["mean_after"] is not None:
                values = list(map(float, series[metric]["values"]))[known["mean_after"] :]
                reported = float(run["measurements"][metric]["value"])
                report.add("reported " + metric, reported, math.fsum(values) / len(values))
            elif metric in run["measurements"]:
                unexplained += 1
    report.say("  %d runs, %d recorded steps" % (len(study.runs), steps))
    if unexplained:
        report.say("  not recomputed: %d reported means, whose steps are not known" % unexplained)
    if without_record:
        report.say("  not checked: output and files of %d runs without a record" % without_record)
    if without_output:
        report.say(
            "  not checked: output of %d runs, of which parts were not kept" % without_output
        )
    if study.as_stored:
        report.say(
            "  not recomputed: facts of %d snapshots, as an earlier version of Tare stored them"
            % len(study.as_stored)
        )


PROCESS = re.compile(r"(instance-\d{1,6}|rank-[1-9]\d{0,5})/output\.txt")


def check_record(study: Study, run: Dict[str, Any], report: Report) -> Tuple[bool, bool]:
    """Check a run's output by the check sum that its job wrote; return if it has a record, and if
    all of its output is there to be checked."""
    folder = "data/runs/%s/" % run["run"]
    if folder + "record.json" not in study.bundle.sizes:
        return False, False
    record = study.bundle.read_json(folder + "record.json")
    files = {row["path"]: row for row in record["files"]}
    output, listed = record["output"], files.get("output.txt")
    if listed:
        report.add("output as listed", listed["sha256"], output["sha256"])
    # Of several processes each has its own file, and what is kept is of all.
    is_of_one = not any(PROCESS.fullmatch(path) and files[path]["bytes"] for path in files)
    if not output["sha256"] or output["left_out_bytes"] or not is_of_one:
        return True, not output["bytes"]
    digest, size = hashlib.sha256(), 0
    if folder + "output.txt" in study.bundle.sizes:
        for piece in study.bundle.read_pieces(folder + "output.txt"):
            digest.update(piece)
            size += len(piece)
    report.add("output", (output["sha256"], output["bytes"]), (digest.hexdigest(), size))
    return True, True


def check_pairs(study: Study, report: Report) -> None:
    pairs = compute_pairs(study, with_excluded=False)
    if any(run["state"] == "excluded" for run in study.runs):
        stamp_exclusions(study, pairs, compute_pairs(study, with_excluded=True))
    add_overalls(study, pairs)
    keys = {name: key for key, name in study.workloads.items()}
    printed: Dict[Key, Dict[str, Any]] = {}
    for row in study.comparison["comparison"]:
        rank = row.get("decisive_rank", 1)
        printed[rank, keys[row["workload"]], row["scale"], row["environment"]] = row
    if len(printed) != len(study.comparison["comparison"]):
        report.fail("a comparison is printed twice.")
    for key in sorted(set(printed) - set(pairs)):
        report.fail("printed, and no run shows it: %s" % (key,))
    for key in sorted(set(pairs) - set(printed)):
        report.fail("computed, and not printed: %s" % (key,))
    for key, row in printed.items():
        if key in pairs:
            check_pair(study, key, row, pairs[key], report)


def check_pair(study: Study, key: Key, row: Any, pair: Any, report: Report) -> None:
    rank, workload, scale, name = key
    metric, definition = study.metrics[rank - 1][workload], study.definition
    place = (study.workloads[workload], scale, name, study.baseline, metric["name"])
    report.say("\n%s, %s: %s / %s, %s" % place)
    margins = definition["margins"][rank - 1]
    pair = {**pair, **margins, "goal": definition["goal"]}
    if pair["margin_faster"] == pair["margin"]:
        pair["margin_faster"] = None
    if "look_number" in pair:
        for column in ("ci_difference", "ci_equivalence"):
            pair["look_" + column] = pair.get(column)
    for column in ("metric", "unit", "better"):
        computed = metric["name" if column == "metric" else column]
        report.add(column, row[column], computed)
    report.add("plan", row["plan_hash"], study.about["plan_hash"])
    report.add("baseline", row["baseline"], study.baseline)
    for column in (*FIRST, *COLUMNS):
        computed = pair.get(column)
        if column == "stamps":
            stamps = set(filter(None, row["stamps"].split("; ")))
            known, ours = (sorted(some & COMPUTED_STAMPS) for some in (stamps, pair["stamps"]))
            report.add("stamps", "; ".join(known), "; ".join(ours), True)
            continue
        if (
            column == "detail"
            and not is_decided({"verdict": pair["verdict"]})
            and "ratio" not in pair
        ):
            continue  # a sentence on what is missing
        value = row.get(column)
        if "ci" in column or "ci95" in column or "ci90" in column:
            value = row.get(column + "_low"), row.get(column + "_high")
            value = None if value[0] is None else value
        is_shown = column in FIRST and computed is not None
        report.add(column, value, computed, is_shown or bool(column == BLOCKING and computed))
    check_attribution(study, (workload, scale), name, row, pair, report)


def check_attribution(
    study: Study, place: Place, name: str, row: Any, pair: Any, report: Report
) -> None:
    """Check what a sentence prints of the first blocking difference, and what older facts hide."""
    if pair["verdict"] == "NOT ATTRIBUTABLE":
        begins = pair["sentence_begins"]
        report.add("sentence", row["sentence"][: len(begins)], begins)
        report.say("  %s" % begins.strip(" :"))
    if not study.as_stored:
        return
    known = str(pair.get(BLOCKING) or "").split("; ")
    is_extended = any(
        (run["workload_key"], run["scale"]) == place and run["repeat"] > study.definition["repeats"]
        for run in study.runs
    )
    repeats = study.find_repeats(pair, is_extended)
    by_snapshots = study.compare_facts(place, name, False, repeats, as_stored=False)
    for fact in by_snapshots.list_by_grade()["blocking"]:
        if fact not in known:
            report.fail("not compared, and its snapshots differ: " + by_snapshots.describe(fact))
            report.say(
                "  Another version of Tare has not compared it, or somebody has taken it out."
            )


def add_overalls(study: Study, pairs: Dict[Key, Dict[str, Any]]) -> None:
    """Add what several decisive metrics show together."""
    ranks = range(1, len(study.metrics) + 1)
    if len(ranks) < 2:
        return
    places = list(dict.fromkeys(key[1:] for key in pairs))
    rows = [[pairs.get((rank, *place)) for rank in ranks] for place in places]
    goals = [[pair.get("p_goal") if pair else None for pair in row] for row in rows]
    largest = [take_largest_so_far(row)[-1] for row in goals]
    adjusted = adjust_by_holm(largest)
    if study.definition["metrics_rule"] == "in order":
        adjusted = [row[-1].get("p_goal_holm") if row[-1] else None for row in rows]
    for row, p, p_holm in zip(rows, largest, adjusted):
        is_shown = all(pair is not None and pair["verdict"] in PROVED.values() for pair in row)
        verdict = PROVED[study.definition["goal"]] if is_shown else "NOT SHOWN"
        if any(pair is not None and pair["verdict"] == "NOT ATTRIBUTABLE" for pair in row):
            verdict = "NOT ATTRIBUTABLE"
        for pair in filter(None, row):
            pair.update(overall_verdict=verdict, overall_p=p, overall_p_holm=p_holm)


# -- 10. The signature -----------------------------------------------------------------------------

ALLOWED_SIGNERS = "allowed_signers"
NAMESPACE = b"tare-bundle"
BEGIN, END = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
Point = Tuple[int, int]


def add_points(a: Point, b: Point) -> Point:
    """Add two points of the curve -x^2 + y^2 = 1 + d x^2 y^2 (RFC 8032, 5.1)."""
    product = D * a[0] * b[0] * a[1] * b[1] % P
    x = (a[0] * b[1] + a[1] * b[0]) * pow(1 + product, P - 2, P)
    y = (a[1] * b[1] + a[0] * b[0]) * pow(1 - product, P - 2, P)
    return x % P, y % P


def multiply(point: Point, times: int) -> Point:
    result = (0, 1)
    while times:
        if times & 1:
            result = add_points(result, point)
        point = add_points(point, point)
        times >>= 1
    return result


def decode_point(data: bytes) -> Point:
    """Return the point that 32 bytes stand for; ValueError if it is not on the curve."""
    number = int.from_bytes(data, "little")
    y, sign = number % 2**255, number >> 255
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if len(data) != 32 or y >= P or (x * x - square) % P or (x == 0 and sign):
        raise ValueError("no point of the curve")
    return (x if x % 2 == sign else P - x), y


BASE = decode_point((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def is_signed(key: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether an Ed25519 signature is that of a message by a key (RFC 8032, 5.1.7)."""
    if len(signature) != 64 or int.from_bytes(signature[32:], "little") >= ORDER:
        return False
    try:
        point, r = decode_point(key), decode_point(signature[:32])
    except ValueError:
        return False
    digest = hashlib.sha512(signature[:32] + key + message).digest()
    left = multiply(BASE, int.from_bytes(signature[32:], "little"))
    right = add_points(r, multiply(point, int.from_bytes(digest, "little") % ORDER))
    return left == right


def take_string(data: bytes) -> Tuple[bytes, bytes]:
    """Return the string with which SSH data begin, and the rest."""
    size = int.from_bytes(data[:4], "big")
    if len(data) < 4 + size:
        raise ValueError("it is cut off")
    return data[4 : 4 + size], data[4 + size :]


def write_string(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def read_signature(text: str, message: bytes) -> Tuple[bytes, bool]:
    """Return the key that an armoured signature names, and whether it is that of the message."""
    lines = text.split("\n")
    if lines[0] != BEGIN or END not in lines:
        raise ValueError("it is no signature of OpenSSH")
    blob = base64.b64decode("".join(lines[1 : lines.index(END)]), validate=True)
    if blob[:10] != b"SSHSIG\0\0\0\1":
        raise ValueError("it has another version")
    key, rest = take_string(blob[10:])
    space, rest = take_string(rest)
    reserved, rest = take_string(rest)
    method, rest = take_string(rest)
    signature, rest = take_string(rest)
    kind, raw = take_string(key)
    signed_kind, value = take_string(signature)
    if space != NAMESPACE or method not in (b"sha256", b"sha512") or rest:
        raise ValueError("it is for something else than a bundle")
    if kind != b"ssh-ed25519" or signed_kind != kind:
        raise ValueError("its key is not of the kind Ed25519")
    digest = hashlib.new(method.decode(), message).digest()
    fields = (space, reserved, method, digest)
    signed = b"SSHSIG" + b"".join(write_string(field) for field in fields)
    return key, is_signed(take_string(raw)[0], signed, take_string(value)[0])


def find_signer(bundle: Bundle) -> Tuple[str, str]:
    """Return the fingerprint of the key that signed a bundle, and what is wrong with that."""
    if SIGNATURE not in bundle.sizes:
        is_lost = ALLOWED_SIGNERS in bundle.sizes
        return "", "%s is missing: the bundle was signed." % SIGNATURE if is_lost else ""
    text = bundle.read(SIGNATURE).decode("ascii", "replace")
    try:
        key, is_good = read_signature(text, bundle.read("tagmanifest-sha256.txt"))
    except ValueError as error:
        return "", "%s cannot be read: %s." % (SIGNATURE, error)
    digest = base64.b64encode(hashlib.sha256(key).digest()).decode()
    fingerprint = "SHA256:" + digest.rstrip("=")
    if not is_good:
        return "", "%s is not the signature of these files by %s." % (SIGNATURE, fingerprint)
    return fingerprint, ""


def check_signature(bundle: Bundle, signer: str) -> Iterator[str]:
    """Print by which key the bundle is signed, and yield what is wrong with that."""
    fingerprint, wrong = find_signer(bundle)
    if wrong:
        yield wrong
        return
    if not fingerprint:
        if signer:
            yield "It is not signed, and was to be by %s." % signer
        else:
            print("\nNot signed: only a hash that was published before shows who made it.")
        return
    if signer and signer != fingerprint:
        yield "It is signed by %s, and was to be by %s." % (fingerprint, signer)
        return
    print("\nSigned by the key %s." % fingerprint)
    if not signer:
        print("  Whose key that is this program cannot know. Compare it with the one that the site")
        print("  publishes (README.txt says where), or give it: verify.py --signer SHA256:...")


def check(path: str, show_all: bool, signer: str = "") -> int:
    """Check a bundle; return 0 if everything agrees, else 1."""
    report = Report(show_all)
    print("Check sums of %s" % path)
    bundle = Bundle(path)
    for wrong in check_sums(bundle):
        report.fail(wrong)
    print("  %d files, %d bytes" % bundle.count())
    study = Study(bundle)
    print("\n%s\n" % study.about["question"])
    print("  %-24s %-26s %-26s" % ("what", "printed", "recomputed"))
    check_definition(study, report)
    check_runs(study, report)
    check_pairs(study, report)
    for wrong in check_signature(bundle, signer):
        report.fail(wrong)
    print(
        "\nNot recomputed: which steps are warm-up (each mean after it is); sentences, of some all"
    )
    print(
        "  but the beginning; summaries over configurations; margins and whole curves of training;"
    )
    print("  error rates of an extension; the figure; files that runs left on the cluster. That")
    print(
        "  nobody made up the runs themselves no check sum can show: compare the hash of the plan"
    )
    print("  and of this bundle with what was published.")
    if report.disagreed:
        print(
            "\nWRONG: %d of %d do not agree." % (report.disagreed, report.agreed + report.disagreed)
        )
        return 1
    print("\nAll check sums and all %d numbers agree." % report.agreed)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Check a bundle of Tare.")
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("bundle", nargs="?", default=here, help="a folder or a zip file")
    parser.add_argument("--all", action="store_true", help="print every number")
    parser.add_argument("--signer", default="", help="the fingerprint of the key that signed it")
    options = parser.parse_args()
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        return check(options.bundle, options.all, options.signer)
    except Refused as why:
        print("\nWRONG: %s" % why)
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
        RuntimeError,
    ) as error:
        print("\nWRONG: its documents are not what they should be: %r" % error)
    return 1


if __name__ == "__main__":
    sys.exit(main())
