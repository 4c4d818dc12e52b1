"""A lock file becomes a virtual environment: nothing is installed that its hashes do not name.

    python3 install.py settings FOLDER            on the node: how pip reaches its index from here
    python3 install.py find VERSION               prints the interpreter of exactly this version
    python3 install.py install PREFIX LOCK FOLDER in an image, or on bare metal: does it

What goes wrong is said in the last line, in words; PREFIX is then gone. Wheels only: to build from
source, pip would fetch what no lock holds.
"""

from __future__ import annotations

import glob
import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from typing import Dict, List, Tuple

# How this node reaches an index, which a container does not know.
VARIABLES = re.compile(
    r"((https?|ftp|no|all)_proxy|PIP_.*|SSL_CERT_FILE|REQUESTS_CA_BUNDLE|NETRC)$", re.IGNORECASE
)
CERTIFICATES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
SYSTEMS_CERTIFICATES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
)
OPTIONS = (
    *(
        "--require-hashes",
        "--only-binary=:all:",
        "--ignore-installed",
        "--no-compile",
        "--no-cache-dir",
        "--no-input",
    ),
    *("--disable-pip-version-check", "--progress-bar=off", "--no-warn-script-location"),
)
MARKER = "tare-lock.sha256"
CERTIFI = """def where():
    return %r


def contents():
    with open(where(), encoding="ascii") as file:
        return file.read()
"""


class NotInstalled(Exception):
    """Why there is no environment, in words."""


# --- On the node: what pip needs in there -----------------------------------------------------


def settings(folder: str) -> None:
    """Keep in `folder`, for its owner alone, what pip reads here: variables, files, itself."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    variables = {name: value for name, value in os.environ.items() if VARIABLES.match(name)}
    configured = merged(configuration_files())
    variables.pop("PIP_CONFIG_FILE", None)
    certificates = [variables.get(name, "") for name in CERTIFICATES]
    certificates += re.findall(r"^\s*cert\s*=\s*(\S+)", configured, re.MULTILINE)
    for path in [*certificates, *SYSTEMS_CERTIFICATES]:
        if path and os.path.isfile(path):
            shutil.copyfile(path, os.path.join(folder, "certificates.pem"))
            variables["PIP_CERT"] = os.path.join(folder, "certificates.pem")
            break
    text = re.sub(r"^\s*cert\s*=.*\n?", "", configured, flags=re.MULTILINE)
    write(os.path.join(folder, "pip.conf"), text)
    variables["PIP_CONFIG_FILE"] = os.path.join(folder, "pip.conf")
    keep_pip(folder)
    write(os.path.join(folder, "variables.json"), json.dumps(variables))


def configuration_files() -> List[str]:
    """Pip's files in its own order, the last one wins."""
    home = os.path.expanduser("~")
    wanted = os.environ.get("PIP_CONFIG_FILE", "")
    return [
        "/etc/pip.conf",
        "/etc/xdg/pip/pip.conf",
        os.path.join(home, ".pip", "pip.conf"),
        os.path.join(os.environ.get("XDG_CONFIG_HOME") or home + "/.config", "pip", "pip.conf"),
        *([wanted] if wanted else []),
    ]


def merged(paths: List[str]) -> str:
    """One text of several files; a section that comes again adds to the one before."""
    sections: Dict[str, Dict[str, str]] = {}
    for path in paths:
        section: Dict[str, str] = {}
        key = ""
        for line in read(path).splitlines():
            head = re.match(r"\s*\[(.+?)\]\s*$", line)
            setting = re.match(r"([\w-]+)\s*[=:]\s*(.*)$", line)
            if head:
                section, key = sections.setdefault(head[1], {}), ""
            elif setting:
                key = setting[1]
                section[key] = setting[2]
            elif key and line[:1].isspace() and line.strip():
                section[key] += "\n    " + line.strip()
    return "".join(
        "[%s]\n%s" % (name, "".join("%s = %s\n" % pair for pair in values.items()))
        for name, values in sections.items()
    )


