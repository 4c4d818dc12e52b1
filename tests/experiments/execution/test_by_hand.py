"""Jobs that people carry to a machine and run there, and the results that they bring back."""

from __future__ import annotations

import hashlib
import io
import json
import signal
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments import execution
from experiments.execution import NotBrought, NothingToCarry, bring_results, lifecycle, write_jobs
from experiments.execution.by_hand_results import Brought
from experiments.models import Cluster, Experiment, Job, Run, StoredRecord
from runners.payload import hash_payload
from tests.conftest import pause_longer, tick_until
from tests.factories import ClusterFactory, ExperimentFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def here(tmp_path: Path, home: Path) -> Cluster:
    """A machine that Tare cannot reach: this one, below a folder that only people write to."""
    return ClusterFactory(
        name="away",
        transport="by_hand",
        work_directory=str(tmp_path / "away"),
        poll_seconds=0,
        max_live_jobs=1,
    )


def hand_out(made: Experiment) -> None:
    """Visit until all planned jobs have been handed out."""
    tick_until(made.cluster, lambda: not made.jobs.filter(state=Job.State.PLANNED).exists(), 20)


def carry(made: Experiment) -> Path:
    """Carry the jobs to the machine; return its start script."""
    hand_out(made)
    work = Path(made.cluster.work_directory)
    work.mkdir(exist_ok=True)
    archive = b"".join(write_jobs(made, made.owner).content)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(work, filter="data")
    return work / f"by-hand/experiment-{made.pk}/run-all.sh"


