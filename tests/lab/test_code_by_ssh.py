"""A commit fetched over ssh:// from the lab's own sshd, with a key of the account; and what people
read where the key, the host key or the commit is not there, or the host says nothing.
"""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from experiments.code_copies import code_requests
from experiments.models import Cluster, CodeCopy, Operation, Workload
from lab.client import Lab
from runners.workloads import WORKLOADS
from tests.conftest import tick_until
from tests.factories import WorkloadFactory
from tests.lab.test_code import bring_git, bring_repository, make_repository
from tests.lab.test_data_set import run_there

pytestmark = [pytest.mark.lab, pytest.mark.thorough, pytest.mark.django_db(transaction=True)]

GRANT = """
umask 077 && rm -rf ~/.ssh && mkdir ~/.ssh && ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519
"""
MISSING = "0" * 39 + "1"
SERVE = 'command="PATH=%s/bin:$PATH; exec sh -c \\"$SSH_ORIGINAL_COMMAND\\""'


def fetch(cluster: Cluster, address: str, commit: str) -> Operation:
    """Have a commit put on the cluster; return how that ended."""
    parameters = {"argv": ["{code}/x"], "code_repository": address, "code_commit": commit}
    workload: Workload = WorkloadFactory(
        kind="command", parameters=WORKLOADS["command"].clean({**parameters, "read": "nothing"})
    )
    workload.owner = cluster.owner
    workload.save()
    code_requests.put(workload, cluster, cluster.owner)
    alive = Operation.objects.exclude(state__in=Operation.FINAL)
    tick_until(cluster, lambda: not alive.exists(), seconds=200)
    return Operation.objects.latest("pk")


def test_a_commit_comes_over_ssh_and_each_refusal_says_what_to_do(
    lab: Lab, registered: Cluster, tmp_path: Path
) -> None:
    repository, commit = make_repository(tmp_path)
    place = f"{registered.work_directory}-ssh"
    bring_repository(registered, place, repository)
    bring_git(registered, place)
    host = f"{lab.user}@{lab.host}:{lab.port}"
    address = f"ssh://{host}{place}/project.git"
    run_there(registered, "rm -rf ~/.ssh")
    messages: dict[str, str] = {}

    messages["unknown host"] = fetch(registered, address, commit).message
    run_there(registered, GRANT)
    known = f"[{lab.host}]:{lab.port}"
    other = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
    write = 'echo "$1" > ~/.ssh/known_hosts'
    run_there(registered, write, f"{known} ssh-ed25519 {other}")
    messages["other host key"] = fetch(registered, address, commit).message
    run_there(registered, write, f"{known} {lab.host_key}")
    messages["no key"] = fetch(registered, address, commit).message

    serve = f"cat /home/{lab.user}/.ssh/id_ed25519.pub"
    public = lab.execute(["sh", "-c", serve]).stdout.strip()
    line = f"{SERVE % place} {public}"
    keys = f"/etc/ssh/authorized_keys/{lab.user}"
    before = lab.execute(["cat", keys]).stdout
    append = 'printf "%s\\n" "$1" >> "$2"'
    assert lab.execute(["sh", "-c", append, "sh", line, keys]).returncode == 0
    try:
        messages["no commit"] = fetch(registered, address, MISSING).message
        nowhere = f"ssh://{host}{place}/nothing.git"
        messages["no repository"] = fetch(registered, nowhere, commit).message
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            hanging = f"ssh://git@127.0.0.1:{silent.getsockname()[1]}/x.git"
            messages["hangs"] = fetch(registered, hanging, commit).message
        done = fetch(registered, address, commit)
        assert (done.state, done.message) == ("done", "")
    finally:
        restore = 'printf "%s" "$1" > "$2"'
        lab.execute(["sh", "-c", restore, "sh", before, keys])
    copy = CodeCopy.objects.get(state="ready")
    assert (copy.commit, copy.repository) == (commit, address)
    assert "benchmarks/README.md" in copy.paths
    for name, part in {
        "unknown host": "the cluster’s account does not know the host of the repository",
        "other host key": "the host of the repository has another key than the cluster’s account",
        "no key": "the host of the repository takes no key of the cluster’s account",
        "no commit": f"the repository has no commit {MISSING}",
        "no repository": "does not appear to be a git repository",
        "hangs": "this node does not reach the repository (git: Connection timed out during",
    }.items():
        assert part in messages[name], (name, messages[name])
