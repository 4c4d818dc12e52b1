"""What an administrator and a researcher do, by forms and admin pages alone, on real clusters.

A key is imported, the cluster entered, its host key pinned, checked; an image is fetched from it
and staged; environments, a workload and an experiment are made; it runs and is compared.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.urls import reverse
from django_webtest import DjangoTestApp

from experiments.execution.task_worker import TASKS
from experiments.models import (
    Cluster,
    Credential,
    Environment,
    Experiment,
    HostKey,
    Image,
    Operation,
    Run,
    StagedImage,
    Workload,
)
from lab.client import Lab
from tests.conftest import tick_until

ALL = (
    *(("apptainer", "sif", ""), ("apptainer", "sandbox", ""), ("charliecloud", "sandbox", "")),
    *(("udocker", "udocker", "P1"), ("udocker", "udocker", "R1"), ("podman", "podman", "")),
)
SOME = (("apptainer", "sif", ""), ("udocker", "udocker", "P1"))


class Workers:
    """Does at once what pages ask workers to do."""

    def __init__(self) -> None:
        self.asked: deque[tuple[str, int]] = deque()

    def take(self, task: str, pk: int, *, queue: str = "default") -> None:
        if task != "experiments.execution.tasks.tick":
            self.asked.append((task, pk))

    def work(self) -> None:
        while self.asked:
            task, pk = self.asked.popleft()
            TASKS[task](pk)


@dataclass
class Person:
    """Somebody in front of the pages."""

    app: DjangoTestApp
    workers: Workers
    name: str

    def get(self, name: str, *args: Any, **query: Any) -> Any:
        return self.app.get(reverse(name, args=args), query or None, user=self.name)

    def send(self, page: Any, to: str, **typed: Any) -> Any:
        """Fill in the form of `page` that goes to the address `to`, and send it."""
        form = next(
            form
            for form in page.forms.values()
            if form.method.lower() == "post"
            and (form.action or "").endswith(to)
            and typed.keys() <= form.fields.keys()
        )
        for field, value in typed.items():
            form[field] = value
        answer = form.submit("action", value="launch") if "action" in form.fields else form.submit()
        answer = answer.maybe_follow()
        assert answer.status_code == 200
        problems = answer.html.select(
            ".invalid-feedback, .errorlist, .problem[role=alert], #summary li"
        )
        assert not problems, [problem.get_text(" ", strip=True) for problem in problems]
        self.workers.work()
        return answer


@dataclass
class Site:
    """A cluster that is there, and how its entry is filled in."""

    lab: Lab
    scheduler: str
    partition: dict[str, Any]
    containers: tuple[tuple[str, str, str], ...]

    @property
    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.lab.directory / "lab.json").read_text())
        return found

    @property
    def kinds(self) -> list[str]:
        return list(dict.fromkeys(kind for kind, _, _ in self.containers))

    @property
    def forms(self) -> list[tuple[str, str]]:
        return list(dict.fromkeys((form, mode) for _, form, mode in self.containers))

    def runtime(self, kind: str) -> dict[str, Any]:
        executable = self.facts["runtimes"][kind]["executable"]
        return {"kind": kind, "executable": executable, "options": "[]"}


PARTITION = {"nodes": 2, "cpus_per_node": 8, "time_limit_minutes": 60, "cpus_per_run": 1}


def with_slurm(lab: Lab) -> Site:
    return Site(lab, "slurm", PARTITION | {"name": "gpu"}, ALL)


def without_scheduler(lab: Lab) -> Site:
    return Site(lab, "direct", PARTITION | {"name": "here", "nodes": 1}, SOME)


def with_grid_engine(lab: Lab) -> Site:
    return Site(lab, "grid_engine", PARTITION | {"name": "main.q", "nodes": 1}, SOME)


def enter_cluster(person: Person, site: Site) -> Cluster:
    """Import the key, enter the cluster with its partition and runtimes, pin its host key."""
    key = Path(site.lab.private_key).read_text()
    page = person.get("credential_import")
    person.send(page, "", name="lab's key", user_name=site.lab.user, private_key=key)
    credential = Credential.objects.get()
    typed = {
        "name": "the lab",
        "enabled": "on",
        "transport": "ssh",
        "host": site.lab.host,
        "port": site.lab.port,
        "credential": credential.pk,
        "scheduler": site.scheduler,
        "work_directory": f"{site.lab.work_directory}/by-forms-{site.scheduler}",
        "max_live_jobs": 2,
        "poll_seconds": 1,
        "visibility": "members",
        **inline(
            "partitions", [{"gres": "gpu", "gpus_per_node": 0, "enabled": "on"} | site.partition]
        ),
        **inline(
            "runtimes",
            [
                {
                    "kind": kind,
                    "executable": site.facts["runtimes"][kind]["executable"],
                    "options": "[]",
                }
                for kind in dict.fromkeys(kind for kind, _, _ in site.containers)
            ],
        ),
    }
    page = person.get("admin:experiments_cluster_add")
    token = page.forms["cluster_form"]["csrfmiddlewaretoken"].value
    answer = person.app.post(
        reverse("admin:experiments_cluster_add"),
        typed | {"csrfmiddlewaretoken": token},
        user=person.name,
    ).maybe_follow()
    assert not answer.html.select(".errorlist"), answer.html.select(".errorlist")
    cluster = Cluster.objects.get()
    person.send(person.get("cluster", cluster.pk), reverse("host_key_fetch", args=[cluster.pk]))
    key_row = HostKey.objects.get()
    person.send(person.get("cluster", cluster.pk), reverse("host_key_pin", args=[key_row.pk]))
    page = person.send(
        person.get("cluster", cluster.pk), reverse("cluster_check", args=[cluster.pk])
    )
    report = cluster.checkreports.get()
    assert report.outcome != "failed", [row for row in report.rows if row["outcome"] == "failed"]
    return cluster


def inline(prefix: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows of an admin page, as its form sends them."""
    typed = {f"{prefix}-TOTAL_FORMS": len(rows), f"{prefix}-INITIAL_FORMS": 0}
    for number, row in enumerate(rows):
        typed |= {f"{prefix}-{number}-{name}": value for name, value in row.items()}
    return typed


