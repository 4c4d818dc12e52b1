"""What comes home of a job's directory: by real transfers, from whatever a program leaves there."""

import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners import directories
from runners.directories import (
    END,
    FETCH_EACH_LIMIT,
    HEAD,
    choose_files,
    copy_file,
    fetch_files,
    fetch_record,
    fetch_records,
    list_files,
)
from runners.errors import Refused, TryAgain
from runners.transports import Completed, Local, Transport
from tests.sending import send_files


@pytest.fixture(params=["local", "ssh"])
def transport(request: pytest.FixtureRequest) -> Transport:
    return Local() if request.param == "local" else request.getfixturevalue("ssh")


def test_a_missing_directory_is_told(transport, tmp_path):
    for fetch in (list_files, fetch_record):
        with pytest.raises(FileNotFoundError):
            fetch(transport, str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError):
        fetch_files(transport, str(tmp_path / "none"), ["a"])


def test_a_directory_travels_there_and_back(transport, tmp_path):
    directory = str(tmp_path / "new dir" / "job")
    files = {
        "job.sh": b"#!/bin/sh\n",
        "runs/0-a/spec.json": b"{}",
        "ü $(x)\n": b"\0\xff" * 100_000,
        "-rf": b"no option",
        " spaces ": b"",
        "a" * 200: b"",
    }
    send_files(transport, directory, files)
    assert (Path(directory) / "job.sh").stat().st_mode & 0o777 == 0o755
    assert (Path(directory) / "runs/0-a/spec.json").stat().st_mode & 0o777 == 0o644
    os.link(f"{directory}/job.sh", f"{directory}/started")
    os.symlink("/etc/passwd", f"{directory}/link")
    os.mkfifo(f"{directory}/fifo")
    fetched = fetch_record(transport, directory)
    assert fetched == {**files, "started": b"#!/bin/sh\n"}
    assert fetched.sizes == {name: len(content) for name, content in fetched.items()}


def test_names_that_are_not_text_travel_too(transport, tmp_path):
    (tmp_path / os.fsdecode(b"caf\xe9")).write_bytes(b"x")
    assert fetch_record(transport, str(tmp_path)) == {"caf\udce9": b"x"}


def test_large_files_stay_and_are_known_by_their_size(transport, tmp_path):
    """A real 9 MB of output comes home whole, a real checkpoint stays."""
    run = tmp_path / "runs" / "0-a"
    run.mkdir(parents=True)
    (run / "output.txt").write_bytes(b"o" * 9_000_000)
    (run / "checkpoint").write_bytes(b"c" * 300_000_000)
    with (run / "holes").open("wb") as file:
        file.truncate(10**12)
    fetched = fetch_record(transport, str(tmp_path))
    assert {name: len(content) for name, content in fetched.items()} == {
        "runs/0-a/output.txt": 9_000_000
    }
    assert fetched.sizes == {
        "runs/0-a/output.txt": 9_000_000,
        "runs/0-a/checkpoint": 300_000_000,
        "runs/0-a/holes": 10**12,
    }


def test_of_output_that_is_too_large_both_ends_come(transport, tmp_path, monkeypatch):
    monkeypatch.setattr(directories, "OUR_FILE_LIMIT", 1000)
    monkeypatch.setattr(directories, "END_LIMIT", 10)
    monkeypatch.setattr(directories, "HEAD_LIMIT", 5)
    run = tmp_path / "runs" / "0-a" / "instance-3"
    run.mkdir(parents=True)
    (run / "output.txt").write_bytes(b"first" + b"x" * 2000 + b"the end...")
    (run / "result.json").write_bytes(b"x" * 2000)
    fetched = fetch_record(transport, str(tmp_path))
    name = "runs/0-a/instance-3/output.txt"
    assert fetched == {name + END: b"the end...", name + HEAD: b"first"}


def test_five_thousand_files_cost_no_record(transport, tmp_path, monkeypatch):
    """Ours come first, whatever the limits leave of the others."""
    monkeypatch.setattr(directories, "LIST_LIMIT", 50_000)
    monkeypatch.setattr(directories, "OTHER_COUNT", 100)
    run = tmp_path / "runs" / "0-a"
    run.mkdir(parents=True)
    for number in range(5_000):
        (run / f"f{number}").write_bytes(b"x")
    (run / "result.json").write_bytes(b"{}")
    (tmp_path / "exit_code").write_bytes(b"0\n")
    fetched = fetch_record(transport, str(tmp_path))
    assert (fetched["exit_code"], fetched["runs/0-a/result.json"]) == (b"0\n", b"{}")
    assert len(fetched) == 102


