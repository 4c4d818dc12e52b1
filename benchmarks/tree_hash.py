"""The survey of a root file system of 1 GB, beside `find | xargs sha256sum`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from runners.images import describe_image
from runners.payload import pack, survey

FILES, SIZE = 20_000, 1_000_000_000  # bytes in all; most files are small, a few are large


def make(root: Path) -> None:
    """Write files as in an image: half of the bytes in few libraries, the rest in many scripts."""
    with open("/dev/urandom", "rb") as noise:
        for number in range(FILES):
            folder = root / "usr" / "lib" / f"package{number // 100}"
            folder.mkdir(parents=True, exist_ok=True)
            size = SIZE // 2 // 20 if number % (FILES // 20) == 0 else SIZE // 2 // FILES
            (folder / f"file{number}").write_bytes(noise.read(size))


def report(label: str, began: float) -> None:
    print(f"{label:44}{time.perf_counter() - began:8.2f} s")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="tare-bench-") as name:
        root, archive = Path(name) / "root", Path(name) / "image.tar"
        make(root)
        for _ in range(2):
            began = time.perf_counter()
            facts = survey.survey_folder(str(root))
            report(f"survey of {facts['files']} files, {facts['bytes'] / 1e9:.2f} GB", began)
            began = time.perf_counter()
            command = "find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum"
            subprocess.run(["sh", "-c", command], cwd=root, stdout=subprocess.DEVNULL, check=True)
            report("find | xargs sha256sum", began)
        with archive.open("wb") as file:
            pack.write(file, [pack.Source(str(root))], {}, {})
        began = time.perf_counter()
        assert describe_image(archive).survey["tree"] == facts["tree"]
        report("the same of its OCI archive, digests checked", began)


if __name__ == "__main__":
    main()