def add_image(person: Person, cluster: Cluster, site: Site) -> Image:
    """Fetch the image's archive from the cluster, and stage every form."""
    page = person.get("image_new")
    archive = site.facts["images"]["numpy"]["image"]["archive"]
    form = next(form for form in page.forms.values() if "path" in form.fields)
    form["cluster"], form["path"], form["title"] = str(cluster.pk), archive, "NumPy"
    form.submit().maybe_follow()
    person.workers.work()
    image = Image.objects.get()
    assert image.digest == site.facts["images"]["numpy"]["image"]["digest"]
    for _, form_name, mode in dict.fromkeys(
        (None, form, mode) for _, form, mode in site.containers
    ):
        page = person.get("image", image.pk)
        where = f"{cluster.pk} {form_name} {mode}"
        person.send(page, reverse("image_stage", args=[image.pk]), where=where)
    live = Operation.objects.exclude(state__in=Operation.FINAL)
    tick_until(cluster, lambda: not live.exists(), seconds=300)
    failed = Operation.objects.exclude(state="done")
    assert not failed, [(str(operation), operation.message) for operation in failed]
    return image


def make_environments(person: Person, cluster: Cluster, site: Site) -> list[Environment]:
    bare = site.facts["images"]["numpy"]["bare_metal"]["python"]
    page = person.get("environment_new", cluster=cluster.pk)
    person.send(page, "", name="bare metal", python=bare)
    for kind, form_name, mode in site.containers:
        staged = StagedImage.objects.get(format=form_name, mode=mode)
        runtime = cluster.runtimes.get(kind=kind)
        query = {"cluster": cluster.pk, "runtime": runtime.pk, "staged_image": staged.pk}
        page = person.get("environment_new", **query)
        person.send(page, "", name=f"{kind} {form_name} {mode}".strip())
    return list(Environment.objects.order_by("pk"))


def choose_numpy(cluster: Cluster) -> list[Environment]:
    """Return the environments with NumPy on bare metal, first, and in Apptainer's SIF."""
    rows = cluster.environments.filter(name__contains="numpy").order_by("pk")
    bare = [row for row in rows if row.is_bare_metal]
    contained = [
        row
        for row in rows
        if not row.is_bare_metal and row.kind == "apptainer" and row.staged_image.format == "sif"
    ]
    assert (len(bare), len(contained)) == (1, 1), [str(row) for row in rows]
    return [*bare, *contained]


def launch_experiment(
    person: Person,
    cluster: Cluster,
    question: str,
    *,
    workloads: Sequence[Workload],
    environments: Sequence[Environment],
    repeats: int,
) -> Experiment:
    """Launch by the form of a new experiment; the first environment is the baseline."""
    answer = person.send(
        person.get("experiment_new", cluster=cluster.pk),
        "",
        question=question,
        workloads=[str(row.pk) for row in workloads],
        environments=[str(row.pk) for row in environments],
        baseline=str(environments[0].pk),
        scales="1x0",
        repeats=str(repeats),
    )
    shown = [row.get_text(" ", strip=True) for row in answer.html.select(".problem, .note.error")]
    assert not shown
    made = Experiment.objects.latest("pk")
    assert made.launched_at
    return made


def wait_for_runs(cluster: Cluster, *, seconds: float) -> None:
    """Visit the cluster until all runs have ended, and expect that each has succeeded."""
    alive = Run.objects.exclude(state__in=Run.FINAL)
    tick_until(cluster, lambda: not alive.exists(), seconds=seconds)
    failed = Run.objects.exclude(state=Run.State.SUCCEEDED, message="")
    assert not failed, [(str(run), run.state, run.reason, run.message) for run in failed]


def launch(person: Person, cluster: Cluster, environments: list[Environment]) -> Experiment:
    page = person.get("workload_new", kind="blas")
    quick = {"steps": "20", "burn_in": "2", "matrix_size": "64", "decomposition_size": "16"}
    person.send(page, "", name="blas, quick", time_limit_seconds="120", **quick)
    page = person.get("experiment_new", cluster=cluster.pk)
    person.send(
        page,
        "",
        question="What does a container cost here?",
        partition=str(cluster.partitions.get().pk),
        workloads=[str(Workload.objects.get().pk)],
        environments=[str(row.pk) for row in environments],
        baseline=str(environments[0].pk),
        scales="1x0",
        repeats="2",
    )
    return Experiment.objects.get()


def measure(person: Person, site: Site) -> Experiment:
    """All of it, from the key to the comparison."""
    cluster = enter_cluster(person, site)
    add_image(person, cluster, site)
    environments = make_environments(person, cluster, site)
    assert len(environments) == 1 + len(site.containers)
    made = launch(person, cluster, environments)
    assert made.launched_at
    wait_for_runs(cluster, seconds=300)
    assert Run.objects.count() == 2 * len(environments)
    page = person.get("comparison", made.pk)
    for environment in environments[1:]:
        assert environment.name in page.text
    return made
