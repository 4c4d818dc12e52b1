"""Every role meets every address and every administration page: one table says what happens."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, reverse
from django.urls.resolvers import get_resolver
from django.utils import timezone

from dashboard.catalogue.catalogue_views import TABS
from dashboard.docs.client_views import build_wheel
from experiments.access import permissions
from experiments.access.permissions import MAKERS
from experiments.models import (
    Citation,
    Cluster,
    ClusterDraft,
    DataSet,
    Environment,
    Experiment,
    HostKey,
    Image,
    ImageImport,
    Notification,
    OwnPreset,
    Pause,
    PublishedTable,
    Role,
    RunFile,
    SavedView,
    ShareLink,
    SigningKey,
    Snapshot,
    StoredRecord,
    Study,
    UnsavedForm,
    User,
    Webhook,
    Workload,
)
from experiments.models.api_token import make_token
from experiments.presets.own_presets import describe_definition
from experiments.signing import ssh_signatures
from tests.dashboard.conftest import Site, measured
from tests.factories import (
    ClusterFactory,
    CodeCopyFactory,
    CredentialFactory,
    DataCopyFactory,
    DataSetFactory,
    EnvironmentFactory,
    ExperimentFactory,
    ImageFactory,
    OperationFactory,
    PublishedTableFactory,
    RecurringExperimentFactory,
    StagedImageFactory,
    StudyFactory,
    UserFactory,
    WorkloadFactory,
)

pytestmark = pytest.mark.django_db

NOBODY = "nobody"

# The least role for which an address opens, when what it names is one's own. POST: an action.
GET, POST = "get", "post"
RULES: dict[str, tuple[str, str, Role | str]] = {
    # address: method, what it names, least role
    "healthz": (GET, "", NOBODY),
    "glossary": (GET, "", NOBODY),
    "experiment_schema": (GET, "", NOBODY),
    "docs": (GET, "", NOBODY),
    "client_packages": (GET, "", NOBODY),
    "client_package": (GET, "wheel", NOBODY),
    "document": (GET, "document", NOBODY),
    "document_picture": (GET, "picture", NOBODY),
    "login": (GET, "", NOBODY),
    "logout": (POST, "", Role.VIEWER),
    "password_change": (GET, "", Role.VIEWER),
    "publishing": (GET, "", Role.VIEWER),
    "deposit_token_delete": (POST, "", Role.VIEWER),
    "api_tokens": (GET, "", Role.VIEWER),
    "api_token": (GET, "API token", Role.VIEWER),
    "api_token_withdraw": (POST, "API token", Role.VIEWER),
    "site_key": (GET, "", NOBODY),
    "notifications": (GET, "", Role.VIEWER),
    "notification": (GET, "notification", Role.VIEWER),
    "notifications_read": (POST, "", Role.VIEWER),
    "notification_choices": (GET, "", Role.VIEWER),
    "webhook_new": (GET, "", Role.VIEWER),
    "webhook": (GET, "webhook", Role.VIEWER),
    "webhook_test": (POST, "webhook", Role.VIEWER),
    "webhook_secret": (GET, "webhook", Role.VIEWER),
    "webhook_rotate": (POST, "webhook", Role.VIEWER),
    "webhook_switch": (POST, "webhook", Role.VIEWER),
    "webhook_delete": (POST, "webhook", Role.VIEWER),
    "overview": (GET, "", Role.VIEWER),
    "search": (GET, "", Role.VIEWER),
    "search_results": (GET, "", Role.VIEWER),
    "experiments": (GET, "", Role.VIEWER),
    "experiments_file": (GET, "", Role.VIEWER),
    "experiments_file_parquet": (GET, "", Role.VIEWER),
    "compare": (GET, "", Role.VIEWER),
    "runs": (GET, "", Role.VIEWER),
    "runs_file": (GET, "", Role.VIEWER),
    "runs_file_parquet": (GET, "", Role.VIEWER),
    "experiments_selected": (POST, "", Role.VIEWER),
    "runs_selected": (POST, "", Role.VIEWER),
    "saved_view_save": (POST, "", Role.VIEWER),
    "saved_view_delete": (POST, "saved view", Role.VIEWER),
    "catalogue": (GET, "", Role.VIEWER),
    "clusters": (GET, "", Role.VIEWER),
    "experiment": (GET, "results", Role.VIEWER),
    "comparison": (GET, "results", Role.VIEWER),
    "comparison_steps": (GET, "results", Role.VIEWER),
    "robustness": (GET, "results", Role.VIEWER),
    "comparison_csv": (GET, "results", Role.VIEWER),
    "report": (GET, "results", Role.VIEWER),
    "table_report": (GET, "table", Role.VIEWER),
    "comparison_json": (GET, "results", Role.VIEWER),
    "comparison_tex": (GET, "results", Role.VIEWER),
    "forest_svg": (GET, "results", Role.VIEWER),
    "forest_png": (GET, "results", Role.VIEWER),
    "forest_pdf": (GET, "results", Role.VIEWER),
    "figure_svg": (GET, "figure", Role.VIEWER),
    "figure_png": (GET, "figure", Role.VIEWER),
    "figure_pdf": (GET, "figure", Role.VIEWER),
    "runs_csv": (GET, "results", Role.VIEWER),
    "bundle_zip": (GET, "results", Role.VIEWER),
    "citation_bib": (GET, "results", Role.VIEWER),
    "citation_cff": (GET, "results", Role.VIEWER),
    "publication": (GET, "results", Role.RESEARCHER),
    "deposit": (POST, "results", Role.RESEARCHER),
    "provenance": (GET, "results", Role.VIEWER),
    "provenance_file": (GET, "results", Role.VIEWER),
    "result_provenance": (GET, "result", Role.VIEWER),
    "result_provenance_file": (GET, "result", Role.VIEWER),
    "run_provenance": (GET, "run", Role.VIEWER),
    "run_provenance_file": (GET, "run", Role.VIEWER),
    "checklist": (GET, "results", Role.VIEWER),
    "checklist_file": (GET, "results", Role.VIEWER),
    "bencher_json": (GET, "results", Role.VIEWER),
    "pytest_benchmark_json": (GET, "results", Role.VIEWER),
    "runs_json": (GET, "results", Role.VIEWER),
    "comparison_parquet": (GET, "results", Role.VIEWER),
    "runs_parquet": (GET, "results", Role.VIEWER),
    "measurements_csv": (GET, "results", Role.VIEWER),
    "measurements_parquet": (GET, "results", Role.VIEWER),
    "series_csv": (GET, "results", Role.VIEWER),
    "series_parquet": (GET, "results", Role.VIEWER),
    "table": (GET, "table", Role.VIEWER),
    "table_robustness": (GET, "table", Role.VIEWER),
    "table_csv": (GET, "table", Role.VIEWER),
    "table_json": (GET, "table", Role.VIEWER),
    "table_parquet": (GET, "table", Role.VIEWER),
    "table_tex": (GET, "table", Role.VIEWER),
    "table_text": (GET, "table", Role.VIEWER),
    "table_forest_svg": (GET, "table", Role.VIEWER),
    "table_forest_png": (GET, "table", Role.VIEWER),
    "table_forest_pdf": (GET, "table", Role.VIEWER),
    "table_figure_svg": (GET, "figure of a table", Role.VIEWER),
    "table_figure_png": (GET, "figure of a table", Role.VIEWER),
    "table_figure_pdf": (GET, "figure of a table", Role.VIEWER),
    "run": (GET, "run", Role.VIEWER),
    "studies": (GET, "", Role.VIEWER),
    "studies_csv": (GET, "", Role.VIEWER),
    "studies_json": (GET, "", Role.VIEWER),
    "studies_tex": (GET, "", Role.VIEWER),
    "studies_forest_svg": (GET, "", Role.VIEWER),
    "studies_forest_png": (GET, "", Role.VIEWER),
    "studies_forest_pdf": (GET, "", Role.VIEWER),
    "two_experiments": (GET, "two experiments", Role.VIEWER),
    "two_experiments_choose": (GET, "results", Role.VIEWER),
    "two_runs": (GET, "two runs", Role.VIEWER),
    "two_runs_choose": (GET, "run", Role.VIEWER),
    "image": (GET, "image", Role.VIEWER),
    "dataset": (GET, "data set", Role.VIEWER),
    "image_spdx": (GET, "image", Role.VIEWER),
    "image_cyclonedx": (GET, "image", Role.VIEWER),
    "cluster": (GET, "cluster", Role.VIEWER),
    "environment": (GET, "environment", Role.VIEWER),
    "operation": (GET, "operation", Role.VIEWER),
    "old_operation": (GET, "operation", Role.VIEWER),
    "old_readers": (GET, "visibility", Role.VIEWER),
    "operation_cancel": (POST, "operation", Role.VIEWER),
    "image_import_cancel": (POST, "image_import", Role.VIEWER),
    "image_import_dismiss": (POST, "image_import", Role.VIEWER),
    "experiment_software": (GET, "draft", Role.VIEWER),
    "experiment_new": (GET, "", Role.RESEARCHER),
    "experiment_import": (GET, "", Role.RESEARCHER),
    "bundle_import": (GET, "", Role.RESEARCHER),
    "definition_import": (GET, "", Role.RESEARCHER),
    "definition_yaml": (GET, "draft", Role.VIEWER),
    "definition_json": (GET, "draft", Role.VIEWER),
    "experiment_edit": (GET, "draft", Role.RESEARCHER),
    "experiment_script": (POST, "", Role.RESEARCHER),
    "experiment_keep_new": (POST, "", Role.RESEARCHER),
    "experiment_keep": (POST, "draft", Role.RESEARCHER),
    "experiment_discard": (POST, "unsaved form", Role.RESEARCHER),
    "environment_inspect": (POST, "environment", Role.RESEARCHER),
    "environment_against_itself": (POST, "environment", Role.RESEARCHER),
    "experiment_inspect": (POST, "draft", Role.RESEARCHER),
    "experiment_waive": (POST, "draft", Role.RESEARCHER),
    "experiment_clone": (POST, "results", Role.RESEARCHER),
    "experiment_launch": (POST, "draft", Role.RESEARCHER),
    "experiment_cancel": (POST, "results", Role.RESEARCHER),
    "experiment_extend": (POST, "results", Role.RESEARCHER),
    "experiment_jobs": (POST, "results", Role.RESEARCHER),
    "experiment_results": (GET, "results", Role.RESEARCHER),
    "experiment_stop": (POST, "results", Role.RESEARCHER),
    "experiment_pause": (POST, "results", Role.RESEARCHER),
    "experiment_continue": (POST, "results", Role.RESEARCHER),
    "experiment_pin": (POST, "results", Role.RESEARCHER),
    "experiment_labels": (GET, "draft", Role.RESEARCHER),
    "experiment_archive": (POST, "draft", Role.RESEARCHER),
    "experiment_delete": (POST, "draft", Role.RESEARCHER),
    "job_retry": (POST, "job", Role.RESEARCHER),
    "job_repair": (POST, "job", Role.RESEARCHER),
    "job_any_node": (POST, "job", Role.RESEARCHER),
    "job_collect": (POST, "job", Role.RESEARCHER),
    "run_record": (GET, "run", Role.VIEWER),
    "run_output": (GET, "run", Role.VIEWER),
    "run_changes": (GET, "run", Role.VIEWER),
    **{
        f"run_{name}_{ending}": (GET, "run", Role.VIEWER)
        for name in ("series", "node")
        for ending in ("svg", "png", "pdf")
    },
    **{
        f"{name}_{ending}": (GET, what, Role.VIEWER)
        for name, what in (
            ("two_runs_series", "two runs"),
            ("two_experiments_forest", "two experiments"),
            ("two_experiments_steps", "two experiments"),
        )
        for ending in ("svg", "png", "pdf")
    },
    "run_exclude": (POST, "run", Role.RESEARCHER),
    "run_include": (POST, "run", Role.RESEARCHER),
    "run_file": (GET, "file", Role.RESEARCHER),
    "run_file_fetch": (POST, "file", Role.RESEARCHER),
    "experiment_retry_unsent": (POST, "results", Role.RESEARCHER),
    "pause_try": (POST, "pause", Role.RESEARCHER),
    "table_new": (GET, "", Role.RESEARCHER),
    "table_edit": (GET, "table", Role.RESEARCHER),
    "table_delete": (POST, "table", Role.RESEARCHER),
    "study_schema": (GET, "", NOBODY),
    "study_list": (GET, "", Role.VIEWER),
    "study_new": (GET, "", Role.RESEARCHER),
    "study": (GET, "study", Role.VIEWER),
    "study_edit": (GET, "study", Role.RESEARCHER),
    "study_delete": (POST, "study", Role.RESEARCHER),
    "study_launch": (POST, "study", Role.RESEARCHER),
    "study_cancel": (POST, "study", Role.RESEARCHER),
    "study_pause": (POST, "study", Role.RESEARCHER),
    "study_continue": (POST, "study", Role.RESEARCHER),
    "study_yaml": (GET, "study", Role.VIEWER),
    "study_json": (GET, "study", Role.VIEWER),
    "recurring_trigger": (POST, "", NOBODY),
    "recurring_token": (POST, "recurring", Role.RESEARCHER),
    "recurring_list": (GET, "", Role.VIEWER),
    "recurring_new": (GET, "results", Role.RESEARCHER),
    "reproduce": (GET, "results", Role.RESEARCHER),
    "recurring": (GET, "recurring", Role.VIEWER),
    "recurring_edit": (GET, "recurring", Role.RESEARCHER),
    "recurring_stop": (POST, "recurring", Role.RESEARCHER),
    "recurring_launch": (POST, "recurring", Role.RESEARCHER),
    "recurring_limits": (POST, "recurring", Role.RESEARCHER),
    "recurring_csv": (GET, "recurring", Role.VIEWER),
    "recurring_json": (GET, "recurring", Role.VIEWER),
    "recurring_charts_svg": (GET, "recurring", Role.VIEWER),
    "recurring_charts_png": (GET, "recurring", Role.VIEWER),
    "recurring_charts_pdf": (GET, "recurring", Role.VIEWER),
    "own_preset_new": (GET, "results", Role.RESEARCHER),
    "own_preset_edit": (GET, "own preset", Role.RESEARCHER),
    "own_preset_use": (POST, "own preset", Role.RESEARCHER),
    "own_preset_delete": (POST, "own preset", Role.RESEARCHER),
    "presets": (GET, "", Role.VIEWER),
    "preset": (GET, "preset", Role.RESEARCHER),
    "workload_kinds": (GET, "", Role.VIEWER),
    "workload": (GET, "workload", Role.VIEWER),
    "workload_new": (GET, "", Role.RESEARCHER),
    "workload_try": (POST, "", Role.RESEARCHER),
    "workload_edit": (GET, "workload", Role.RESEARCHER),
    "workload_delete": (POST, "workload", Role.RESEARCHER),
    "dataset_new": (GET, "", Role.RESEARCHER),
    "dataset_edit": (GET, "data set", Role.RESEARCHER),
    "dataset_delete": (POST, "data set", Role.RESEARCHER),
    "code_copy_put": (POST, "workload", Role.RESEARCHER),
    "code_copy_check": (POST, "code copy", Role.RESEARCHER),
    "code_copy_remove": (POST, "code copy", Role.RESEARCHER),
    "data_copy_add": (POST, "data set", Role.RESEARCHER),
    "data_copy_check": (POST, "data copy", Role.RESEARCHER),
    "data_copy_read": (POST, "data copy", Role.RESEARCHER),
    "data_copy_forget": (POST, "data copy", Role.RESEARCHER),
    "recipe_new": (GET, "", Role.RESEARCHER),
    "build_file_new": (GET, "", Role.RESEARCHER),
    "image_match": (POST, "image", Role.RESEARCHER),
    "image_tree": (POST, "image", Role.RESEARCHER),
    "visibility": (GET, "visibility", Role.RESEARCHER),
    "link": (GET, "link", NOBODY),
    "link_make": (POST, "visibility", Role.RESEARCHER),
    "link_withdraw": (POST, "link of", Role.RESEARCHER),
    "image_new": (GET, "", Role.RESEARCHER),
    "image_stage": (POST, "image", Role.RESEARCHER),
    "image_labels": (POST, "image", Role.RESEARCHER),
    "image_delete": (POST, "image", Role.RESEARCHER),
    "staged_verify": (POST, "staged", Role.RESEARCHER),
    "staged_remove": (POST, "staged", Role.RESEARCHER),
    "environment_new": (GET, "", Role.RESEARCHER),
    "environment_delete": (POST, "environment", Role.RESEARCHER),
    "cluster_check": (POST, "cluster", Role.RESEARCHER),
    "cluster_try": (POST, "cluster", Role.RESEARCHER),
    "cluster_new_by_hand": (GET, "", Role.CLUSTER_ADMINISTRATOR),
    "cluster_new": (GET, "", Role.CLUSTER_ADMINISTRATOR),
    "cluster_draft_address": (GET, "cluster draft", Role.CLUSTER_ADMINISTRATOR),
    "cluster_draft_host_key": (GET, "cluster draft", Role.CLUSTER_ADMINISTRATOR),
    "cluster_draft_credential": (GET, "cluster draft", Role.CLUSTER_ADMINISTRATOR),
    "cluster_draft_test": (GET, "cluster draft", Role.CLUSTER_ADMINISTRATOR),
    "cluster_draft_confirm": (GET, "cluster draft", Role.CLUSTER_ADMINISTRATOR),
    "cluster_draft_discard": (POST, "cluster draft", Role.CLUSTER_ADMINISTRATOR),
    "credentials": (GET, "", Role.CLUSTER_ADMINISTRATOR),
    "credential_new": (GET, "", Role.CLUSTER_ADMINISTRATOR),
    "credential_import": (GET, "", Role.CLUSTER_ADMINISTRATOR),
    "credential": (GET, "credential", Role.CLUSTER_ADMINISTRATOR),
    "credential_edit": (GET, "credential", Role.CLUSTER_ADMINISTRATOR),
    "credential_share": (POST, "credential", Role.CLUSTER_ADMINISTRATOR),
    "certificate_add": (POST, "credential", Role.CLUSTER_ADMINISTRATOR),
    "credential_test": (POST, "credential", Role.CLUSTER_ADMINISTRATOR),
    "credential_rotate": (POST, "credential", Role.CLUSTER_ADMINISTRATOR),
    "credential_give_up": (POST, "credential", Role.CLUSTER_ADMINISTRATOR),
    "credential_delete": (POST, "credential", Role.CLUSTER_ADMINISTRATOR),
    "cluster_connection": (POST, "cluster", Role.RESEARCHER),
    "audit": (GET, "", Role.CLUSTER_ADMINISTRATOR),
    "operations": (GET, "", Role.SITE_ADMINISTRATOR),
    "all_api_tokens": (GET, "", Role.SITE_ADMINISTRATOR),
    "gate_script": (GET, "", Role.VIEWER),
    "host_key_fetch": (POST, "cluster", Role.CLUSTER_ADMINISTRATOR),
    "cluster_read": (POST, "cluster", Role.CLUSTER_ADMINISTRATOR),
    "cluster_differences": (GET, "cluster", Role.CLUSTER_ADMINISTRATOR),
    "cluster_differences_apply": (POST, "cluster", Role.CLUSTER_ADMINISTRATOR),
    "cluster_limits": (POST, "cluster", Role.CLUSTER_ADMINISTRATOR),
    "host_key_pin": (POST, "host key", Role.CLUSTER_ADMINISTRATOR),
}

# Models of others in the administration pages, and rows that Tare alone writes.
FOR_SITE_ADMINISTRATORS = {
    "axes.accessattempt",
    "axes.accessfailurelog",
    "axes.accesslog",
    "django_rq.dashboard",
    "experiments.checkreport",
    "experiments.credential",
    "experiments.event",
    "experiments.hostkey",
    "experiments.job",
    "experiments.recurrence",
    "experiments.recurringexperiment",
    "experiments.run",
}


def logged_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def person(role: Role) -> User:
    user: User = UserFactory(role=role)
    return user


def make_own_rows(site: Site, owner: User) -> dict[str, list[Any]]:
    """Make what one person owns, as the arguments of an address."""
    results = measured(site, owner, blocks=2, visibility="public")
    Citation.objects.create(experiment=results, authors=[{"family": "Curie"}])
    signing = ssh_signatures.make_key()
    public = ssh_signatures.write_public_key(signing)
    SigningKey.objects.create(private=signing, public=public, fingerprint="SHA256:x")
    table = PublishedTableFactory(owner=owner)
    link = ShareLink.objects.make(results)
    run = results.runs.all()[0]
    key = CredentialFactory(owner=owner)
    there = {"host": "login.example", "transport": "ssh"}
    cluster = ClusterFactory(owner=owner, credential=key, **there)
    data_set = DataSetFactory(owner=owner)
    image = ImageFactory(owner=owner, facts={"packages": {"python": {"numpy": "2.4"}}})
    file = RunFile.objects.create(run=run, path="model.bin", size_bytes=1)
    StoredRecord.objects.create(run=run, output=zlib.compress(b"x"), output_bytes=1, files=b"")
    program = {"checkouts": {"/opt/net": {"patch": "+x\n"}}}
    run.snapshot = Snapshot.objects.keep({"inside": {"program": program}})
    run.save()
    now = timezone.now()
    code = CodeCopyFactory(owner=owner, cluster=site.cluster)
    # Who views a workload views the copies of its code.
    parameters = {"argv": ["{code}/run"], "code_commit": code.commit}
    WorkloadFactory(owner=owner, kind="command", parameters=parameters)
    pause = Pause.objects.create(cluster=cluster, kind="partition", since=now, retry_at=now)
    shown = HostKey.objects.create(cluster=cluster, host="login.example", port=22, key="key")
    return {
        "": [],
        "results": [results.pk],
        "result": [results.pk, 1, 1],
        "figure": [results.pk, "runs"],
        "draft": [ExperimentFactory(owner=owner).pk],
        "table": [table.pk],
        "figure of a table": [table.pk, "bars"],
        "run": [run.uid],
        "two experiments": [results.pk, results.pk],
        "two runs": [row.uid for row in results.runs.all()[:2]],
        "file": [run.uid, file.pk],
        "pause": [pause.pk],
        "job": [run.job.uid],
        "image": [image.pk],
        "data set": [data_set.pk],
        "data copy": [DataCopyFactory(data_set=data_set, cluster=site.cluster).pk],
        "code copy": [code.pk],
        "staged": [StagedImageFactory(image=image, cluster=site.cluster).pk],
        "environment": [EnvironmentFactory(owner=owner).pk],
        "document": ["statistics"],
        "picture": ["rooms.svg"],
        "wheel": [build_wheel()[0]],
        "preset": ["numpy-on-tuned-blas"],
        "workload": [WorkloadFactory(owner=owner).pk],
        "operation": [OperationFactory(owner=owner).pk],
        "image_import": [ImageImport.objects.create(owner=owner, kind="upload", reference="it").pk],
        "cluster": [cluster.pk],
        "cluster draft": [
            ClusterDraft.objects.create(owner=owner, name="new", host="login.example").pk
        ],
        "host key": [shown.pk],
        "credential": [key.pk],
        "visibility": ["experiment", results.pk],
        "unsaved form": [
            UnsavedForm.objects.create(owner=owner, key="mine", tab="x", kept_at=now).key
        ],
        "notification": [
            Notification.objects.create(
                recipient=owner, kind="ended", subject="it", created_at=now, changed_at=now
            ).pk
        ],
        "API token": [make_token(owner, "mine", ["read"], now)[0].pk],
        "webhook": [
            Webhook.objects.create(
                owner=owner,
                address="https://example.org/",
                host="example.org",
                secret="it",
                created_at=now,
            ).pk
        ],
        "saved view": [SavedView.objects.create(owner=owner, page="runs", name="mine").pk],
        "own preset": [
            OwnPreset.objects.create(
                owner=owner, name="mine", definition=describe_definition(results)
            ).pk
        ],
        "study": [StudyFactory(owner=owner, members=[results]).pk],
        "recurring": [RecurringExperimentFactory(source=results, owner=owner).pk],
        "link": [link.token.reveal()],
        "link of": ["experiment", results.pk, link.pk],
    }


@pytest.fixture
def mine(site: Site) -> Callable[[User], dict[str, list[Any]]]:
    return partial(make_own_rows, site)


def test_every_address_has_a_rule() -> None:
    names = {
        pattern.name for pattern in get_resolver().url_patterns if isinstance(pattern, URLPattern)
    }
    assert names == set(RULES)


@pytest.mark.parametrize("role", Role)
def test_an_address_opens_from_its_least_role_on(role: Role, mine: Any) -> None:
    user = person(role)
    own = mine(user)
    client = logged_in(user)
    for name, (method, what, least) in RULES.items():
        with transaction.atomic():
            answer = getattr(client, method)(reverse(name, args=own[what]))
            transaction.set_rollback(True)
        refused = least != NOBODY and not user.is_at_least(Role(least))
        assert (answer.status_code == 403) == refused, (name, answer.status_code)
        if refused:
            words = answer.content.decode()
            assert f"you must be a {Role(least).label}; you are a {role.label}" in words, name
        if name == "logout":  # which takes the cookie, too
            client = logged_in(user)


def test_without_logging_in_only_links_to_what_is_public_open(mine: Any) -> None:
    own = mine(person(Role.RESEARCHER))
    for name, (method, what, least) in RULES.items():
        answer = getattr(Client(), method)(reverse(name, args=own[what]))
        if name == "link":
            assert answer["Location"].startswith("/experiments/")
        elif name == "recurring_trigger":  # which asks for a token instead
            assert answer.status_code == 401
        elif least == NOBODY:
            assert answer.status_code == 200, name
        else:
            assert answer.status_code == 302, name
            assert answer["Location"].startswith("/login/"), name


# Pages and administration agree

SHARED: dict[str, tuple[type[Any], Any]] = {
    "cluster": (Cluster, ClusterFactory),
    "image": (Image, ImageFactory),
    "environment": (Environment, EnvironmentFactory),
    "workload": (Workload, WorkloadFactory),
    "dataset": (DataSet, DataSetFactory),
    "experiment": (Experiment, ExperimentFactory),
    "study": (Study, StudyFactory),
    "table": (PublishedTable, PublishedTableFactory),
}
OWN, GROUP, STRANGE = "own", "group", "strange"
WHOSE = (OWN, GROUP, STRANGE)


def made(factory: Any, whose: str, user: User) -> Any:
    far = {"transport": "ssh"} if factory is ClusterFactory else {}
    row = factory(owner=user, **far) if whose == OWN else factory(**far)
    if whose == GROUP:
        group, _ = Group.objects.get_or_create(name="neurophysics")
        user.groups.add(group)
        row.groups.add(group)
    return row


def may_change(role: Role, kind: str, whose: str) -> bool:
    """What the pages say in words, once more in code of the test's own."""
    if role == Role.SITE_ADMINISTRATOR:
        return True
    least = Role.CLUSTER_ADMINISTRATOR if kind in ("cluster", "credential") else Role.RESEARCHER
    shared = whose == GROUP and kind in ("cluster", "credential")
    return role.rank >= least.rank and (whose == OWN or shared)


