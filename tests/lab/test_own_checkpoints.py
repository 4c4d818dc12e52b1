"""Programs of one's own over several jobs on Slurm, on bare metal and in Apptainer: one that stops
when it gets the signal, and one that never listens and is killed at its time limit.
"""

from __future__ import annotations

import pytest
from webtest import Upload

from experiments.execution.segment_facts import CONTINUED
from experiments.models import Cluster, Measurement, Series, Workload
from tests.lab.by_forms import Person, choose_numpy, launch_experiment, wait_for_runs
from tests.lab.test_presets import researcher

__all__ = ["researcher"]

pytestmark = [
    pytest.mark.lab,
    pytest.mark.thorough,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(1800),
]

STEPS, LIMIT = 60, 20
TRAINING = b"""
import json, os, signal, sys, time
from tare import Recorder

steps, listens, path = 60, sys.argv[2] == "listens", sys.argv[1] + "/last.json"
recorder, done = Recorder(), 0
if os.path.exists(path):
    state = json.load(open(path))
    done = state["done"]
    recorder.restore(state["recorder"])
stops = []
signal.signal(signal.SIGUSR1, lambda *_: stops.append(1))


def save():
    with open(path + ".new", "w") as file:
        json.dump({"done": done, "recorder": recorder.export()}, file)
    os.replace(path + ".new", path)


for step in recorder.steps(range(done, steps), burn_in=2):
    time.sleep(0.5)
    recorder.step(loss=1.0 / (1 + step))
    done = step + 1
    if listens and stops:
        save()
        sys.exit(75)
    if not listens and done % 5 == 0:
        save()
recorder.write()
"""


def add_workload(person: Person, how: str) -> Workload:
    page = person.get("workload_new", kind="command")
    person.send(
        page,
        "?kind=command",
        name=how,
        argv="{python} train.py {checkpoints} " + how,
        time_limit_seconds=str(LIMIT),
        segments="6",
        notice_signal="USR1",
        notice_seconds="6",
        uploads=[Upload("train.py", TRAINING)],
    )
    return Workload.objects.get(name=how)


def test_programs_of_ones_own_go_on_in_further_jobs(
    researcher: Person, registered: Cluster
) -> None:
    workloads = [add_workload(researcher, how) for how in ("listens", "ignores")]
    made = launch_experiment(
        researcher,
        registered,
        "What does a container cost a program over several jobs?",
        workloads=workloads,
        environments=choose_numpy(registered),
        repeats=1,
    )
    wait_for_runs(registered, seconds=1200)
    for run in made.runs.select_related("workload"):
        segments = list(run.segments.order_by("number"))
        assert len(segments) > 1, "the time limit is shorter than the program"
        listens = run.workload.name == "listens"
        ends = {segment.reason for segment in segments[:-1]}
        assert ends == ({CONTINUED} if listens else {"time limit reached"})
        series = {row.metric: row.values for row in Series.objects.filter(run=run)}
        assert series["loss"] == pytest.approx([1 / (1 + step) for step in range(STEPS)])
        resumed = len(series["resumed_step_time"])
        assert resumed == 2 * (len(segments) - 1), "a warm-up after each resume"
        assert len(series["step_time"]) + resumed == STEPS
        values = dict(Measurement.objects.filter(run=run).values_list("metric", "value"))
        counted = sum(segment.get_number("training_seconds") or 0 for segment in segments)
        assert values["wall_time"] == pytest.approx(counted, abs=0.5)
        assert values["wall_time"] > STEPS * 0.5
        assert ("run_time" in values) == listens, "of killed jobs a part was for nothing"
        page = researcher.get("run", run.uid)
        assert "Segments" in page.text
