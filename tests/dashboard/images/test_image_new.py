"""Adding an image: three ways, refusals at their fields, and uploads that stream to the store."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpRequest
from django.test import Client, RequestFactory
from pytest_django import Settings

from dashboard.uploads import ImageUpload, InStore
from experiments.images import store
from experiments.models import Image, ImageImport, Role
from tests.dashboard.conftest import People, Site
from tests.factories import ImageImportFactory, UserFactory

pytestmark = pytest.mark.django_db

NEW = "/catalogue/images/new/"
DIGEST = "sha256:" + "0a" * 32


def errors(answer: Any, way: str) -> dict[str, list[str]]:
    (form,) = [one["form"] for one in answer.context["ways"] if one["form"].way == way]
    return dict(form.errors)


def incoming() -> list[Path]:
    return sorted(store.make_incoming_path().parent.iterdir())


def test_a_reference_is_asked_for(as_owner: Client, people: People) -> None:
    sent = {
        "way": "reference",
        "reference": f" docker://example.org/a/b@{DIGEST} ",
        "title": "mine",
    }
    assert as_owner.post(NEW, sent)["Location"] == "/catalogue/"
    row = ImageImport.objects.get()
    assert (row.kind, row.title, row.owner) == ("registry", "mine", people.owner)
    assert DIGEST in row.reference
    shown = as_owner.get("/catalogue/").content.decode()
    assert "mine" in shown
    assert "waiting" in shown


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"reference": ""}, "reference", "required"),
        ({"reference": "docker://"}, "reference", "no reference of an image"),
        ({"reference": "docker://example.org/a b"}, "reference", "no reference of an image"),
        ({"reference": "docker://a.org/b@sha256:12"}, "reference", "no reference of an image"),
        ({"user_name": "me"}, "password", "go together"),
        ({"password": "secret"}, "user_name", "go together"),
    ],
)
def test_a_reference_that_is_none_is_refused_at_its_field(
    changes: dict[str, str], field: str, words: str, as_owner: Client
) -> None:
    answer = as_owner.post(NEW, {"way": "reference", "reference": "docker://a.org/b:1", **changes})
    assert answer.status_code == 200
    assert words in " ".join(errors(answer, "reference")[field])
    assert not ImageImport.objects.exists()
    assert "secret" not in answer.content.decode()


def test_a_file_on_a_cluster_is_asked_for(as_owner: Client, site: Site) -> None:
    sent = {"way": "file", "cluster": site.cluster.pk, "path": "/data/it's mine.sif"}
    assert as_owner.post(NEW, sent).status_code == 302
    row = ImageImport.objects.get()
    assert (row.kind, row.reference, row.cluster) == (
        "cluster",
        "/data/it's mine.sif",
        site.cluster,
    )


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"path": "data/x.sif"}, "path"), ({"path": ""}, "path"), ({"cluster": "999999"}, "cluster")],
)
def test_a_path_that_is_none_is_refused_at_its_field(
    changes: dict[str, str], field: str, as_owner: Client, site: Site
) -> None:
    sent = {"way": "file", "cluster": str(site.cluster.pk), "path": "/data/x.sif", **changes}
    assert field in errors(as_owner.post(NEW, sent), "file")
    assert not ImageImport.objects.exists()


def test_an_upload_lands_in_the_store_once(as_owner: Client) -> None:
    file = SimpleUploadedFile("image's own.tar", b"0123456789" * 300_000)
    assert as_owner.post(NEW, {"way": "upload", "file": file}).status_code == 302
    row = ImageImport.objects.get()
    assert (row.reference, row.total_bytes) == ("image's own.tar", 3_000_000)
    (kept,) = incoming()  # and not the temporary one besides
    assert kept.name == row.incoming
    assert kept.read_bytes() == b"0123456789" * 300_000


def test_to_htmx_an_upload_answers_with_where_to_go(as_owner: Client) -> None:
    file = SimpleUploadedFile("a.sif", b"x")
    answer = as_owner.post(NEW, {"way": "upload", "file": file}, headers={"HX-Request": "true"})
    assert answer["HX-Redirect"] == "/catalogue/"
    answer = as_owner.post(NEW, {"way": "upload"}, headers={"HX-Request": "true"})
    shown = answer.content.decode()
    assert shown.strip().startswith("<form")
    assert "required" in shown


def test_a_file_above_the_limit_is_refused_and_nothing_stays(
    as_owner: Client, settings: Settings
) -> None:
    settings.IMAGE_UPLOAD_BYTES = 2_000_000
    for size, status in ((2_500_000, 200), (4_000_000, 413)):  # the second by its length alone
        file = SimpleUploadedFile("big.tar", b"x" * size)
        answer = as_owner.post(NEW, {"way": "upload", "file": file})
        assert answer.status_code == status
        assert "larger than 2.00 MB" in " ".join(errors(answer, "upload")["file"])
    assert incoming() == []
    assert not ImageImport.objects.exists()


def test_where_there_is_no_room_it_is_said_before_anything_is_read(
    as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.images.store.count_free_bytes", lambda: 1000)
    file = SimpleUploadedFile("big.tar", b"x" * 5000)
    answer = as_owner.post(NEW, {"way": "upload", "file": file})
    assert "1.00 kB left for images" in " ".join(errors(answer, "upload")["file"])


def test_a_disk_that_fills_meanwhile_is_said_and_nothing_stays(
    as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: InStore, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(InStore, "write", full, raising=False)
    file = SimpleUploadedFile("big.tar", b"x" * 5000)
    answer = as_owner.post(NEW, {"way": "upload", "file": file})
    assert "No space left on device" in " ".join(errors(answer, "upload")["file"])
    assert incoming() == []


class Endless:
    """The body of a request with a large file that nobody has in memory."""

    def __init__(self, head: bytes, size: int, tail: bytes) -> None:
        self.parts = self._parts(head, size, tail)
        self.left = b""

    @staticmethod
    def _parts(head: bytes, size: int, tail: bytes) -> Iterator[bytes]:
        yield head
        for _ in range(size >> 16):
            yield bytes(1 << 16)
        yield tail

    def read(self, size: int = -1) -> bytes:
        while len(self.left) < size and (part := next(self.parts, b"")):
            self.left += part
        found, self.left = self.left[:size], self.left[size:]
        return found

    def readline(self, size: int = 1 << 16) -> bytes:
        return self.read(size)


def test_a_large_file_takes_constant_memory() -> None:
    """24 MB through the parser and the handler, in less than 6 MB."""
    size = 24 << 20
    head = (
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.tar"\r\n'
        b"Content-Type: application/x-tar\r\n\r\n"
    )
    tail = b"\r\n--b--\r\n"
    request: HttpRequest = RequestFactory().post(NEW)
    request.META["CONTENT_TYPE"] = "multipart/form-data; boundary=b"
    request.META["CONTENT_LENGTH"] = str(len(head) + size + len(tail))
    request._stream = Endless(head, size, tail)  # type: ignore[attr-defined]
    request._read_started = False  # type: ignore[attr-defined]
    request.upload_handlers = [ImageUpload(request)]
    tracemalloc.start()
    try:
        file = request.FILES["file"]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert file.size == size
    assert Path(file.temporary_file_path()).stat().st_size == size  # type: ignore[union-attr]
    assert peak < 6 << 20
    file.close()
    assert incoming() == []


def test_the_limit_of_imported_logs_is_as_it_was(settings: Settings) -> None:
    assert settings.FILE_UPLOAD_HANDLERS[0] == "dashboard.uploads.Quota"


def test_a_token_is_asked_for_all_the_same(people: People) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(people.owner)
    for sent in (
        {"way": "file", "path": "/data/x.sif"},
        {"way": "upload", "file": SimpleUploadedFile("a.sif", b"x")},
    ):
        assert client.post(NEW, sent).status_code == 403
    assert not ImageImport.objects.exists()
    assert incoming() == []


def test_a_viewer_adds_nothing(site: Site) -> None:
    client = Client()
    client.force_login(UserFactory(role=Role.VIEWER))
    assert client.get(NEW).status_code == 403
    file = SimpleUploadedFile("a.sif", b"x")
    assert client.post(NEW, {"way": "upload", "file": file}).status_code == 403
    assert not ImageImport.objects.exists()
    assert NEW not in client.get("/catalogue/").content.decode()


def test_what_is_under_way_can_be_given_up_by_whoever_asked(
    as_owner: Client, people: People
) -> None:
    row = ImageImportFactory(owner=people.owner)
    address = f"/image-imports/{row.pk}/cancel/"
    assert people.client("other").post(address).status_code == 404
    assert address in as_owner.get("/catalogue/").content.decode()
    as_owner.post(address)
    row.refresh_from_db()
    assert row.state == ImageImport.State.FAILED
    assert "owner" in row.problem
    assert not Image.objects.exists()


def test_one_button_of_the_page_is_primary(as_owner: Client) -> None:
    page = BeautifulSoup(as_owner.get(NEW).content, "html.parser")
    primary = page.select("main .btn-primary")
    assert [button.find_parent("form")["id"] for button in primary] == ["way-reference"]
