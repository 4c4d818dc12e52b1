"""Training with Keras 3 on TensorFlow, JAX or PyTorch; the same networks and steps on each."""

from __future__ import annotations
