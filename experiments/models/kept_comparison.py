"""The comparison of an experiment as it was computed last, so that pages need not compute it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from django.db import models
from django.db.models import F, Func, Value
from django.db.models.functions import Greatest, Length

from experiments.models.experiment import Experiment

SLOW_SECONDS = 0.5
"""Where computing took longer, pages that follow an experiment show the last comparison."""
BYTES_OF_A_PIECE = 128 * 1024
"""A connection keeps up to four times the bytes of the longest row that it has ever read."""


class KeptComparisonQuerySet(models.QuerySet["KeptComparison"]):
    """Rows of kept comparisons."""

    def read_in_pieces(self) -> dict[int, KeptComparison]:
        """Return the rows by their keys, with contents that come in pieces, by one statement.

        Of 20,000 runs a content has 1.3 MB, and each thread of a web server a connection.
        """
        length = Greatest(Length("content"), 1)
        place = Func(Value(1), length, BYTES_OF_A_PIECE, function="generate_series")
        place.output_field = models.IntegerField()
        piece = Func(F("content"), place, BYTES_OF_A_PIECE, function="substring")
        piece.output_field = models.BinaryField()
        rows: dict[int, KeptComparison] = {}
        pieces: defaultdict[int, list[tuple[int, bytes]]] = defaultdict(list)
        row: Any
        for row in self.defer("content").annotate(place=place, piece=piece):
            rows[row.pk] = row
            pieces[row.pk].append((row.place, bytes(row.piece)))
        for pk, row in rows.items():
            row.content = b"".join(piece for _, piece in sorted(pieces[pk]))
        return rows


class KeptComparison(models.Model):
    """The comparison of an experiment, as long as nothing that it rests on has changed.

    It may be deleted at any time: it is computed anew then. Names of people and machines stand in
    it; whoever reads it for somebody else hides them, as in a comparison that was computed.
    """

    experiment = models.OneToOneField(
        Experiment, on_delete=models.CASCADE, primary_key=True, related_name="kept_comparison"
    )
    key = models.CharField(
        max_length=64, help_text="A hash of all that it rests on: another one makes it stale."
    )
    content = models.BinaryField(help_text="Compressed, behind its check sum.")
    verdicts = models.JSONField(default=dict, help_text="How many pairs have each verdict.")
    seconds = models.FloatField(help_text="How long it took to compute.")
    kept_at = models.DateTimeField(help_text="By the database's clock.")
    frame = models.CharField(
        max_length=64,
        default="",
        help_text="A hash of what does not change while runs live: the plan, names, the method.",
    )
    ended_runs = models.PositiveIntegerField(default=0, help_text="How many had ended by then.")
    aa_verdicts = models.JSONField(
        null=True,
        help_text="The verdicts on environments that were compared with themselves, once all runs "
        "have ended; empty where none was.",
    )
    failed_at = models.DateTimeField(
        null=True, blank=True, help_text="When computing it anew failed last; empty after success."
    )
    failed_key = models.CharField(
        max_length=64, default="", blank=True, help_text="The key for which that failed."
    )
    problem = models.TextField(default="", blank=True, help_text="Why it failed.")

    objects = KeptComparisonQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(
                fields=["experiment"],
                condition=models.Q(aa_verdicts__isnull=False),
                name="comparison_with_aa_verdicts",
            )
        ]

    def __str__(self) -> str:
        return f"comparison of experiment {self.pk}"

    @property
    def is_slow(self) -> bool:
        """Return whether pages do not wait until it is computed anew."""
        return self.seconds >= SLOW_SECONDS
