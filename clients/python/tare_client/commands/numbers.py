"""`tare results`, `tare compare` and `tare list`."""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Iterable
from typing import IO, Any

from tare_client.command_parser import StudyKey
from tare_client.commands.account import connect
from tare_client.commands.files import check_target, writing
from tare_client.errors import UsageError
from tare_client.rows import flatten_row
from tare_client.terminal import (
    clean_text,
    format_table,
    measure_width,
    print_json,
    print_line,
    printing_verdict,
)
from tare_client.values import Comparison

COLUMNS = ("id", "block", "workload", "scale", "environment", "state")
"""Columns of a table of runs; then those of the metrics."""
USUAL_METRICS = 3
"""So many of a site's metrics are shown where nobody has chosen any."""
FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
HIDDEN = ("\t", "\r", "\n")


def run_results(arguments: argparse.Namespace) -> int:
    """Print the runs of an experiment, or save them."""
    if arguments.parquet and arguments.output in (None, "-"):
        raise UsageError("Parquet is no text: name a file with -o FILE.")
    if arguments.output and not (arguments.csv or arguments.parquet or arguments.json):
        raise UsageError("Choose --csv, --json or --parquet for the file.")
    if arguments.output and arguments.output != "-":
        check_target(arguments.output, force=arguments.force)
    metrics = [name for name in arguments.metrics.split(",") if name]
    rows = connect(arguments).runs(arguments.id, metrics=metrics, limit=arguments.limit)
    if arguments.parquet:
        with writing(arguments.output) as file:
            rows.to_parquet(file)
    elif arguments.output and arguments.output != "-":
        with writing(arguments.output) as file:
            write_rows(rows, file, as_csv=arguments.csv)
    elif arguments.csv:
        text = io.StringIO()
        write_csv(list(rows), text)
        on_terminal = sys.stdout.isatty()
        sys.stdout.write(clean_text(text.getvalue(), keep="\n") if on_terminal else text.getvalue())
    elif arguments.json:
        print_json(list(rows))
    else:
        print_runs(list(rows), metrics)
    return 0


def write_rows(rows: Iterable[dict[str, Any]], file: IO[bytes], *, as_csv: bool) -> None:
    """Write rows into an open file as CSV or JSON, in UTF-8."""
    text = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="")
    if as_csv:
        write_csv(list(rows), text)
    else:
        json.dump(list(rows), text, indent=2)
    text.flush()
    text.detach()


def write_csv(rows: list[dict[str, Any]], file: Any) -> None:
    """Write rows as CSV, with the columns of all of them. No cell is run by a spreadsheet."""
    rows = [flatten_row(row) for row in rows]
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([_make_safe(name) for name in names])
    writer.writerows([_make_safe(row.get(name)) for name in names] for row in rows)


def _make_safe(value: object) -> object:
    if not isinstance(value, str):
        return value
    is_formula = value.strip().startswith(FORMULA) or value.startswith(HIDDEN)
    return f"'{value}" if is_formula else value


def print_runs(rows: list[dict[str, Any]], metrics: list[str]) -> None:
    """Print runs as a table."""
    if not rows:
        print_line("No runs.")
        return
    flat = [flatten_row(row) for row in rows]
    known = list(dict.fromkeys(name for row in flat for name in row))
    measured = [row["metrics"] for row in rows if isinstance(row.get("metrics"), dict)]
    usual = list(dict.fromkeys(name for numbers in measured for name in numbers))[:USUAL_METRICS]
    names = [name for name in dict.fromkeys((*COLUMNS, *(metrics or usual))) if name in known]
    if absent := [name for name in metrics if name not in known]:
        print_line(f"No run here has the metric {', '.join(absent)}.", file=sys.stderr)
    table = ([_shorten(row.get(name)) for name in names] for row in flat)
    sys.stdout.write(format_table(names, table, measure_width()) + "\n")


def _shorten(value: object) -> object:
    """Return a run's long name by its first letters, as pages show it."""
    is_long = isinstance(value, str) and len(value) == 32 and value.isalnum()
    return str(value)[:8] if is_long else value


def run_compare(arguments: argparse.Namespace) -> int:
    """Print the verdicts of an experiment, or of all experiments of a study."""
    client = connect(arguments)
    if isinstance(arguments.id, StudyKey):
        from tare_client.commands.studies import compare_study

        return compare_study(client, arguments.id, arguments)
    comparison = client.comparison(arguments.id)
    with printing_verdict():
        if arguments.json:
            print_json(dict(comparison.raw))
        else:
            print_comparison(comparison)
    return comparison.exit_code


def print_comparison(comparison: Comparison) -> None:
    """Print a comparison: a table, the sentences, the word by which a program ends."""
    if comparison.rows:
        names = ("workload", "scale", "metric", "environment", "ratio", "90 % CI", "verdict")
        table = [
            (
                row.workload,
                row.scale,
                row.metric,
                row.environment,
                row.ratio,
                ""
                if row.ci90_low is None or row.ci90_high is None
                else f"{row.ci90_low:.4f} to {row.ci90_high:.4f}",
                row.verdict,
            )
            for row in comparison.rows
        ]
        sys.stdout.write(format_table(names, table, measure_width()) + "\n")
    for sentence in comparison.sentences:
        print_line(sentence)
    if comparison.waiting and comparison.waiting not in comparison.sentences:
        print_line(comparison.waiting)
    print_line(f"Verdict: {comparison.exit_word.replace('_', ' ')}")


def run_list(arguments: argparse.Namespace) -> int:
    """List experiments, or studies."""
    client = connect(arguments)
    if arguments.studies:
        from tare_client.commands.studies import list_studies

        return list_studies(client, arguments)
    filters: dict[str, list[str]] = {}
    for name, value in arguments.filter:
        filters.setdefault(name, []).append(value)
    experiments = list(client.experiments(limit=arguments.limit, **filters))
    if arguments.json:
        print_json([dict(experiment.raw) for experiment in experiments])
        return 0
    if not experiments:
        print_line("No experiments.")
        return 0
    rows = [
        (
            experiment.id,
            experiment.state or ("draft" if experiment.is_draft else ""),
            experiment.created_at[:10],
            experiment.cluster,
            experiment.owner,
            experiment.question,
        )
        for experiment in experiments
    ]
    names = ("id", "state", "made", "cluster", "owner", "question")
    sys.stdout.write(format_table(names, rows, measure_width()) + "\n")
    return 0