NAMES = st.sampled_from(
    ["exit_code", "snapshot/cpuinfo", "payload/main.py", "files/data", ".claim", "scheduler-1.out"]
    + [f"runs/0-a/{name}" for name in ("output.txt", "result.json", "ckpt", ".cache/x", "deep/x")]
    + ["runs/0-a/rank-3/output.txt", "runs/0-a/rank-3/model", "runs/0-a/found.csv"]
)


@given(st.dictionaries(NAMES, st.integers(0, 2**40)))
def test_the_budget_is_kept_and_ours_come_before_others(sizes):
    whole, ends = choose_files(sizes, {"found.csv"})
    assert set(whole) | set(ends) <= set(sizes)
    assert not set(whole) & set(ends)
    assert sum(sizes[name] for name in whole) <= directories.FETCH_LIMIT
    small = [name for name in ("exit_code", "runs/0-a/found.csv") if sizes.get(name, 1) == 0]
    assert set(small) <= set(whole)
    assert not {"payload/main.py", "files/data", "runs/0-a/.cache/x"} & set(whole)


def test_what_goes_between_listing_and_fetching_is_left_out(transport, tmp_path):
    (tmp_path / "stays").write_bytes(b"x")
    assert fetch_files(transport, str(tmp_path), ["gone", "stays"]) == {"stays": b"x"}


def test_more_than_one_transfer_holds_is_refused(transport, tmp_path, monkeypatch):
    monkeypatch.setattr(directories, "FETCH_LIMIT", 5000)
    (tmp_path / "grown").write_bytes(b"x" * 20_000)
    with pytest.raises(Refused, match="larger than"):
        fetch_files(transport, str(tmp_path), ["grown"])


def answers(transport, monkeypatch, content):
    def answer(argv, *, stdin, stdout, timeout):
        stdout.write(content)
        return Completed(0, b"", b"")

    monkeypatch.setattr(transport, "run", answer)


def test_a_cut_archive_is_worth_trying_again(transport, tmp_path, monkeypatch):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        member = tarfile.TarInfo("file")
        member.size = 100_000
        tar.addfile(member, io.BytesIO(b"x" * 100_000))
    answers(transport, monkeypatch, archive.getvalue()[:30_000])
    with pytest.raises(TryAgain, match="archive"):
        fetch_files(transport, "/anywhere", ["file"])


@pytest.mark.parametrize("noise", [b"Your quota: 95 %\n", b"\xff\0", b"\0"])
def test_what_a_login_profile_prints_now_and_then_damages_no_record(tmp_path, monkeypatch, noise):
    """A list that begins so is none: what is not known of a job's files ends no job."""
    (tmp_path / "output.txt").touch()
    run = Local.run

    def print_before(self, argv, **options):
        done = run(self, argv, **options)
        return Completed(done.returncode, noise + done.stdout, done.stderr)

    monkeypatch.setattr(Local, "run", print_before)
    with pytest.raises(TryAgain, match="no list of files"):
        list_files(Local(), str(tmp_path))
    with pytest.raises(TryAgain, match="no list of files"):
        fetch_records(Local(), {str(tmp_path): ()})


def test_a_file_in_place_of_a_directory_hides_no_other(transport, tmp_path):
    whole, odd = tmp_path / "whole", tmp_path / "odd"
    whole.mkdir()
    (whole / "exit_code").write_text("0")
    odd.write_text("0")
    records = fetch_records(transport, {str(odd): (), str(whole): ()})
    assert records[str(whole)] == {"exit_code": b"0"}
    with pytest.raises(FileNotFoundError):
        fetch_record(transport, str(odd))


def test_names_in_an_archive_lead_nowhere(transport, monkeypatch):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name in ("../../evil", "/etc/evil", "./good"):
            tar.addfile(tarfile.TarInfo(name))
    answers(transport, monkeypatch, archive.getvalue())
    assert list(fetch_files(transport, "/anywhere", ["good"])) == ["good"]


def sparse(declared: int) -> bytes:
    """A GNU tar of one file that is all holes: 1.5 kB that declare `declared` bytes."""
    member = tarfile.TarInfo("output.txt")
    member.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    header[386:410] = b"%011o\0%011o\0" % (declared, 0)
    header[483:495] = b"%011o\0" % declared
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + b"\0" * 1024


def test_an_archive_of_holes_is_refused(transport, monkeypatch):
    """It would become 6 GiB of memory."""
    answers(transport, monkeypatch, sparse(6 * 2**30))
    with pytest.raises(Refused, match="holes"):
        fetch_files(transport, "/anywhere", ["output.txt"])


