"""What every transport promises, on this machine and over a real SSH connection."""

import hashlib
import io
import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runners.errors import NotNow, Refused, TryAgain
from runners.transports import Completed, Local, Transport
from runners.transports import base as transports_base

text = st.text(st.characters(codec="utf-8", exclude_characters="\0"))


@pytest.fixture(params=["local", "ssh"])
def transport(request: pytest.FixtureRequest) -> Transport:
    return Local() if request.param == "local" else request.getfixturevalue("ssh")


def running(token: str) -> bool:
    """Whether a process other than this one has the token in its command line."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if token.encode() in (entry / "cmdline").read_bytes():
                    return True
            except OSError:
                continue
    return False


def test_a_command_gives_its_output_and_code(transport):
    done = transport.run(["sh", "-c", "echo out; echo err >&2; exit 7"])
    assert done == Completed(7, b"out\n", b"err\n")


def test_an_unknown_program_is_code_127(transport):
    done = transport.run(["no-such-program-here"])
    assert done.returncode == 127
    assert b"no-such-program-here" in done.stderr


@given(arguments=st.lists(text, max_size=5))
@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_nothing_typed_reaches_a_shell_unquoted(transport, arguments):
    done = transport.run(["sh", "-c", 'printf "%s\\0" "$@"', "sh", *arguments, "end"])
    assert done.stdout.decode().split("\0")[:-1] == [*arguments, "end"]


@pytest.mark.parametrize("argument", ["$(touch x)", "`id`", "a\nb", 'it\'s "so"', "Größe 3×", "!"])
def test_typed_text_arrives_as_typed(transport, argument):
    assert transport.run(["printf", "%s", argument]).stdout.decode() == argument


def test_a_nul_is_refused_before_anything_is_run(transport):
    with pytest.raises(ValueError, match=r"(?i)nul"):
        transport.run(["echo", "a\0b"])


def test_input_arrives_and_need_not_be_read(transport):
    assert transport.run(["cat"], stdin=b"x" * 300_000).stdout == b"x" * 300_000
    assert transport.run(["true"], stdin=io.BytesIO(b"x" * 5_000_000)).returncode == 0


def test_much_output_on_both_streams_blocks_nothing(transport):
    script = "head -c 5000000 /dev/zero >&2; head -c 5000000 /dev/zero; head -c 9 /dev/zero >&2"
    done = transport.run(["sh", "-c", script])
    assert len(done.stdout) == 5_000_000
    assert len(done.stderr) == 1 << 20


def test_output_larger_than_memory_allows_is_refused_or_streamed(transport, monkeypatch, tmp_path):
    monkeypatch.setattr(transports_base, "MEMORY_LIMIT", 1_000_000)
    command = ["head", "-c", "20000000", "/dev/zero"]
    with pytest.raises(Refused, match="larger than"):
        transport.run(command)
    with (tmp_path / "stream").open("wb") as stream:
        done = transport.run(command, stdout=stream)
    assert done.stdout == b""
    assert (tmp_path / "stream").stat().st_size == 20_000_000


def test_a_slow_command_ends_with_its_time_out_and_does_not_run_on(transport):
    token = f"{time.time_ns()}"
    began = time.monotonic()
    with pytest.raises(TryAgain, match=r"sh.* in 1 s") as caught:
        transport.run(["sh", "-c", f": {token}; sleep 60; :"], timeout=1)
    assert caught.value.kind == "time-out"
    assert time.monotonic() - began < 5
    while running(token):
        assert time.monotonic() - began < 15
    assert transport.run(["echo", "back"]).stdout == b"back\n"


def test_secrets_of_this_process_do_not_reach_commands(transport, monkeypatch):
    monkeypatch.setenv("TARE_SECRET", "hush")
    assert b"hush" not in transport.run(["env"]).stdout


def test_a_file_is_written_whole_and_read_from_an_offset(transport, tmp_path):
    path = str(tmp_path / "a name with 'quotes', $(x) and ü")
    transport.write(path, b"first")
    transport.write(path, b"0123456789")
    assert transport.read(path) == b"0123456789"
    assert transport.read(path, offset=7) == b"789"
    assert transport.read(path, offset=10) == b""
    assert [entry.name for entry in tmp_path.iterdir()] == [Path(path).name]


def test_a_broken_transfer_leaves_the_old_file(transport, tmp_path, monkeypatch):
    path = str(tmp_path / "file")
    transport.write(path, b"old")
    run = transport.run
    monkeypatch.setattr(transport, "run", lambda argv, stdin: run(argv, stdin=stdin[:2]))
    with pytest.raises(Refused):
        transport.write(path, b"newer")
    assert Path(path).read_bytes() == b"old"


def test_a_missing_file_is_told(transport, tmp_path):
    with pytest.raises(FileNotFoundError):
        transport.read(str(tmp_path / "none"))


@pytest.mark.parametrize("message", ["No space left on device", "Disk quota exceeded"])
def test_a_full_disk_is_worth_trying_again(transport, monkeypatch, message):
    failed = Completed(2, b"", f"tar: job.sh: Cannot write: {message}".encode())
    monkeypatch.setattr(transport, "run", lambda *args, **kwargs: failed)
    with pytest.raises(NotNow, match=message) as caught:
        transport.write("/scratch/jobs/1/job.sh", b"")
    assert (caught.value.kind, caught.value.scope) == ("disk full", "site")


def test_a_directory_that_may_not_be_written_is_the_sites(transport):
    for write in (
        lambda: transport.write("/proc/none/file", b""),
        lambda: transport.upload(
            "/proc/none/file", io.BytesIO(b"1"), 1, hashlib.sha256().hexdigest()
        ),
    ):
        with pytest.raises(NotNow, match=r"(Writing|Sending) /proc/none.* failed: ") as caught:
            write()
        assert (caught.value.kind, caught.value.scope) == ("work directory", "site")


def test_a_name_that_is_too_long_is_no_fault_of_the_sites(transport, tmp_path):
    with pytest.raises(Refused, match="File name too long"):
        transport.write(str(tmp_path / ("n" * 300)), b"")


CONTENT = bytes(range(256)) * 20_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def upload(transport, path, content=CONTENT, sha256=SHA256, **options):
    transport.upload(str(path), io.BytesIO(content), len(content), sha256, **options)


def test_a_large_file_streams_there_and_back(transport, tmp_path):
    path = tmp_path / "it's an $(image)"
    sizes = []
    upload(transport, path, progress=sizes.append)
    assert path.read_bytes() == CONTENT
    assert sizes == sorted(sizes)
    assert sizes[-1] == len(CONTENT)
    back = io.BytesIO()
    assert transport.download(str(path), back) == SHA256
    assert back.getvalue() == CONTENT
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    with pytest.raises(FileNotFoundError):
        transport.download(str(tmp_path / "none"), back)


def test_what_is_there_already_is_not_sent_again(transport, tmp_path):
    upload(transport, tmp_path / "image")
    transport.upload(str(tmp_path / "image"), io.BytesIO(b""), len(CONTENT), SHA256)
    (tmp_path / "image").write_bytes(CONTENT[:-1] + b"x")
    upload(transport, tmp_path / "image")
    assert (tmp_path / "image").read_bytes() == CONTENT


def test_a_broken_upload_is_gone_on_with(transport, tmp_path):
    path = tmp_path / "image"
    half = len(CONTENT) // 2
    with pytest.raises(TryAgain, match="Only a part"):
        transport.upload(str(path), io.BytesIO(CONTENT[:half]), len(CONTENT), SHA256)
    assert not path.exists()
    sizes = []
    upload(transport, path, progress=sizes.append)
    assert sizes[0] > half
    assert path.read_bytes() == CONTENT


def test_content_that_is_not_what_it_should_be_is_refused_and_not_kept(transport, tmp_path):
    with pytest.raises(Refused, match=f"{'0' * 64}.*Nothing of it was kept"):
        upload(transport, tmp_path / "image", sha256="0" * 64)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "image.part").write_bytes(b"what another upload left")
    with pytest.raises(TryAgain, match="Nothing of it was kept"):
        upload(transport, tmp_path / "image")
    upload(transport, tmp_path / "image")


def test_an_upload_to_a_full_disk_is_worth_trying_again(transport, tmp_path, monkeypatch):
    full = Completed(1, b"", b"cat: write error: No space left on device")
    answers = {"sent": Completed(0, b"0\n", b""), "append": full}
    monkeypatch.setattr(transport, "run", lambda argv, **options: answers[argv[3]])
    with pytest.raises(TryAgain, match="No space left") as caught:
        upload(transport, tmp_path / "image")
    assert caught.value.kind == "disk full"


def test_what_breaks_while_the_source_is_read_is_told(transport, tmp_path):
    class Broken(io.BytesIO):
        def read(self, *size):
            raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output error"):
        transport.upload(str(tmp_path / "image"), Broken(), 10, SHA256)
    assert not (tmp_path / "image").exists()


def test_what_tar_says_of_every_file_is_said_once():
    lines = "".join(f"tar: file{n}: Cannot open: Permission denied\n" for n in range(28))
    with pytest.raises(Refused) as caught:
        transports_base.require_success(Completed(2, b"", lines.encode()), "sending to /scratch")
    assert str(caught.value) == (
        "Sending to /scratch failed: tar: file0: Cannot open: Permission denied "
        "(and 27 more lines like this)"
    )
