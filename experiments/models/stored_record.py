"""What is kept of a run beside its numbers: all that it printed, and which files it left."""

from __future__ import annotations

import json
import zlib
from typing import Any

from django.db import models

from experiments.models.run import Run

MOST_BYTES = 2**63 - 1  # the largest value of a column; sparse files may say that they are larger
MOST_OUTPUT_BYTES = 64 * 1024 * 1024
MOST_LIST_BYTES = 16 * 1024 * 1024
"""More than is ever stored: what a damaged database holds must not fill the memory."""


class StoredRecord(models.Model):
    """The output and the list of files of one run, compressed, and facts of this run alone.

    In a table of its own: whoever lists runs reads none of it.
    """

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="stored_record")
    output = models.BinaryField(help_text="As it was printed, compressed by zlib.")
    output_bytes = models.PositiveBigIntegerField(default=0, help_text="That the run printed.")
    output_left_out = models.PositiveBigIntegerField(
        default=0, help_text="Bytes between its beginning and its end that are not kept."
    )
    output_sha256 = models.CharField(
        max_length=64, blank=True, help_text="Of all that it printed, as the job summed it up."
    )
    files = models.BinaryField(
        help_text="JSON, compressed by zlib: of each file its path, bytes and sha256."
    )
    files_listed = models.PositiveIntegerField(default=0)
    files_left_out = models.PositiveIntegerField(default=0)
    facts = models.JSONField(
        default=dict, help_text="Of this run alone: its command inside the environment."
    )

    class Meta:
        verbose_name_plural = "stored records"

    def __str__(self) -> str:
        return f"stored of {self.run}"

    def read_output(self) -> bytes:
        """Return what is kept of the output."""
        return _decompress(self.output, MOST_OUTPUT_BYTES)

    def list_files(self) -> list[dict[str, Any]]:
        """Return path, bytes and sha256 ("" if the job did not sum it up) of each listed file."""
        rows = json.loads(_decompress(self.files, MOST_LIST_BYTES) or b"[]")
        return [
            {"path": path, "bytes": size, "sha256": digest or None} for path, size, digest in rows
        ]


def _decompress(content: bytes | memoryview, most: int) -> bytes:
    return zlib.decompressobj().decompress(bytes(content), most) if content else b""
