"""Names of workloads that follow what they name: the network, and the batch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

SPELLINGS = {
    "alexnet": "AlexNet",
    "googlenet": "GoogLeNet",
    "lenet": "LeNet",
    "resnet50": "ResNet50",
    "resnet101": "ResNet101",
    "resnet152": "ResNet152",
    "vgg16": "VGG16",
    "vgg19": "VGG19",
}
"""How names of networks are written in the names of workloads; others as their parameter is."""
NETWORK = re.compile(r"--(?:model|network|arch)(?:=(.+))?")
BATCH = re.compile(r"--batch[_-]size(?:=(.+))?")


def follow_parameters(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return the name of a workload whose parameters were changed, with what they are now.

    A network stands in it as a word, in any case; a batch behind the word "batch". What the name
    does not have of the parameters before is not added.
    """
    old, new = (_find(parameters, "network", NETWORK) for parameters in (before, after))
    if old and new and old != new:
        name = re.sub(
            rf"(?<![\w-]){re.escape(old)}(?![\w-])",
            lambda match: new if match[0] == old else SPELLINGS.get(new.lower(), new),
            name,
            flags=re.IGNORECASE,
        )
    old, new = (_find(parameters, "batch_size", BATCH) for parameters in (before, after))
    if old and new and old != new:
        name = re.sub(rf"\b(batch (?:of )?){re.escape(old)}\b", rf"\g<1>{new}", name)
    return name


def _find(parameters: Mapping[str, Any], name: str, option: re.Pattern[str]) -> str:
    """Return the value of a parameter, or of the option of a command; "" if there is none."""
    if parameter := parameters.get(name):
        return str(parameter)
    words = [str(word) for word in parameters.get("argv") or []]
    value = ""
    for word, following in zip(words, [*words, ""][1:], strict=True):
        if match := option.fullmatch(word):
            value = match[1] or following
    return value if re.fullmatch(r"[\w.+-]{1,60}", value) else ""
