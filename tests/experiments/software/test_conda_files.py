"""Environment files of conda: what is taken, and what is refused in words."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.software.conda_files import (
    CondaEnvironment,
    CondaFileError,
    has_python,
    leave_out_prefix,
    read_environment,
    read_lock,
)

HEAD = "channels: [conda-forge]\ndependencies:\n"


def test_what_conda_writes_is_taken() -> None:
    text = """
name: cnn  # a comment
channels:
  - conda-forge
  - https://mirror.example.org/conda/bioconda/
  - nodefaults
dependencies:
  - python=3.12
  - numpy >=2.1,<3
  - conda-forge::scipy=1.14.1=py312h62794b6_2
  - libblas[version='3.9.*', build='*openblas']
  - pip
  - pip:
      - tqdm==4.67.1
      - rich[jupyter] >= 13 ; python_version > "3.8"
prefix: /home/ada/miniforge3/envs/cnn
"""
    environment = read_environment(text)
    assert environment.channels == ("conda-forge", "https://mirror.example.org/conda/bioconda")
    assert environment.specs[:3] == (
        "python=3.12",
        "numpy >=2.1,<3",
        "conda-forge::scipy=1.14.1=py312h62794b6_2",
    )
    assert environment.pip == ("tqdm==4.67.1", 'rich[jupyter]>=13; python_version > "3.8"')
    assert has_python(environment)
    assert not has_python(CondaEnvironment((), ("python-dateutil", "python_abi=3.12"), ()))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "The file is empty"),
        ("- numpy", "Line 1: an environment file has channels: and dependencies:."),
        ("channels: [a\n", "This is no YAML"),
        ("channels: [conda-forge]\n", "names no package of conda"),
        ("dependencies: [numpy]\n", "channels: has to name where packages come from"),
        ("channels: [nodefaults]\ndependencies: [numpy]\n", "channels: has to name"),
        ("channels: [defaults]\ndependencies: [numpy]\n", "licence: name conda-forge"),
        ("channels: numpy\ndependencies: [numpy]\n", "channels: has to be a list."),
        (f"{HEAD}  - numpy\nvariables: {{A: b}}\n", "Line 4: variables: are not taken"),
        (f"{HEAD}  - numpy\nplatforms: [linux-64]\n", "Line 4: platforms is not known here"),
        (f"{HEAD}  - 3.12\n", "Line 3: a package is a text."),
        (f"{HEAD}  - x; rm -rf /\n", "Line 3: x; rm -rf / is no package"),
        (f"{HEAD}  - --offline\n", "is no package"),
        (f"{HEAD}  - https://h/x-1-0.conda\n", "is no package"),
        (f"{HEAD}  - x[url='https://h/x-1-0.conda']\n", "not by an address"),
        (f"{HEAD}  - npm: [left-pad]\n", "a list pip: at most"),
        (f"{HEAD}  - numpy\n  - pip: [tqdm]\n", "a list pip: needs python"),
        (f"{HEAD}  - python\n  - pip: [-r requirements.txt]\n", "is an option of pip"),
        (f"{HEAD}  - python\n  - pip: ['a @ https://h/a.whl']\n", "not by an address"),
        (f"{HEAD}  - python\n  - pip: ['./mine']\n", "is no package of pip"),
        ("channels: [https://me:word@h/c]\ndependencies: [x]\n", "holds a password or a token"),
        ("channels: [https://h/t/ab-12/c]\ndependencies: [x]\n", "holds a password or a token"),
        ("channels: [ftp://h/c]\ndependencies: [x]\n", "are reached by https://"),
        ("channels: [file://h/c]\ndependencies: [x]\n", "write file:///PATH"),
        ("channels: [file:///c/../../etc]\ndependencies: [x]\n", "write file:///PATH"),
        ("channels: ['https://']\ndependencies: [x]\n", "names no host"),
        ("channels: ['a b']\ndependencies: [x]\n", "a b is no channel"),
        ("channels: ['http://[h/c']\ndependencies: [x]\n", "is no address"),
        ("spack:\n  specs: [hdf5]\n", "This is an environment file of Spack"),
        ('{"_meta": {}, "roots": [], "concrete_specs": {}}', "environment file of Spack"),
        ("a: &a [x]\nb: *a\n", "Anchors"),
        (f"{HEAD}  - {'x' * 400}\n", "is no package"),
        ("x" * 200_001, "200,000 are the most"),
        ("\ud800", "half a surrogate pair"),
    ],
)
def test_what_cannot_be_built_is_refused_in_words(text: str, why: str) -> None:
    with pytest.raises(CondaFileError) as refusal:
        read_environment(text)
    assert why in str(refusal.value)


def test_limits_hold() -> None:
    many = "".join(f"  - p{number}\n" for number in range(5000))
    with pytest.raises(CondaFileError, match=r"more than 2,000 packages"):
        read_environment(HEAD + many)
    channels = ", ".join(f"c{number}" for number in range(5000))
    with pytest.raises(CondaFileError, match="5000 channels; 20 are the most"):
        read_environment(f"channels: [{channels}]\ndependencies: [x]\n")


@given(st.text(max_size=300))
def test_any_text_is_taken_or_refused(text: str) -> None:
    for whole in (text, HEAD + "  - " + text):
        with suppress(CondaFileError):
            assert read_environment(whole).specs


def test_a_lock_names_one_package_each() -> None:
    sha256, md5 = "ab" * 32, "cd" * 16
    text = f"""# platform: linux-64
@EXPLICIT
https://conda.anaconda.org/conda-forge/linux-64/python-3.12.8-h9e4cc4f_1_cpython.conda#sha256:{sha256}
file:///c/my-channel/noarch/python-dateutil-2.9.0-pyhd8ed1ab_0.tar.bz2#{md5}
# then pip install --no-deps --require-hashes, in the same environment:
# idna==3.10 --hash=sha256:{sha256}
"""
    assert read_lock(text) == CondaEnvironment(
        ("https://conda.anaconda.org/conda-forge", "file:///c/my-channel"),
        (
            f"python[version='==3.12.8',build='h9e4cc4f_1_cpython',sha256='{sha256}']",
            f"python-dateutil[version='==2.9.0',build='pyhd8ed1ab_0',md5='{md5}']",
        ),
        (f"idna==3.10 --hash=sha256:{sha256}",),
    )
    for line in ("https://h/x-1-0.conda", "# --index-url https://x/?a==b", "# idna==3.10"):
        with pytest.raises(CondaFileError, match="Line 1 of the lock is not understood"):
            read_lock(f"{line}\n")


def test_the_folder_of_whoever_wrote_a_file_is_left_out() -> None:
    text = "name: x\nprefix: /home/jdoe/env\nchannels: [a]\ndependencies: [b]\n"
    assert leave_out_prefix(text) == "name: x\nchannels: [a]\ndependencies: [b]\n"
    assert leave_out_prefix(f"{text}prefix: /home/jdoe") == f"{text}prefix: /home/jdoe"
    several = "channels: [a]\ndependencies: [b]\nprefix: |\n  /x\n"
    assert leave_out_prefix(several) == several
