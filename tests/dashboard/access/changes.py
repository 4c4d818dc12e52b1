"""How people change what is logged: by pages, the administration and commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db.models import Model
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from experiments.access.audit import name_kind
from experiments.clusters import credentials
from experiments.clusters.cluster_updates import list_differences
from experiments.demo import register_here
from experiments.encryption import Secret
from experiments.images import store
from experiments.models import (
    Cluster,
    ClusterReading,
    Credential,
    DataSet,
    DepositToken,
    Environment,
    HostKey,
    Image,
    Origin,
    ShareLink,
    TrustedKey,
    User,
    Workload,
)
from experiments.models.cluster_draft import compute_access_digest
from runners.cluster_reading import Found, FoundPartition
from runners.preflight import Check
from runners.workloads import WORKLOADS
from tests.dashboard.clusters.test_checks import KEY
from tests.dashboard.conftest import Site
from tests.experiments.imports.test_importing import imported
from tests.factories import (
    NOON,
    PASSWORD,
    TABLE,
    CheckReportFactory,
    ClusterFactory,
    DataSetFactory,
    EnvironmentFactory,
    ExperimentFactory,
    ImageFactory,
    PartitionFactory,
    PublishedTableFactory,
    RuntimeFactory,
    StagedImageFactory,
    TrustedKeyFactory,
    UserFactory,
    WorkloadFactory,
)
from tests.runners import signatures
from tests.runners.sshd import make_key, sign

Act = Callable[[], Any]
"""What a person does; it can be done twice, if the first time has failed."""
FACTORIES: dict[type[Model], Any] = {
    Cluster: ClusterFactory,
    DataSet: DataSetFactory,
    Environment: EnvironmentFactory,
    Group: lambda **_: Group.objects.create(name="neurophysics"),
    Image: ImageFactory,
    TrustedKey: lambda **_: TrustedKeyFactory(pem=signatures.write_public(signatures.make_key())),
    User: lambda **_: UserFactory(username="somebody"),
    Workload: WorkloadFactory,
}
"""How to make a row of each model whose administration page changes rows."""
KINDS = {"table": "publishedtable"}
"""Kinds that are called otherwise in addresses."""
FIELDS: dict[type[Model], str] = {Image: "reference", User: "email"}
"""A text field of them that is not called name."""
LOCK = f"numpy==2.3.1 --hash=sha256:{'ab' * 32}\n"
LIMITS = Check("Scheduler", "Limits", "ok", "A status call takes 0.02 s.", limits="16 2")


@dataclass(frozen=True)
class Case:
    """A site administrator with a browser, and a site to change."""

    person: User
    client: Client
    site: Site
    folder: Path

    def post(self, address: str, *args: Any, **fields: Any) -> Act:
        """Return what posts a form; a field that is callable is asked for its value each time."""

        def act() -> None:
            sent = {name: each() if callable(each) else each for name, each in fields.items()}
            answer = self.client.post(reverse(address, args=args), sent)
            assert answer.status_code == 302, answer.content.decode()

        return act

    def new(self, factory: Any, **columns: Any) -> Any:
        return factory(owner=self.person, **columns)


Prepare = Callable[[Case], Act]


def new_key(owner: User) -> Credential:
    row = Credential(name="lab key", user_name="tare")
    return credentials.add(row, credentials.make_pair(), Origin.GENERATED, owner)


def workload_fields() -> dict[str, Any]:
    chosen = {
        parameter.name: parameter.default
        for parameter in WORKLOADS["blas"].parameters
        if parameter.type == "choice" or parameter.default is True
    }
    return {"name": "mine", "time_limit_seconds": "61", **chosen}


def table_fields(margin: str = "2") -> dict[str, Any]:
    about = {"text": TABLE, "margin": margin, "visibility": "members"}
    return {**about, "baseline": "bare metal", "action": "save"}


def environment_fields(case: Case) -> dict[str, Any]:
    empty = dict.fromkeys(("runtime", "staged_image", "mode", "binds", "variables"), "")
    return {"cluster": case.site.cluster.pk, "name": "new", "python": "python3", **empty}


def add_data_set(case: Case) -> Act:
    where = {"cluster": case.site.cluster.pk, "path": "/data/digits"}
    return case.post("dataset_new", name="digits", visibility="members", **where)


def add_data_copy(case: Case) -> Act:
    where = {"cluster": case.site.cluster.pk, "path": "/data/digits"}
    return case.post("data_copy_add", case.new(DataSetFactory).pk, **where)


def put_code(case: Case) -> Act:
    parameters = {"argv": ["x"], "code_commit": "1" * 40, "code_repository": "https://a.org/b"}
    workload = case.new(WorkloadFactory, kind="command", parameters=parameters)
    return case.post("code_copy_put", workload.pk, cluster=case.site.cluster.pk)


def withdraw_token(case: Case) -> Act:
    DepositToken.objects.create(owner=case.person, service="https://a.org", token=Secret("t"))
    return case.post("deposit_token_delete")


def add_environment(case: Case) -> Act:
    return case.post("environment_new", **environment_fields(case))


def change_environment(case: Case) -> Act:
    row = case.new(EnvironmentFactory, cluster=case.site.cluster)
    return case.post("environment", row.pk, **environment_fields(case))


def choose_preset(case: Case) -> Act:
    bare, container = case.site.bare.pk, case.site.container.pk
    fields = {"environments": [bare, container], "baseline": bare, "size": "laptop"}
    return case.post("preset", "numpy-on-tuned-blas", cluster=case.site.cluster.pk, **fields)


def import_from_cluster(case: Case) -> Act:
    return case.post("image_new", way="file", cluster=case.site.cluster.pk, path="/data/it.sif")


def import_key(case: Case) -> Act:
    private = make_key(case.folder / "imported")
    return case.post("credential_import", **A_KEY, private_key=private)


def share_key(case: Case) -> Act:
    return case.post("credential_share", case.new(new_key).pk, users=[UserFactory().pk])


def stage(case: Case) -> Act:
    image = case.new(ImageFactory, kind="oci", content_sha256="c" * 64)
    store.get_path(image.content_sha256).write_bytes(b"content")
    return case.post("image_stage", image.pk, where=f"{case.site.cluster.pk} sif ", partition="")


def unstage(case: Case) -> Act:
    staged = StagedImageFactory(
        image=case.new(ImageFactory), cluster=case.site.cluster, made_here=True
    )
    return case.post("staged_remove", staged.pk)


def build(case: Case) -> Act:
    base, cluster = case.new(ImageFactory), case.site.cluster
    StagedImageFactory(image=base, cluster=cluster, format="archive", path="/images/it.archive")
    RuntimeFactory(cluster=cluster, kind="charliecloud", executable="ch-run")
    return case.post("recipe_new", title="more", base=base.pk, lock=LOCK, cluster=cluster.pk)


def build_file(case: Case) -> Act:
    base, cluster = case.new(ImageFactory), case.site.cluster
    StagedImageFactory(image=base, cluster=cluster, format="archive", path="/images/it.archive")
    RuntimeFactory(cluster=cluster, kind="podman", executable="podman")
    return case.post(
        "build_file_new",
        title="more",
        kind="dockerfile",
        text=f"FROM debian@{base.digest}",
        cluster=cluster.pk,
        minutes=5,
    )


def certify(case: Case) -> Act:
    private = make_key(case.folder / "key")
    make_key(case.folder / "authority")
    pair = credentials.read_pair(private)
    row = Credential(name="lab key", user_name="tare")
    credentials.add(row, pair, Origin.IMPORTED, case.person)
    text = sign(case.folder / "authority", case.folder / "key")
    return case.post("certificate_add", row.pk, certificate=text)


def give_up(case: Case) -> Act:
    row = case.new(new_key)
    credentials.begin_rotation(row, case.person)
    return case.post("credential_give_up", row.pk)


def rotate(case: Case) -> Act:
    row = case.new(new_key)
    credentials.begin_rotation(row, case.person)
    return partial(credentials.finish_rotation, row.pk, row.next_fingerprint, case.person)


def apply_differences(case: Case) -> Act:
    cluster = case.new(ClusterFactory)
    partition = PartitionFactory(cluster=cluster, nodes=1, cpus_per_node=64, gpus_per_node=0)
    found = Found("direct", partitions=(FoundPartition("machine", "up", 1, cpus_per_node=8),))
    reading = ClusterReading.objects.create(
        cluster=cluster,
        kind="offer",
        digest=compute_access_digest(cluster),
        ended_at=timezone.now(),
        found=found.as_json(),
    )
    (row,) = list_differences(cluster, reading)
    assert row.pk == partition.pk
    return case.post(
        "cluster_differences_apply", cluster.pk, reading=reading.pk, difference=row.key
    )


def take_limits(case: Case) -> Act:
    cluster = case.new(ClusterFactory, max_live_jobs=4, poll_seconds=15)
    CheckReportFactory(cluster=cluster, rows=[LIMITS.as_json()])
    return case.post("cluster_limits", cluster.pk)


def try_again(case: Case) -> Act:
    cluster = case.new(ClusterFactory, last_error="away", retry_at=NOON)
    return case.post("cluster_try", cluster.pk)


def try_a_pause_again(case: Case) -> Act:
    cluster = case.new(ClusterFactory)
    pause = cluster.pauses.create(kind="limit", since=NOON, retry_at=NOON)
    return case.post("pause_try", pause.pk)


def pin(case: Case) -> Act:
    host = {"host": "login.example", "port": 22}
    cluster = case.new(ClusterFactory, transport="ssh", **host)
    row = HostKey.objects.create(cluster=cluster, key=KEY, ended_at=NOON, **host)
    return case.post("host_key_pin", row.pk)


def withdraw(case: Case) -> Act:
    row = case.new(PublishedTableFactory, visibility="public")
    link = ShareLink.objects.make(row)
    return case.post("link_withdraw", "table", row.pk, link.pk)


def share_with_groups(kind: str, factory: Any, case: Case) -> Act:
    group = Group.objects.create(name="neurophysics")
    row = case.new(factory)
    return case.post("visibility", kind, row.pk, visibility="groups", groups=[group.pk])


def make_link(kind: str, factory: Any, case: Case) -> Act:
    return case.post("link_make", kind, case.new(factory).pk, days="7")


def forget_import(case: Case) -> Act:
    return case.post("experiment_delete", imported(case.person).pk)


def in_administration(page: str, model: type[Model]) -> str:
    return f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}"


def change_in_administration(model: type[Model], case: Case) -> Act:
    """Send the form of a row as a browser would, with another text in one field."""
    row = FACTORIES[model](owner=case.person)
    address = in_administration("change", model)
    page = BeautifulSoup(case.client.get(reverse(address, args=[row.pk])).content, "html.parser")
    form = page.select_one(f"form#{name_kind(model)}_form")
    assert form
    sent: dict[str, Any] = {}
    for field in form.select("input[name], textarea[name], select[name]"):
        name = str(field["name"])
        if field.name == "select":
            sent[name] = [option["value"] for option in field.select("option[selected]")]
        elif field.get("type") not in ("submit", "checkbox") or field.has_attr("checked"):
            sent[name] = field.get("value", field.text.strip())
    field_name = FIELDS.get(model, "name")
    return case.post(address, row.pk, **sent | {field_name: "else@example.org"})


def delete_in_administration(model: type[Model], case: Case) -> Act:
    row = FACTORIES[model](owner=case.person)
    return case.post(in_administration("delete", model), row.pk, post="yes")


def delete_selected(model: type[Model], case: Case) -> Act:
    row = FACTORIES[model](owner=case.person)
    selected = {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"}
    return case.post(in_administration("changelist", model), **selected)


def set_password(case: Case) -> Act:
    row = UserFactory()
    passwords = {"usable_password": "true", "password1": PASSWORD[::-1]}
    return case.post(
        "admin:auth_user_password_change", row.pk, **passwords, password2=PASSWORD[::-1]
    )


def own_password(case: Case) -> Act:
    new = dict.fromkeys(("new_password1", "new_password2"), PASSWORD[::-1])
    return case.post("password_change", old_password=PASSWORD, **new)


def turn_keys(case: Case) -> Act:
    case.new(new_key)
    return partial(call_command, "rotate_credentials")


def make_superuser(case: Case) -> Act:
    about = {"username": "root", "email": "root@example.org"}
    return partial(User.objects.create_superuser, **about, password=PASSWORD)


def register(case: Case) -> Act:
    python, runtimes = Path("/usr/bin/python3"), {"udocker": "/usr/bin/udocker"}
    return partial(register_here, case.folder, python, runtimes, case.person)


def upload() -> BytesIO:
    file = BytesIO(b"an archive")
    file.name = "it.tar"
    return file


def posts(address: str, factory: Any = None, /, **fields: Any) -> Prepare:
    """Return what makes a row and posts a form to one of its addresses."""

    def prepare(case: Case) -> Act:
        return case.post(address, *([case.new(factory).pk] if factory else []), **fields)

    return prepare


SHARED: dict[str, Any] = {
    "cluster": partial(ClusterFactory, transport="ssh"),
    "environment": EnvironmentFactory,
    "experiment": ExperimentFactory,
    "image": ImageFactory,
    "table": PublishedTableFactory,
    "workload": WorkloadFactory,
}
A_KEY = {"name": "key", "user_name": "me"}
