"""Install packages of conda into a folder, by py-rattler, and write down which ones.

    python3 conda_install.py install MADE ENVIRONMENT WORK [--prefix PREFIX] [--root ROOT]
    PREFIX/bin/python conda_install.py pip PREFIX ENVIRONMENT SETTINGS

`install` runs on the node and needs no container: it fetches py-rattler, solves what the JSON file
ENVIRONMENT asks for (channels, specs; `exact`: the specs name one package each), and installs into
the folder MADE, with PREFIX as the path that is written into files. ROOT are the files of the image
that the environment is for: their glibc decides which packages fit. `pip` runs inside, by the
environment's own Python: it installs ENVIRONMENT's list `pip`, or with `exact` its lock `pip_lock`.

MADE/tare-conda.lock then holds the address and the check sum of each package, as conda takes them;
packages of pip follow as comments, as pip takes them. The last line of the output explains a
failure. Scripts of packages are never run.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Mapping, Tuple
from urllib.parse import urlsplit

if not __package__:
    # Started as a file. As a package, none of our names can shadow a library's.
    sys.path[0], __package__ = os.path.split(os.path.dirname(os.path.abspath(__file__)))

from . import install

NEEDED = (3, 10)
"""The oldest Python that py-rattler runs on."""
LOCK = "tare-conda.lock"
PIP_LINE = "# then pip install --no-deps --require-hashes, in the same environment:"
NODES_OWN = ("extracted_package_dir", "package_tarball_full_path", "link")
"""What records of installed packages say of the node that installed them."""
CHANNELS = "https://conda.anaconda.org/"
"""Where channels are that are given by name, unless CONDA_CHANNEL_ALIAS says otherwise."""
LONGEST = 400
GLIBC = re.compile(rb"GNU C Library [^\n]*?version (\d+\.\d+)")
PIP_OPTIONS = (
    *("--only-binary=:all:", "--no-compile", "--no-cache-dir", "--no-input"),
    *("--disable-pip-version-check", "--progress-bar=off", "--no-warn-script-location"),
)


class NotInstalled(Exception):
    """An error that ends the installation; people read its message."""


# --- On the node: py-rattler -------------------------------------------------------------------


def find_python(tools: str) -> Tuple[str, bool]:
    """Return an interpreter of this node on which py-rattler runs, and whether it has it."""
    first = ""
    for path in install.list_interpreters():
        is_new_enough, has_rattler = probe_python(path, tools)
        if has_rattler:
            return path, True
        if is_new_enough:
            first = first or path
    if not first:
        raise NotInstalled(
            "%s has no Python 3.10 or later, on which py-rattler runs, which installs conda's "
            "packages. A set-up line of the cluster, such as `module load`, can bring one."
            % platform.node()
        )
    return first, False


def probe_python(python: str, tools: str) -> Tuple[bool, bool]:
    """Return whether an interpreter is new enough for py-rattler, and whether it has it."""
    code = "import sys; print(sys.version_info >= %r, flush=True); import rattler; print(1)"
    try:
        done = subprocess.run(
            [python, "-c", code % (NEEDED,)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": tools},
            timeout=60,
        )
    except (OSError, subprocess.SubprocessError):
        return False, False
    return done.stdout.startswith(b"True"), done.stdout.startswith(b"True\n1")


def fetch_rattler(python: str, tools: str, lock: str, settings: str) -> None:
    """Install py-rattler into the folder `tools` by pip, with the hashes of a lock file."""
    variables = json.loads(install.read(os.path.join(settings, "variables.json")) or "{}")
    command, environment = install.find_pip(python, settings, {**os.environ, **variables})
    command += ["install", *install.OPTIONS, "--no-deps", "--target", tools, "--requirement", lock]
    code, output = install.run(command, environment)
    if code:
        raise NotInstalled(
            "py-rattler, which installs conda's packages, could not be fetched: %s"
            % install.explain_failure(output)
        )


def find_glibc(root: str) -> str:
    """Return the version of glibc among an image's files. Raises NotInstalled without one."""
    for pattern in ("lib", "lib64", "usr/lib", "usr/lib64"):
        folder = os.path.join(root, pattern)
        for path in [folder + "/libc.so.6", *sorted(glob.glob(folder + "/*-linux-*/libc.so.6"))]:
            real = os.path.join(os.path.dirname(path), os.path.basename(os.path.realpath(path)))
            for file in (path, real):
                match = GLIBC.search(read_bytes(file))
                if match:
                    return match[1].decode()
    raise NotInstalled("There is no glibc in the base, and packages of conda need it.")


def read_bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(16 << 20)
    except OSError:
        return b""


# --- On the node: solve and install, where py-rattler is ---------------------------------------


