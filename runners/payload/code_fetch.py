"""A commit of a git repository, fetched and packed as a tar, with nobody's settings but these.

Neither settings of git nor a password is taken from the account, and nobody is asked for one: what
is fetched is the same for all who fetch it. Keys of ssh are the account's.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
from contextlib import suppress
from typing import Dict, List, Tuple

from .data_files import show

FETCH_SECONDS, CONNECT_SECONDS = 1200, 30
LARGEST_PACK = 2 * 10**9  # bytes of any file that git writes
MOST_NAMED = 20
KEPT = ("GIT_SSL_CAINFO", "GIT_SSL_CAPATH")
"""The only settings of git that are taken from the site: whom it trusts."""
NO_SHALLOW_ANSWER = ("unadvertised object", "does not support")
"""What older servers answer that give out branches and tags only."""
NO_SUCH_COMMIT = ("not our ref", "couldn't find remote ref", "no such remote ref")
NO_NETWORK = (
    *("could not resolve host", "network is unreachable", "failed to connect", "timed out"),
    *("couldn't connect", "connection refused", "no route to host", "name resolution"),
)
CAUSES = ("fatal:", "error:", "ssh:")
ANSWERS = (
    (
        ("remote host identification has changed",),
        "the host of the repository has another key than the cluster’s account knows of it: ask "
        "those who run that host, and correct ~/.ssh/known_hosts of the account",
    ),
    (
        ("host key verification failed",),
        "the cluster’s account does not know the host of the repository: log in as that account "
        "once, run ssh to the host and compare its key, or add it to ~/.ssh/known_hosts",
    ),
    (
        ("permission denied (", "too many authentication failures"),
        "the host of the repository takes no key of the cluster’s account: give the account a key "
        "without a passphrase (ssh-keygen), and enter its public part there, as a deploy key that "
        "may only read",
    ),
    (
        ("cannot run ssh",),
        "there is no ssh on this node's PATH: a set-up line of the cluster may bring it, or send "
        "an archive instead",
    ),
    (
        ("dubious ownership",),
        "the repository belongs to another account than the one that reads it, which git refuses: "
        "use https:// or ssh:// of a server, a copy of your own (git clone --bare), or an archive",
    ),
)
"""What git and ssh print, in small letters -> what it means, and what to do."""
LAST_WORDS = "could not read from remote repository"


class NotFetched(Exception):
    """The commit could not be fetched; the message says why, and what to do."""


def fetch(repository: str, url: str, commit: str) -> Tuple[str, List[str]]:
    """Fetch a commit into a new bare repository; return a tar of its files, and its submodules.

    Raises NotFetched.
    """
    git = Git(repository, url)
    git.run("init", "--quiet", "--bare", "--template=", repository)
    options = ("--quiet", "--no-tags", "--no-recurse-submodules")
    try:
        git.run("fetch", *options, "--depth=1", url, commit)
    except NotFetched as error:
        if not any(text in str(error) for text in NO_SHALLOW_ANSWER):
            raise
        everything = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
        git.run("fetch", *options, url, *everything)
    try:
        kind = git.run("cat-file", "-t", commit).strip()
    except NotFetched:
        kind = b""
    if kind != b"commit":
        raise NotFetched("the repository has no commit %s" % commit)
    os.makedirs(os.path.join(repository, "info"), exist_ok=True)
    with open(os.path.join(repository, "info", "attributes"), "w", encoding="ascii") as file:
        file.write("* -export-ignore -export-subst\n")  # all files, and as a checkout has them
    archive = os.path.join(repository, "tree.tar")
    git.run("archive", "--format=tar", "--output=" + archive, commit)
    return archive, list_submodules(git.run("ls-tree", "-r", "-z", "--full-tree", commit))


def list_submodules(listing: bytes) -> List[str]:
    """Return the paths of submodules, some of them, from what `git ls-tree -z` prints."""
    rows = [line.partition(b"\t") for line in listing.split(b"\0") if line.startswith(b"160000 ")]
    return sorted(show(path) for _, _, path in rows)[:MOST_NAMED]


class Git:
    """Git with the settings of this module."""

    def __init__(self, repository: str, url: str) -> None:
        self.program = shutil.which("git") or ""
        if not self.program:
            raise NotFetched(
                "there is no git on this node's PATH: a set-up line of the cluster may bring it "
                "(module load git), or send an archive instead"
            )
        self.repository = repository
        scheme = url.partition("://")[0]
        self.variables: Dict[str, str] = {
            **{name: text for name, text in os.environ.items() if not name.startswith("GIT_")},
            **{name: os.environ[name] for name in KEPT if name in os.environ},
            "HOME": repository,  # no settings and no passwords of the account
            "XDG_CONFIG_HOME": repository,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ALLOW_PROTOCOL": scheme,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "true",
            # A host that says nothing any more is given up after a minute, also within a fetch.
            "GIT_SSH_COMMAND": "ssh -o BatchMode=yes -o ConnectTimeout=%d"
            " -o ServerAliveInterval=15 -o ServerAliveCountMax=4" % CONNECT_SECONDS,
            "LC_ALL": "C",
        }

    def run(self, what: str, *arguments: str) -> bytes:
        """Run a command of git; return what it prints. Raises NotFetched with its last words."""
        settings = ("gc.auto=0", "core.hooksPath=/dev/null", "tar.umask=0022")
        limits = ("http.lowSpeedLimit=1000", "http.lowSpeedTime=60")
        words = [self.program]
        for setting in (*settings, *limits):
            words += ["-c", setting]
        where = [] if what == "init" else ["--git-dir=" + self.repository]
        with subprocess.Popen(
            [*words, *where, what, *arguments],
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=set_bounds,
        ) as git:
            try:
                output, errors = git.communicate(timeout=FETCH_SECONDS)
            except subprocess.TimeoutExpired:
                raise NotFetched(
                    "git %s took longer than %d s: send an archive instead" % (what, FETCH_SECONDS)
                ) from None
            finally:
                with suppress(OSError):  # ssh or git-remote-https may outlive git
                    os.killpg(git.pid, signal.SIGKILL)
        if git.returncode:
            raise NotFetched(explain(what, errors, git.returncode))
        return output


def set_bounds() -> None:
    """Limit the size of each file that git writes; make a group of it and of what it starts.

    It stays in the session, by which some schedulers find what they end.
    """
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_PACK, LARGEST_PACK))
    os.setpgid(0, 0)


def explain(what: str, printed: bytes, code: int) -> str:
    """Return why git has failed, on one line, with what to do where that is known."""
    lines = [line.strip() for line in printed.decode("utf-8", "replace").splitlines()]
    lines = [line for line in lines if line]
    lower = " ".join(lines).lower()
    for patterns, answer in ANSWERS:
        matching = [line for line in lines if any(text in line.lower() for text in patterns)]
        if matching:
            cause = matching[0].strip("@ ").encode("utf-8", "replace")
            return "%s (git: %s)" % (answer, show(cause))
    causes = [line for line in lines if line.lower().startswith(CAUSES)]
    telling = [line for line in causes if LAST_WORDS not in line.lower()]
    if causes and not telling:  # what ssh prints of a connection stands before git's own words
        telling = lines[:1]
    causes = telling or lines[-1:]
    text = "; ".join(causes[:2]) or "it ended with exit code %d" % code
    text = show(text.encode("utf-8", "replace"))
    if any(words in lower for words in NO_SUCH_COMMIT):
        return "the repository has no such commit that it gives out (git: %s)" % text
    if any(words in lower for words in NO_NETWORK):
        return "this node does not reach the repository (git: %s): send an archive instead" % text
    return "git %s: %s" % (what, text)
