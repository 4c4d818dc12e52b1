"""Checks and host keys: asked for on a page, made by a worker, kept with their dates."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from experiments import execution, notify
from experiments.clusters.preflights import (
    NotPinned,
    collect_findings,
    find_host_key,
    pin,
    request_check,
    request_host_key,
)
from experiments.execution.preflight_visits import make_site
from experiments.management.commands.clock import enqueue_waiting
from experiments.models import (
    AuditEntry,
    CheckReport,
    Cluster,
    Credential,
    Environment,
    HostKey,
    StagedImage,
)
from runners.preflight.checks import Check
from runners.transports import fingerprint_public_key
from tests.factories import (
    NOON,
    AdminFactory,
    CheckReportFactory,
    ClusterFactory,
    ContainerFactory,
    CredentialFactory,
    EnvironmentFactory,
    LaunchedFactory,
    PartitionFactory,
    RuntimeFactory,
    StagedImageFactory,
)
from tests.runners.sshd import Server, make_key, serve

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def there(server: Server, tmp_path: Path) -> Cluster:
    """A cluster behind a real sshd, with the right key and nothing pinned yet."""
    address = server.address
    return ClusterFactory(
        name="there",
        transport="ssh",
        host=address.host,
        port=address.port,
        work_directory=str(tmp_path),
        credential=CredentialFactory(user_name=address.user, private_key=address.private_key),
    )


def checked(cluster: Cluster) -> CheckReport:
    report = request_check(cluster, None)
    execution.check(report.pk)
    report.refresh_from_db()
    return report


def red(report: CheckReport) -> list[str]:
    return [check.name for check in report.checks if check.outcome == "failed"]


class TestCheck:
    def test_is_made_once_and_kept(self, here: Cluster, bare: Environment) -> None:
        report = request_check(here, here.owner)
        assert execution.check(report.pk) in ("ok", "warning")
        report.refresh_from_db()
        assert red(report) == []
        assert "Start of bare metal" in [check.name for check in report.checks]
        assert report.seconds
        assert report.owner == here.owner
        assert execution.check(report.pk) == "begun already"

    def test_one_at_a_time_is_enough(self, here: Cluster) -> None:
        first = request_check(here, here.owner)
        assert request_check(here, None) == first
        assert CheckReport.objects.count() == 1

    def test_one_that_died_with_its_worker_says_so_and_makes_room(self, here: Cluster) -> None:
        dead = request_check(here, None)
        long_ago = timezone.now() - timedelta(hours=1)
        CheckReport.objects.update(requested_at=long_ago, began_at=long_ago)
        assert request_check(here, None) != dead
        dead.refresh_from_db()
        assert dead.outcome == "failed"
        assert "no worker" in dead.checks[0].found

    def test_what_nobody_expected_ends_it(self, here: Cluster) -> None:
        report = request_check(here, None)
        unexpected = KeyError("what nobody expected \0 \udce9")
        with (
            mock.patch(
                "experiments.execution.preflight_visits.check_cluster", side_effect=unexpected
            ),
            pytest.raises(KeyError),
        ):
            execution.check(report.pk)
        report.refresh_from_db()
        assert (report.outcome, bool(report.ended_at)) == ("failed", True)
        assert "Tare itself failed" in report.checks[0].found
        assert request_check(here, None) != report

    def test_a_lost_task_is_rung_for_again(self, here: Cluster) -> None:
        waits = request_check(here, None)
        with mock.patch("experiments.management.commands.clock.enqueue_visit") as rings:
            enqueue_waiting({}, 0)
            rings.assert_not_called()  # it has only just been asked for
            CheckReport.objects.update(requested_at=timezone.now() - timedelta(seconds=30))
            enqueue_waiting({}, 0)
            rings.assert_called_once_with(waits)
            CheckReport.objects.update(began_at=timezone.now())
            enqueue_waiting({}, 0)
            rings.assert_called_once()

    def test_a_worker_makes_it(
        self, here: Cluster, django_capture_on_commit_callbacks: Any
    ) -> None:
        report = request_check(here, None)
        with mock.patch.object(notify, "enqueue") as enqueue:
            with django_capture_on_commit_callbacks(execute=True):
                notify.enqueue_visit(report)
            enqueue.assert_called_once_with(
                "experiments.execution.tasks.check", report.pk, queue="default"
            )

    def test_what_backed_off_is_visited_again_once_the_way_is_open(self, here: Cluster) -> None:
        Cluster.objects.update(retry_at=timezone.now() + timedelta(hours=1))
        checked(here)
        here.refresh_from_db()
        assert here.retry_at is None

    def test_a_cluster_without_a_key_or_a_pinned_host_is_red_with_the_cure(
        self, there: Cluster
    ) -> None:
        report = checked(there)
        assert red(report) == ["Entry"]
        assert "pinned host key" in report.checks[0].found
        assert "compare its fingerprint" in report.checks[0].cure
        Cluster.objects.update(credential=None)
        assert "credential" in checked(there).checks[0].found

    def test_over_ssh_every_step_is_told_and_no_secret(
        self, there: Cluster, server: Server, tmp_path: Path
    ) -> None:
        Cluster.objects.update(host_key=server.address.host_key)
        report = checked(there)
        assert red(report) == []
        assert [check.name for check in report.checks][:3] == ["Private key", "Host name", "Port"]
        credential = Credential.objects.get()
        assert credential.last_used_at
        encrypted = make_key(tmp_path / "key", passphrase="open sesame")
        credential.private_key, credential.passphrase = encrypted, "not this"  # type: ignore[assignment]
        credential.save()
        report = checked(there)
        assert red(report) == ["Passphrase"]
        kept = json.dumps(report.rows)
        assert "not this" not in kept
        assert encrypted.splitlines()[1] not in kept


class TestSite:
    def test_each_interpreter_and_each_form_is_started_once(self) -> None:
        cluster = ClusterFactory()
        for name in ("bare metal", "bare metal, again"):
            EnvironmentFactory(cluster=cluster, name=name)
        one = ContainerFactory(cluster=cluster, name="P1", mode="P1")
        for name, mode in (("P1, again", "P1"), ("R1", "R1")):
            EnvironmentFactory(
                cluster=cluster,
                name=name,
                mode=mode,
                runtime=one.runtime,
                staged_image=one.staged_image,
            )
        EnvironmentFactory(
            cluster=cluster,
            name="not yet",
            runtime=one.runtime,
            staged_image=StagedImageFactory(cluster=cluster, format="sandbox", state="staging"),
        )
        labels = [spec.label for spec in make_site(cluster).environments]
        assert labels == ["bare metal", "P1", "R1"]

    def test_a_runtime_that_no_environment_uses_yet_starts_a_staged_image(self) -> None:
        cluster = ClusterFactory()
        runtime = RuntimeFactory(cluster=cluster, options=["--nv"])
        StagedImageFactory(cluster=cluster, format="sif", path="/a.sif")
        StagedImageFactory(cluster=cluster, format="sif", path="/b.sif")
        StagedImageFactory(cluster=cluster, format="udocker", path="container")
        StagedImageFactory(cluster=cluster, format="sandbox", state=StagedImage.State.FAILED)
        (spec,) = make_site(cluster).environments
        assert (spec.executable, spec.options) == (runtime.executable, ("--nv",))
        assert spec.image_path == "/a.sif"

    def test_runtimes_are_started_as_the_catalogue_says(self, here: Cluster) -> None:
        RuntimeFactory(
            cluster=here,
            kind="apptainer",
            executable="/opt/apptainer",
            version="1.3.4",
            setup_lines="module load apptainer\nexport A=1",
        )
        (runtime,) = make_site(here).runtimes
        assert (runtime.label, runtime.kind) == ("Apptainer", "apptainer")
        assert (runtime.executable, runtime.version) == ("/opt/apptainer", "1.3.4")
        assert runtime.setup_lines == ("module load apptainer", "export A=1")

    def test_partitions_say_the_most_that_forms_allow(self) -> None:
        row = PartitionFactory(gres="gpu:a100", account="a", directives=["--exclusive"])
        (spec,) = make_site(row.cluster).partitions
        assert spec.nodes == 2
        assert spec.resources.gpus_per_node == 4
        assert spec.resources.time_limit_seconds == 3600
        assert (spec.resources.account, spec.resources.directives) == ("a", ("--exclusive",))


def rows(**values: str) -> list[dict[str, str]]:
    return [
        Check("Login node", name, "ok", f"{name} {value}", value=value).as_json()
        for name, value in values.items()
    ]


class TestFindings:
    def test_nothing_is_known_before_the_first(self) -> None:
        known = collect_findings(ClusterFactory())
        assert (known.last, known.changed, known.areas, known.under_way) == (None, [], [], None)

    def test_changes_since_the_check_before_and_since_the_last_launch(self) -> None:
        cluster = ClusterFactory()
        for hours, kernel, free in ((-2, "6.1", "9"), (2, "6.1", "8"), (4, "6.2", "8")):
            CheckReportFactory(
                cluster=cluster,
                ended_at=NOON + timedelta(hours=hours),
                rows=rows(kernel=kernel, disk=free),
            )
        CheckReportFactory(ended_at=NOON + timedelta(hours=5))  # of another cluster
        LaunchedFactory(cluster=cluster, launched_at=NOON)
        known = collect_findings(cluster)
        assert [change.name for change in known.changed] == ["kernel"]
        assert [change.name for change in known.changed_since_launch] == ["kernel", "disk"]
        assert (known.changed[0].before, known.changed[0].after) == ("kernel 6.1", "kernel 6.2")

    def test_a_launch_after_the_last_check_leaves_nothing_to_compare(self) -> None:
        cluster = ClusterFactory()
        for day, kernel in ((-2, "6.1"), (-1, "6.2")):
            CheckReportFactory(
                cluster=cluster, ended_at=NOON + timedelta(days=day), rows=rows(kernel=kernel)
            )
        LaunchedFactory(cluster=cluster, launched_at=NOON)
        known = collect_findings(cluster)
        assert known.changed
        assert known.changed_since_launch == []


class TestHostKey:
    def test_a_host_that_no_name_can_have_is_named(self, there: Cluster) -> None:
        Cluster.objects.update(host=f"{'a' * 64}.example")
        there.refresh_from_db()
        assert "No host is called aaa" in self.fetched(there).problem

    def test_what_nobody_expected_ends_it(self, there: Cluster) -> None:
        row = request_host_key(there, there.owner)
        with (
            mock.patch(
                "experiments.execution.preflight_visits.scan_host_key", side_effect=KeyError
            ),
            pytest.raises(KeyError),
        ):
            execution.fetch_host_key(row.pk)
        row.refresh_from_db()
        assert row.ended_at
        assert "Tare itself failed" in row.problem

    def fetched(self, cluster: Cluster) -> HostKey:
        row = request_host_key(cluster, cluster.owner)
        execution.fetch_host_key(row.pk)
        row.refresh_from_db()
        return row

    def test_is_fetched_and_pinned_only_after_a_person_agrees(
        self, there: Cluster, server: Server
    ) -> None:
        row = self.fetched(there)
        assert row.fingerprint == fingerprint_public_key(server.address.host_key)
        there.refresh_from_db()
        assert there.host_key == ""
        administrator = AdminFactory()
        pin(row, administrator)
        there.refresh_from_db()
        assert fingerprint_public_key(there.host_key) == row.fingerprint
        row.refresh_from_db()
        assert (row.pinned_by, row.replaced) == (administrator, "")
        entry = AuditEntry.objects.get(actor=administrator, what="host key pinned")
        assert entry.changes == {"host_key": ["", row.fingerprint]}
        assert red(checked(there)) == []

    def test_a_changed_key_is_refused_with_both_fingerprints_until_it_is_pinned(
        self, there: Cluster, server: Server, tmp_path: Path
    ) -> None:
        make_key(tmp_path / "old")
        old = (tmp_path / "old.pub").read_text()
        Cluster.objects.update(host_key=old)
        (check,) = [check for check in checked(there).checks if check.outcome == "failed"]
        assert check.name == "Host key"
        assert fingerprint_public_key(old) in check.found
        assert fingerprint_public_key(server.address.host_key) in check.found
        row = self.fetched(there)
        administrator = AdminFactory()
        pin(row, administrator)
        row.refresh_from_db()
        assert row.replaced_fingerprint == fingerprint_public_key(old)
        entry = AuditEntry.objects.get(actor=administrator, what="host key pinned")
        assert entry.changes == {"host_key": [fingerprint_public_key(old), row.fingerprint]}

    def test_a_host_that_is_not_there_is_told(self, there: Cluster) -> None:
        Cluster.objects.update(host="no-such-host.invalid")
        there.refresh_from_db()
        row = self.fetched(there)
        assert (row.key, row.problem) == ("", "No host is called no-such-host.invalid.")
        with pytest.raises(NotPinned):
            pin(row, AdminFactory())

    def test_is_fetched_through_the_jump_host(self, there: Cluster, server: Server) -> None:
        gateway = ClusterFactory(
            transport="ssh",
            host=there.host,
            port=there.port,
            host_key=server.address.host_key,
            credential=there.credential,
        )
        Cluster.objects.filter(pk=there.pk).update(jump_host=gateway)
        assert self.fetched(there).key

    def test_a_key_shown_at_another_address_or_an_older_one_is_not_pinned(
        self, there: Cluster
    ) -> None:
        row = self.fetched(there)
        Cluster.objects.update(port=2222)
        with pytest.raises(NotPinned, match="changed meanwhile"):
            pin(row, AdminFactory())
        there.refresh_from_db()
        assert find_host_key(there) is None
        Cluster.objects.update(port=row.port)
        there.refresh_from_db()
        self.fetched(there)
        with pytest.raises(NotPinned, match="newer key"):
            pin(row, AdminFactory())
        assert not Cluster.objects.exclude(host_key="").exists()


class TestCommand:
    def say(self, name: str) -> str:
        out = io.StringIO()
        call_command("checkcluster", name, stdout=out, no_color=True)
        return out.getvalue()

    def test_prints_the_list_and_keeps_it(self, here: Cluster, bare: Environment) -> None:
        said = self.say("here")
        assert "Start of bare metal: Starts: Python" in said
        assert "here: nothing red of" in said
        assert CheckReport.objects.get().outcome in ("ok", "warning")

    def test_ends_with_1_when_something_is_red(
        self, here: Cluster, capsys: pytest.CaptureFixture[str]
    ) -> None:
        EnvironmentFactory(cluster=here, name="broken", python="/no/python")
        out = io.StringIO()
        with pytest.raises(SystemExit) as ended:
            call_command("checkcluster", "here", stdout=out, no_color=True)
        assert ended.value.code == 1
        assert "failed  Start of broken: /no/python does not start there." in out.getvalue()
        assert "Mend the interpreter's path" in out.getvalue()

    def test_an_unknown_name_is_told_with_the_known_ones(self, here: Cluster) -> None:
        with pytest.raises(CommandError, match=r"No cluster is called x\. There are: here\."):
            call_command("checkcluster", "x")
