"""Presets: published experiments, ready to be launched again, and known programs."""

from experiments.presets.base import FULL, LAPTOP, Piece, Preset, Size
from experiments.presets.commands import COMMANDS
from experiments.presets.published import ALL

__all__ = ["COMMANDS", "FULL", "LAPTOP", "PRESETS", "Piece", "Preset", "Size"]

PRESETS: dict[str, Preset] = {preset.key: preset for preset in ALL}
