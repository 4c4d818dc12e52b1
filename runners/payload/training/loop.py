"""The loop of every training: steps or epochs, and evaluations at no step's expense."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from ..recorder import STEP_TIME, Recorder, ResultError

IN_STEPS = ("first step", "burn-in", "steady state")  # phases that are training


class Schedule(NamedTuple):
    """How long to train, all of it in steps."""

    steps: int
    burn_in: int
    evaluate_every: int = 0  # 0: after the last step alone
    epoch: int = 0  # steps of one epoch; 0: epochs are not told apart


def schedule(parameters: Dict[str, Any], images: int, job_batch: int) -> Schedule:
    """By steps, or by epochs of `images` images (0: an epoch is as long as `steps` says).

    What is left of an epoch and fills no batch is left out.
    """
    steps, burn_in = parameters["steps"], parameters["burn_in"]
    every, epochs = parameters.get("evaluate_every", 0), parameters.get("epochs", 0)
    if not epochs:
        return Schedule(steps, burn_in, every)
    epoch = images // job_batch if images else steps
    if not epoch:
        raise ResultError(f"a batch of {job_batch} is more than the {images} images of an epoch")
    if burn_in >= epochs * epoch:
        raise ResultError(
            f"a burn-in of {burn_in} steps leaves none of the {epochs * epoch} steps of "
            f"{epochs} epochs; choose a shorter one"
        )
    return Schedule(epochs * epoch, burn_in, every * epoch, epoch)


def train(
    step: Callable[[], Any],
    steps: int,
    burn_in: int,
    recorder: Recorder,
    after: Callable[[int], None] = lambda done: None,
) -> float:
    """Run and record the steps; the loss of the last one. A step ends when its loss is here.

    `step` takes its batch and gives its loss. `after` is called between steps with the number
    of those that are done.
    """
    loss = math.nan
    recorder.series("loss", "1")
    for number in recorder.steps(steps, burn_in):
        loss = float(step())
        recorder.step(loss=loss)
        if not math.isfinite(loss):
            raise ResultError(f"loss is not finite at step {number}")
        after(number + 1)
    return loss


def report(
    recorder: Recorder, loss: float, job_batch: int, unit: str = "images", rate: str = ""
) -> None:
    """The numbers of a whole training, from the recorder's own."""
    recorder.metric("loss", loss, "1")
    per_second = job_batch / recorder.mean(STEP_TIME)
    recorder.metric(rate or f"{unit}_per_second", per_second, f"{unit}/s")
    phases = recorder.phases()
    seconds = math.fsum(phases.get(name, 0.0) for name in IN_STEPS)
    recorder.metric("training_time", seconds, "s")


class Epochs:
    """The time of every epoch, which is that of its steps together."""

    def __init__(self, planned: Schedule, recorder: Recorder) -> None:
        self._steps, self._recorder, self._before = planned.epoch, recorder, 0.0
        self._times: List[float] = []
        if self._steps:
            recorder.series("epoch_time", "s")

    def after(self, done: int) -> None:
        if not self._steps or done % self._steps:
            return
        trained = self._recorder.time_in_steps()
        self._times.append(trained - self._before)
        self._before = trained
        self._recorder.add(epoch_time=self._times[-1])
        mean = math.fsum(self._times) / len(self._times)
        self._recorder.metric("epoch_time", mean, "s")


class Accuracy:
    """Evaluates the model every so many steps, and in any case after the last one."""

    def __init__(
        self,
        measure: Callable[[], Dict[str, float]],
        planned: Schedule,
        target: float,
        recorder: Recorder,
    ) -> None:
        """`measure` gives the model's "accuracy" as it is, from 0 to 1, and others beside it."""
        self._measure, self._recorder = measure, recorder
        self._steps, self._every = planned.steps, planned.evaluate_every
        self._target: Optional[float] = target or None
        recorder.series("accuracy", "1")
        recorder.series("accuracy_step", "steps")
        recorder.series("accuracy_time", "s")

    def after(self, done: int) -> None:
        """Evaluate, if it is time to. Only the seconds of the steps count as time of training."""
        if done != self._steps and (not self._every or done % self._every):
            return
        recorder = self._recorder
        with recorder.aside("evaluation"):
            found, trained = self._measure(), recorder.time_in_steps()
        accuracy = found["accuracy"]
        recorder.add(accuracy=accuracy, accuracy_step=done, accuracy_time=trained)
        for name, value in found.items():
            recorder.metric(name, value, "1")
        if self._target is not None and accuracy >= self._target:
            recorder.metric("time_to_accuracy", trained, "s")
            self._target = None


def shares_right(outputs: Any, labels: Any) -> Dict[str, int]:
    """How many of the labels [count] are the first, and among the first five, by the outputs.

    `outputs` is a numpy array [count, classes]; of equal outputs the lower class comes first.
    """
    best = (-outputs).argsort(axis=1, kind="stable")[:, :5]
    hits = best == labels.reshape(-1, 1)
    return {"accuracy": int(hits[:, 0].sum()), "top_5_accuracy": int(hits.any(axis=1).sum())}
