"""ResNet50 made fully convolutional, as in seed 000: it predicts a class for every pixel.

The features of the body at strides 8, 16 and 32 become one score a class (by a convolution of
1 x 1), are enlarged to the size of the image by linear interpolation, and added up. With tiles of
256 x 256 these are the seed's maps of 32 x 32, 16 x 16 and 8 x 8.
"""

from __future__ import annotations

from typing import Any

from .residual import build_resnet50_features

STRIDES = (8, 16, 32)


def build_resnet50_fcn(keras: Any, side: int, classes: int, width: int = 64) -> Any:
    """Return a model from bytes [side, side, 3] to scores (logits, float32) [side, side, classes].

    `width` is that of the body's first stage: 64 is ResNet50.
    """
    layers = keras.layers
    tiles = keras.Input((side, side, 3), dtype="uint8")
    pixels = layers.Rescaling(1 / 127.5, -1)(tiles)  # on the device: bytes travel faster
    scores = []
    for stride, features in zip(STRIDES, build_resnet50_features(keras, pixels, width)[1:]):
        labels = layers.Conv2D(classes, 1, dtype="float32", name=f"labels_{stride}")(features)
        enlarge = layers.UpSampling2D(stride, interpolation="bilinear", dtype="float32")
        scores.append(enlarge(labels))
    return keras.Model(tiles, layers.Add(dtype="float32")(scores))