@pytest.mark.parametrize("role", Role)
def test_pages_and_administration_let_the_same_people_change(role: Role) -> None:
    for kind, (model, factory) in SHARED.items():
        for whose in WHOSE:
            user = person(role)
            row = made(factory, whose, user)
            allowed = may_change(role, kind, whose)
            assert permissions.may_change(user, row) == allowed, (kind, whose)
            client = logged_in(user)
            page = client.get(reverse("visibility", args=[kind, row.pk]))
            assert page.status_code == (200 if allowed else 403), (kind, whose)
            if model in admin.site._registry:
                inside = administered(client, model, row)
                assert inside == (allowed and permissions.may_administer(user)), (kind, whose)


def administered(client: Client, model: type[Any], row: Any) -> bool:
    """Whether the administration pages show `row`, let it be changed, and let it be deleted."""
    base = f"admin:{model._meta.app_label}_{model._meta.model_name}"
    opened = [
        client.get(reverse(f"{base}_{name}", args=[row.pk])).status_code == 200
        for name in ("change", "delete")
    ]
    listed = client.get(reverse(f"{base}_changelist"))
    found = listed.status_code == 200 and str(row) in listed.content.decode()
    assert opened == [found, found], (model, row)
    return found


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("whose", WHOSE)
def test_keys_are_changed_by_whom_they_are_shared_with(role: Role, whose: str) -> None:
    user = person(role)
    row = made(CredentialFactory, whose, user)
    assert permissions.may_change(user, row) == may_change(role, "credential", whose)
    page = logged_in(user).get(reverse("credential_edit", args=[row.pk]))
    assert (page.status_code == 200) == may_change(role, "credential", whose)