def run_there(script: Path, *words: str) -> str:
    """Run the start script, and return what it says."""
    done = subprocess.run(
        ["sh", script, *words], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def find_results(made: Experiment) -> Path:
    return Path(made.cluster.work_directory) / f"results-experiment-{made.pk}.tar.gz"


def bring(made: Experiment, content: bytes | None = None, **options: Any) -> Brought:
    """Bring an archive: by default what the start script has packed."""
    packed = find_results(made).read_bytes() if content is None else content
    return bring_results(made, io.BytesIO(packed), made.owner, name="results.tar.gz", **options)


def read_members(packed: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]


def pack(members: dict[str, bytes], *others: tarfile.TarInfo) -> bytes:
    """Return a tar of these files, and of others that may be no files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for other in others:
            tar.addfile(other)
    return packed.getvalue()


def test_the_whole_way(experiment: Callable[..., Experiment]) -> None:
    made = experiment(repeats=2)
    script = carry(made)
    assert {job.state for job in made.jobs.all()} == {"queued"}
    said = run_there(script)
    assert "1 of 2" in said
    assert f"Bring back {find_results(made)}" in said

    brought = bring(made)

    assert (len(brought.entered), brought.refused, brought.left) == (2, [], 0)
    assert {job.state for job in made.jobs.all()} == {"done"}
    runs = list(made.runs.all())
    assert {run.state for run in runs} == {"succeeded"}
    assert all(run.measurements.exists() for run in runs)
    assert all(job.verified_at and job.snapshot for job in made.jobs.all())
    assert all("by-hand" not in job.scheduler_id for job in made.jobs.all())
    event = made.events.get(what="results brought")
    assert event.actor == made.owner
    assert "2 jobs entered; 0 still to come" in event.why


def test_nothing_is_asked_of_the_machine_and_nothing_times_out(
    experiment: Callable[..., Experiment],
) -> None:
    made = experiment()
    hand_out(made)
    for _ in range(3):
        assert execution.tick(made.cluster_id) in ("done", "early")
    made.cluster.refresh_from_db()
    job = made.jobs.get()
    assert (job.state, made.cluster.last_error, made.cluster.last_seen_at) == ("queued", "", None)
    assert not Path(made.cluster.work_directory).exists()


def test_an_archive_that_is_brought_twice_enters_once(
    experiment: Callable[..., Experiment],
) -> None:
    made = experiment()
    run_there(carry(made))
    bring(made)
    numbers = list(made.runs.order_by("pk").values_list("measurements__pk", flat=True))

    again = bring(made)

    assert (len(again.entered), len(again.known), again.refused) == (0, 1, [])
    assert list(made.runs.order_by("pk").values_list("measurements__pk", flat=True)) == numbers


def test_results_come_in_any_order_and_in_parts(experiment: Callable[..., Experiment]) -> None:
    made = experiment(repeats=2)
    run_there(carry(made))
    members = read_members(find_results(made).read_bytes())
    first, second = made.jobs.order_by("block")

    def of(job: Job) -> dict[str, bytes]:
        return {name: each for name, each in members.items() if f"{job.uid}-" in name}

    assert bring(made, pack(of(second))).entered_blocks == "2"
    assert bring(made, pack(dict(reversed(of(first).items())))).entered_blocks == "1"
    assert not made.jobs.exclude(state="done").exists()


def test_what_a_person_stops_goes_on_where_it_was(experiment: Callable[..., Experiment]) -> None:
    made = experiment(repeats=3)
    script = carry(made)
    first, *_ = made.jobs.order_by("block")
    process = subprocess.Popen(["sh", script], stdout=subprocess.PIPE, text=True)
    pauses = pause_longer()
    while not (Path(first.directory) / "started").exists():
        next(pauses)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=120)
    assert "Stopping after the job under way" in said
    statuses = run_there(script, "status").splitlines()
    assert "has ended, exit code 0" in statuses[0]
    assert [line.endswith("has not begun") for line in statuses] == [False, True, True]
    started = (Path(first.directory) / "started").stat().st_mtime_ns

    run_there(script)

    assert (Path(first.directory) / "started").stat().st_mtime_ns == started
    assert bring(made).entered_blocks == "1–3"


def test_a_job_that_fails_stops_none_of_the_others(experiment: Callable[..., Experiment]) -> None:
    made = experiment(python="/nowhere/python", repeats=2)
    run_there(carry(made))
    brought = bring(made)
    assert brought.entered_blocks == "1–2"
    states = made.runs.values_list("environment__name", "state", "reason")
    assert set(states) == {
        ("bare metal", "succeeded", ""),
        ("other", "failed", "program missing"),
    }


def test_of_output_that_is_too_large_both_ends_come(
    experiment: Callable[..., Experiment],
) -> None:
    made = experiment()
    script = carry(made)
    run_there(script)
    job = made.jobs.get()
    run = job.runs.order_by("position")[0]
    output = Path(job.directory) / run.folder / "output.txt"
    with output.open("wb") as file:
        file.write(b"the first line\n")
        file.seek(80 << 20)
        file.write(b"\nthe last line\n")
    with (output.parent / "result.jsonl").open("wb") as file:
        file.truncate(65 << 20)
    run_there(script, "pack")
    names = read_members(find_results(made).read_bytes())
    assert f"jobs/{job.uid}-1/{run.folder}/output.txt" not in names

    brought = bring(made)

    assert (brought.entered_blocks, brought.refused) == ("1", [])
    assert f"Block 1: {run.folder}/output.txt has 80 MiB, too large to come whole." in brought.notes
    run.refresh_from_db()
    assert run.output_tail.endswith("the last line")
    content = StoredRecord.objects.get(run=run).read_output()
    assert content.startswith(b"the first line\n")
    assert content.endswith(b"\nthe last line\n")
    job.refresh_from_db()
    assert job.verified_at is None, "nobody has compared all of it"
    assert not list(script.parent.glob(".ends*"))


def test_what_is_said_to_be_too_large_and_is_not_is_still_missing(
    experiment: Callable[..., Experiment],
) -> None:
    made = experiment()
    run_there(carry(made))
    members = read_members(find_results(made).read_bytes())
    name = next(name for name in members if name.endswith("/output.txt"))
    folder, path = name[: name.index("/runs/")], name[name.index("runs/") :]
    without = {each: content for each, content in members.items() if each != name}
    for size in (b"12", b"9" * 30, b"nan", b"-1", b"\xff"):
        said = {f"{folder}/.left-there": size + b" " + path.encode() + b"\0\0 \0"}
        assert "did not come" in bring(made, pack(without | said)).refused[0].why
    outside = {f"{folder}/.left-there": b"99999999 snapshot/../../../../etc/passwd\0"}
    assert bring(made, pack(members | outside)).entered_blocks == "1"


def test_results_of_another_plan_are_refused(experiment: Callable[..., Experiment]) -> None:
    made = experiment()
    run_there(carry(made))
    members = read_members(find_results(made).read_bytes())
    name = next(name for name in members if name.endswith("identity.json"))
    identity = json.loads(members[name])
    spoiled = {
        "it was run for another plan": json.dumps(identity | {"plan": "0" * 64}).encode(),
        "it was not handed out with this token": json.dumps(identity | {"token": "x"}).encode(),
        "identity.json cannot be read: it has no experiment": b'{"schema": 1}',
        "identity.json cannot be read: it is not JSON": b"\xff\xfe\x00",
        "identity.json cannot be read: it has": b" " * 5000,
    }
    for why, content in spoiled.items():
        brought = bring(made, pack(members | {name: content}))
        assert [why in answer.why for answer in brought.refused] == [True], brought.refused
    without = {each: content for each, content in members.items() if each != name}
    assert "identity.json is missing" in bring(made, pack(without)).refused[0].why
    assert made.jobs.get().state == "queued"
    assert not made.runs.exclude(state="planned").exists()
    assert bring(made).entered_blocks == "1"  # the right one may still come


def test_one_bad_block_is_named_and_the_others_enter(
    experiment: Callable[..., Experiment],
) -> None:
    made = experiment(repeats=4)
    run_there(carry(made))
    members = read_members(find_results(made).read_bytes())
    folders = [f"jobs/{job.uid}-{job.attempt}" for job in made.jobs.order_by("block")]
    link = tarfile.TarInfo(f"{folders[0]}/runs/link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    out = tarfile.TarInfo(f"{folders[1]}/../../../out")
    pipe = tarfile.TarInfo(f"{folders[2]}/pipe")
    pipe.type = tarfile.FIFOTYPE

    brought = bring(made, pack(members, link, out, pipe))

    assert brought.entered_blocks == "4"
    problems = {answer.block: answer.why for answer in brought.refused}
    assert "is a link" in problems[1]
    assert "leads out of the archive" in problems[2]
    assert "is no regular file" in problems[3]

    twice = tarfile.TarInfo(f"{folders[0]}/exit_code")
    lacking, changed = (
        next(name for name in members if name.startswith(folder) and "result.js" in name)
        for folder in folders[1:3]
    )
    spoiled = {name: each for name, each in members.items() if name != lacking}
    spoiled[changed] = spoiled[changed].replace(b"1", b"2", 1)

    brought = bring(made, pack(spoiled, twice))

    assert (brought.entered, [answer.block for answer in brought.known]) == ([], [4])
    problems = {answer.block: answer.why for answer in brought.refused}
    assert "is there twice" in problems[1]
    assert "did not come" in problems[2]
    assert "does not match its check sum" in problems[3]
    assert made.runs.exclude(state="planned").count() == 2
    assert bring(made).entered_blocks == "1–3"


def test_a_job_without_an_end_enters_when_nothing_runs_there_any_more(
    experiment: Callable[..., Experiment],
) -> None:
    made = experiment(repeats=2)
    run_there(carry(made))
    members = read_members(find_results(made).read_bytes())
    job = made.jobs.order_by("block")[0]
    cut = {
        name: each
        for name, each in members.items()
        if not (name.startswith(f"jobs/{job.uid}-1/") and name.endswith(("exit_code", "sums")))
    }
    brought = bring(made, pack(cut))
    assert (brought.entered_blocks, brought.refused[0].block) == ("2", 1)
    assert "has begun and has not ended" in brought.refused[0].why

    assert bring(made, pack(cut), is_final=True).entered_blocks == "1"
    job.refresh_from_db()
    assert (job.state, job.reason, job.collect_at) == ("failed", "lost", None)

    lifecycle.retry(job, made.owner)
    hand_out(made)
    # What was run before is of an earlier attempt now.
    late = bring(made, pack(members))
    assert [answer.why for answer in late.refused] == [
        "it is attempt 1 of a job that has attempt 2 now"
    ]


def test_an_archive_that_is_cut_off_enters_what_came_whole(
    experiment: Callable[..., Experiment],
) -> None:
    made = experiment(repeats=2)
    run_there(carry(made))
    packed = pack(read_members(find_results(made).read_bytes()))
    brought = bring(made, packed[: len(packed) // 2 + 4096])
    assert len(brought.entered) == 1
    assert len(brought.refused) == 1
    assert "cut off" in brought.notes[0]


@pytest.mark.parametrize("packed", [b"", b"\x00" * 20_000, b"no archive at all", b"\x1f\x8b\x08"])
def test_what_is_no_archive_is_said_to_be(
    experiment: Callable[..., Experiment], packed: bytes
) -> None:
    made = experiment()
    hand_out(made)
    brought = bring(made, packed)
    assert brought.entered == []
    assert brought.notes


def test_a_bomb_is_refused(
    experiment: Callable[..., Experiment], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = experiment()
    hand_out(made)
    monkeypatch.setattr("runners.by_hand.archive_streams.MOST_BYTES", 1 << 20)
    with pytest.raises(NotBrought, match="more than 1 MiB"):
        bring(made, pack({"zeros": bytes(2 << 20)}))
    monkeypatch.setattr("runners.by_hand.result_archives.MOST_MEMBERS", 3)
    with pytest.raises(NotBrought, match="more than 3 files"):
        bring(made, pack({f"jobs/x/{number}": b"" for number in range(5)}))


def test_results_of_another_experiment_are_refused_by_name(
    experiment: Callable[..., Experiment], here: Cluster
) -> None:
    made = experiment()
    run_there(carry(made))
    packed = find_results(made).read_bytes()
    other = launch_copy(made)
    hand_out(other)
    brought = bring(other, packed)
    assert brought.refused[0].why == f"it is of another experiment ({made.pk})"


def launch_copy(made: Experiment) -> Experiment:
    """Launch the same design once more."""
    other: Experiment = ExperimentFactory(
        cluster=made.cluster,
        partition=None,
        baseline=made.baseline,
        environments=list(made.environments.all()),
        workloads=list(made.workloads.all()),
        scales=made.scales,
        repeats=made.repeats,
        owner=made.owner,
    )
    lifecycle.launch(other, other.owner)
    return other


def test_a_cancelled_experiment_ends_at_once_and_takes_no_results(
    experiment: Callable[..., Experiment],
) -> None:
    made = experiment()
    run_there(carry(made))
    lifecycle.cancel(made, made.owner)
    tick_until(made.cluster, lambda: not made.jobs.exclude(state__in=Job.FINAL).exists(), 20)
    assert made.jobs.get().state == "cancelled"
    assert made.runs.exclude(state=Run.State.CANCELLED).count() == 0
    assert bring(made).refused[0].why == "it was cancelled in Tare"
    with pytest.raises(NothingToCarry):
        write_jobs(made, made.owner)


def test_an_archive_is_the_same_each_time_it_is_written(
    experiment: Callable[..., Experiment],
) -> None:
    made = experiment(repeats=2)
    hand_out(made)
    first = b"".join(write_jobs(made, made.owner).content)
    assert b"".join(write_jobs(made, made.owner).content) == first


def test_a_job_is_stored_with_what_measured_it_whatever_tare_is_upgraded_to(
    experiment: Callable[..., Experiment],
) -> None:
    made = experiment(repeats=2)
    own = hash_payload()
    made.jobs.update(payload_hash="1" * 64)  # an upgrade after the launch
    hand_out(made)
    assert set(made.jobs.values_list("payload_hash", flat=True)) == {own}
    made.jobs.update(payload_hash="2" * 64)  # and one after they were handed out
    script = carry(made)
    first, second = made.jobs.order_by("block")
    assert {first.payload_hash, second.payload_hash} == {own}
    run_there(script)
    members = read_members(find_results(made).read_bytes())
    name = f"jobs/{first.uid}-1/payload-hash"
    assert members[name].decode().strip() == own
    made.jobs.update(payload_hash="3" * 64)  # the archive was written again, by another Tare
    for content in (b"\xff\x00\n", own.encode() * 3, b"0" * 64):
        (refused,) = bring(made, pack(members | {name: content})).refused
        assert "payload-hash does not match its check sum" in refused.why
    sums = f"jobs/{first.uid}-1/sha256sums"
    for content in (b"\xff\x00\n", own.encode() * 3):  # and with a check sum that is right
        before, after = (hashlib.sha256(text).hexdigest() for text in (members[name], content))
        forged = members[sums].replace(before.encode(), after.encode())
        assert forged != members[sums]
        (refused,) = bring(made, pack(members | {name: content, sums: forged})).refused
        assert "payload-hash cannot be read: it is no sha256" in refused.why
    first.refresh_from_db()
    assert (first.state, first.payload_hash) == ("queued", "3" * 64)
    assert bring(made, pack(members)).entered_blocks == "1"
    assert set(made.jobs.values_list("payload_hash", flat=True)) == {own}
