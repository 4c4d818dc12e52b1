"""The networks by name, written in Keras layers from the tables of their papers.

A network is a function `(keras, shape, classes) -> keras.Model`; shape is height, width and
channels of an image, and the model returns one logit a class, in float32. The parameter counts of
the papers are in `tests/runners/test_training_networks.py`.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Tuple

from ..frameworks import StartError
from . import residual, towers
from .inception import build_googlenet, build_inception3

Shape = Tuple[int, int, int]  # height, width, channels


class Network(NamedTuple):
    """A network and the images that it takes."""

    make: Callable[[Any, Shape, int], Any]
    size: int  # default height and width of an image
    smallest: int  # height and width that leave something for the last layers
    data: Tuple[str, ...] = ("synthetic", "cifar10", "imagenet")
    channels: int = 3  # of synthetic and made images
    classes: int = 1000  # of synthetic and made images


SMALL_IMAGES = ("synthetic", "made", "mnist", "cifar10")

NETWORKS: Dict[str, Network] = {
    "small": Network(
        towers.build_small, 32, 8, data=(*SMALL_IMAGES, "imagenet"), channels=3, classes=10
    ),
    "mnist": Network(towers.build_mnist, 28, 4, data=SMALL_IMAGES, channels=1, classes=10),
    "alexnet": Network(towers.build_alexnet, 224, 63),
    "googlenet": Network(build_googlenet, 224, 32),
    "overfeat": Network(towers.build_overfeat, 231, 71),
    "vgg11": Network(towers.build_vgg11, 224, 32),
    "vgg16": Network(towers.build_vgg16, 224, 32),
    "resnet50": Network(residual.build_resnet50, 224, 32),
    "resnet56": Network(residual.build_resnet56, 32, 8, data=SMALL_IMAGES, classes=10),
    "inception3": Network(build_inception3, 299, 75),
}

OF_DATA = {"mnist": (1, 10), "cifar10": (3, 10), "imagenet": (3, 1000)}  # channels, classes


def choose_network(parameters: Dict[str, Any]) -> Tuple[Network, Shape, int]:
    """Return the network that the parameters name, the shape of its images, and their classes.

    Raises StartError if the network is not for such data, or not for such small images.
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
