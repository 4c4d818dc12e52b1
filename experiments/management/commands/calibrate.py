"""`manage.py calibrate`: hold the verdicts against known truths."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from experiments.statistics.calibration.bands import FULL, QUICK, Band
from experiments.statistics.calibration.error_rates import SEED, calibrate


class Command(BaseCommand):
    help = "Simulate experiments of known truth and check how often the verdicts are wrong."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--quick", action="store_true", help="Take seconds instead of minutes.")
        parser.add_argument("--seed", type=int, default=SEED)
        parser.add_argument("--json", action="store_true", help="Print every share, as JSON.")

    def handle(self, *args: Any, quick: bool, seed: int, **options: Any) -> None:
        """Print the shares and their bands. Raises CommandError if a band is violated."""
        effort = QUICK if quick else FULL
        began = time.monotonic()
        bands = calibrate(effort, seed, self._note_part)
        if options["json"]:
            self.stdout.write(json.dumps([make_dictionary(band) for band in bands], indent=2))
        else:
            for line in format_table(bands):
                self.stdout.write(line)
            widened = (
                f"limits widened by {effort.standard_errors:g} Monte-Carlo standard errors"
                if effort.standard_errors
                else "limits not widened"
            )
            self.stdout.write(
                f"\n{effort.data_sets:,} simulated experiments a share "
                f"({effort.heavy_data_sets:,} with steps or bootstrap, {effort.runs:,} runs with a "
                f"start-up), seed {seed}, "
                f"{widened}; {time.monotonic() - began:.0f} s."
            )
        if violated := sum(not band.ok for band in bands):
            raise CommandError(f"{violated} of {len(bands)} bands violated.")

    def _note_part(self, name: str, seconds: float) -> None:
        """Print that a part of the calibration has ended, beside the results."""
        self.stderr.write(f"{name}: {seconds:.1f} s")


def format_table(bands: list[Band]) -> list[str]:
    """Return the lines of a Markdown table of the bands, its columns aligned."""
    rows = [
        ["promise", "shares", "the worst", "value", "limit", "result"],
        *(
            [
                band.promise,
                str(len(band.shares)),
                band.worst,
                f"{band.value:.4f}",
                limit(band),
                describe_result(band),
            ]
            for band in bands
        ),
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, ["-" * width for width in widths])
    return [
        f"| {' | '.join(text.ljust(width) for text, width in zip(row, widths, strict=True))} |"
        for row in rows
    ]


def limit(band: Band) -> str:
    """Return where the shares must lie: "≤ 0.055", and of a control, which must not, "> 0.2"."""
    over, under = (">", "<") if band.control else ("≤", "≥")
    if band.low is None:
        text = f"{over} {band.high:g}"
    elif band.high is None:
        text = f"{under} {band.low:g}"
    else:
        text = f"{band.low:g} to {band.high:g}"
    return f"{text} ± {band.slack:.4f}" if band.slack else text


def describe_result(band: Band) -> str:
    """Return whether the band holds, in a word or a few."""
    if band.control:
        return "fails, as it must" if band.ok else "VIOLATED: passes, but must fail"
    return "ok" if band.ok else "VIOLATED"


def make_dictionary(band: Band) -> dict[str, Any]:
    """Return the band as plain JSON."""
    return {
        "promise": band.promise,
        "control": band.control,
        "low": band.low,
        "high": band.high,
        "slack": band.slack,
        "result": describe_result(band),
        "shares": dict(band.shares),
    }
