"""GoogLeNet and Inception v3, in the order of their papers' tables."""

from __future__ import annotations

from typing import Any, Tuple, Union

Size = Union[int, Tuple[int, int]]

# Szegedy et al. 2014 (arXiv:1409.4842), table 1: 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pool proj.
MODULES = (
    ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
    (
        (192, 96, 208, 16, 48, 64),
        (160, 112, 224, 24, 64, 64),
        (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64),
        (256, 160, 320, 32, 128, 128),
    ),
    ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
)


def build_googlenet(keras: Any, shape: Tuple[int, int, int], classes: int) -> Any:
    """Build it as the convnet-benchmarks do: no auxiliary classifiers or response normalisation."""
    layers = keras.layers

    def convolve(values: Any, filters: int, size: int, strides: int = 1) -> Any:
        return layers.Conv2D(
            filters, size, strides, "same", activation="relu", kernel_initializer="he_normal"
        )(values)

    def add_module(values: Any, widths: Tuple[int, int, int, int, int, int]) -> Any:
        width1, reduce3, width3, reduce5, width5, pool_width = widths
        branches = [
            convolve(values, width1, 1),
            convolve(convolve(values, reduce3, 1), width3, 3),
            convolve(convolve(values, reduce5, 1), width5, 5),
            convolve(layers.MaxPooling2D(3, 1, "same")(values), pool_width, 1),
        ]
        return layers.Concatenate()(branches)

    images = keras.Input(shape)
    values = layers.MaxPooling2D(3, 2, "same")(convolve(images, 64, 7, 2))
    values = convolve(convolve(values, 64, 1), 192, 3)
    for modules in MODULES:
        values = layers.MaxPooling2D(3, 2, "same")(values)
        for widths in modules:
            values = add_module(values, widths)
    values = layers.Dropout(0.4)(layers.GlobalAveragePooling2D()(values))
    return keras.Model(images, layers.Dense(classes, dtype="float32")(values))


class _Builder:
    """The building blocks of Inception v3: convolutions with normalisation, pools, joins."""

    def __init__(self, keras: Any) -> None:
        self.keras = keras

    def convolve(
        self, values: Any, filters: int, size: Size, strides: int = 1, padding: str = "same"
    ) -> Any:
        layers = self.keras.layers
        values = layers.Conv2D(
            filters, size, strides, padding, use_bias=False, kernel_initializer="he_normal"
        )(values)
        # See residual.py for the momentum.
        values = layers.BatchNormalization(momentum=0.9, epsilon=1e-3)(values)
        return layers.ReLU()(values)

    def chain(self, values: Any, *steps: Tuple[int, Size]) -> Any:
        """Apply convolutions one after the other, each given by its filters and size."""
        for filters, size in steps:
            values = self.convolve(values, filters, size)
        return values

    def pool_and_project(self, values: Any, filters: int) -> Any:
        average = self.keras.layers.AveragePooling2D(3, 1, "same")(values)
        return self.convolve(average, filters, 1)

    def shrink(self, values: Any) -> Any:
        return self.keras.layers.MaxPooling2D(3, 2)(values)

    def join(self, *branches: Any) -> Any:
        return self.keras.layers.Concatenate()(list(branches))


def build_inception3(keras: Any, shape: Tuple[int, int, int], classes: int) -> Any:
    """Build table 1 of Szegedy et al. 2015 (arXiv:1512.00567) without auxiliary classifier."""
    builder = _Builder(keras)
    images = keras.Input(shape)
    values = builder.convolve(images, 32, 3, 2, "valid")
    values = builder.convolve(values, 32, 3, 1, "valid")
    values = builder.shrink(builder.convolve(values, 64, 3))
    values = builder.convolve(values, 80, 1, 1, "valid")
    values = builder.shrink(builder.convolve(values, 192, 3, 1, "valid"))
    for filters in (32, 64, 64):
        values = _add_figure_5(builder, values, filters)
    values = builder.join(
        builder.convolve(values, 384, 3, 2, "valid"),
        builder.convolve(builder.chain(values, (64, 1), (96, 3)), 96, 3, 2, "valid"),
        builder.shrink(values),
    )
    for width in (128, 160, 160, 192):
        values = _add_figure_6(builder, values, width)
    values = builder.join(
        builder.convolve(builder.chain(values, (192, 1)), 320, 3, 2, "valid"),
        builder.convolve(
            builder.chain(values, (192, 1), (192, (1, 7)), (192, (7, 1))), 192, 3, 2, "valid"
        ),
        builder.shrink(values),
    )
    for _ in range(2):
        values = _add_figure_7(builder, values)
    values = keras.layers.Dropout(0.2)(keras.layers.GlobalAveragePooling2D()(values))
    return keras.Model(images, keras.layers.Dense(classes, dtype="float32")(values))


def _add_figure_5(builder: _Builder, values: Any, filters: int) -> Any:
    """Add a module at 35 x 35: one branch with a 5x5 convolution, one with two 3x3 instead."""
    return builder.join(
        builder.convolve(values, 64, 1),
        builder.chain(values, (48, 1), (64, 5)),
        builder.chain(values, (64, 1), (96, 3), (96, 3)),
        builder.pool_and_project(values, filters),
    )


def _add_figure_6(builder: _Builder, values: Any, width: int) -> Any:
    """Add a module at 17 x 17: 7x7 convolutions split into rows and columns."""
    row, column = (1, 7), (7, 1)
    return builder.join(
        builder.convolve(values, 192, 1),
        builder.chain(values, (width, 1), (width, row), (192, column)),
        builder.chain(
            values, (width, 1), (width, column), (width, row), (width, column), (192, row)
        ),
        builder.pool_and_project(values, 192),
    )


def _add_figure_7(builder: _Builder, values: Any) -> Any:
    """Add a module at 8 x 8: branches that end in parallel rows and columns."""
    middle = builder.convolve(values, 384, 1)
    deep = builder.chain(values, (448, 1), (384, 3))
    return builder.join(
        builder.convolve(values, 320, 1),
        builder.convolve(middle, 384, (1, 3)),
        builder.convolve(middle, 384, (3, 1)),
        builder.convolve(deep, 384, (1, 3)),
        builder.convolve(deep, 384, (3, 1)),
        builder.pool_and_project(values, 192),
    )
