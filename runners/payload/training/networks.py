"""The networks of the seeds, by name: written from the tables of their papers, in Keras layers.

A network is a function `(keras, shape, classes) -> keras.Model`; shape is height, width and
channels of an image, and the model gives one logit a class, in float32. What each paper counts
is in `tests/runners/test_training_networks.py`.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Tuple

from ..frameworks import StartError
from . import residual, towers
from .inception import googlenet, inception3

Shape = Tuple[int, int, int]  # height, width, channels


class Network(NamedTuple):
    make: Callable[[Any, Shape, int], Any]
    size: int  # of an image, height and width alike, unless another is asked for
    smallest: int  # size that leaves something for the last layers
    data: Tuple[str, ...] = ("synthetic", "cifar10", "imagenet")
    channels: int = 3  # of synthetic images
    classes: int = 1000  # of synthetic images


SMALL_IMAGES = ("synthetic", "mnist", "cifar10")

NETWORKS: Dict[str, Network] = {
    "small": Network(towers.small, 32, 8, data=(*SMALL_IMAGES, "imagenet"), channels=3, classes=10),
    "mnist": Network(towers.mnist, 28, 4, data=SMALL_IMAGES, channels=1, classes=10),
    "alexnet": Network(towers.alexnet, 224, 63),
    "googlenet": Network(googlenet, 224, 32),
    "overfeat": Network(towers.overfeat, 231, 71),
    "vgg11": Network(towers.vgg11, 224, 32),
    "vgg16": Network(towers.vgg16, 224, 32),
    "resnet50": Network(residual.resnet50, 224, 32),
    "resnet56": Network(residual.resnet56, 32, 8, data=SMALL_IMAGES, classes=10),
    "inception3": Network(inception3, 299, 75),
}

OF_DATA = {"mnist": (1, 10), "cifar10": (3, 10), "imagenet": (3, 1000)}  # channels, classes


def chosen(parameters: Dict[str, Any]) -> Tuple[Network, Shape, int]:
    """The network that is asked for, the shape of its images and how many classes they have.

    Raises StartError where the network cannot do with such data or images so small.
    """
    name, data = parameters.get("network", "small"), parameters.get("data", "synthetic")
    network = NETWORKS[name]
    if data not in network.data:
        raise StartError(
            f"network={name} is not for data={data}; it takes {', '.join(network.data)}"
        )
    size = parameters.get("image_size", 0) or network.size
    if size < network.smallest:
        raise StartError(
            f"image_size={size} is too small for network={name}: the smallest that works is "
            f"{network.smallest}, its own is {network.size}"
        )
    channels, classes = OF_DATA.get(data, (network.channels, network.classes))
    return network, (size, size, channels), classes
