"""Residual networks: He et al. 2015 (arXiv:1512.03385)."""

from __future__ import annotations

from typing import Any, List, Tuple

BLOCKS = (3, 4, 6, 3)  # in each stage; table 1, 50 layers
WIDTH = 64  # of the first stage; each further one has twice the last one's
EXPANSION = 4  # a bottleneck gives so many times the channels that it works in


def build_resnet50(keras: Any, shape: Tuple[int, int, int], classes: int) -> Any:
    """Build 50 layers for ImageNet (table 1): bottlenecks, projections where the shape changes."""
    images = keras.Input(shape)
    values = build_resnet50_features(keras, images)[-1]
    values = keras.layers.GlobalAveragePooling2D()(values)
    return keras.Model(images, keras.layers.Dense(classes, dtype="float32")(values))


def build_resnet50_features(keras: Any, images: Any, width: int = WIDTH) -> List[Any]:
    """Return the outputs of the four stages, at strides 4, 8, 16 and 32 of the images.

    A smaller `width` of the first stage makes a thinner ResNet50.
    """
    values = _convolve(keras, images, width, 7, strides=2)
    values = keras.layers.MaxPooling2D(3, 2, padding="same")(values)
    features = []
    for stage, blocks in enumerate(BLOCKS):
        for block in range(blocks):
            strides = 2 if stage and not block else 1
            values = _add_bottleneck(keras, values, width << stage, strides, project=not block)
        features.append(values)
    return features


def build_resnet56(keras: Any, shape: Tuple[int, int, int], classes: int) -> Any:
    """Build 6n + 2 layers for CIFAR-10, n = 9 (section 4.2), shortcuts without parameters."""
    images = keras.Input(shape)
    values = _convolve(keras, images, 16, 3)
    for stage, width in enumerate((16, 32, 64)):
        for block in range(9):
            values = _add_basic_block(keras, values, width, strides=2 if stage and not block else 1)
    values = keras.layers.GlobalAveragePooling2D()(values)
    return keras.Model(images, keras.layers.Dense(classes, dtype="float32")(values))


def _add_bottleneck(keras: Any, values: Any, width: int, strides: int, project: bool) -> Any:
    shortcut = values
    if project:
        shortcut = _convolve(keras, values, EXPANSION * width, 1, strides, activate=False)
    values = _convolve(keras, values, width, 1, strides)
    values = _convolve(keras, values, width, 3)
    values = _convolve(keras, values, EXPANSION * width, 1, activate=False)
    return keras.layers.ReLU()(keras.layers.Add()([values, shortcut]))


def _add_basic_block(keras: Any, values: Any, width: int, strides: int) -> Any:
    layers, shortcut = keras.layers, values
    missing = width - values.shape[-1]
    if strides > 1:
        shortcut = layers.MaxPooling2D(1, strides)(shortcut)  # every second value, as it is
    if missing:
        # Option A: zeros for the new channels. "Channels first" makes this layer pad the last
        # two axes.
        padding = ((0, 0), (missing // 2, missing - missing // 2))
        shortcut = layers.ZeroPadding2D(padding, data_format="channels_first")(shortcut)
    values = _convolve(keras, values, width, 3, strides)
    values = _convolve(keras, values, width, 3, activate=False)
    return layers.ReLU()(layers.Add()([values, shortcut]))


def _convolve(
    keras: Any, values: Any, filters: int, size: int, strides: int = 1, activate: bool = True
) -> Any:
    """Apply a convolution, normalisation and, by default, the activation."""
    layers = keras.layers
    values = layers.Conv2D(
        filters, size, strides, "same", use_bias=False, kernel_initializer="he_normal"
    )(values)
    # Runs are short: the default of 0.99 would evaluate with statistics of the first steps.
    values = layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(values)
    return layers.ReLU()(values) if activate else values
