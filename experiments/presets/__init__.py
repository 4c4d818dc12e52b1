"""Presets: the experiments of those who asked first, ready to be launched again."""

from experiments.design import Scale
from experiments.presets.base import FULL, LAPTOP, Piece, Preset, Size
from experiments.presets.commands import COMMANDS
from experiments.presets.published import ALL
from runners.workloads import WORKLOADS, ParameterError

__all__ = ["COMMANDS", "FULL", "LAPTOP", "PRESETS", "Piece", "Preset", "Size"]


def _is_known(preset: Preset) -> bool:
    """Whether this version has all that the preset asks for."""
    try:
        for size in preset.sizes.values():
            for scale in size.scales:
                Scale.parse(scale)
            for piece in size.workloads:
                WORKLOADS[piece.kind].clean(piece.parameters)
    except (KeyError, ValueError, ParameterError):
        return False
    return True


PRESETS: dict[str, Preset] = {preset.key: preset for preset in ALL if _is_known(preset)}
