"""Fetching images: from a real registry, and from ones that answer badly."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.errors import Refused, TryAgain
from runners.images import describe_image
from runners.images.references import Reference, parse_reference
from runners.images.registry import Resolved, fetch, resolve
from runners.images.registry_session import Access
from tests.runners import registry
from tests.runners.made_images import Image, Member, image, layer, os_release
from tests.runners.registry import LISTED, PASSWORD, USER, answering, push, push_index

ROOT = layer(*os_release(), Member("usr/data", bytes(range(256)) * 8000))
IMAGE = image(ROOT, layer(Member("usr/more", b"more")), pack_by=bytes, Env=["A=b"])
DOCKERS = image(ROOT, docker=True)
ARM = image(ROOT, architecture="arm64")
DIGEST = "sha256:" + "7347" * 16
EVERYBODY = Access(inside=LISTED)


def manifest(digest: object, size: str, *layers: dict[str, object]) -> bytes:
    """A manifest; `size` stands there as it is."""
    about = {"config": {"digest": digest, "size": "SIZE"}, "layers": layers}
    return json.dumps(about).replace('"SIZE"', size).encode()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, store: Path) -> Iterator[str]:
    with registry.serve(tmp_path_factory.mktemp("registry"), store) as host:
        push(host, "group/public", "2.5", IMAGE)
        push(host, "group/private", "2.5", IMAGE)
        push(host, "dockers", "latest", DOCKERS)
        push_index(host, "many", "latest", amd64=IMAGE, arm64=ARM)
        yield host


def get(host: str, text: str, access: Access = EVERYBODY) -> Resolved:
    return resolve(parse_reference(f"docker://{host}/{text}"), access)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("debian", "docker.io/library/debian:latest"),
        ("docker://debian:12", "docker.io/library/debian:12"),
        ("tensorflow/tensorflow:2.15.0-gpu", "docker.io/tensorflow/tensorflow:2.15.0-gpu"),
        ("index.docker.io/me/x", "docker.io/me/x:latest"),
        ("nvcr.io/nvidia/tensorflow:23.10-tf2-py3", "nvcr.io/nvidia/tensorflow:23.10-tf2-py3"),
        ("localhost:5000/a/b/c", "localhost:5000/a/b/c:latest"),
        ("localhost/a", "localhost/a:latest"),
        (f"ghcr.io/a/b:1@{DIGEST}", f"ghcr.io/a/b:1@{DIGEST}"),
        (f" ghcr.io/a/b@{DIGEST}\n", f"ghcr.io/a/b@{DIGEST}"),
    ],
)
def test_references_are_read_as_docker_reads_them(text: str, meant: str) -> None:
    assert str(parse_reference(text)) == meant
    assert parse_reference(meant) == parse_reference(text)


@pytest.mark.parametrize(
    "text",
    ["", "Debian", "a b", "x:", "x@sha256:12", "../x", "x/../y", "x:a/b", "http://", "x\ny", "h/Ü"],
)
def test_what_is_no_reference_is_told(text: str) -> None:
    with pytest.raises(Refused, match="is no reference of an image"):
        parse_reference(text)


@given(st.text())
def test_any_text_is_a_reference_or_refused(text: str) -> None:
    try:
        reference = parse_reference(text)
    except Refused:
        return
    assert parse_reference(str(reference)) == reference
    assert ".." not in reference.repository


@pytest.mark.parametrize("made", [IMAGE, DOCKERS], ids=["OCI", "Docker"])
def test_an_image_arrives_as_it_was_pushed(host: str, tmp_path: Path, made: Image) -> None:
    resolved = get(host, "group/public:2.5" if made is IMAGE else "dockers")
    assert resolved.digest == made.digest
    progress_rows: list[tuple[int, int]] = []
    target = tmp_path / "image.tar"
    assert (
        fetch(resolved, target, EVERYBODY, progress=lambda *now: progress_rows.append(now))
        == made.digest
    )
    assert progress_rows == sorted(progress_rows)
    assert describe_image(target).digest == made.digest
    assert (
        describe_image(target).survey == describe_image(made.write(tmp_path / "written.tar")).survey
    )
    assert progress_rows[-1][0] == sum(map(len, made.blobs))
    assert resolved.size == progress_rows[-1][1] == progress_rows[-1][0] + len(made.config)
    assert [entry.name for entry in tmp_path.iterdir() if "part" in entry.name] == []


def test_of_many_platforms_the_one_is_chosen(host: str) -> None:
    resolved = get(host, "many")
    assert resolved.digest == IMAGE.digest
    assert resolved.index_digest not in ("", IMAGE.digest)
    many = parse_reference(f"{host}/many")
    assert resolve(many, EVERYBODY, architecture="arm64").digest == ARM.digest
    assert get(host, f"many@{resolved.index_digest}").digest == IMAGE.digest
    with pytest.raises(Refused, match="no image for linux/s390x, only for linux/amd64, linux/arm6"):
        resolve(many, EVERYBODY, architecture="s390x")


def test_a_digest_wins_over_a_tag_that_has_moved(host: str) -> None:
    push(host, "moving", "latest", DOCKERS)
    before = get(host, "moving")
    push(host, "moving", "latest", IMAGE)
    assert get(host, "moving").digest == IMAGE.digest
    assert get(host, f"moving:latest@{before.digest}").digest == DOCKERS.digest


def test_what_is_not_there_is_named(host: str) -> None:
    with pytest.raises(Refused, match=rf"{host} has no {host}/group/none:2.5: no such name, tag"):
        get(host, "group/none:2.5")
    with pytest.raises(Refused, match=rf"{host} has no {host}/group/public:2.6: .* It says: man"):
        get(host, "group/public:2.6")
    with pytest.raises(Refused, match=rf"has no {host}/group/public@{DIGEST}"):
        get(host, f"group/public@{DIGEST}")


@pytest.mark.parametrize("auth", ["basic", "token"])
def test_a_password_opens_what_is_not_for_everybody(
    host: str, store: Path, tmp_path: Path, auth: str
) -> None:
    access = Access(USER, PASSWORD, LISTED)
    assert PASSWORD not in repr(access)
    with registry.serve(tmp_path, store, auth=auth) as closed:
        resolved = get(closed, "group/private:2.5", access)
        assert fetch(resolved, tmp_path / "x.tar", access) == IMAGE.digest
        with pytest.raises(Refused, match="for everybody: it wants a user name and a password"):
            get(closed, "group/private:2.5")
        with pytest.raises(Refused, match="for user jo: name or password are wrong") as caught:
            get(closed, "group/private:2.5", Access(USER, "another secret", LISTED))
        assert "secret" not in str(caught.value)
        if auth == "token":
            assert get(closed, "group/public:2.5").digest == IMAGE.digest


def test_a_certificate_that_nobody_has_signed_is_told(tmp_path: Path, store: Path) -> None:
    refused = pytest.raises(TryAgain, match="certificate that this machine does not trust: self")
    with registry.serve(tmp_path, store, tls=True) as host, refused:
        get(host, "x", Access(inside=[host]))


def test_a_host_that_is_not_there_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for host, message in (
        (f"127.0.0.1:{port}", "Nobody listens at"),
        ("no-such-host.invalid", "No host is called"),
    ):
        with pytest.raises(TryAgain, match=message):
            resolve(Reference(host, "x", "latest"), EVERYBODY)


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ((200, {}, b"<html>log in"), Refused, "the answer is a web page"),
        ((200, {}, b"\xff\xfe"), Refused, "the answer is no JSON"),
        ((200, {}, b'{"schemaVersion": 1}'), Refused, "from before 2016"),
        ((200, {}, b'{"layers": 5, "config": []}'), Refused, "manifest is not understood"),
        ((200, {}, b"[" * 200_000), Refused, "the answer is nested too deeply"),
        ((200, {}, b'{"layers": ' * 100_000), Refused, "the answer is nested too deeply"),
        ((200, {}, b"[5]"), Refused, "the answer is no JSON object"),
        ((200, {}, manifest(DIGEST, "1e999")), Refused, "inf is no size of a blob"),
        ((200, {}, manifest(DIGEST, "1" * 30)), Refused, "11 is no size of a blob"),
        ((200, {}, manifest(DIGEST, "true")), Refused, "true is no size of a blob"),
        ((200, {}, manifest(DIGEST, "NaN")), Refused, "the answer is no JSON"),
        ((200, {}, b'{"manifests": [{"digest": "x\\r\\n"}]}'), Refused, "is no sha256 digest"),
        ((403, {}, b"[" * 200_000), Refused, "does not give"),
        ((403, {}, b""), Refused, "does not give"),
        ((418, {}, b""), Refused, "answers with HTTP 418"),
        ((429, {"Retry-After": "60"}, b""), TryAgain, "too often for now. It asks to wait 60"),
        ((503, {}, b'{"errors": [{"message": "disk"}]}'), TryAgain, "HTTP 503. It says: disk"),
        ((302, {"Location": "file:///etc/passwd"}, b""), Refused, "not safe to follow|HTTP 302"),
    ],
)  # fmt: skip
def test_bad_answers_are_told_in_words(answer, error, message) -> None:
    with answering(lambda path, headers: answer) as host, pytest.raises(error, match=message):
        get(host, "x")


@pytest.mark.parametrize(
    "made",
    [
        manifest("sha256:", "1"),
        manifest(["x"], "1"),
        manifest(DIGEST, "1", {"digest": "../x", "size": 1}),
        manifest(DIGEST, "1", {"digest": f"{DIGEST}/../x", "size": 1}),
        manifest(DIGEST, "1", {"digest": ["x"], "size": 1}),
        manifest(DIGEST, "1", {"digest": DIGEST, "size": -1}),
    ],
)
def test_a_blob_is_asked_for_by_a_digest_or_not_at_all(tmp_path: Path, made: bytes) -> None:
    asked: list[str] = []

    def answer(path: str, headers: dict[str, str]) -> registry.Answer:
        asked.append(path)
        return 200, {}, made

    refused = pytest.raises(Refused, match=r"no sha256 digest|no size of|not understood")
    with answering(answer) as host, refused:
        fetch(get(host, "x"), tmp_path / "image.tar", EVERYBODY)
    assert asked == ["/v2/x/manifests/latest"]


@pytest.mark.parametrize("content", [b"[" * 200_000, b"<html>", b"[]", b'{"token": 5}', b"\xff"])
def test_a_token_that_is_none_is_refused(content: bytes) -> None:
    with answering(lambda path, headers: (200, {}, content)) as tokens:
        asking = {"WWW-Authenticate": f'Bearer realm="http://{tokens}/token"'}
        refused = pytest.raises(Refused, match="gives no token")
        with answering(lambda path, headers: (401, asking, b"")) as host, refused:
            get(host, "x")


def flawed(made: Image, change) -> registry.Callable[..., registry.Answer]:
    """A registry with one image, whose answers about layers are changed."""
    files = {registry.sha256(blob): blob for blob in (*made.blobs, made.config)}

    def answer(path: str, headers: dict[str, str]) -> registry.Answer:
        name = path.rpartition("/")[2]
        if "manifests" in path:
            return 200, {}, made.manifest
        content = files[name.partition(":")[2]]
        start = int(headers.get("Range", "bytes=0-")[6:-1])
        if content == made.blobs[0]:
            return change(content, start)
        return 200, {}, content

    return answer


def test_a_broken_transfer_is_gone_on_with(tmp_path: Path) -> None:
    """First within a call, then, when the registry stays away, with the next one."""
    starts: list[int] = []
    down = [False]

    def breaking(content: bytes, start: int) -> registry.Answer:
        starts.append(start)
        if down[0]:
            return 503, {}, b""
        rest = content[start:]
        part = rest[: 600_000] if start < 1_200_000 else rest  # fmt: skip
        down[0] = start == 600_000
        status = 206 if start else 200
        return status, {"Content-Length": str(len(rest))}, part

    target = tmp_path / "image.tar"
    with answering(flawed(IMAGE, breaking)) as host:
        resolved = get(host, "x")
        with pytest.raises(TryAgain, match="503"):
            fetch(resolved, target, EVERYBODY)
        assert not target.exists()
        down[0] = False
        assert fetch(resolved, target, EVERYBODY) == IMAGE.digest
    assert [start for start in starts if start < 1_200_000] == [0, 600_000]
    assert starts[-1] == 1_200_000
    assert describe_image(target).digest == IMAGE.digest


def test_a_registry_that_always_begins_anew_is_borne_with(tmp_path: Path) -> None:
    counter = [0]

    def stubborn(content: bytes, start: int) -> registry.Answer:
        counter[0] += 1
        part = content[:900] if counter[0] == 1 else content
        return 200, {"Content-Length": str(len(content))}, part

    with answering(flawed(IMAGE, stubborn)) as host:
        assert fetch(get(host, "x"), tmp_path / "image.tar", EVERYBODY) == IMAGE.digest
    assert describe_image(tmp_path / "image.tar").digest == IMAGE.digest


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: b"x" + content[1:], "of a layer that came is sha256:.*, not sha256:"),
        (lambda content: content + b"more", "is larger than it should be"),
    ],
)  # fmt: skip
def test_other_content_is_refused_and_not_kept(tmp_path: Path, change, message) -> None:
    def evil(content: bytes, start: int) -> registry.Answer:
        return 200, {}, change(content)

    with answering(flawed(IMAGE, evil)) as host:
        resolved = get(host, "x")
        with pytest.raises(Refused, match=message):
            fetch(resolved, tmp_path / "image.tar", EVERYBODY)
    with answering(flawed(IMAGE, lambda content, start: (200, {}, content))) as host:
        # What was kept of the wrong one does no harm to the right one.
        assert fetch(get(host, "x"), tmp_path / "image.tar", EVERYBODY) == IMAGE.digest
    assert [entry.name for entry in tmp_path.iterdir()] == ["image.tar"]


def test_another_manifest_than_was_asked_for_is_refused(tmp_path: Path) -> None:
    refused = pytest.raises(Refused, match=f"its digest is {IMAGE.digest}, not {DIGEST}")
    with answering(flawed(IMAGE, lambda content, start: (200, {}, content))) as host, refused:
        get(host, f"x@{DIGEST}")


def test_a_password_goes_nowhere_but_to_its_registry(tmp_path: Path) -> None:
    seen: list[dict[str, str]] = []

    def elsewhere(path: str, headers: dict[str, str]) -> registry.Answer:
        seen.append(headers)
        return 200, {}, json.dumps({"schemaVersion": 1}).encode()

    with answering(elsewhere) as other:

        def asking(path: str, headers: dict[str, str]) -> registry.Answer:
            if "Authorization" not in headers:
                return 401, {"WWW-Authenticate": 'Basic realm="x"'}, b""
            return 307, {"Location": f"http://{other}/x"}, b""

        with answering(asking) as host, pytest.raises(Refused, match="2016"):
            get(host, "x", Access(USER, PASSWORD, LISTED))
    assert seen
    assert not any("Authorization" in headers for headers in seen)
