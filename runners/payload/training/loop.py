"""The loop of every training: steps or epochs, with evaluations whose time counts for no step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional

from ..recorder import STEP_TIME, Recorder, ResultError

if TYPE_CHECKING:
    from ..resumed import ResumableRecorder

IN_STEPS = (
    "first step",
    "burn-in",
    "warm-up after resume",
    "steady state",
)  # phases that are training


class Schedule(NamedTuple):
    """The length of a training and of its parts, all in steps."""

    steps: int
    warm_up_steps: int
    evaluate_every: int = 0  # 0: after the last step alone
    epoch: int = 0  # steps of one epoch; 0: epochs are not told apart


def plan_training(parameters: Dict[str, Any], images: int, job_batch: int) -> Schedule:
    """Return the plan of a training by steps, or by epochs of `images` images.

    With 0 images an epoch has as many steps as the parameter `steps` says. The last images of an
    epoch are left out if they fill no batch.
    """
    steps, warm_up_steps = parameters["steps"], parameters["burn_in"]
    every, epochs = parameters.get("evaluate_every", 0), parameters.get("epochs", 0)
    if not epochs:
        return Schedule(steps, warm_up_steps, every)
    epoch = images // job_batch if images else steps
    if not epoch:
        raise ResultError(f"a batch of {job_batch} is more than the {images} images of an epoch")
    if warm_up_steps >= epochs * epoch:
        raise ResultError(
            f"a warm-up of {warm_up_steps} steps leaves none of the {epochs * epoch} steps of "
            f"{epochs} epochs; choose a shorter one"
        )
    return Schedule(epochs * epoch, warm_up_steps, every * epoch, epoch)


def train(
    step: Callable[[], Any],
    steps: int,
    warm_up_steps: int,
    recorder: Recorder,
    after_step: Callable[[int], None] = lambda done: None,
    first: int = 0,
) -> float:
    """Run and record the steps; return the last one's loss. A step ends when its loss is known.

    `step` takes its own batch and returns its loss. `after_step` is called between steps with
    the number of steps done. `first` is how many were done before, in another process.
    """
    loss = math.nan
    recorder.series("loss", "1")
    for number in recorder.steps(range(first, steps), warm_up_steps):
        loss = float(step())
        recorder.step(loss=loss)
        if not math.isfinite(loss):
            raise ResultError(f"loss is not finite at step {number}")
        after_step(number + 1)
    return loss


def report(
    recorder: Recorder, loss: float, job_batch: int, unit: str = "images", rate: str = ""
) -> None:
    """Record the metrics of a whole training, from the steps that were recorded."""
    recorder.metric("loss", loss, "1")
    per_second = job_batch / recorder.mean(STEP_TIME)
    recorder.metric(rate or f"{unit}_per_second", per_second, f"{unit}/s")
    phases = recorder.phases()
    seconds = math.fsum(phases.get(name, 0.0) for name in IN_STEPS)
    recorder.metric("training_time", seconds, "s")


class Epochs:
    """The times of the epochs, each the sum of its steps' times."""

    def __init__(self, planned: Schedule, recorder: Recorder) -> None:
        self._steps, self._recorder, self._before = planned.epoch, recorder, 0.0
        self._times: List[float] = []
        if self._steps:
            recorder.series("epoch_time", "s")

    def go_on(self, recorder: ResumableRecorder) -> None:
        """Take up the epochs that the recorder has restored."""
        self._times = recorder.list_values("epoch_time") if self._steps else []
        self._before = math.fsum(self._times)

    def record_epoch(self, done: int) -> None:
        """Record an epoch's time after its last step."""
        if not self._steps or done % self._steps:
            return
        trained = self._recorder.time_in_steps()
        self._times.append(trained - self._before)
        self._before = trained
        self._recorder.add(epoch_time=self._times[-1])
        mean = math.fsum(self._times) / len(self._times)
        self._recorder.metric("epoch_time", mean, "s")


class Accuracy:
    """The evaluations of a model: every so many steps, and always after the last one."""

    def __init__(
        self,
        measure: Callable[[], Dict[str, float]],
        planned: Schedule,
        target: float,
        recorder: Recorder,
    ) -> None:
        """`measure` returns the model's present "accuracy", from 0 to 1, and other metrics."""
        self._measure, self._recorder = measure, recorder
        self._steps, self._every = planned.steps, planned.evaluate_every
        self._target: Optional[float] = target or None
        recorder.series("accuracy", "1")
        recorder.series("accuracy_step", "steps")
        recorder.series("accuracy_time", "s")

    def go_on(self, recorder: ResumableRecorder) -> None:
        """Take up the evaluations that the recorder has restored."""
        if recorder.has_metric("time_to_accuracy"):
            self._target = None

    def evaluate_if_due(self, done: int) -> None:
        """Evaluate if it is time to. Only the time of the steps counts as time of training."""
        if done != self._steps and (not self._every or done % self._every):
            return
        recorder = self._recorder
        with recorder.aside("evaluation"):
            metrics, trained = self._measure(), recorder.time_in_steps()
        accuracy = metrics["accuracy"]
        recorder.add(accuracy_step=done, accuracy_time=trained, **metrics)
        for name, value in metrics.items():
            recorder.metric(name, value, "1")
        if self._target is not None and accuracy >= self._target:
            recorder.metric("time_to_accuracy", trained, "s")
            self._target = None


def count_correct(outputs: Any, labels: Any) -> Dict[str, int]:
    """Return for how many images the label has the largest output, or one of the five largest.

    `outputs` is a numpy array [images, classes], `labels` one of [images]. Of equal outputs the
    lower class comes first.
    """
    best = (-outputs).argsort(axis=1, kind="stable")[:, :5]
    hits = best == labels.reshape(-1, 1)
    return {"accuracy": int(hits[:, 0].sum()), "top_5_accuracy": int(hits.any(axis=1).sum())}