@pytest.mark.parametrize("role", Role)
def test_every_model_of_the_administration_has_a_rule(role: Role) -> None:
    user = person(role)
    client = logged_in(user)
    for model in admin.site._registry:
        meta = model._meta
        listed = client.get(reverse(f"admin:{meta.app_label}_{meta.model_name}_changelist"))
        if meta.label_lower in FOR_SITE_ADMINISTRATORS:
            allowed = role == Role.SITE_ADMINISTRATOR
        else:
            assert model in MAKERS, f"{meta.label} has no rule in experiments.access.permissions"
            allowed = permissions.may_administer(user) and role.rank >= MAKERS[model].rank
            add = client.get(reverse(f"admin:{meta.app_label}_{meta.model_name}_add"))
            assert (add.status_code == 200) == allowed, model
        assert (listed.status_code == 200) == allowed, model


def test_a_cluster_administrator_finds_no_queues() -> None:
    client = logged_in(person(Role.CLUSTER_ADMINISTRATOR))
    for name in ("django_rq_home", "django_rq_jobs", "django_rq_home_json"):
        args = [0] if name.endswith("jobs") else []
        answer = client.get(reverse(f"admin:{name}", args=args))
        assert answer.status_code == 403, name
    index = client.get("/admin/").content.decode()
    assert "/cluster/" in index
    for word in ("django_rq", "/user/", "/group/", "/job/", "axes"):
        assert word not in index


@pytest.mark.parametrize("role", Role)
def test_buttons_that_one_may_not_press_are_not_shown(role: Role, mine: Any, site: Site) -> None:
    user = person(role)
    own = mine(user)
    client = logged_in(user)
    pages = ["overview", "experiments", "compare", "runs", "catalogue", "clusters"]
    addresses = [reverse(name) for name in pages]
    addresses += [reverse("catalogue") + f"?tab={tab}" for tab in TABS]
    addresses += [
        reverse(name, args=own[what])
        for name, what in (
            ("experiment", "results"),
            ("experiment", "draft"),
            ("table", "table"),
            ("dataset", "data set"),
        )
    ]
    addresses += [reverse(name, args=own[name]) for name in ("cluster", "image", "run")]
    seen = "".join(client.get(address).content.decode() for address in addresses)
    for name, (_, what, least) in RULES.items():
        if least in (NOBODY, Role.VIEWER) or name == "host_key_pin":
            continue
        if not user.is_at_least(Role(least)):
            assert f'"{reverse(name, args=own[what])}"' not in seen, name
    assert ('href="/admin/' in seen) == permissions.may_administer(user)
