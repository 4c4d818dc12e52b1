"""What a root folder holds: the same whether it is walked, packed, or unpacked again."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runners.images import describe_image
from runners.payload import inventory, pack, survey, unpack

PROGRAM = Path(survey.__file__)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small root file system."""
    made = tmp_path / "root"
    for name, content in {
        "etc/os-release": 'PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nID=debian\nVERSION_ID=13\n',
        "usr/bin/tool": "#!/bin/sh\n",
        "usr/share/ünï cödé": "x" * 70_000,
        "opt/data": "data",
    }.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(content)
    for path in made.rglob("*"):  # whatever the umask of whoever runs this
        path.chmod(0o755 if path.is_dir() or path.name == "tool" else 0o644)
    (made / "bin").symlink_to("usr/bin")
    return made


def tree(root: Path, *exclude: str) -> str:
    return str(survey.survey_folder(str(root), exclude)["tree"])


def test_the_hash_is_of_path_kind_mode_size_and_content(root: Path) -> None:
    seen = {tree(root)}

    def changed() -> None:
        seen.add(tree(root))

    (root / "opt/data").write_text("dat4")
    changed()
    (root / "opt/data").write_text("longer")
    changed()
    (root / "opt/data").chmod(0o755)
    changed()
    (root / "opt/data").rename(root / "opt/renamed")
    changed()
    (root / "bin").unlink()
    (root / "bin").symlink_to("usr/sbin")
    changed()
    (root / "opt/renamed").unlink()
    (root / "opt/renamed").symlink_to("longer")
    changed()
    (root / "usr/share").chmod(0o705)
    changed()
    assert len(seen) == 8


def test_the_hash_is_written_down(root: Path) -> None:
    """Hashes of images staged long ago must stay right: another rule is another schema."""
    assert survey.SCHEMA == 1
    assert tree(root) == "sha256:64e94833a02a5210fa9085d1b1ddcb500b2a313dbe4d16ce6dd7cf0a3c221433"


def test_what_some_forms_cannot_keep_does_not_count(root: Path) -> None:
    before = tree(root)
    os.utime(root / "opt/data", (1, 1))
    os.chown(root / "opt/data", os.getuid(), os.getgid())
    (root / "usr/bin/tool").chmod(0o6755)
    (root / "opt/data").chmod(0o666)
    (root / "opt/data").chmod(0o444)
    (root / "opt").chmod(0o1777)
    (root / "empty/folder").mkdir(parents=True)  # where runtimes mount things
    os.mkfifo(root / "pipe")
    os.link(root / "opt/data", root / "opt/again")
    (root / "opt/again").unlink()
    assert tree(root) == before


def test_a_hard_link_is_a_file(root: Path) -> None:
    os.link(root / "opt/data", root / "opt/again")
    linked = tree(root)
    (root / "opt/again").unlink()
    (root / "opt/again").write_text("data")
    assert tree(root) == linked


def test_what_runtimes_put_into_images_is_left_out_and_said(root: Path) -> None:
    before = survey.survey_folder(str(root))
    for path in survey.EXCLUDED:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("the node's")
    after = survey.survey_folder(str(root))
    assert after["tree"] == before["tree"]
    assert [row["path"] for row in after["exclusions"]] == sorted(survey.EXCLUDED)
    assert all(row["reason"] for row in after["exclusions"])


def test_binds_of_the_job_are_left_out_with_the_folders_that_lead_to_them(root: Path) -> None:
    before = tree(root)
    (root / "scratch/jobs/1").mkdir(parents=True)
    (root / "scratch/jobs/1/out").write_text("what the job writes")
    assert tree(root) != before
    assert tree(root, "/scratch/jobs/1") == before


