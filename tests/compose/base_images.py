"""Base images where no registry is reached: the same names, made of Debian's packages.

What docker-compose.yml and the two Dockerfiles need of each is in `stand_ins/*.Dockerfile`: users,
paths, commands. They are made for the proof and kept nowhere else.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from lab import host, rootfs
from tests.compose.engine import docker

RECIPES = Path(__file__).with_name("stand_ins")
DEBIAN = "tare-debian"
AUTHORITIES = Path("/usr/local/share/ca-certificates")
IMAGE_NAME = re.compile(r"^(?:FROM|\s+image:)\s+(\S+)", re.MULTILINE)


def list_base_images(checkout: Path) -> set[str]:
    """Return the names of all images that a checkout's compose file starts from."""
    files = ("docker-compose.yml", "Dockerfile", "lab/Dockerfile")
    return {name for file in files for name in IMAGE_NAME.findall((checkout / file).read_text())}


def make_stand_ins(names: Iterable[str], folder: Path) -> None:
    """Give the engine an image of each of these names."""
    make_debian(folder)
    built = {"debian": DEBIAN}
    for name in sorted(names):
        kind = name.partition(":")[0].rpartition("/")[2]
        if kind not in built:
            built[kind] = f"tare-{kind}"
            file = RECIPES / f"{kind}.Dockerfile"
            docker("build", "--tag", built[kind], "--file", str(file), str(RECIPES))
        docker("tag", built[kind], name)


def make_debian(folder: Path) -> None:
    """Import Debian with this machine's mirror, package index and certificate authorities."""
    root, log = folder / "debian", folder / "debian.log"
    shutil.rmtree(root, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    rootfs.install_debian(root, ["ca-certificates"], log)
    (root / "etc/apt/sources.list").unlink(missing_ok=True)
    (root / "etc/apt/sources.list.d/debian.sources").write_text(
        f"Types: deb\nURIs: {host.find_debian_mirror()}\nSuites: {rootfs.RELEASE}\n"
        "Components: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
    )
    if index := os.environ.get("PIP_INDEX_URL"):
        (root / "etc/pip.conf").write_text(f"[global]\nindex-url = {index}\n")
    if AUTHORITIES.is_dir():
        shutil.copytree(AUTHORITIES, root / AUTHORITIES.relative_to("/"), dirs_exist_ok=True)
        host.run(["chroot", str(root), "update-ca-certificates"], log)
    with subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE) as tar:
        argv = ["docker", "import", "--change", 'CMD ["bash"]', "-", DEBIAN]
        subprocess.run(argv, stdin=tar.stdout, check=True, capture_output=True)
    shutil.rmtree(root)
