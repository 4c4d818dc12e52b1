"""Runs' metrics in the text format of OpenMetrics, which Prometheus scrapes.

A family is a metric in one unit; its samples are the runs that have it. Of runs that are running
the latest values of their series are there too, as they were read for somebody who looks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256

from django.db.models import Count, QuerySet
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from experiments.execution.live_readings import MOST_RUNS, watch
from experiments.models import Measurement, Run
from runners.workloads.live_reports import restore_report

CONTENT_TYPE = CONTENT_TYPE_LATEST
LABELS = ("experiment", "environment", "configuration", "repeat", "node", "run")
MOST_SAMPLES = 50_000
"""Of metrics of runs in one answer: about 8 MB, and a second of a process."""
UNITS = {
    "": "",
    "1": "",
    "%": "percent",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
    "min": "minutes",
    "h": "hours",
    "B": "bytes",
    "J": "joules",
    "W": "watts",
    "V": "volts",
    "A": "amperes",
    "°C": "celsius",
    "Hz": "hertz",
}
"""Units as OpenMetrics spells them; others are spelled as they are."""
ODD = re.compile(r"[^a-zA-Z0-9]+")
Labels = tuple[str, ...]


class TooManySamples(Exception):
    """The runs have more metrics than one answer holds; the text says what to do."""


class _Families(Collector):
    """The families of one answer, each under a name that no other one has."""

    def __init__(self) -> None:
        self._families: dict[tuple[str, ...], GaugeMetricFamily] = {}
        self._names: set[str] = set()

    def add(self, key: tuple[str, ...], about: str, labels: Sequence[str]) -> GaugeMetricFamily:
        """Return the family of the key: its unit comes last, and the other parts are its name."""
        if key not in self._families:
            name, unit = name_family(key)
            if name in self._names:
                digest = sha256("\0".join(key).encode(errors="replace")).hexdigest()[:8]
                stem = name.removesuffix(f"_{unit}") if unit else name
                name = "_".join(part for part in (stem, digest, unit) if part)
            self._names.add(name)
            self._families[key] = GaugeMetricFamily(name, about, labels=labels, unit=unit)
        return self._families[key]

    def write(self) -> bytes:
        """Return the text of the answer."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        content: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
        return content

    def collect(self) -> Iterator[Metric]:
        yield from self._families.values()


def name_family(key: Sequence[str]) -> tuple[str, str]:
    """Return the name of a family and its unit, in the letters that OpenMetrics has.

    The unit is the last part of the key; the name ends with it.
    """
    *parts, unit = key
    spelled = UNITS.get(unit)
    if spelled is None:
        spelled = _spell(unit.replace("/", " per ").replace("%", " percent ")).lower()
    name = "_".join(["tare", *(_spell(part) for part in parts)]).rstrip("_")
    if spelled and not name.endswith(f"_{spelled}"):
        name = f"{name}_{spelled}"
    return name, spelled


def _spell(text: str) -> str:
    return ODD.sub("_", text).strip("_")


def write_open_metrics(runs: QuerySet[Run], metrics: Sequence[str] = ()) -> bytes:
    """Return the runs' numbers, of these metrics or of all; running runs are read while one asks.

    Raises TooManySamples.
    """
    families = _Families()
    _add_states(families, runs)
    labels = _label_runs(runs)
    _add_measurements(families, runs, metrics, labels)
    _add_live(families, runs, labels)
    return families.write()


def _add_states(families: _Families, runs: QuerySet[Run]) -> None:
    counts = runs.order_by().values_list("experiment", "state").annotate(runs=Count("pk"))
    family = families.add(("runs", ""), "Runs in each state.", ("experiment", "state"))
    for experiment, state, count in sorted(counts):
        family.add_metric([str(experiment), state], count)


def _label_runs(runs: QuerySet[Run]) -> dict[int, Labels]:
    """Return the values of LABELS of each run."""
    rows = runs.order_by("pk").values_list(
        *("pk", "experiment", "environment__name", "workload__name", "scale", "repeat"),
        *("node", "uid"),
    )
    return {
        key: (str(experiment), environment, f"{workload} {scale}", str(repeat), node, uid)
        for key, experiment, environment, workload, scale, repeat, node, uid in rows
    }


def _add_measurements(
    families: _Families, runs: QuerySet[Run], metrics: Sequence[str], labels: dict[int, Labels]
) -> None:
    stored = Measurement.objects.filter(run__in=runs.order_by().values("pk"))
    stored = stored.filter(metric__in=metrics) if metrics else stored
    rows = stored.order_by("metric", "unit", "run").values_list("metric", "unit", "run", "value")
    shown = list(rows[: MOST_SAMPLES + 1])
    if len(shown) > MOST_SAMPLES:
        raise TooManySamples(
            f"These runs have more than {MOST_SAMPLES:,} numbers: name the metrics that you want "
            "with “metrics=”, or take the file /api/v1/export/measurements.parquet."
        )
    for metric, unit, run, value in shown:
        if run in labels:  # unless it came in between
            about = f"The metric “{metric}” of a run, in {unit}." if unit else f"“{metric}”."
            families.add((metric, unit), about, LABELS).add_metric(labels[run], value)


def _add_live(families: _Families, runs: QuerySet[Run], labels: dict[int, Labels]) -> None:
    """Add how far running runs are, and have them read on their clusters."""
    running = runs.filter(state=Run.State.RUNNING, ended_at=None).order_by("-began_at", "-pk")
    for run in running.select_related("job__cluster")[:MOST_RUNS]:
        reading = watch(run)
        for name, curve in sorted(restore_report(reading.report).curves.items()):
            if run.pk not in labels:
                continue
            about = f"Values of “{name}” that a running run has reported."
            steps = families.add(("reported", name, ""), about, LABELS)
            steps.add_metric(labels[run.pk], curve.count)
            if curve.latest is not None:
                about = f"The latest of “{name}” while a run runs: the mean of its last steps."
                latest = families.add(("latest", name, curve.unit), about, LABELS)
                latest.add_metric(labels[run.pk], curve.latest)
