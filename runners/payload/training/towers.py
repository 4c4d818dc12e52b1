"""Networks that are one sequence of layers: the small default, LeNet's kind, AlexNet to VGG."""

from __future__ import annotations

from typing import Any, List, Tuple, Union


def build_small(keras: Any, shape: Tuple[int, int, int], classes: int) -> Any:
    """Build three blocks of convolution, normalisation and pooling, then one dense layer."""
    layers = keras.layers
    model = keras.Sequential([keras.Input(shape)])
    for filters in (32, 64, 128):
        model.add(layers.Conv2D(filters, 3, padding="same", use_bias=False))
        # Runs are short: the default of 0.99 would evaluate with statistics of the first steps.
        model.add(layers.BatchNormalization(momentum=0.9))
        model.add(layers.ReLU())
        model.add(layers.MaxPooling2D())
    model.add(layers.GlobalAveragePooling2D())
    # The loss is taken in full precision whatever the layers before it use.
    model.add(layers.Dense(classes, dtype="float32"))
    return model


def build_mnist(keras: Any, shape: Tuple[int, int, int], classes: int) -> Any:
    """Build two convolutions and a dense layer: TensorFlow 1's "Deep MNIST for Experts"."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input(shape),
            layers.Conv2D(32, 5, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 5, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(1024, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(classes, dtype="float32"),
        ]
    )


def build_alexnet(keras: Any, shape: Tuple[int, int, int], classes: int) -> Any:
    """Build AlexNet in one tower: Krizhevsky 2014 (arXiv:1404.5997), for one GPU rather than two.

    As in the convnet-benchmarks, without the local response normalisation of 2012.
    """
    model = _start_tower(keras, shape)
    model.add(keras.layers.ZeroPadding2D(2))
    _convolve(keras, model, 64, 11, strides=4, padding="valid")
    model.add(keras.layers.MaxPooling2D(3, 2))
    _convolve(keras, model, 192, 5)
    model.add(keras.layers.MaxPooling2D(3, 2))
    for filters in (384, 256, 256):
        _convolve(keras, model, filters, 3)
    model.add(keras.layers.MaxPooling2D(3, 2))
    return _add_classifier(keras, model, (4096, 4096), classes)


def build_overfeat(keras: Any, shape: Tuple[int, int, int], classes: int) -> Any:
    """Build OverFeat's fast model: Sermanet et al. 2013 (arXiv:1312.6229), table 1."""
    model = _start_tower(keras, shape)
    _convolve(keras, model, 96, 11, strides=4, padding="valid")
    model.add(keras.layers.MaxPooling2D(2))
    _convolve(keras, model, 256, 5, padding="valid")
    model.add(keras.layers.MaxPooling2D(2))
    for filters in (512, 1024, 1024):
        _convolve(keras, model, filters, 3)
    model.add(keras.layers.MaxPooling2D(2))
    return _add_classifier(keras, model, (3072, 4096), classes)


POOL = "pool"
VGG_A: List[Union[int, str]] = [64, POOL, 128, POOL, 256, 256, POOL, 512, 512, POOL, 512, 512, POOL]
VGG_D: List[Union[int, str]] = [
    *(64, 64, POOL, 128, 128, POOL, 256, 256, 256, POOL),
    *(512, 512, 512, POOL, 512, 512, 512, POOL),
]


def build_vgg11(keras: Any, shape: Tuple[int, int, int], classes: int) -> Any:
    """Build configuration A of Simonyan and Zisserman 2014 (arXiv:1409.1556), table 1."""
    return _build_vgg(keras, VGG_A, shape, classes)


def build_vgg16(keras: Any, shape: Tuple[int, int, int], classes: int) -> Any:
    """Build configuration D of Simonyan and Zisserman 2014 (arXiv:1409.1556), table 1."""
    return _build_vgg(keras, VGG_D, shape, classes)


def _build_vgg(
    keras: Any, configuration: List[Union[int, str]], shape: Tuple[int, int, int], classes: int
) -> Any:
    model = _start_tower(keras, shape)
    for filters in configuration:
        if filters == POOL:
            model.add(keras.layers.MaxPooling2D(2))
        else:
            _convolve(keras, model, filters, 3)
    return _add_classifier(keras, model, (4096, 4096), classes)


def _start_tower(keras: Any, shape: Tuple[int, int, int]) -> Any:
    return keras.Sequential([keras.Input(shape)])


def _convolve(
    keras: Any, model: Any, filters: Any, size: int, strides: int = 1, padding: str = "same"
) -> None:
    """Add a convolution with He's initial weights (arXiv:1502.01852): deep networks need them."""
    layer = keras.layers.Conv2D(
        filters, size, strides, padding, activation="relu", kernel_initializer="he_normal"
    )
    model.add(layer)


def _add_classifier(keras: Any, model: Any, widths: Tuple[int, ...], classes: int) -> Any:
    """Add the dense layers with dropout that these networks end with."""
    layers = keras.layers
    model.add(layers.Flatten())
    for width in widths:
        model.add(layers.Dense(width, activation="relu", kernel_initializer="he_normal"))
        model.add(layers.Dropout(0.5))
    model.add(layers.Dense(classes, dtype="float32"))
    return model