def read_alias(variables: Mapping[str, str]) -> str:
    """Return where channels are that are given by name. Raises NotInstalled for a secret in it."""
    alias = variables.get("CONDA_CHANNEL_ALIAS", "").rstrip("/")
    parts = urlsplit(alias)
    if "@" in parts.netloc or "/t/" in parts.path:
        raise NotInstalled(
            "CONDA_CHANNEL_ALIAS holds a password or a token, and everybody who may view the image "
            "would read it: name a mirror without in the cluster's set-up lines."
        )
    return alias + "/" if alias else CHANNELS


async def solve_and_install(
    made: str, requested: Mapping[str, Any], prefix: str, cache: str
) -> None:
    """Install the requested packages of conda into `made`. Raises NotInstalled."""
    import rattler
    from rattler.channel import ChannelPriority
    from rattler.config import Config

    config = Config()
    config.set("tls-root-certs", "system")  # with a site's own authorities, and SSL_CERT_FILE
    client = rattler.Client.from_config(config)
    naming = rattler.ChannelConfig(read_alias(os.environ))
    channels = [rattler.Channel(name, naming) for name in requested["channels"]]
    for channel in channels:
        print("Channel %s" % channel.base_url)
    repodata = Path(cache, "repodata")
    gateway = rattler.Gateway(cache_dir=repodata, client=client, show_progress=False)
    exact = requested.get("exact", False)
    records = await rattler.solve(
        sources=channels,
        specs=list(requested["specs"]),
        gateway=gateway,
        virtual_packages=rattler.VirtualPackage.detect(rattler.VirtualPackageOverrides.from_env()),
        channel_priority=ChannelPriority.Disabled if exact else ChannelPriority.Strict,
    )
    if exact and len(records) != len(requested["specs"]):
        raise NotInstalled("The channels give other packages now than the lock names.")
    for record in records:
        if not (record.sha256 or record.md5):
            raise NotInstalled("The channel gives no check sum of %s." % record.file_name)
        print("%s %s %s" % (record.name.normalized, record.version, record.build), flush=True)
    await rattler.install(
        records,
        target_prefix=made,
        cache_dir=Path(cache, "packages"),
        alternative_target_prefix=prefix if prefix != made else None,
        execute_link_scripts=False,
        show_progress=False,
        client=client,
    )


