"""Images' own bytes on their way: into the store, and from there to clusters. Minutes, not ticks.

Whoever moves bytes writes every second how far it is. A worker that falls silent has died, and the
clock asks another one; what was given up meanwhile is noticed at the same time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Q
from django.utils import timezone

from experiments.access import audit
from experiments.encryption import WrongKey
from experiments.execution.connections import Link, ssh_address
from experiments.execution.own_failures import describe
from experiments.images import store
from experiments.images.image_imports import end_arrival
from experiments.images.inventory import columns, storable
from experiments.models import Arrival, Cluster, Image, StagedImage, User
from experiments.models.images import ARCHIVE, SILENCE
from runners.errors import Refused, TryAgain
from runners.images import ImageDescription, convert_to_oci, describe_image, identify, registry
from runners.transports import Local, Transport
from runners.untrusted import clean_text

PLACES = ("cluster__credential", "cluster__jump_host")
PAUSE_SECONDS = 1.0  # between two words about how far it is
MOST_WORDS = 2000  # characters of what is told of a failure

Done = TypeVar("Done")


class GivenUp(Exception):
    """Somebody has ended this meanwhile."""


class Meter:
    """How many bytes have been moved. Raises GivenUp in whoever moves them."""

    def __init__(self) -> None:
        self.bytes = 0
        self.given_up = False

    def at(self, count: int) -> None:
        self.bytes = count
        if self.given_up:
            raise GivenUp

    def more(self, count: int) -> None:
        self.at(self.bytes + count)


def attended(work: Callable[[Meter], Done], write: Callable[[int], bool]) -> Done:
    """Do `work` in a thread without the database, and `write` each second how far it is.

    Raises GivenUp once `write` says that nobody wants it any more.
    """
    meter = Meter()
    with ThreadPoolExecutor(max_workers=1) as pool:
        future = pool.submit(work, meter)
        while not wait([future], timeout=PAUSE_SECONDS).done:
            meter.given_up = not write(meter.bytes)
        return future.result()


@contextmanager
def connection(cluster: Cluster) -> Iterator[Transport]:
    """A connection of its own: the tick's is not to wait for gigabytes. Raises TryAgain."""
    with Local() if cluster.transport == "local" else Link(ssh_address(cluster)) as transport:
        yield transport


def send(pk: int) -> str:
    """Send an archive to its cluster, unless somebody does, and return what came of it."""
    now = timezone.now()
    wanted = StagedImage.objects.to_be_sent().filter(pk=pk)
    free = Q(sending_at=None) | Q(sending_at__lt=now - SILENCE)
    if not wanted.filter(free).update(sending_at=now, sent_bytes=0, message=""):
        return "sent or being sent"
    row = StagedImage.objects.select_related("image", *PLACES).get(pk=pk)

    def write(count: int) -> bool:
        return bool(wanted.update(sent_bytes=count, sending_at=timezone.now()))

    try:
        sha256 = _have(row.image, write)
        _upload(row, sha256, write)
    except GivenUp:
        return "given up"
    except TryAgain as problem:  # as long as it is wanted, the clock asks again
        wanted.update(message=in_words(problem), sending_at=timezone.now())
        return "try again"
    except Exception as problem:  # noqa: BLE001 - asked again, it would stumble again
        failed = {"state": StagedImage.State.FAILED, "message": in_words(problem)}
        wanted.update(**failed, sending_at=None)
        return "failed"
    ready = {"state": StagedImage.State.READY, "sha256": sha256}
    wanted.update(message="", sent_bytes=None, sending_at=None, **ready)
    return "sent"


def _upload(row: StagedImage, sha256: str, write: Callable[[int], bool]) -> None:
    content = store.path_of(sha256)
    size = content.stat().st_size
    StagedImage.objects.filter(pk=row.pk).update(size_bytes=size)
    with connection(row.cluster) as there, content.open("rb") as file:
        folder = row.path.rpartition("/")[0]
        made = there.run(["mkdir", "-p", folder])
        if made.returncode:
            words = clean_text(made.stderr).strip()
            raise Refused(f"{folder} on {row.cluster} cannot be made: {words}")
        attended(lambda meter: there.upload(row.path, file, size, sha256, progress=meter.at), write)


def _have(image: Image, write: Callable[[int], bool]) -> str:
    """Have the image's own bytes in the store, from a cluster if need be; their sha256."""
    if store.has(image.content_sha256):
        return image.content_sha256
    others = image.staged.filter(format=ARCHIVE, state=StagedImage.State.READY)
    other = others.select_related(*PLACES).first()
    if other is None:
        raise Refused(f"Tare has no copy of {image} any more.")
    path = store.incoming()
    try:
        found = _download(other.cluster, other.path, path, lambda _: write(0))
        if other.sha256 and found != other.sha256:
            raise Refused(
                f"{other.path} on {other.cluster} is not the archive that it was: its sha256 is "
                f"{found}, it was {other.sha256}."
            )
        digest = describe_image(path).digest
        if digest != image.digest:
            raise Refused(
                f"{other.path} on {other.cluster} is another image: its digest is {digest}, and "
                f"that of {image} is {image.digest}."
            )
        store.adopt(path, found)
    finally:
        path.unlink(missing_ok=True)
    Image.objects.filter(pk=image.pk).update(content_sha256=found)
    return found


def _download(cluster: Cluster, path: str, target: Path, write: Callable[[int], bool]) -> str:
    """Bring a file home; its sha256 in hex. Raises Refused where there is none."""
    with connection(cluster) as there, target.open("wb") as file:
        try:
            return attended(lambda meter: there.download(path, file, progress=meter.at), write)
        except FileNotFoundError:
            raise Refused(f"There is no file {path} on {cluster}.") from None


