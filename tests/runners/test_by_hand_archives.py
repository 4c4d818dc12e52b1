"""Archives that people carry: what is written for a machine, and what of the other is unpacked."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.by_hand import BEGINS, CarriedRunner, Identity, read_identity, stream_archive
from runners.by_hand.archive_streams import MOST_HEADER
from runners.by_hand.job_archives import render_start_script
from runners.by_hand.result_archives import Unpacked, unpack_results
from runners.errors import Refused, TryAgain
from runners.jobs import EnvironmentSpec, JobSpec, Resources, RunSpec, Step
from runners.schedulers import SCHEDULERS
from runners.transports import ByHand
from runners.untrusted import Damaged

SHELLCHECK = Path(sys.executable).with_name("shellcheck")
OWN = Identity(7, "a" * 64, 1, "b" * 32, 1, f"{BEGINS}{'c' * 32}")


def unpack(packed: bytes, folder: Path) -> Unpacked:
    return unpack_results(io.BytesIO(packed), folder)


def pack(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member, content in members:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def file(name: str, content: bytes = b"x") -> tuple[tarfile.TarInfo, bytes]:
    return tarfile.TarInfo(name), content


@pytest.mark.parametrize("kind", SCHEDULERS)
def test_the_start_script_passes_shellcheck(kind: str, tmp_path: Path) -> None:
    script = tmp_path / "run-all.sh"
    script.write_text(render_start_script("experiment-7", "/a b/it's", SCHEDULERS[kind]()))
    subprocess.run([SHELLCHECK, script], check=True)
    subprocess.run(["sh", "-n", script], check=True)


def test_the_start_script_runs_where_its_jobs_belong_and_nowhere_else(tmp_path: Path) -> None:
    script = tmp_path / "run-all.sh"
    script.write_text(render_start_script("experiment-7", "/srv/tare", SCHEDULERS["direct"]()))
    done = subprocess.run(["sh", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Unpack the archive in /srv/tare" in done.stderr


def test_jobs_are_written_one_at_a_time() -> None:
    asked = []

    def list_jobs() -> Iterator[tuple[str, dict[str, bytes]]]:
        for number in range(100):
            asked.append(number)
            yield f"job-{number}", {"job.sh": os.urandom(20_000)}

    chunks = stream_archive(
        "experiment-7", "/srv", SCHEDULERS["direct"](), list_jobs(), folders=["job-0"], at=0
    )
    next(chunks)
    assert asked == [0]
    sizes = [len(chunk) for chunk in chunks]
    assert asked == list(range(100))
    assert max(sizes) < 200_000


# In place of Slurm's: it takes no second job, and writes down what it was asked for.
SBATCH = """#!/bin/sh
echo "$@" >>"$0.asked"
case $2 in *second*) echo "sbatch: error: invalid partition" >&2; exit 1 ;; esac
echo "sbatch: warning of the site" >&2
echo 4711
"""


def test_what_was_submitted_is_not_submitted_again(tmp_path: Path) -> None:
    work = tmp_path / "a place"
    names = ["first-1", "second-1", "third-1"]
    jobs = ((name, {"job.sh": b"exit"}) for name in names)
    archive = stream_archive(
        "experiment-7", str(work), SCHEDULERS["slurm"](), jobs, folders=names, at=0
    )
    with tarfile.open(fileobj=io.BytesIO(b"".join(archive))) as tar:
        tar.extractall(work, filter="data")
    sbatch = tmp_path / "sbatch"
    sbatch.write_text(SBATCH)
    sbatch.chmod(0o755)
    variables = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["sh", work / "by-hand/experiment-7/run-all.sh"]

    said = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    assert "invalid partition" in said.stderr
    assert [line.partition("-1 ")[2] for line in _run(command, "status").splitlines()] == [
        "was submitted: sbatch: warning of the site 4711",
        "has not begun",
        "was submitted: sbatch: warning of the site 4711",
    ]
    subprocess.run(command, env=variables, capture_output=True, check=True)
    asked = (tmp_path / "sbatch.asked").read_text().splitlines()
    scripts = [f"--parsable {work}/jobs/{name}/job.sh" for name in names]
    assert asked == [*scripts, scripts[1]]
    assert (work / "jobs/first-1/payload/main.py").exists()


def _run(command: list[str | Path], word: str) -> str:
    return subprocess.run([*command, word], capture_output=True, text=True, check=True).stdout


def test_an_identity_is_read_as_it_was_written() -> None:
    assert read_identity(OWN.render()) == OWN


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{}", b"[]", b"\xff", b"NaN", b" " * 5000, OWN.render()[:-5]),
        OWN.render().replace(b'"attempt": 1', b'"attempt": 1e9'),
        OWN.render().replace(b"bbb", b"../"),
        OWN.render().replace(b'"schema": 1', b'"schema": 2'),
    ],
)
def test_what_is_no_identity_is_damaged(content: bytes) -> None:
    with pytest.raises(Damaged):
        read_identity(content)


@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress])
def test_files_come_out_as_they_went_in(tmp_path: Path, compress: type[bytes]) -> None:
    packed = compress(
        pack(file("./jobs/a-1/exit_code", b"0\n"), file("top/jobs/b-1/runs/0-x/f", b"1"))
    )
    unpacked = unpack(packed, tmp_path)
    assert {name: job.problem for name, job in unpacked.jobs.items()} == {"a-1": "", "b-1": ""}
    assert (tmp_path / "jobs/a-1/exit_code").read_bytes() == b"0\n"
    assert (tmp_path / "jobs/b-1/runs/0-x/f").read_bytes() == b"1"
    assert (unpacked.notes, unpacked.damage) == ([], "")


def test_a_name_that_is_no_utf_8_keeps_its_bytes(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
        tar.addfile(tarfile.TarInfo("jobs/a-1/caf\udce9"))
    assert unpack(packed.getvalue(), tmp_path).jobs["a-1"].problem == ""
    assert os.listdir(os.fsencode(tmp_path / "jobs/a-1")) == [b"caf\xe9"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("jobs/a-1/../../../out", "leads out"),
        ("/jobs/a-1/x", "leads out"),
        ("jobs/a-1/" + "n" * 300, "is no name of a file here"),
        ("jobs/a-1/kept/below", "is no name of a file here"),
        ("jobs/a-1/kept", "is there twice"),
    ],
)
def test_a_bad_name_is_said_of_its_job_alone(tmp_path: Path, name: str, why: str) -> None:
    folder = tmp_path / "in" / "side"
    folder.mkdir(parents=True)
    packed = pack(file("jobs/a-1/kept"), file(name), file("jobs/b-1/fine"))
    jobs = unpack(packed, folder).jobs
    assert why in jobs["a-1"].problem
    assert jobs["b-1"].problem == ""
    assert {path.name for path in tmp_path.iterdir()} == {"in"}
    assert {path.name for path in folder.parent.iterdir()} == {"side"}


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE]
)
def test_what_is_no_regular_file_is_said_of_its_job_alone(tmp_path: Path, kind: bytes) -> None:
    odd = tarfile.TarInfo("jobs/a-1/odd")
    odd.type, odd.linkname = kind, "/etc/passwd"
    jobs = unpack(pack((odd, b""), file("jobs/b-1/fine")), tmp_path).jobs
    assert jobs["a-1"].problem
    assert jobs["b-1"].problem == ""
    assert not (tmp_path / "jobs/a-1").exists()


def test_too_much_of_one_job_is_said_of_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runners.by_hand.result_archives.MOST_FILES_EACH", 2)
    monkeypatch.setattr("runners.by_hand.result_archives.MOST_BYTES_EACH", 1000)
    many = [file(f"jobs/a-1/{number}") for number in range(3)]
    packed = pack(*many, file("jobs/b-1/large", bytes(2000)), file("jobs/c-1/fine"))
    jobs = unpack(packed, tmp_path).jobs
    assert "more than 2 files" in jobs["a-1"].problem
    assert "MiB" in jobs["b-1"].problem
    assert jobs["c-1"].problem == ""


def test_a_header_larger_than_any_name_is_refused(tmp_path: Path) -> None:
    long = tarfile.TarInfo("jobs/a-1/x")
    long.pax_headers = {"comment": "c" * (2 * MOST_HEADER)}
    with pytest.raises(Refused, match="larger than any name"):
        unpack(pack((long, b"")), tmp_path)


@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress])
def test_an_archive_that_is_cut_off_says_so_wherever_it_was(
    tmp_path: Path, compress: type[bytes]
) -> None:
    plain = pack(*(file(f"jobs/a-1/{n}", os.urandom(3000)) for n in range(5)))
    whole = compress(plain)
    # What fills up a tar after its end may be missing.
    end = 5 * (512 + 3072) + 1024 if compress is bytes else len(whole) - 1
    for part in sorted({*range(0, end, 1777), *range(0, end, 512)}):
        folder = tmp_path / str(part)
        folder.mkdir()
        assert unpack(whole[:part], folder).damage


def test_a_gzip_that_was_changed_says_so(tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(pack(file("jobs/a-1/x", os.urandom(3000)))))
    whole[-6] ^= 1  # its check sum
    assert "damaged" in unpack(bytes(whole), tmp_path).damage


def test_no_connection_says_so_whatever_is_asked() -> None:
    with pytest.raises(TryAgain, match="Tare has no connection"):
        ByHand().run(["true"])


def test_jobs_get_tokens_and_operations_are_refused() -> None:
    runner = CarriedRunner(SCHEDULERS["direct"]())
    resources = Resources(time_limit_seconds=60)
    environment = EnvironmentSpec("bare metal", "bare_metal")
    runs = (RunSpec("r0", 0, "blas", {}, environment),)
    jobs = [JobSpec(f"{n}", f"tare-{n}-1", f"/w/jobs/{n}-1", runs, resources) for n in range(2)]
    steps = (Step("y", ("z",)),)
    operation = JobSpec("x", "tare-x-1", "/w/chores/x-1", (), resources, steps=steps)
    first, second, refused = runner.submit_all([*jobs, operation])
    assert isinstance(refused, Refused)
    assert isinstance(first, str)
    assert isinstance(second, str)
    assert first != second
    assert set(runner.poll([first, second])) == {first, second}
    runner.cancel([first])
    assert set(runner.poll([first, second])) == {second}
