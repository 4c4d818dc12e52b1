"""What a bundle has of each run beside its row: numbers, steps, output and names of files."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.comparisons.step_summaries import add_step_summary
from experiments.execution.series_copy import copy_series
from experiments.imports.bundle_door import CheckedBundle
from experiments.imports.bundle_shapes import RECORD, read_number, read_shape, read_steps
from experiments.imports.problems import ImportProblem
from experiments.models import Measurement, MeasureNotes, Run, RunFile, Series, StoredRecord

QUICK = 3
"""The level of zlib, as for outputs that come from clusters."""
STATED = ("shape", "block_steps", "warm_up", "settled_mean")
"""What a bundle says of the steps of a run, and what is compared here rests on."""
Document = dict[str, Any]


def read_output(bundle: CheckedBundle, uid: str) -> bytes:
    """Return what a bundle has of the output of a run."""
    name = f"data/runs/{uid}/output.txt"
    return bundle.files.read(name) if name in bundle.files.sizes else b""


@dataclass(frozen=True)
class RunParts:
    """Stores the parts of runs, of a portion of them at a time."""

    bundle: CheckedBundle

    def create(self, pairs: Sequence[tuple[Run, Document]]) -> int:
        """Store the numbers, steps, files and records of runs; return of how many runs the warm-up
        that is stated is another one than is found here."""
        Measurement.objects.bulk_create(
            Measurement(
                run=run,
                metric=_name_metric(metric),
                value=read_number(f"run {run.uid}", known["value"]),
                unit=known["unit"],
                source=known.get("source") or "",
            )
            for run, row in pairs
            for metric, known in row["measurements"].items()
        )
        MeasureNotes.objects.bulk_create(
            MeasureNotes(
                run=run,
                missing=row.get("not_measured") or {},
                details=row.get("measured_within") or {},
            )
            for run, row in pairs
            if row.get("not_measured") or row.get("measured_within")
        )
        RunFile.objects.bulk_create(
            RunFile(
                run=run,
                path=file["path"],
                size_bytes=file.get("size_bytes") or 0,
                sha256=file.get("sha256") or "",
            )
            for run, row in pairs
            for file in row.get("files_left_on_the_cluster") or []
        )
        records = (self._make_record(run) for run, _ in pairs)
        StoredRecord.objects.bulk_create([record for record in records if record])
        series = [made for run, row in pairs for made in self._make_series(run, row)]
        copy_series([row for row, _ in series])
        return len({row.run_id for row, is_other in series if is_other})

    def _make_series(self, run: Run, row: Document) -> Iterator[tuple[Series, bool]]:
        """Yield the series of a run, and whether its warm-up is found elsewhere than stated."""
        if not row["steps"]:
            return
        name = f"data/runs/{run.uid}/steps.json"
        document = self.bundle.read_json(name)
        if not isinstance(document, dict) or set(document) != set(row["steps"]):
            raise ImportProblem(f"{name} has other series than its run says.")
        for metric, known in row["steps"].items():
            values, steps = read_steps(f"{name}, {metric}", document[metric])
            series = Series(
                run=run,
                metric=_name_metric(metric),
                unit=known["unit"],
                values=values,
                steps=steps,
                burn_in=known.get("burn_in"),
            )
            is_other = False
            if known.get("summarised", known.get("shape")):
                try:
                    add_step_summary(series)
                except ValueError as problem:
                    raise ImportProblem(f"{name}: {problem}") from None
                found = [getattr(series, column) for column in STATED[:-1]]
                stated = [known.get(column) for column in STATED[:-1]]
                is_other = bool(known.get("shape")) and found != stated
                if known.get("shape"):
                    for column in STATED:
                        setattr(series, column, known.get(column))
            yield series, is_other

    def _make_record(self, run: Run) -> StoredRecord | None:
        name = f"data/runs/{run.uid}/record.json"
        if name not in self.bundle.files.sizes:
            return None
        record = read_shape(name, self.bundle.read_json(name), RECORD)
        rows = [[file["path"], file["bytes"], file.get("sha256") or ""] for file in record["files"]]
        listed = json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode()
        output = record["output"]
        return StoredRecord(
            run=run,
            output=zlib.compress(read_output(self.bundle, run.uid), QUICK),
            output_bytes=output.get("bytes") or 0,
            output_left_out=output.get("left_out_bytes") or 0,
            output_sha256=output.get("sha256") or "",
            files=zlib.compress(listed, QUICK),
            files_listed=len(rows),
            files_left_out=record.get("files_left_out") or 0,
            facts={
                "argv": record.get("command_inside") or [],
                "loaded": record.get("loaded_was_read") or {},
            },
        )


def _name_metric(name: str) -> str:
    if not 0 < len(name) <= 100:
        raise ImportProblem(f"{name[:40]!r} is no name of a metric.")
    return name
