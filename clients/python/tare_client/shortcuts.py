"""The site of `tare login`, in one call: for scripts and notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tare_client.client import Client
from tare_client.rows import Rows
from tare_client.values import Comparison, Experiment


def runs(
    experiment: int | None = None,
    *,
    metrics: Sequence[str] = (),
    limit: int | None = None,
    **filters: object,
) -> Rows:
    """Return runs from the site of `tare login`: see Client.runs."""
    return Client.from_settings().runs(experiment, metrics=metrics, limit=limit, **filters)


def experiments(*, limit: int | None = None, **filters: object) -> Iterator[Experiment]:
    """Yield experiments from the site of `tare login`: see Client.experiments."""
    return Client.from_settings().experiments(limit=limit, **filters)


def experiment(key: int) -> Experiment:
    """Return an experiment from the site of `tare login`."""
    return Client.from_settings().experiment(key)


def comparison(key: int) -> Comparison:
    """Return a comparison from the site of `tare login`."""
    return Client.from_settings().comparison(key)
