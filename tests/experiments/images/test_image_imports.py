"""Images on their way, for real: files, PostgreSQL, and this machine as a cluster."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import OperationalError
from django.utils import timezone
from pytest_django import Settings

from dashboard import environment
from experiments import execution
from experiments.execution import image_transfers
from experiments.images import image_imports, staging, store
from experiments.models import AuditEntry, Cluster, Image, ImageImport, Operation, StagedImage
from tests.conftest import tick_until
from tests.factories import (
    AdminFactory,
    ClusterFactory,
    EnvironmentFactory,
    ImageFactory,
    RuntimeFactory,
    StagedImageFactory,
    UserFactory,
)
from tests.runners.made_images import image, layer, os_release
from tests.runners.registry import LISTED, answering, push, push_index, serve

pytestmark = pytest.mark.django_db

FILES = {
    "etc/os-release": b'PRETTY_NAME="Toy Linux 7"\nID=toy\n',
    "usr/bin/python3.9": b"\x7fELF",
    "usr/lib/python3/dist-packages/numpy-2.4.6.dist-info/METADATA": (
        b"Name: numpy\nVersion: 2.4.6\n"
    ),
}


def rootfs(**more: bytes) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, content in {**FILES, **more}.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755
            tar.addfile(member, io.BytesIO(content))
    return made.getvalue()


def uploaded(content: bytes, name: str = "toy's image.tar") -> ImageImport:
    return image_imports.request_upload(SimpleUploadedFile(name, content), AdminFactory())


def received(row: ImageImport) -> ImageImport:
    execution.receive(row.pk)
    return ImageImport.objects.get(pk=row.pk)


def test_an_uploaded_file_becomes_an_image_known_by_its_digest() -> None:
    content = rootfs()
    done = received(uploaded(content))
    assert (done.state, done.problem) == ("done", "")
    image = done.image
    assert image
    assert image.digest == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert (image.kind, image.reference) == ("rootfs", "toy's image.tar")
    assert image.operating_system == "Toy Linux 7"
    assert image.packages == {"numpy": "2.4.6"}
    assert image.tree.startswith("sha256:")
    assert store.get_path(image.content_sha256).read_bytes() == content
    assert not list((store.get_folder().parent / "incoming").iterdir())
    assert (
        AuditEntry.objects.get(kind="image", what="added").why
        == "an uploaded file: toy's image.tar"
    )


def test_the_same_file_is_the_same_image() -> None:
    first, second = received(uploaded(rootfs())), received(uploaded(rootfs(), "again.tar"))
    assert first.image == second.image
    assert Image.objects.count() == 1


def test_bytes_of_an_image_that_is_not_shared_are_refused_in_words() -> None:
    """And not by a link to a page that does not open."""
    first = received(uploaded(rootfs()))
    Image.objects.update(visibility="private")
    again = SimpleUploadedFile("mine.tar", rootfs())
    second = received(image_imports.request_upload(again, UserFactory()))
    assert (second.state, second.image) == (ImageImport.State.FAILED, None)
    assert "not shared with you" in second.problem
    assert str(first.owner) not in second.problem
    Image.objects.update(visibility="members")
    third = received(
        image_imports.request_upload(SimpleUploadedFile("mine.tar", rootfs()), UserFactory())
    )
    assert third.image == first.image


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"<html>Please log in</html>", "web page"),
        (b"", "empty"),
        (rootfs()[:3000], "toy's image.tar is refused: the archive is cut off or damaged"),
        (b"\x7fELF" + bytes(600), "a program"),
    ],
)
def test_what_is_no_image_is_refused_and_nothing_of_it_stays(content: bytes, words: str) -> None:
    done = received(uploaded(content))
    assert done.state == "failed"
    assert words in done.problem
    assert not Image.objects.exists()
    assert not [path for path in store.get_folder().parent.rglob("*") if path.is_file()]


BRACKETS = b"[" * 200_000
NOT_UTF8 = b"caf\xe9".decode("utf-8", "surrogateescape")


def tarred(**files: bytes) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return made.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (tarred(**{"index.json": BRACKETS}), "is nested too deeply"),
        (tarred(**{"manifest.json": BRACKETS}), "is nested too deeply"),
        (
            tarred(**{"manifest.json": b'[{"Config": "\\ud800\\u0001", "Layers": []}]'}),
            "lacks \ufffd\x01",
        ),
    ],
)
def test_an_archive_of_nonsense_is_refused_once(content: bytes, words: str) -> None:
    row = uploaded(content)
    assert execution.receive(row.pk) == "failed"
    row.refresh_from_db()
    assert (row.state, words in row.problem) == ("failed", True), row.problem
    assert execution.receive(row.pk) == "fetched or being fetched"


def test_names_and_versions_that_are_no_text_are_kept_as_far_as_they_are() -> None:
    package = f"usr/lib/python3/dist-packages/{NOT_UTF8}-1.0.dist-info/METADATA"
    odd = {package: b"Name: nu\0l\nVersion: 1\xff\n", f"{NOT_UTF8}/x": b"", "usr/bin/x": b""}
    done = received(uploaded(rootfs(**odd)))
    assert (done.state, done.problem) == ("done", "")
    assert done.image
    assert done.image.packages["nu\ufffdl"] == "1\ufffd"
    assert "caf\\xe9" in done.image.facts["parts"]


def test_labels_that_are_no_text_are_kept_as_far_as_they_are(tmp_path: Path) -> None:
    made = image(layer(*os_release()), Labels={"a\0": "b\ud800"})
    done = received(uploaded(made.write(tmp_path / "x").read_bytes()))
    assert (done.state, done.problem) == ("done", "")
    assert done.image
    assert done.image.labels == {"a\ufffd": "b\ufffd"}


def test_a_registry_s_own_words_are_told_whatever_they_are(settings: Settings) -> None:
    settings.IMAGE_INSIDE_HOSTS = LISTED
    said = b'{"errors": [{"message": "no\\u0000 \\ud800"}]}'
    with answering(lambda path, headers: (404, {}, said)) as host:
        done = received(image_imports.request_from_registry(f"{host}/x", AdminFactory()))
    assert done.state == "failed"
    assert "It says: no\ufffd \ufffd" in done.problem


def test_a_failure_that_nobody_foresaw_ends_an_import_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    row = uploaded(rootfs())
    with mock.patch(
        "experiments.execution.image_transfers.describe_image", side_effect=ZeroDivisionError("x")
    ):
        done = received(row)
    assert done.state == "failed"
    assert "Tare itself failed" in done.problem
    assert "ZeroDivisionError" not in done.problem, "it may say anything"
    assert "ZeroDivisionError: x" in caplog.text


def test_a_database_that_is_away_ends_no_import() -> None:
    row = uploaded(rootfs())
    with (
        mock.patch(
            "experiments.execution.image_transfers._add_to_catalogue",
            side_effect=OperationalError("away"),
        ),
        pytest.raises(OperationalError),
    ):
        execution.receive(row.pk)
    row.refresh_from_db()
    assert row.state == "under way"


def test_a_file_on_a_cluster_is_fetched(here: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "it's a file.tar"
    path.write_bytes(rootfs())
    done = received(image_imports.request_from_cluster(here, str(path), here.owner, title="Toy"))
    assert done.image
    assert done.image.reference == "Toy"
    assert path.exists(), "what lies there stays"


def test_a_file_that_is_not_there_is_named(here: Cluster) -> None:
    done = received(image_imports.request_from_cluster(here, "/none/x.sif", here.owner))
    assert done.problem == "There is no file /none/x.sif on here."


def test_paths_on_clusters_are_absolute(here: Cluster) -> None:
    with pytest.raises(staging.NotDone, match="absolute"):
        image_imports.request_from_cluster(here, "x.sif", here.owner)


def test_who_may_not_add_images_asks_in_vain(here: Cluster) -> None:
    viewer = UserFactory(role="viewer")
    with pytest.raises(staging.NotDone, match="researcher"):
        image_imports.request_upload(SimpleUploadedFile("x", b"x"), viewer)


def test_an_image_import_is_received_once() -> None:
    row = uploaded(rootfs())
    assert execution.receive(row.pk) == "done"
    assert execution.receive(row.pk) == "fetched or being fetched"


def test_a_worker_that_fell_silent_is_replaced() -> None:
    row = uploaded(rootfs())
    alive = {"state": "under way", "seen_at": timezone.now()}
    ImageImport.objects.filter(pk=row.pk).update(**alive)
    assert execution.receive(row.pk) == "fetched or being fetched"
    ImageImport.objects.filter(pk=row.pk).update(seen_at=timezone.now() - timedelta(minutes=2))
    assert execution.receive(row.pk) == "done"


def test_what_is_given_up_ends_and_leaves_nothing() -> None:
    row = uploaded(rootfs())
    image_imports.cancel(row, row.owner)
    assert execution.receive(row.pk) == "fetched or being fetched"
    assert not (store.make_incoming_path(row.incoming)).exists()
    with pytest.raises(staging.NotDone, match="ended already"):
        image_imports.cancel(row, row.owner)


def test_an_import_is_given_up_by_its_owner_or_a_site_administrator() -> None:
    row = image_imports.request_from_registry("docker.io/library/toy:1", AdminFactory())
    with pytest.raises(staging.NotDone, match="somebody else"):
        image_imports.cancel(row, UserFactory(role="cluster_administrator"))
    image_imports.cancel(row, UserFactory(role="site_administrator"))
    row.refresh_from_db()
    assert row.problem.startswith("Given up by ")


def test_who_gives_up_while_it_is_read_gets_no_image(monkeypatch: pytest.MonkeyPatch) -> None:
    row = uploaded(rootfs())
    read = image_transfers._read

    def read_and_give_up(*arguments: Any) -> Any:
        done = read(*arguments)
        image_imports.cancel(row, row.owner)
        return done

    monkeypatch.setattr(
        image_transfers, "run_with_progress", lambda work, _: work(image_transfers.Meter())
    )
    monkeypatch.setattr(image_transfers, "_read", read_and_give_up)
    assert execution.receive(row.pk) == "given up"
    assert not Image.objects.exists()
    assert not list((store.get_folder().parent / "incoming").iterdir())


def test_an_image_from_a_registry_is_known_by_the_digest_that_was_fetched(
    settings: Settings, tmp_path: Path
) -> None:
    """A tag may name another image tomorrow."""
    settings.IMAGE_INSIDE_HOSTS = LISTED
    made = image(layer(*os_release()))
    with serve(tmp_path, tmp_path / "registry") as host:
        push(host, "toy", "latest", made)
        done = received(image_imports.request_from_registry(f"{host}/toy:latest", AdminFactory()))
    assert (done.state, done.problem) == ("done", "")
    assert done.reference == f"{host}/toy:latest@{made.digest}"
    assert done.image
    assert (done.image.reference, done.image.digest) == (done.reference, made.digest)


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_of_a_list_of_platforms_the_one_that_was_chosen_is_taken(
    architecture: str, settings: Settings, tmp_path: Path
) -> None:
    settings.IMAGE_INSIDE_HOSTS = LISTED
    images = {
        name: image(layer(*os_release(name)), architecture=name) for name in ("amd64", "arm64")
    }
    with serve(tmp_path, tmp_path / "registry") as host:
        index = push_index(host, "toy", "1", **images)
        digest = f"sha256:{hashlib.sha256(index).hexdigest()}"
        done = received(
            image_imports.request_from_registry(
                f"{host}/toy@{digest}", AdminFactory(), architecture=architecture
            )
        )
        wrong = received(
            image_imports.request_from_registry(
                f"{host}/toy:1", AdminFactory(), architecture="s390x"
            )
        )
    assert (done.state, done.problem) == ("done", "")
    assert done.image
    assert (done.image.digest, done.image.architecture) == (
        images[architecture].digest,
        architecture,
    )
    assert done.image.operating_system == architecture
    assert "no image for linux/s390x, only for linux/amd64, linux/arm64" in wrong.problem


def test_an_archive_for_other_nodes_is_taken_as_such(tmp_path: Path) -> None:
    made = image(layer(*os_release()), architecture="arm64")
    content = made.write(tmp_path / "x").read_bytes()
    file = SimpleUploadedFile("x.tar", content)
    done = received(image_imports.request_upload(file, AdminFactory(), architecture="arm64"))
    assert (done.state, done.problem) == ("done", "")
    assert done.image
    assert done.image.architecture == "arm64"
    assert "not for linux/amd64" in received(uploaded(content)).problem


def test_a_registry_inside_is_asked_only_where_the_site_lists_it(settings: Settings) -> None:
    assert settings.IMAGE_INSIDE_HOSTS == []
    asked: list[str] = []

    def answer(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        asked.append(path)
        return 404, {}, b""

    with answering(answer) as host:
        done = received(image_imports.request_from_registry(f"{host}/x", AdminFactory()))
        assert (done.state, asked) == ("failed", [])
        assert "inside this site's network" in done.problem
        assert "IMAGE_INSIDE_HOSTS" in done.problem
        settings.IMAGE_INSIDE_HOSTS = [f"http://{host}"]
        done = received(image_imports.request_from_registry(f"{host}/x", AdminFactory()))
        assert asked == ["/v2/x/manifests/latest"]
        assert "no such name" in done.problem


def test_hosts_inside_are_names_with_or_without_a_port(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = "Harbor.example,http://[::1]:5000, 10.0.0.5:443 ,http://localhost"
    monkeypatch.setenv("IMAGE_INSIDE_HOSTS", listed)
    assert environment.read_hosts("IMAGE_INSIDE_HOSTS") == [
        "harbor.example", "http://[::1]:5000", "10.0.0.5:443", "http://localhost",
    ]  # fmt: skip
    for wrong in ("https://a", "a/b", "a:b", "10.0.0.0/8", "*.example", "a b"):
        monkeypatch.setenv("IMAGE_INSIDE_HOSTS", wrong)
        with pytest.raises(ImproperlyConfigured, match="which is no host"):
            environment.read_hosts("IMAGE_INSIDE_HOSTS")


def test_a_site_may_name_the_registries_that_are_asked(settings: Settings) -> None:
    settings.IMAGE_REGISTRIES = ["registry.example.org"]
    with pytest.raises(staging.NotDone, match=r"registry\.example\.org only, not from intranet"):
        image_imports.request_from_registry("docker://intranet:5000/x", AdminFactory())
    assert image_imports.request_from_registry("registry.example.org/group/x:1", AdminFactory()).pk


class TestSending:
    """The archive goes to the cluster before an operation makes anything of it."""

    @pytest.fixture
    def image(self) -> Image:
        image = received(uploaded(rootfs())).image
        assert image
        return image

    @pytest.fixture
    def archive(self, here: Cluster, image: Image) -> StagedImage:
        RuntimeFactory(cluster=here, kind="charliecloud", executable="ch-run")
        staging.stage(image, here, "sandbox", here.owner)
        return StagedImage.objects.get(format="archive")

    def test_it_arrives_whole(self, archive: StagedImage) -> None:
        assert archive.state == "staging"
        assert execution.send(archive.pk) == "sent"
        archive.refresh_from_db()
        assert (archive.state, archive.message) == ("ready", "")
        assert Path(archive.path).read_bytes() == rootfs()
        assert execution.send(archive.pk) == "sent or being sent"
        assert (archive.sha256, archive.size_bytes) == (archive.image.content_sha256, len(rootfs()))
        assert (archive.sent_bytes, archive.sending_at) == (None, None)

    def test_a_worker_that_sends_is_not_taken_for_a_dead_one(
        self, archive: StagedImage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A large archive takes longer than the silence after which another worker takes over."""
        long_ago = timezone.now() - 2 * image_transfers.SILENCE
        seen: list[StagedImage] = []

        def upload_slowly(
            work: Callable[[image_transfers.Meter], object], save_progress: Callable[[int], bool]
        ) -> object:
            StagedImage.objects.filter(pk=archive.pk).update(sending_at=long_ago)
            assert save_progress(7)
            seen.append(StagedImage.objects.get(pk=archive.pk))
            assert execution.send(archive.pk) == "sent or being sent"
            return work(image_transfers.Meter())

        monkeypatch.setattr(image_transfers, "run_with_progress", upload_slowly)
        assert execution.send(archive.pk) == "sent"
        assert [row.sent_bytes for row in seen] == [7]

    def test_a_work_directory_that_cannot_be_written_is_named(
        self, archive: StagedImage, here: Cluster
    ) -> None:
        Path(here.work_directory).write_text("a file")
        assert execution.send(archive.pk) == "failed"
        archive.refresh_from_db()
        assert "cannot be made" in archive.message

    def test_an_image_that_is_nowhere_cannot_be_staged(self, image: Image, here: Cluster) -> None:
        RuntimeFactory(cluster=here, kind="charliecloud", executable="ch-run")
        store.delete(image.content_sha256)
        with pytest.raises(staging.NotDone, match="no copy"):
            staging.stage(image, here, "sandbox", here.owner)

    def test_another_cluster_may_have_the_only_copy(
        self, archive: StagedImage, here: Cluster
    ) -> None:
        execution.send(archive.pk)
        archive.refresh_from_db()
        store.delete(archive.sha256)
        other = Cluster.objects.get(pk=here.pk)
        other.pk, other.name = None, "other"
        other.work_directory += "-2"
        other.save()
        other.users.add(other.owner)
        RuntimeFactory(cluster=other, kind="charliecloud", executable="ch-run")
        row = staging.stage(archive.image, other, "sandbox", other.owner)
        second = StagedImage.objects.get(format="archive", cluster=other)
        assert execution.send(second.pk) == "sent"
        assert Path(second.path).read_bytes() == rootfs()
        assert row.path.startswith(other.images_folder)

    def test_a_copy_that_was_changed_is_not_passed_on(self, archive: StagedImage) -> None:
        execution.send(archive.pk)
        archive.refresh_from_db()
        store.delete(archive.sha256)
        Path(archive.path).write_bytes(rootfs(more=b"x"))
        StagedImage.objects.create(
            image=archive.image,
            cluster=archive.cluster,
            format="archive",
            path="/x",
            state="staging",
        )
        assert execution.send(StagedImage.objects.get(path="/x").pk) == "failed"
        assert "not the archive that it was" in StagedImage.objects.get(path="/x").message