def write_lock(made: str) -> int:
    """Write which packages are installed, with their check sums; return how many.

    What their records say of this node is left out of them: the image is the same on any.
    """
    lines = []
    for path in sorted(glob.glob(os.path.join(glob.escape(made), "conda-meta", "*.json"))):
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
        for name in NODES_OWN:
            record.pop(name, None)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1, sort_keys=True)
        md5, sha256 = record.get("md5"), record.get("sha256")
        lines.append("%s#%s" % (record["url"], "sha256:" + sha256 if sha256 else md5))
    machine = {"x86_64": "64", "ppc64le": "ppc64le"}.get(platform.machine(), platform.machine())
    text = "# platform: linux-%s\n@EXPLICIT\n%s\n" % (machine, "\n".join(lines))
    with open(os.path.join(made, LOCK), "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(os.path.join(made, LOCK), 0o644)
    return len(lines)


def explain_error(name: str, text: str) -> str:
    """Return one line about an exception of py-rattler."""
    line = " ".join(text.split())
    line = line if len(line) <= LONGEST else line[: LONGEST - 4] + " ..."
    if re.search(r"No space left|quota exceeded", text):
        return "The disk of %s is full, or the quota: nothing of this was kept." % platform.node()
    if re.search(r"could not find subdir|404 Not Found", text):
        return "A channel is not there, or has nothing for %s. (%s)" % (platform.machine(), line)
    if re.search(r"error sending request|dns error|timed out|certificate|tcp connect", text):
        return (
            "A channel did not answer on %s. Where nodes have no way out, name a proxy, or a "
            "mirror by CONDA_CHANNEL_ALIAS, in the cluster's set-up lines. (%s)"
            % (platform.node(), line)
        )
    if name == "SolverError":
        return "No environment has all of these packages. %s" % line
    return line or name


def install_packages(options: argparse.Namespace) -> None:
    """Find an interpreter with py-rattler, and go on in it."""
    tools = os.path.join(options.work, "tools")
    python, has_rattler = find_python(tools)
    if not has_rattler:
        fetch_rattler(python, tools, options.tool_lock, options.settings)
    environment = {**os.environ, "PYTHONPATH": tools}
    if options.root:
        environment["CONDA_OVERRIDE_GLIBC"] = find_glibc(options.root)
    command = [python, "-B", os.path.abspath(__file__), *sys.argv[1:], "--inside"]
    sys.stdout.flush()
    code = subprocess.call(command, env=environment)
    if code:
        sys.exit(code)


def install_here(options: argparse.Namespace) -> None:
    """Install what is requested and write its lock, in an interpreter that has py-rattler."""
    import asyncio

    from rattler import exceptions

    with open(options.environment, encoding="utf-8") as file:
        requested = json.load(file)
    os.makedirs(options.made, exist_ok=True)
    prefix = options.prefix or options.made
    classes = [value for value in vars(exceptions).values() if isinstance(value, type)]
    known = tuple(value for value in classes if issubclass(value, Exception))
    try:
        asyncio.run(solve_and_install(options.made, requested, prefix, options.work))
    except known as error:
        raise NotInstalled(explain_error(type(error).__name__, str(error))) from None
    for name in ("CACHEDIR.TAG", "conda-meta/history"):  # what only this tool looks at
        if os.path.exists(os.path.join(options.made, name)):
            os.unlink(os.path.join(options.made, name))
    open(os.path.join(options.made, "conda-meta", "history"), "w").close()
    print("%d packages of conda are installed." % write_lock(options.made))


# --- Inside: pip and bytecode ------------------------------------------------------------------


def install_by_pip(prefix: str, environment_file: str, settings: str) -> None:
    """Install what the list or lock of pip names, add it to the lock, and compile bytecode."""
    with open(environment_file, encoding="utf-8") as file:
        requested = json.load(file)
    python = os.path.join(prefix, "bin", "python")
    if requested.get("pip") or requested.get("pip_lock"):
        lines = run_pip(python, requested, settings)
        with open(os.path.join(prefix, LOCK), "a", encoding="utf-8") as file:
            file.write("".join("%s\n" % line for line in [PIP_LINE, *lines]))
    # Bytecode that ignores the time of its source stays valid wherever the files are copied to.
    compiling = [python, "-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash"]
    install.run([*compiling, os.path.join(prefix, "lib")], dict(os.environ), quiet=True)


def run_pip(python: str, requested: Mapping[str, Any], settings: str) -> List[str]:
    """Run pip, and return what it installed as lines of a lock, behind a # each."""
    variables = json.loads(install.read(os.path.join(settings, "variables.json")) or "{}")
    os.makedirs(os.path.join(settings, "tmp"), exist_ok=True)
    variables["TMPDIR"] = os.path.join(settings, "tmp")
    command, environment = install.find_pip(python, settings, {**os.environ, **variables})
    report = os.path.join(settings, "report.json")
    command += ["install", *PIP_OPTIONS, "--report", report]
    if requested.get("pip_lock"):
        lock = os.path.join(settings, "pip.lock")
        install.write(lock, "".join("%s\n" % line for line in requested["pip_lock"]))
        command += ["--require-hashes", "--no-deps", "--requirement", lock]
    else:
        command += ["--", *requested["pip"]]
    code, output = install.run(command, environment)
    if code:
        raise NotInstalled(install.explain_failure(output))
    with open(report, encoding="utf-8") as file:
        return sorted("# " + line for line in describe_installed(json.load(file)))


def describe_installed(report: Dict[str, Any]) -> List[str]:
    """Return NAME==VERSION --hash=sha256:... of each package in pip's report."""
    lines = []
    for row in report.get("install", []):
        about, archive = row["metadata"], row["download_info"].get("archive_info", {})
        sha256 = (archive.get("hashes") or {}).get("sha256")
        if not sha256:
            raise NotInstalled("The index gives no check sum of %s." % about["name"])
        lines.append("%s==%s --hash=sha256:%s" % (about["name"], about["version"], sha256))
    return lines


def main(arguments: List[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    tasks = parser.add_subparsers(dest="task", required=True)
    installing = tasks.add_parser("install")
    for name in ("made", "environment", "work"):
        installing.add_argument(name)
    installing.add_argument("--prefix", default="")
    installing.add_argument("--root", default="")
    installing.add_argument("--tool-lock", required=True, metavar="FILE")
    installing.add_argument("--settings", required=True, metavar="FOLDER")
    installing.add_argument("--inside", action="store_true", help="py-rattler is there")
    by_pip = tasks.add_parser("pip")
    for name in ("prefix", "environment", "settings"):
        by_pip.add_argument(name)
    options = parser.parse_args(arguments)
    try:
        if options.task == "pip":
            install_by_pip(options.prefix, options.environment, options.settings)
        elif options.inside:
            install_here(options)
        else:
            install_packages(options)
    except (NotInstalled, install.NotInstalled) as problem:
        print(problem)
        return 1
    except (OSError, subprocess.SubprocessError) as problem:
        print(install.explain_failure(str(problem)))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
