"""Run as a program, a process of its own: every network's parameters, and a step of some on JAX.

Leaves one JSON object in the file named: network -> [parameters that are trained, loss of a step].
Most are only put together, layer by layer at their own size: the loss is null.
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path

# Compiled fast rather than well: nothing is measured here.
os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0"

import numpy

from runners.payload.place import RunProcess
from runners.payload.training import cnn
from runners.payload.training.backends import open_backend
from runners.payload.training.networks import NETWORKS
from runners.payload.training.synthetic import Synthetic

TRAINED = ("small", "mnist", "resnet56")


def main(path: str) -> None:
    parameters = {"framework": "jax", "batch_size": 2, "threads": 1, "seed": 1}
    parameters |= {"deterministic": False, "learning_rate": 0.01}
    backend = open_backend(parameters, RunProcess("."))
    keras, results = backend.keras, {}
    # JAX compiles a program for every shape that is drawn at random: most of the time, for nothing.
    for initializer in (keras.initializers.HeNormal, keras.initializers.GlorotUniform):
        initializer.__call__ = lambda self, shape, dtype=None: numpy.full(shape, 0.01, "float32")
    for name, network in NETWORKS.items():
        shape = (network.size, network.size, network.channels)
        model = network.make(keras, shape, network.classes)
        count = sum(math.prod(weight.shape) for weight in model.trainable_weights)
        loss = None
        if name in TRAINED:
            optimizer = cnn.make_optimizer(keras, parameters)
            step = backend.compile(model, cnn.make_loss(keras), optimizer)
            loss = float(step(next(Synthetic(backend, shape, network.classes, 1).feed_batches())))
        results[name] = [count, loss]
    Path(path).write_text(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1])
