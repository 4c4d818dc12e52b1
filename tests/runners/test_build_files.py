"""Files that images are built from: the base is named by its digest, and nothing else changes."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.file_builds import INSTALL_DEBIAN, LAY_OUT, write_debian_file
from runners.images import definition_files, dockerfiles
from runners.images.debian_packages import PackageListError, find_versions, read_packages
from runners.images.dockerfiles import BuildFileError

DIGEST = f"sha256:{'ab' * 32}"
OTHER = f"sha256:{'cd' * 32}"
LOCAL = "localhost/base"
REST = "RUN echo from a \\\n  && true # FROM x\nCOPY --from=first /a /b\n"


@pytest.mark.parametrize(
    ("head", "sent"),
    [
        (f"FROM debian@{DIGEST}\n", f"FROM {LOCAL}\n"),
        (f"from {DIGEST} as First\n", f"FROM {LOCAL} AS First\n"),
        (f"ARG X=1\nFROM \\\n  # a remark\n  debian@{DIGEST}\n", f"ARG X=1\nFROM {LOCAL}\n"),
        (f"FROM a@{DIGEST} AS first\nRUN x\nFROM first\n", None),
        (f"FROM a@{DIGEST}\nRUN x\nFROM 0 AS second\nRUN x\nFROM 1\n", None),
        (f"FROM a@{DIGEST} AS first\r\nFROM SCRATCH\r\nCOPY --from=first / /\r\n", None),
        (f"FROM a@{DIGEST}\nRUN <<END\nFROM nothing\nEND\n", None),
        (f"FROM a@{DIGEST}\nCOPY <<-'END' /x\nFROM nothing\n\tEND\n", None),
        (f"FROM a@{DIGEST}\nRUN cat <<A <<B\nFROM a\nA\nFROM b\nB\n", None),
    ],
)
def test_a_dockerfile_is_pointed_to_its_base(head: str, sent: str | None) -> None:
    text = head + REST
    assert dockerfiles.read_base(text) == DIGEST
    pointed = dockerfiles.point_to(text, LOCAL)
    assert REST in pointed
    assert DIGEST not in pointed
    assert f"FROM {LOCAL}" in pointed
    if sent:
        assert pointed.startswith(sent)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "names no base"),
        ("FROM scratch\n", "names no base"),
        ("RUN FROM x\n", "names no base"),
        ("FROM debian:13\n", "Line 1 names debian:13. Name the base by the digest"),
        ("ARG B\n\nFROM ${B}\n", "Line 3 names"),
        (f"FROM debian@{DIGEST[:-1]}\n", "Line 1 names debian@"),
        (f"FROM a@{DIGEST}\nFROM b@{OTHER}\n", "names 2 bases"),
        (f"FROM --platform=linux/arm64 a@{DIGEST}\n", "takes no options"),
        (f"FROM a@{DIGEST} and more\n", "Line 1 is not understood"),
        (f"FROM 0\nFROM a@{DIGEST}\n", "Line 1 names 0"),
        (f"FROM a@{DIGEST}\nFROM 1\n", "Line 2 names 1"),
        ("FROM\n", "Line 1 is not understood"),
        (f"# escape=`\nFROM a@{DIGEST}\n", "continued by a backslash"),
        (f"FROM a@{DIGEST}\n\0", "holds a NUL"),
        (f"FROM a@{DIGEST}\n# \udcff", "half a character"),
        ("#" * 200_001, "200,000 are the most"),
    ],
)
def test_a_dockerfile_that_names_no_one_digest_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BuildFileError, match=problem):
        dockerfiles.read_base(text)


@given(st.text(alphabet="FROM from asb@\\\n\t<>#'\"E1-$x", max_size=200))
def test_no_dockerfile_is_anything_but_read_or_refused(text: str) -> None:
    try:
        digest = dockerfiles.read_base(f"FROM a@{DIGEST}\n{text}")
    except BuildFileError:
        return
    assert digest == DIGEST


HEADER = f"Bootstrap: docker\nFrom: debian@{DIGEST}\n"
POST = "%post\n    from: x\n    echo Bootstrap: y\n"


def test_a_definition_file_is_pointed_to_its_base() -> None:
    text = f"# tools\n\n{HEADER}Stage: one\n\n{POST}\nbootstrap:library\nfrom: a@{DIGEST}\n"
    assert definition_files.read_base(text) == DIGEST
    pointed = definition_files.point_to(text, "localimage", "/images/x.archive")
    assert POST in pointed
    assert DIGEST not in pointed
    assert pointed.count("Bootstrap: localimage\nFrom: /images/x.archive\n") == 2
    assert "Stage: one" in pointed


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "names no base"),
        ("Bootstrap: docker\nFrom: debian:13\n", "Line 2 names debian:13"),
        (f"From: a@{DIGEST}\n", "Line 1 stands before the base"),
        ("%post\n    true\n", "Line 1 stands before the base"),
        (f"{HEADER}MirrorURL: http://a\n", "Line 3: MirrorURL cannot stand here"),
        (f"{HEADER}%setup\n    rm -rf $HOME\n", "%setup runs on the node"),
        (f"{HEADER}%PRE\n    x\n", "%PRE runs on the node"),
        (f"{HEADER}%post\n    true\n  %%setup\n    x\n", "Line 5: %setup runs on the node"),
        (f"{HEADER}\nBootstrap: docker\nFrom: {OTHER}\n", "names 2 bases"),
        (f"{HEADER}\0", "holds a NUL"),
    ],
)
def test_a_definition_file_that_names_no_one_digest_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BuildFileError, match=problem):
        definition_files.read_base(text)


def test_what_windows_and_apptainer_take_for_nothing_is_left_out() -> None:
    mark = "\ufeff"
    assert dockerfiles.read_base(f"{mark}FROM debian@{DIGEST}\r\n") == DIGEST
    assert not dockerfiles.point_to(f"{mark}FROM debian@{DIGEST}\n", "x").startswith(mark)
    text = f"{mark}Bootstrap: docker # from the catalogue\r\nFrom: debian@{DIGEST} # 13\r\n"
    assert definition_files.read_base(text) == DIGEST
    pointed = definition_files.point_to(text, "localimage", "/images/x")
    assert pointed.startswith("Bootstrap: localimage\nFrom: /images/x\n")


@pytest.mark.parametrize(
    "text", ["RUN <<A\n" * 24_000, "RUN " + "<<A " * 25_000 + "\n" + "x\n" * 49_000]
)
def test_texts_that_have_no_end_take_no_time(text: str) -> None:
    began = time.process_time()
    assert dockerfiles.read_base(f"FROM debian@{DIGEST}\n{text}") == DIGEST
    assert time.process_time() - began < 5


@given(st.text(max_size=200))
def test_no_definition_file_is_anything_but_read_or_refused(text: str) -> None:
    try:
        digest = definition_files.read_base(HEADER + text)
    except BuildFileError:
        return
    assert digest == DIGEST


def test_a_list_of_debian_packages_is_read() -> None:
    text = "g++ libc6:i386=2.41-12  # a remark\nhello=2.10-5, g++\n\n# nothing\n"
    packages = read_packages(text)
    assert packages == ["g++", "libc6:i386=2.41-12", "hello=2.10-5"]
    installed = {"g++": "4:14.2.0-1", "hello": "2.10-5"}
    assert find_versions(packages, installed) == ["g++=4:14.2.0-1", "libc6", "hello=2.10-5"]
    assert read_packages("") == []


@pytest.mark.parametrize(
    "word",
    ["-y", "--allow-unauthenticated", "bash-", "a/sid", "Name", "x;y", "$(id)", "a", "é", "=1"],
)
def test_what_apt_would_take_as_anything_but_a_package_is_refused(word: str) -> None:
    with pytest.raises(PackageListError, match=r"Line 2: .* is no Debian package"):
        read_packages(f"hello\n{word}\n")


def test_lists_that_are_too_long_are_refused() -> None:
    with pytest.raises(PackageListError, match="600 packages; 500 are the most"):
        read_packages(" ".join(f"lib{number}" for number in range(600)))
    with pytest.raises(PackageListError, match="20,000 are the most"):
        read_packages("x" * 20_001)


def test_the_debian_file_is_a_command_that_no_shell_reads_twice() -> None:
    text = write_debian_file(["hello=1", "g++"])
    assert text.count("\n") == 3
    assert text.endswith('"install", "hello=1", "g++"]\n')
    assert "apt-get install" in INSTALL_DEBIAN


def test_sent_files_are_laid_out_under_their_own_names(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("not sent")
    (tmp_path / "sent-job.sh").write_text("sent")
    context = tmp_path / "work" / "context"
    command = ["sh", "-c", LAY_OUT, "lay", str(tmp_path), str(context)]
    subprocess.run(command, check=True, timeout=20)
    assert [path.name for path in context.iterdir()] == ["job.sh"]
    assert (context / "job.sh").read_text() == "sent"
    (tmp_path / "sent-job.sh").unlink()
    subprocess.run(command, check=True, timeout=20)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("# a comment\nspack:\n  specs: [hdf5]\n", "environment file of Spack"),
        ('{"_meta": {"file-type": "spack-lockfile"}}', "environment file of Spack"),
        ("name: x\nchannels: [conda-forge]\n", "environment file of conda"),
        ("---\ndependencies:\n  - numpy\n", "environment file of conda"),
    ],
)
def test_environment_files_are_named_where_a_build_file_belongs(text: str, problem: str) -> None:
    for read in (dockerfiles.read_base, definition_files.read_base):
        with pytest.raises(BuildFileError, match=problem):
            read(text)


def test_what_spack_containerize_writes_is_taken_with_one_base_for_both_stages() -> None:
    """By Spack's documentation: `images: build:` and `final:` of the environment's file."""
    text = f"""# Build stage with Spack pre-installed and ready to be used
FROM site/spack@{DIGEST} AS builder
RUN mkdir -p /opt/spack-environment && set -o noclobber \\
&&  (echo spack: \\
&&   echo '  specs:' \\
&&   echo '  - hdf5') > /opt/spack-environment/spack.yaml
RUN cd /opt/spack-environment && spack env activate . && spack install --fail-fast
# Bare OS image to run the installed executables
FROM site/spack@{DIGEST}
COPY --from=builder /opt/spack-environment /opt/spack-environment
"""
    assert dockerfiles.read_base(text) == DIGEST
    pointed = dockerfiles.point_to(text, LOCAL)
    assert pointed.count(f"FROM {LOCAL}") == 2
    assert "echo '  - hdf5'" in pointed
    with pytest.raises(BuildFileError, match="names 2 bases"):
        dockerfiles.read_base(text.replace(DIGEST, OTHER, 1))
