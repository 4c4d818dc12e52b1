"""Install a lock file into a virtual environment, and nothing that its hashes do not name.

    python3 install.py settings FOLDER            on the node: save how pip reaches its index
    python3 install.py find VERSION               print the interpreter of exactly this version
    python3 install.py install PREFIX LOCK FOLDER in an image or on bare metal: install

The last line of the output explains a failure; PREFIX is then emptied. Wheels only: to build from
source, pip would fetch packages that no lock file names.
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

# How this node reaches an index; a container does not have these variables.
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
    """An error that ends the installation; people read its message."""


# --- On the node: what pip needs in there -----------------------------------------------------


def save_settings(folder: str) -> None:
    """Save in `folder`, readable by its owner alone, pip's variables, configuration and itself."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    variables = {name: value for name, value in os.environ.items() if VARIABLES.match(name)}
    configuration = merge_configuration(list_configuration_files())
    variables.pop("PIP_CONFIG_FILE", None)
    certificates = [variables.get(name, "") for name in CERTIFICATES]
    certificates += re.findall(r"^\s*cert\s*=\s*(\S+)", configuration, re.MULTILINE)
    for path in [*certificates, *SYSTEMS_CERTIFICATES]:
        if path and os.path.isfile(path):
            shutil.copyfile(path, os.path.join(folder, "certificates.pem"))
            variables["PIP_CERT"] = os.path.join(folder, "certificates.pem")
            break
    text = re.sub(r"^\s*cert\s*=.*\n?", "", configuration, flags=re.MULTILINE)
    write(os.path.join(folder, "pip.conf"), text)
    variables["PIP_CONFIG_FILE"] = os.path.join(folder, "pip.conf")
    copy_pip(folder)
    write(os.path.join(folder, "variables.json"), json.dumps(variables))


def list_configuration_files() -> List[str]:
    """Return pip's configuration files in its own order, in which the last one wins."""
    home = os.path.expanduser("~")
    own_file = os.environ.get("PIP_CONFIG_FILE", "")
    return [
        "/etc/pip.conf",
        "/etc/xdg/pip/pip.conf",
        os.path.join(home, ".pip", "pip.conf"),
        os.path.join(os.environ.get("XDG_CONFIG_HOME") or home + "/.config", "pip", "pip.conf"),
        *([own_file] if own_file else []),
    ]


def merge_configuration(paths: List[str]) -> str:
    """Return one text of several files; a section that comes again adds to the earlier one."""
    sections: Dict[str, Dict[str, str]] = {}
    for path in paths:
        section: Dict[str, str] = {}
        key = ""
        for line in read(path).splitlines():
            heading = re.match(r"\s*\[(.+?)\]\s*$", line)
            setting = re.match(r"([\w-]+)\s*[=:]\s*(.*)$", line)
            if heading:
                section, key = sections.setdefault(heading[1], {}), ""
            elif setting:
                key = setting[1]
                section[key] = setting[2]
            elif key and line[:1].isspace() and line.strip():
                section[key] += "\n    " + line.strip()
    return "".join(
        "[%s]\n%s" % (name, "".join("%s = %s\n" % pair for pair in values.items()))
        for name, values in sections.items()
    )


def copy_pip(folder: str) -> None:
    """Copy this node's pip: images may have none, and container and bare metal use the same one."""
    target = os.path.join(folder, "pip")
    shutil.rmtree(target, ignore_errors=True)
    spec = importlib.util.find_spec("pip")
    wheels = list_bundled_wheels()
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


def list_bundled_wheels() -> List[str]:
    """Return the wheels of the pip that comes with Python; some distributions remove them."""
    folders = [sysconfig.get_config_var("WHEEL_PKG_DIR") or "", "/usr/share/python-wheels"]
    spec = importlib.util.find_spec("ensurepip")
    if spec and spec.origin:
        folders.append(os.path.join(os.path.dirname(spec.origin), "_bundled"))
    return [
        wheel for folder in folders if folder for wheel in sorted(glob.glob(folder + "/pip-*.whl"))
    ]


# --- On bare metal: an interpreter ------------------------------------------------------------


def find_interpreter(version: str) -> str:
    """Return the interpreter of exactly this version. Raises NotInstalled, naming the others."""
    versions = {path: read_version(path) for path in list_interpreters()}
    for path, path_version in versions.items():
        if path_version == version:
            return path
    present = ", ".join("%s (%s)" % pair for pair in versions.items() if pair[1]) or "none at all"
    raise NotInstalled(
        "%s has no Python %s, which the image has. Found: %s. A set-up line of the cluster, such "
        "as `module load`, can bring another." % (platform.node(), version, present)
    )


def list_interpreters() -> List[str]:
    folders = [*os.environ.get("PATH", "").split(":"), "/usr/bin", "/usr/local/bin"]
    folders += sorted(glob.glob("/opt/*/bin"))
    by_real_path: Dict[str, str] = {}
    for folder in folders:
        for path in sorted(glob.glob(folder + "/python3*")) if folder else []:
            if re.search(r"/python3(\.\d+)?$", path) and os.access(path, os.X_OK):
                by_real_path.setdefault(os.path.realpath(path), path)
    return list(by_real_path.values())


def read_version(python: str) -> str:
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
    make_environment(prefix)
    python = os.path.join(prefix, "bin", "python")
    command, environment = find_pip(python, folder, environment)
    code, output = run([*command, "install", *OPTIONS, "--requirement", lock], environment)
    if code:
        raise NotInstalled(explain_failure(output))
    # Bytecode that ignores the time of its source stays valid wherever the files are copied to.
    compiling = [python, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    run([*compiling, os.path.join(prefix, "lib")], environment)
    with open(lock, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    write(os.path.join(prefix, MARKER), digest + "\n")
    os.chmod(os.path.join(prefix, MARKER), 0o644)


def make_environment(prefix: str) -> None:
    """Make an empty virtual environment; the folder may exist, since it may be a mount."""
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
        raise NotInstalled(explain_failure(str(error))) from None


def find_pip(
    python: str, folder: str, environment: Dict[str, str]
) -> Tuple[List[str], Dict[str, str]]:
    """Return the first pip that starts, the node's copy or this Python's, and its variables."""
    candidates = [
        ([python, "-m", "pip"], {**environment, "PYTHONPATH": os.path.join(folder, "pip")}),
        ([sys.executable, "-m", "pip", "--python", python], environment),
    ]
    for command, variables in candidates:
        if run([*command, "--version"], variables, quiet=True)[0] == 0:
            return command, variables
    raise NotInstalled("Neither this node nor the image has a pip that starts: install one.")


def run(command: List[str], environment: Dict[str, str], quiet: bool = False) -> Tuple[int, str]:
    """Run a command and return exit code and output, which is also printed as it comes."""
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


def explain_failure(output: str) -> str:
    """Return one line that explains pip's failure; pip's own output was printed before."""
    interpreter = "Python %s on %s" % (platform.python_version(), platform.machine())
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
        return "The index has no wheel of %s for %s." % (missing[1], interpreter)
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


def clear_folder(folder: str) -> None:
    """Remove everything in a folder, but not the folder, which may be a mount."""
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
            save_settings(*rest)
        elif task == "find":
            print(find_interpreter(*rest))
        else:
            install(*rest)
    except (NotInstalled, OSError) as problem:
        if task == "install":
            clear_folder(rest[0])
        print(problem if isinstance(problem, NotInstalled) else explain_failure(str(problem)))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
