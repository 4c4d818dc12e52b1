"""Transfers of image files say how far they are, and what becomes of one that fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from experiments import execution
from experiments.execution import image_transfers
from experiments.images import image_imports, staging, store
from experiments.models import AuditEntry, Cluster, Image, ImageImport, StagedImage
from runners.errors import Refused, TryAgain
from runners.images import registry
from runners.images.references import parse_reference
from runners.images.registry import Resolved
from tests.experiments.images.test_image_imports import received, rootfs, uploaded
from tests.factories import AdminFactory, RuntimeFactory, StagedImageFactory

pytestmark = pytest.mark.django_db


class TestProgress:
    """What a transfer says of itself while it runs."""

    def test_bytes_add_up_until_somebody_gives_it_up(self) -> None:
        meter = image_transfers.Meter()
        assert meter.bytes == 0
        meter.set(5)
        meter.add(2)
        assert meter.bytes == 7
        meter.given_up = True
        with pytest.raises(image_transfers.GivenUp):
            meter.add(1)

    def test_the_work_ends_once_nobody_wants_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(image_transfers, "PAUSE_SECONDS", 0.01)
        saved: list[int] = []

        def save(count: int) -> bool:
            saved.append(count)
            return len(saved) < 3

        def work(meter: image_transfers.Meter) -> None:
            while True:
                meter.add(1)
                time.sleep(0.001)

        with pytest.raises(image_transfers.GivenUp):
            image_transfers.run_with_progress(work, save)
        assert saved[0] < saved[-1]
        assert image_transfers.run_with_progress(lambda meter: meter.bytes, save) == 0

    @pytest.mark.parametrize(
        "problem",
        [TryAgain("no route", kind="unreachable"), Refused("no route"), OSError("no route")],
    )
    def test_what_another_side_said_is_told_in_its_words(self, problem: Exception) -> None:
        assert image_transfers.describe_problem(problem) == "no route"

    def test_a_long_message_is_cut_and_a_failure_of_tares_own_is_not_told(self) -> None:
        assert len(image_transfers.describe_problem(Refused("x" * 5000))) == 2000
        assert "Tare itself failed" in image_transfers.describe_problem(KeyError("secret"))
        with pytest.raises(OperationalError):
            image_transfers.describe_problem(OperationalError("away"))

    def test_an_import_says_what_it_does_and_how_much_there_is(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        row = uploaded(rootfs())
        other = uploaded(rootfs(more=b"x"))
        seen: list[tuple[Any, ...]] = []
        columns = ("state", "doing", "total_bytes", "done_bytes", "problem")

        def in_turn(work: Callable[[image_transfers.Meter], Any], save: Any) -> Any:
            seen.append(ImageImport.objects.filter(pk=row.pk).values_list(*columns).get())
            done = work(image_transfers.Meter())
            assert save(7)
            seen.append(ImageImport.objects.filter(pk=row.pk).values_list(*columns).get())
            return done

        monkeypatch.setattr(image_transfers, "run_with_progress", in_turn)
        ImageImport.objects.filter(pk=row.pk).update(problem="an older one", done_bytes=99)
        assert execution.receive(row.pk) == "done"
        size = len(rootfs())
        assert seen == [
            ("under way", "Reading", size, 0, ""),
            ("under way", "Reading", size, 7, ""),
        ]
        row.refresh_from_db()
        assert (row.state, row.done_bytes) == ("done", size)
        assert row.image
        assert (row.image.owner, row.image.size_bytes) == (row.owner, size)
        other.refresh_from_db()
        assert other.state == "waiting"

    def test_bytes_from_a_registry_are_counted_while_they_come(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        row = image_imports.request_from_registry("docker.io/library/toy:1", AdminFactory())
        resolved = Resolved(parse_reference(row.reference), "sha256:" + "5" * 64, b"{}", size=9)
        counted = threading.Event()
        saved: list[int] = []

        def fetch(*_: object, progress: Callable[[int, int], None], **__: object) -> str:
            progress(4, 9)
            assert counted.wait(30), "the 4 bytes were never saved"
            return resolved.digest

        def save(count: int, **_: object) -> bool:
            saved.append(count)
            if count == 4:
                counted.set()
            return True

        monkeypatch.setattr(image_transfers, "PAUSE_SECONDS", 0.01)
        monkeypatch.setattr(registry, "resolve", lambda *_, **__: resolved)
        monkeypatch.setattr(registry, "fetch", fetch)
        monkeypatch.setattr(image_transfers, "check_signatures", lambda *_: None)
        image_transfers._pull(row, Path("unused"), save)
        assert 4 in saved
        assert row.reference == f"docker.io/library/toy:1@{resolved.digest}"

    def test_a_site_that_is_away_for_now_is_tried_again(
        self, here: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        row = image_imports.request_from_cluster(here, "/none/x.sif", here.owner)

        def fail(*_: object) -> None:
            raise TryAgain("no route", kind="unreachable")

        monkeypatch.setattr(image_transfers, "_download", fail)
        assert execution.receive(row.pk) == "try again"
        row.refresh_from_db()
        assert (row.state, row.problem, row.doing) == ("under way", "no route", "Fetching")

    def test_a_copy_that_is_gone_from_the_store_comes_back_with_the_file(self) -> None:
        first = received(uploaded(rootfs()))
        assert first.image
        store.delete(first.image.content_sha256)
        Image.objects.update(content_sha256="")
        second = received(uploaded(rootfs()))
        assert second.image == first.image
        image = Image.objects.get()
        assert store.get_path(image.content_sha256).read_bytes() == rootfs()
        assert AuditEntry.objects.filter(kind="image", what="added").count() == 1


class TestSending:
    """An archive on its way to a cluster."""

    @pytest.fixture
    def archive(self, here: Cluster) -> StagedImage:
        image = received(uploaded(rootfs())).image
        assert image
        RuntimeFactory(cluster=here, kind="charliecloud", executable="ch-run")
        staging.stage(image, here, "sandbox", here.owner)
        return StagedImage.objects.get(format="archive")

    def test_a_site_that_is_away_is_tried_again_after_a_while(
        self, archive: StagedImage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> None:
            raise TryAgain("no route", kind="unreachable")

        with monkeypatch.context() as patched:
            patched.setattr(image_transfers, "_upload", fail)
            assert execution.send(archive.pk) == "try again"
        archive.refresh_from_db()
        assert (archive.state, archive.message) == ("staging", "no route")
        assert archive.sending_at
        assert execution.send(archive.pk) == "sent or being sent", "not within the silence"
        StagedImage.objects.update(sending_at=timezone.now() - 2 * image_transfers.SILENCE)
        assert execution.send(archive.pk) == "sent"
        archive.refresh_from_db()
        assert archive.message == ""

    def test_a_failure_ends_the_sending_of_this_form_alone(
        self, archive: StagedImage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(image_transfers, "_upload", lambda *_: 1 / 0)
        other = StagedImageFactory(state="staging", format="archive")
        assert execution.send(archive.pk) == "failed"
        archive.refresh_from_db()
        assert (archive.state, archive.sending_at) == ("failed", None)
        assert "Tare itself failed" in archive.message
        other.refresh_from_db()
        assert (other.state, other.message) == ("staging", "")

    def test_who_gives_up_while_it_is_sent_is_obeyed(
        self, archive: StagedImage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def give_up(*_: object) -> None:
            raise image_transfers.GivenUp

        monkeypatch.setattr(image_transfers, "_upload", give_up)
        assert execution.send(archive.pk) == "given up"
        archive.refresh_from_db()
        assert (archive.state, archive.message) == ("staging", "")
