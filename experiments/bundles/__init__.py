"""Bundles: an experiment as one file that anybody can check: BagIt, RO-Crate and `verify.py`."""

from experiments.bundles.bundle_writer import (
    ChangedMeanwhile,
    ExtraFile,
    NoBundle,
    require_ended,
    write_bundle,
)

__all__ = ["ChangedMeanwhile", "ExtraFile", "NoBundle", "require_ended", "write_bundle"]