def test_what_not_everybody_may_read_is_known_by_its_name_alone(root: Path) -> None:
    (root / "etc/shadow").write_text("root:*:1")
    (root / "etc/shadow").chmod(0o640)
    (root / "opt/closed").mkdir(mode=0o700)
    (root / "opt/closed/file").write_text("x")
    report = survey.survey_folder(str(root))
    assert report["unreadable"] == ["etc/shadow", "opt/closed"]
    (root / "etc/shadow").write_text("root:x:20000")
    (root / "opt/closed/file").unlink()
    assert tree(root) == report["tree"]
    (root / "etc/shadow").unlink()
    assert tree(root) != report["tree"]


def test_parts_say_where_two_trees_differ(root: Path) -> None:
    before = survey.survey_folder(str(root))["parts"]
    assert set(before) == {"bin", "etc", "opt", "usr"}
    (root / "opt/data").write_text("other")
    after = survey.survey_folder(str(root))["parts"]
    assert {name for name in before if before[name] != after[name]} == {"opt"}


NAMES = st.sampled_from(["a", "b", "ü b", "c'd", "tmp", "bin"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


@given(
    files=st.dictionaries(PATHS, st.tuples(st.binary(max_size=9), st.integers(0, 0o7777))),
    links=st.dictionaries(PATHS, st.sampled_from(["a", "../b", "/bin", "no/where", "."])),
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_an_archive_of_a_folder_has_its_survey_and_becomes_it_again(
    tmp_path_factory: pytest.TempPathFactory,
    files: dict[str, tuple[bytes, int]],
    links: dict[str, str],
) -> None:
    base = tmp_path_factory.mktemp("tree")
    root, archive = base / "root", base / "image.tar"
    (root / "usr").mkdir(parents=True)
    (root / "etc").mkdir()
    for path, (content, mode) in files.items():
        place = root / path
        if not any(parent.is_file() for parent in place.parents) and not place.is_dir():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            place.chmod(mode | 0o600)
    for path, target in links.items():
        place = root / path
        if place.parent.is_dir() and not os.path.lexists(place):
            place.symlink_to(target)
    with archive.open("wb") as file:
        pack.write(file, [pack.Source(str(root))], {}, {})
    walked = survey.survey_folder(str(root))
    assert describe_image(archive).survey == walked
    unpack.unpack(str(archive), str(base / "again"))
    assert survey.survey_folder(str(base / "again")) == walked


def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-I", str(PROGRAM), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30)


def test_the_program_writes_the_survey_and_its_progress(root: Path, tmp_path: Path) -> None:
    output, progress = tmp_path / "survey.json", tmp_path / "progress"
    ran = run(root, "--output", output, "--exclude", "/opt", "--progress", progress)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    report = json.loads(output.read_text())
    assert report["tree"] == tree(root, "/opt")
    assert (report["files"], report["bytes"]) == (3, 70_000 + 10 + 67)
    assert report["exclusions"] == [{"path": "opt", "reason": "a bind of this job"}]
    last_progress = json.loads(progress.read_text())
    assert (last_progress["files"], last_progress["of_files"]) == (3, 3)
    assert last_progress["bytes"] == last_progress["of_bytes"] == report["bytes"]
    assert {path.name for path in tmp_path.iterdir()} == {"root", "survey.json", "progress"}


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    ran = run(tmp_path / "none", "--output", tmp_path / "out")
    assert ran.returncode == 2
    assert f"{tmp_path / 'none'}" in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_another_file_system_below_the_root_is_left_out() -> None:
    walk = survey.Walk("/", [])
    walk.list_entries()
    assert not [path for path in walk.entries if path.startswith(("proc/", "sys/", "dev/"))]


def facts(files: dict[str, str | bytes]) -> dict[str, object]:
    contents = {
        path: text.encode() if isinstance(text, str) else text for path, text in files.items()
    }
    contents = {
        path: inventory.reduce_content(path, content)
        for path, content in contents.items()
        if inventory.needs_content(path, len(content))
    }
    return inventory.gather_facts(set(files), contents)


SITE = "opt/env/lib/python3.11/site-packages"
DPKG = """Package: libc6
Status: install ok installed
Version: 2.36-9+deb12u4

Package: gone
Status: deinstall ok config-files
Version: 1

Package: python3.11
Status: install ok installed
Version: 3.11.2-6
"""


def test_facts_of_a_python_image() -> None:
    image_facts = facts(
        {
            "etc/os-release": 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian 12"\n',
            "lib64/ld-linux-x86-64.so.2": "",
            "var/lib/dpkg/status": DPKG,
            "usr/bin/python3.11": b"\x7fELF..\x00" + b"3.11.2\x00...",
            "usr/lib/python3.11/_sysconfigdata__x86_64-linux-gnu.py": (
                "build_time_vars = {'AR': 'ar',\n 'CONFIG_ARGS': \"'--enable-shared' \"\n"
                "                \"'--with-lto'\",\n 'X': 1}\n"
            ),
            "opt/env/bin/python3.11": "",
            f"{SITE}/Foo_Bar-1.0.dist-info/METADATA": "Name: Foo.Bar\nVersion: 1.0\n\nVersion: 9\n",
            f"{SITE}/tensorflow_cpu-2.21.0.dist-info/METADATA": (
                "Name: tensorflow_cpu\nVersion: 2.21.0\n"
            ),
            f"{SITE}/old-0.5-py3.11.egg-info": "Metadata-Version: 1.0\n",
            f"{SITE}/numpy/__config__.py": (
                'CONFIG = {"Build Dependencies": {"blas": {\n "name": "scipy-openblas",\n'
                ' "found": bool("True"), "version": "0.3.29"}}}'
            ),
            "usr/lib/python3/dist-packages/foo_bar-0.9.dist-info/METADATA": (
                "Name: foo-bar\nVersion: 0.9\n"
            ),
        }
    )
    assert image_facts["system"] == {
        "id": "debian", "name": "Debian 12", "version": "12", "libc": "glibc 2.36",
        "architecture": "x86_64",
    }  # fmt: skip
    assert image_facts["packages"] == {
        "python": {"foo-bar": "1.0, 0.9", "old": "0.5", "tensorflow-cpu": "2.21.0"},
        "system": {"libc6": "2.36-9+deb12u4", "python3.11": "3.11.2-6"},
        "conda": {},
    }
    environment, system = image_facts["pythons"]  # type: ignore[misc]
    assert environment["path"] == "opt/env/bin/python3.11"
    assert environment["packages"] == {"foo-bar": "1.0", "old": "0.5", "tensorflow-cpu": "2.21.0"}
    assert system["packages"] == {"foo-bar": "0.9"}
    assert [interpreter["version"] for interpreter in (environment, system)] == ["3.11.2"] * 2
    assert system["build_flags"] == "'--enable-shared' '--with-lto'"
    assert image_facts["frameworks"] == {"tensorflow": "2.21.0"}
    assert image_facts["blas"] == {"scipy-openblas": "0.3.29"}


def test_facts_of_a_gpu_image() -> None:
    image_facts = facts(
        {
            "usr/local/cuda-12.2/version.json": '{"cuda": {"version": "12.2.140"}}',
            "usr/include/cudnn_version.h": (
                "#define CUDNN_MAJOR 8\n#define CUDNN_MINOR 9\n#define CUDNN_PATCHLEVEL 7\n"
            ),
            "usr/lib/x86_64-linux-gnu/libnccl.so.2": "",
            "usr/lib/x86_64-linux-gnu/libnccl.so.2.19.3": "",
            "usr/lib/x86_64-linux-gnu/openmpi/include/mpi.h": (
                "#define OMPI_MAJOR_VERSION 4\n#define OMPI_MINOR_VERSION 1\n"
                "#define OMPI_RELEASE_VERSION 4\n"
            ),
            "usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblasp-r0.3.21.so": "",
            "opt/intel/lib/libmkl_rt.so.2": "",
            "opt/conda/conda-meta/cudatoolkit-11.8.0-h37601d7_11.json": "{}",
            "opt/conda/conda-meta/pytorch-2.1.0-py3.10_cuda.json": "{}",
        }
    )
    assert (image_facts["cuda"], image_facts["cudnn"], image_facts["nccl"]) == (
        "12.2.140",
        "8.9.7",
        "2.19.3",
    )
    assert image_facts["mpi"] == {"openmpi": "4.1.4"}
    assert image_facts["blas"] == {"openblas": "0.3.21", "mkl": "2"}
    assert image_facts["frameworks"] == {"torch": "2.1.0"}
    assert image_facts["packages"]["conda"] == {"cudatoolkit": "11.8.0", "pytorch": "2.1.0"}  # type: ignore[index]


def rpm_database(path: Path) -> bytes:
    import sqlite3

    def header(*texts: tuple[int, str]) -> bytes:
        store, entries = b"", b""
        for tag, text in texts:
            entries += b"".join(n.to_bytes(4, "big") for n in (tag, 6, len(store), 1))
            store += text.encode() + b"\0"
        return len(texts).to_bytes(4, "big") + len(store).to_bytes(4, "big") + entries + store

    database = sqlite3.connect(path)
    database.execute("CREATE TABLE Packages (hnum INTEGER PRIMARY KEY, blob BLOB)")
    blob = header((1000, "bash"), (1001, "5.2.26"), (1002, "3.el9"))
    database.execute("INSERT INTO Packages (blob) VALUES (?)", (blob,))
    database.commit()
    database.close()
    return path.read_bytes()


def test_packages_of_other_distributions(tmp_path: Path) -> None:
    alpine = facts({"lib/apk/db/installed": "C:x\nP:musl\nV:1.2.4-r2\n\nP:zlib\nV:1.3\n"})
    assert alpine["packages"]["system"] == {"musl": "1.2.4-r2", "zlib": "1.3"}  # type: ignore[index]
    rocky = facts({"var/lib/rpm/rpmdb.sqlite": rpm_database(tmp_path / "rpm")})
    assert rocky["packages"]["system"] == {"bash": "5.2.26-3.el9"}  # type: ignore[index]
    assert rocky["not_read"] == []
    broken = facts({"var/lib/rpm/rpmdb.sqlite": "no database", "usr/lib/sysimage/rpm/Packages": ""})
    assert [line.partition(":")[0] for line in broken["not_read"]] == [  # type: ignore[attr-defined]
        "usr/lib/sysimage/rpm/Packages",
        "var/lib/rpm/rpmdb.sqlite",
    ]


def test_the_facts_of_this_machine_are_right() -> None:
    """A real one: what the files say is what the interpreter says of itself."""
    prefix = Path(sys.prefix)
    report = survey.survey_folder(str(prefix))
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    (row,) = [
        interpreter
        for interpreter in report["pythons"]
        if interpreter["path"] == f"bin/python{version}"
    ]
    assert row["packages"]["paramiko"] == __import__("paramiko").__version__
    assert report["packages"]["python"]["django"].startswith("5.2")


def test_packages_of_spack_are_listed_by_their_folders() -> None:
    name, other = "abcdefghijklmnopqrstuvwxyz234567", "b" * 32
    paths = {
        f"opt/software/linux-x86_64/gcc-12.2.0/hdf5-1.14.3-{name}/.spack/spec.json",
        f"opt/software/linux-x86_64/gcc-12.2.0/hdf5-1.12.0-{other}/.spack/spec.json",
        f"opt/spack/py-numpy-2.1.2-{name}/.spack/spec.json",
        f"opt/spack/hdf5-1.14.3-{name}/lib/libhdf5.so",
        "home/ada/.spack/spec.json",
    }
    facts: dict[str, dict[str, object]] = inventory.gather_facts(paths, {})
    assert facts["packages"]["spack"] == {"hdf5": "1.12.0, 1.14.3", "py-numpy": "2.1.2"}
    assert "spack" not in inventory.gather_facts(set(), {})["packages"]