def test_garbage_is_what_tare_has_made_and_nobody_uses(here: Cluster) -> None:
    runtime = RuntimeFactory(cluster=here, kind="apptainer", executable="apptainer")
    image = ImageFactory()
    columns = {"image": image, "cluster": here, "format": "sif", "state": "ready"}
    unused = StagedImageFactory(**columns, path="/a.sif", made_here=True)
    StagedImageFactory(**columns, path="/by-hand.sif", made_here=False)
    used = StagedImageFactory(**columns, path="/used.sif", made_here=True)
    EnvironmentFactory(cluster=here, runtime=runtime, staged_image=used)
    only = {"format": "archive", "path": "/x.archive", "made_here": True}
    StagedImageFactory(**{**columns, **only})
    assert staging.list_unused_forms(here) == [unused]
    assert "only copy" in staging.why_not_unstage(StagedImage.objects.get(path="/x.archive"))


def test_of_two_archives_that_are_each_others_only_copy_one_stays(here: Cluster) -> None:
    image = ImageFactory()
    other = ClusterFactory(name="other")
    for cluster in (here, other):
        StagedImageFactory(
            image=image, cluster=cluster, format="archive", path="/x", state="ready", made_here=True
        )
    assert len(staging.list_unused_forms()) == 1


def test_only_whose_it_is_and_who_runs_the_cluster_may_remove_a_form(here: Cluster) -> None:
    row = StagedImageFactory(cluster=here, state="ready", made_here=True, path="/a.sif")
    someone = UserFactory(role="researcher")
    here.users.add(someone, row.image.owner)
    with pytest.raises(staging.NotDone, match="not yours to change"):
        staging.unstage(row, someone)
    staging.unstage(row, row.image.owner)


def test_of_a_recipe_that_is_given_up_the_operation_ends_too(here: Cluster) -> None:
    row = ImageImport.objects.create(
        kind="recipe", reference="x", owner=here.owner, cluster=here, state="under way"
    )
    operation = Operation.objects.create(
        kind="build", cluster=here, image_import=row, owner=here.owner
    )
    image_imports.cancel(row, here.owner)
    operation.refresh_from_db()
    assert operation.cancel_requested_at
    assert ImageImport.objects.get().state == "failed"


def test_an_archive_is_held_to_its_hash_and_one_without_learns_it(
    here: Cluster, tmp_path: Path
) -> None:
    path = tmp_path / "it.archive"
    path.write_bytes(b"first")
    row = StagedImageFactory(cluster=here, format="archive", path=str(path), sha256="")
    for content, state in ((b"first", "ready"), (b"second", "failed")):
        path.write_bytes(content)
        operation = staging.verify(row, here.owner)
        ended = Operation.objects.filter(pk=operation.pk, state__in=Operation.FINAL)
        tick_until(here, ended.exists)
        row.refresh_from_db()
        assert row.state == state, row.message
        assert row.sha256 == hashlib.sha256(b"first").hexdigest()
    assert "its sha256 is" in row.message