def keep_pip(folder: str) -> None:
    """A copy of this node's pip: images need not have one, and both sides get the same."""
    target = os.path.join(folder, "pip")
    shutil.rmtree(target, ignore_errors=True)
    spec = importlib.util.find_spec("pip")
    wheels = bundled_wheels()
    if spec and spec.origin:
        shutil.copytree(
            os.path.dirname(os.path.abspath(spec.origin)),
            os.path.join(target, "pip"),
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    elif wheels:
        shutil.unpack_archive(wheels[-1], target, "zip")
    # Distributions have their pip read the system's certificates, which an image may lack.
    core = os.path.join(target, "pip", "_vendor", "certifi", "core.py")
    certificates = os.path.join(folder, "certificates.pem")
    if os.path.isfile(core) and os.path.isfile(certificates):
        write(core, CERTIFI % certificates)


def bundled_wheels() -> List[str]:
    """The pip that comes with Python, where a distribution has not taken it out."""
    folders = [sysconfig.get_config_var("WHEEL_PKG_DIR") or "", "/usr/share/python-wheels"]
    spec = importlib.util.find_spec("ensurepip")
    if spec and spec.origin:
        folders.append(os.path.join(os.path.dirname(spec.origin), "_bundled"))
    return [one for folder in folders if folder for one in sorted(glob.glob(folder + "/pip-*.whl"))]


# --- On bare metal: an interpreter ------------------------------------------------------------


def find(version: str) -> str:
    """The interpreter of exactly this version. Raises NotInstalled, with what there is."""
    found = {path: version_of(path) for path in interpreters()}
    for path, its in found.items():
        if its == version:
            return path
    there = ", ".join("%s (%s)" % pair for pair in found.items() if pair[1]) or "none at all"
    raise NotInstalled(
        "%s has no Python %s, which the image has. Found: %s. A set-up line of the cluster, such "
        "as `module load`, can bring another." % (platform.node(), version, there)
    )


def interpreters() -> List[str]:
    folders = [*os.environ.get("PATH", "").split(":"), "/usr/bin", "/usr/local/bin"]
    folders += sorted(glob.glob("/opt/*/bin"))
    found: Dict[str, str] = {}
    for folder in folders:
        for path in sorted(glob.glob(folder + "/python3*")) if folder else []:
            if re.search(r"/python3(\.\d+)?$", path) and os.access(path, os.X_OK):
                found.setdefault(os.path.realpath(path), path)
    return list(found.values())


def version_of(python: str) -> str:
    code = "import platform; print(platform.python_version())"
    try:
        done = subprocess.run([python, "-c", code], stdout=subprocess.PIPE, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else ""


# --- The environment --------------------------------------------------------------------------


def install(prefix: str, lock: str, folder: str) -> None:
    """Make a virtual environment at `prefix` from `lock`. Raises NotInstalled."""
    variables = json.loads(read(os.path.join(folder, "variables.json")) or "{}")
    environment = {**os.environ, **variables}
    os.makedirs(os.path.join(folder, "tmp"), exist_ok=True)
    environment["TMPDIR"] = os.path.join(folder, "tmp")
    make(prefix)
    python = os.path.join(prefix, "bin", "python")
    command, environment = pip_of(python, folder, environment)
    code, output = run([*command, "install", *OPTIONS, "--requirement", lock], environment)
    if code:
        raise NotInstalled(why(output))
    # Bytecode that does not look at its source's time is valid wherever the files are copied to.
    compiling = [python, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    run([*compiling, os.path.join(prefix, "lib")], environment)
    with open(lock, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    write(os.path.join(prefix, MARKER), digest + "\n")
    os.chmod(os.path.join(prefix, MARKER), 0o644)


def make(prefix: str) -> None:
    """An empty virtual environment; the folder itself may be there: it may be a mount."""
    try:
        import venv
    except ImportError:
        raise NotInstalled(
            "This Python (%s) has no module venv; Debian has it in libpython3-stdlib."
            % sys.executable
        ) from None
    try:
        venv.EnvBuilder(symlinks=True, with_pip=False, clear=False).create(prefix)
    except OSError as error:
        raise NotInstalled(why(str(error))) from None


def pip_of(
    python: str, folder: str, environment: Dict[str, str]
) -> Tuple[List[str], Dict[str, str]]:
    """The first pip that starts: the node's copy, then what this Python has of its own."""
    candidates = [
        ([python, "-m", "pip"], {**environment, "PYTHONPATH": os.path.join(folder, "pip")}),
        ([sys.executable, "-m", "pip", "--python", python], environment),
    ]
    for command, variables in candidates:
        if run([*command, "--version"], variables, quiet=True)[0] == 0:
            return command, variables
    raise NotInstalled("Neither this node nor the image has a pip that starts: install one.")


def run(command: List[str], environment: Dict[str, str], quiet: bool = False) -> Tuple[int, str]:
    """Exit code and output, which is shown as it comes."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
    )
    lines = []
    assert process.stdout
    for line in process.stdout:
        text = line.decode("utf-8", "replace")
        lines.append(text)
        if not quiet:
            sys.stdout.write(text)
            sys.stdout.flush()
    return process.wait(), "".join(lines)


def why(output: str) -> str:
    """What pip said, in one line for a person; its own words stand above."""
    place = "Python %s on %s" % (platform.python_version(), platform.machine())
    if "No space left on device" in output or "Disk quota exceeded" in output:
        return "The disk is full, or the quota: nothing of this was kept."
    if "Hashes are required" in output:
        names = re.findall(r"^\s+(\S+)\s+--hash=sha256:", output, re.MULTILINE)
        return "The lock has no hash for %s." % (", ".join(names) or "one of its packages")
    if "DO NOT MATCH THE HASHES" in output:
        names = re.findall(r"^\s+(\S+) from .*:$", output, re.MULTILINE)
        return "What the index sent for %s has another hash than the lock says." % (
            ", ".join(names) or "a package"
        )
    if "all requirements must have their versions pinned" in output:
        return "A package that one of the lock needs is not in it: make the lock with all of them."
    if re.search(r"NewConnectionError|NameResolution|timed out|ProxyError|CERTIFICATE_", output):
        return (
            "The index did not answer on %s. Where nodes have no way out, name a proxy or a mirror "
            "in the cluster's set-up lines or in pip's configuration there." % platform.node()
        )
    missing = re.search(r"No matching distribution found for (\S+)", output)
    if missing:
        return "The index has no wheel of %s for %s." % (missing[1], place)
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["pip ended without a word."])[-1]


def read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def write(path: str, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)


def empty(folder: str) -> None:
    """Take everything out of a folder, which may itself be a mount."""
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        path = os.path.join(folder, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)


def main(arguments: List[str]) -> int:
    task, rest = arguments[0], arguments[1:]
    try:
        if task == "settings":
            settings(*rest)
        elif task == "find":
            print(find(*rest))
        else:
            install(*rest)
    except (NotInstalled, OSError) as problem:
        if task == "install":
            empty(rest[0])
        print(problem if isinstance(problem, NotInstalled) else why(str(problem)))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