def receive(pk: int) -> str:
    """Fetch what somebody wants in the catalogue, unless it is being fetched."""
    now = timezone.now()
    under_way = Arrival.objects.filter(pk=pk, state=Arrival.State.UNDER_WAY)
    waiting = Q(state=Arrival.State.WAITING)
    died = Q(state=Arrival.State.UNDER_WAY, seen_at__lt=now - SILENCE)
    claim = {"state": Arrival.State.UNDER_WAY, "seen_at": now, "done_bytes": 0, "problem": ""}
    if not Arrival.objects.filter(waiting | died, pk=pk).update(**claim):
        return "fetched or being fetched"
    row = Arrival.objects.select_related("owner", *PLACES).get(pk=pk)

    def write(count: int, **more: Any) -> bool:
        return bool(under_way.update(done_bytes=count, seen_at=timezone.now(), **more))

    # A name that the next worker knows too: what a broken connection left is gone on with.
    path = store.incoming(row.incoming or f"arrival-{row.pk}")
    made = path.with_name(f"{path.name}.oci")
    try:
        if row.kind == Arrival.Kind.CLUSTER and row.cluster:
            write(0, doing="Fetching")
            _download(row.cluster, row.reference, path, write)
        elif row.kind == Arrival.Kind.REGISTRY:
            write(0, doing="Asking the registry")
            _pull(row, path, write)
        write(0, doing="Reading", total_bytes=path.stat().st_size)
        whole, found, sha256 = attended(lambda meter: _read(path, made, meter), write)
        if not write(found.size):
            raise GivenUp
        image = _keep(row, whole, found, sha256)
    except GivenUp:
        _forget(path)
        return "given up"
    except TryAgain as problem:
        write(0, problem=in_words(problem))
        return "try again"
    except Exception as problem:  # noqa: BLE001 - fetched again, it would stumble again
        _forget(path)
        name = row.reference.rpartition("/")[2] or "It"
        words = in_words(problem)
        end_arrival(row, problem=words.replace(made.name, name).replace(path.name, name))
        return "failed"
    finally:
        made.unlink(missing_ok=True)
    _forget(path)
    end_arrival(row, image=image)
    return "done"


def in_words(problem: Exception) -> str:
    """Return what is told of a failure. What nobody foresaw is in the log, with its traceback.

    Raises the failure again where it is the database's that is away: nothing can be told then.
    """
    if isinstance(problem, OperationalError | InterfaceError):
        raise problem
    if isinstance(problem, TryAgain | Refused | OSError):
        return str(storable(str(problem))[:MOST_WORDS])
    return describe(problem).words


def _forget(path: Path) -> None:
    """Remove what was received, and what of it was not yet whole."""
    for name in (path.name, f"{path.name}.part"):
        path.with_name(name).unlink(missing_ok=True)


def _pull(row: Arrival, path: Path, write: Callable[..., bool]) -> None:
    """Resolve the reference, and fetch what it means now; the digest becomes part of it."""
    try:
        password = row.password.reveal()
    except WrongKey as problem:
        raise TryAgain(f"The password cannot be used. {problem}", kind="set-up") from None
    access = registry.Access(row.user_name, password, settings.IMAGE_INSIDE_HOSTS)
    wanted = registry.parse(row.reference)
    found = attended(lambda _: registry.resolve(wanted, access), write)
    name = str(replace(wanted, digest=found.digest))
    write(0, doing="Fetching", total_bytes=found.size, reference=name)
    row.reference = name

    def fetch(meter: Meter) -> str:
        return registry.fetch(found, path, access, progress=lambda here, _: meter.at(here))

    attended(fetch, write)


def _read(path: Path, made: Path, meter: Meter) -> tuple[Path, ImageDescription, str]:
    """What is to be kept, what it is, and its sha256.

    Of an image in an archive one is kept, as an OCI archive: a docker-archive has no digest.
    """
    whole = path
    if identify(path) in ("docker", "oci"):
        convert_to_oci(path, made)
        whole = made
    found = describe_image(whole, count=meter.more)
    if found.kind != "oci":
        return whole, found, found.digest[7:]
    with whole.open("rb") as file:
        return whole, found, hashlib.file_digest(file, "sha256").hexdigest()


HIDDEN = (
    "The same image is in the catalogue already, but not shared with you. A site administrator can "
    "share it, or ask its owner to."
)


def _is_hidden(digest: str, user: User) -> bool:
    rows = Image.objects.filter(digest=digest)
    return rows.exists() and not rows.visible_to(user).exists()


def _keep(row: Arrival, whole: Path, found: ImageDescription, sha256: str) -> Image:
    """Put the file into the store and write the catalogue; the same image may be there already.

    Raises Refused where it is, as somebody's who does not share it: a link would lead nowhere.
    """
    if _is_hidden(found.digest, row.owner):
        raise Refused(HIDDEN)
    store.adopt(whole, sha256)
    with transaction.atomic():
        image, made = Image.objects.get_or_create(
            digest=found.digest,
            defaults={
                "reference": row.title or row.reference,
                "kind": found.kind,
                "content_sha256": sha256,
                "size_bytes": found.size,
                "labels": storable(found.labels),
                "owner": row.owner,
                **columns(found.survey),
            },
        )
        if made:
            audit.note(row.owner, "added", image, why=f"{row.get_kind_display()}: {row.reference}")
        elif not store.has(image.content_sha256):
            known = {} if image.facts else columns(found.survey)
            Image.objects.filter(pk=image.pk).update(content_sha256=sha256, **known)
    return image
