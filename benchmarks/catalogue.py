"""The catalogue's page of images, filtered and searched: 100 images, and 1,000 beside them."""

from __future__ import annotations

import random
import statistics
import sys
import time
from pathlib import Path

BASE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BASE))

from benchmarks.servers import run_servers

GOAL_MS = 100
PACKAGES, SYSTEM_PACKAGES = 350, 600
QUERIES = {
    "all, by name": "",
    "by framework, system and CUDA": "framework=tensorflow+2.21.0&system=Debian+12&cuda=12.4",
    "staged on one cluster, by size": "staged=CLUSTER&sort=-size",
    "numpy 2.4": "q=numpy+2.4",
    "package-30, by the beginning of its name": "q=package-30",
    "three words": "q=numpy+2.4+package-301+debian",
    "a word that no image has": "q=nothing-at-all",
}


def main() -> None:
    with run_servers():
        measure()


def measure() -> None:
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command
    from django.test import Client

    settings.ALLOWED_HOSTS = ["*"]
    settings.SECURE_SSL_REDIRECT = False
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    call_command("migrate", verbosity=0)
    from tests.factories import ClusterFactory, UserFactory

    owner, cluster = UserFactory(), ClusterFactory()
    client = Client()
    client.force_login(owner)
    print(f"{'of 15, in ms':56} {'median':>8} {'longest':>8}   goal {GOAL_MS}")
    for images, before in ((100, 0), (1000, 100)):
        make_images(images - before, owner, cluster)
        for label, query in QUERIES.items():
            address = f"/catalogue/?{query.replace('CLUSTER', str(cluster.pk))}"
            took = [milliseconds(client, address) for _ in range(16)][1:]
            name = f"{images:,} images: {label}"
            print(f"{name:56} {statistics.median(took):8.1f} {max(took):8.1f}")


def milliseconds(client: object, address: str) -> float:
    began = time.perf_counter()
    response = client.get(address)  # type: ignore[attr-defined]
    assert response.status_code == 200, response.status_code
    return 1000 * (time.perf_counter() - began)


def make_images(count: int, owner: object, cluster: object) -> None:
    """Make images with the packages and facts that a survey finds, each staged twice."""
    from experiments.models import Image, StagedImage

    draw = random.Random(count)
    images = []
    for _ in range(count):
        numbers = draw.sample(range(2000), PACKAGES)
        packages = {f"package-{number}": f"{draw.randrange(9)}.{number}.1" for number in numbers}
        packages |= {"numpy": draw.choice(("1.26.4", "2.4.6")), "tensorflow": "2.21.0"}
        system = {
            f"lib{number}-dev": f"1:{number}.2-3+deb12u1" for number in range(SYSTEM_PACKAGES)
        }
        images.append(
            Image(
                reference=f"registry.example.org/group/image{draw.randrange(10**9)}:2026.11",
                digest=f"sha256:{draw.randbytes(32).hex()}",
                operating_system=draw.choice(("Debian 12", "Ubuntu 24.04", "Rocky Linux 9.5")),
                python_version=draw.choice(("3.9.21", "3.11.2", "3.12.7")),
                framework=draw.choice(("tensorflow 2.21.0", "torch 2.11.0", "numpy 2.4.6")),
                cuda_version=draw.choice(("", "12.4", "13.0")),
                packages=packages,
                facts={"packages": {"python": packages, "system": system, "conda": {}}},
                recipe="FROM debian:12\n" * 40,
                labels={"maintainer": "group"},
                size_bytes=draw.randrange(10**8, 10**10),
                owner=owner,
            )
        )
    Image.objects.bulk_create(images)
    StagedImage.objects.bulk_create(
        StagedImage(image=image, cluster=cluster, format=form, path=f"/images/{image.pk}.{form}")
        for image in images
        for form in ("sif", "sandbox")
    )


if __name__ == "__main__":
    main()