class TestCopy:
    """One file, streamed; only a regular one below the directory."""

    def test_a_file_is_copied_with_its_sha256(self, transport, tmp_path):
        name = "it's a\n$(checkpoint)"
        (tmp_path / name).write_bytes(b"c" * 5_000_000)
        target, reported_sizes = io.BytesIO(), []
        digest = copy_file(
            transport, str(tmp_path), name, target, limit=10**9, progress=reported_sizes.append
        )
        assert target.getvalue() == b"c" * 5_000_000
        assert digest == hashlib.sha256(b"c" * 5_000_000).hexdigest()
        assert reported_sizes[-1] == 5_000_000

    def test_no_more_than_the_limit_comes(self, transport, tmp_path):
        (tmp_path / "grown").write_bytes(b"c" * 5_000)
        target = io.BytesIO()
        copy_file(transport, str(tmp_path), "grown", target, limit=100)
        assert target.getvalue() == b"c" * 100

    def test_what_is_gone_or_a_link_is_told(self, transport, tmp_path):
        job = tmp_path / "job"
        job.mkdir()
        (tmp_path / "secret").write_bytes(b"s")
        (job / "file").symlink_to(tmp_path / "secret")
        (job / "folder").symlink_to(tmp_path)
        os.mkfifo(job / "pipe")
        for name, why in (
            *(("none", "no file none"), ("file", "no regular"), ("pipe", "no regular")),
            *(("folder/secret", "no regular"), ("../secret", "no regular")),
        ):
            with pytest.raises(Refused, match=why):
                copy_file(transport, str(job), name, io.BytesIO(), limit=100)
        with pytest.raises(Refused, match=r"directory .* is gone"):
            copy_file(transport, str(tmp_path / "none"), "file", io.BytesIO(), limit=100)


class TestSeveralJobs:
    """What several jobs left, in one transfer; what is odd is left for `fetch_record`."""

    def make_job(self, folder: Path, files: dict[str, bytes]) -> str:
        for name, content in files.items():
            path = folder / os.fsdecode(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return str(folder)

    def test_each_gets_its_own(self, transport, tmp_path):
        jobs = tmp_path / "it's jobs ü"
        files = {"exit_code": b"0\n", "runs/0-a/output.txt": b"\0\xff", "payload/main.py": b"x"}
        first = self.make_job(jobs / "a-1", {**files, "runs/0-a/ 12 name\n": b"odd"})
        second = self.make_job(jobs / "b-1", {**files, "exit_code": b"1\n"})
        (jobs / "b-1/link").symlink_to("/etc/passwd")
        records = fetch_records(transport, {first: (), second: ()})
        for directory in (first, second):
            alone = fetch_record(transport, directory)
            assert records[directory] == alone
            assert records[directory].sizes == alone.sizes
        assert records[first]["exit_code"] != records[second]["exit_code"]

    def test_what_is_missing_large_or_has_many_files_is_left_out(self, transport, tmp_path):
        small = self.make_job(tmp_path / "small-1", {"exit_code": b"0\n"})
        large = {"runs/0-a/output.txt": b"x" * (FETCH_EACH_LIMIT + 1)}
        many = {f"runs/0-a/{'n' * 200}{number}": b"" for number in range(1000)}
        odd = [
            str(tmp_path / "none-1"),
            self.make_job(tmp_path / "large-1", large),
            self.make_job(tmp_path / "many-1", many),
        ]
        (tmp_path / "empty-1").mkdir()
        directories = dict.fromkeys([*odd, str(tmp_path / "empty-1"), small], ())
        assert fetch_records(transport, directories) == {small: {"exit_code": b"0\n"}}

    def test_one_with_more_files_than_can_be_listed_hides_no_earlier_one(
        self, transport, tmp_path, monkeypatch
    ):
        monkeypatch.setattr("runners.directories.LIST_TOGETHER_LIMIT", 4000)
        first, second = (self.make_job(tmp_path / name, {"exit_code": b"0\n"}) for name in "ab")
        many = self.make_job(tmp_path / "c", {f"file-{number}": b"" for number in range(200)})
        records = fetch_records(transport, {first: (), many: (), second: ()})
        assert records == {first: {"exit_code": b"0\n"}}

    def test_what_its_workload_reads_comes_too(self, transport, tmp_path):
        files = {"runs/0-a/times.csv": b"1", "runs/0-a/.hidden": b"2"}
        first = self.make_job(tmp_path / "a-1", files)
        second = self.make_job(tmp_path / "b-1", files)
        records = fetch_records(transport, {first: {".hidden"}, second: ()})
        assert set(records[first]) == {"runs/0-a/times.csv", "runs/0-a/.hidden"}
        assert set(records[second]) == {"runs/0-a/times.csv"}
