"""Whatever a person changes is kept with its audit entry, or not at all: both or neither."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group
from django.db.models.signals import ModelSignal, post_save, pre_save
from django.urls import reverse

from experiments.access.audit import name_kind
from experiments.access.permissions import MAKERS
from experiments.admin.base import Ruled
from experiments.models import AuditEntry, Operation
from tests.dashboard.access.changes import (
    A_KEY,
    FACTORIES,
    KINDS,
    SHARED,
    Case,
    Prepare,
    add_data_copy,
    add_data_set,
    add_environment,
    apply_differences,
    build,
    build_file,
    certify,
    change_environment,
    change_in_administration,
    choose_preset,
    delete_in_administration,
    delete_selected,
    forget_import,
    give_up,
    import_from_cluster,
    import_key,
    make_link,
    make_superuser,
    new_key,
    own_password,
    pin,
    posts,
    put_code,
    register,
    rotate,
    set_password,
    share_key,
    share_with_groups,
    stage,
    table_fields,
    take_limits,
    try_a_pause_again,
    try_again,
    turn_keys,
    unstage,
    upload,
    withdraw,
    withdraw_token,
    workload_fields,
)
from tests.dashboard.access.test_admin import partition
from tests.dashboard.access.test_roles import RULES, mine
from tests.dashboard.conftest import People, Site
from tests.experiments.imports.test_importing import imported
from tests.factories import (
    CodeCopyFactory,
    DataCopyFactory,
    DataSetFactory,
    EnvironmentFactory,
    ExperimentFactory,
    ImageFactory,
    LaunchedFactory,
    OwnPresetFactory,
    PublishedTableFactory,
    RecurringExperimentFactory,
    StudyFactory,
    WorkloadFactory,
)

__all__ = ["mine"]  # a fixture

pytestmark = pytest.mark.django_db

# By name, which begins with an address: the kind of the entry, and what prepares the change.
CHANGES: dict[str, tuple[str, Prepare]] = {
    "workload_new": ("workload", posts("workload_new", **workload_fields())),
    "workload_edit": ("workload", posts("workload_edit", WorkloadFactory, **workload_fields())),
    "workload_delete": ("workload", posts("workload_delete", WorkloadFactory)),
    "environment_new": ("environment", add_environment),
    "environment": ("environment", change_environment),
    "environment_delete": ("environment", posts("environment_delete", EnvironmentFactory)),
    "image_new, from a registry": (
        "imageimport",
        posts("image_new", way="reference", reference="docker://a.org/b:1"),
    ),
    "image_new, uploaded": ("imageimport", posts("image_new", way="upload", file=upload)),
    "image_new, from a cluster": ("imageimport", import_from_cluster),
    "recipe_new": ("imageimport", build),
    "build_file_new": ("imageimport", build_file),
    "dataset_new": ("dataset", add_data_set),
    "dataset_edit": (
        "dataset",
        posts("dataset_edit", DataSetFactory, name="x", visibility="private"),
    ),
    "dataset_delete": ("dataset", posts("dataset_delete", DataSetFactory)),
    "code_copy_put": ("codecopy", put_code),
    "code_copy_remove": ("codecopy", posts("code_copy_remove", CodeCopyFactory)),
    "data_copy_add": ("datacopy", add_data_copy),
    "data_copy_forget": ("datacopy", posts("data_copy_forget", DataCopyFactory)),
    "cluster_new_by_hand": (
        "cluster",
        posts(
            "cluster_new_by_hand",
            name="cellar",
            scheduler="direct",
            work_directory="/srv/tare",
            gpus_per_node=0,
            cpus_per_run=1,
            time_limit_minutes=60,
            visibility="members",
        ),
    ),
    "publication": (
        "citation",
        posts("publication", ExperimentFactory, authors="Curie, Marie", licence="CC-BY-4.0"),
    ),
    "publishing": ("user", posts("publishing", orcid="0000-0002-1825-0097")),
    "deposit_token_delete": ("deposittoken", withdraw_token),
    "image_labels": ("image", posts("image_labels", ImageFactory, lines="checked")),
    "image_delete": ("image", posts("image_delete", ImageFactory)),
    "image_stage": ("stagedimage", stage),
    "staged_remove": ("stagedimage", unstage),
    "credential_new": ("credential", posts("credential_new", **A_KEY)),
    "credential_import": ("credential", import_key),
    "credential_edit": ("credential", posts("credential_edit", new_key, **A_KEY)),
    "credential_share": ("credential", share_key),
    "certificate_add": ("credential", certify),
    "credential_rotate": ("credential", posts("credential_rotate", new_key)),
    "credential_rotate, its end": ("credential", rotate),
    "credential_give_up": ("credential", give_up),
    "credential_delete": ("credential", posts("credential_delete", new_key)),
    "cluster_limits": ("cluster", take_limits),
    "cluster_differences_apply": ("partition", apply_differences),
    "cluster_try": ("cluster", try_again),
    "pause_try": ("cluster", try_a_pause_again),
    "host_key_pin": ("cluster", pin),
    "table_new": ("publishedtable", posts("table_new", **table_fields())),
    "table_edit": (
        "publishedtable",
        posts("table_edit", PublishedTableFactory, **table_fields(margin="3")),
    ),
    "table_delete": ("publishedtable", posts("table_delete", PublishedTableFactory)),
    "preset": ("workload", choose_preset),
    "own_preset_new": ("ownpreset", posts("own_preset_new", ExperimentFactory, name="mine")),
    "recurring_new": (
        "recurringexperiment",
        posts("recurring_new", LaunchedFactory, every_days=7, most_recurrences=5),
    ),
    "recurring_edit": (
        "recurringexperiment",
        posts("recurring_edit", RecurringExperimentFactory, every_days=3, most_recurrences=5),
    ),
    "recurring_stop": ("recurringexperiment", posts("recurring_stop", RecurringExperimentFactory)),
    "recurring_limits": (
        "recurringexperiment",
        posts("recurring_limits", RecurringExperimentFactory, **{"from": 1}),
    ),
    "recurring_token": (
        "recurringexperiment",
        posts(
            "recurring_token",
            partial(RecurringExperimentFactory, token_hash="0" * 64),
            withdraw="1",
        ),
    ),
    "own_preset_edit": ("ownpreset", posts("own_preset_edit", OwnPresetFactory, name="other")),
    "own_preset_delete": ("ownpreset", posts("own_preset_delete", OwnPresetFactory)),
    "study_new": ("study", posts("study_new", name="new", visibility="private")),
    "study_edit": ("study", posts("study_edit", StudyFactory, name="new", visibility="private")),
    "study_delete": ("study", posts("study_delete", StudyFactory)),
    "experiment_import": ("workload", lambda case: partial(imported, case.person)),
    "experiment_delete, of an import": ("workload", forget_import),
    "experiment_labels": (
        "experiment",
        posts("experiment_labels", ExperimentFactory, question="Renamed?", tags="paper"),
    ),
    "experiment_pin": ("experiment", posts("experiment_pin", ExperimentFactory)),
    "link_withdraw": ("publishedtable", withdraw),
    "password_change": ("user", own_password),
    "a user's password in the administration": ("user", set_password),
    "a cluster in the administration": (
        "partition",
        posts("admin:experiments_cluster_add", **partition()),
    ),
    "a cluster of the demo": ("runtime", register),
    "manage.py createsuperuser": ("user", make_superuser),
    "manage.py rotate_credentials": ("credential", turn_keys),
    **{
        f"visibility, of a {kind}": (
            KINDS.get(kind, kind),
            partial(share_with_groups, kind, factory),
        )
        for kind, factory in SHARED.items()
    },
    **{
        f"link_make, of a {kind}": (KINDS.get(kind, kind), partial(make_link, kind, SHARED[kind]))
        for kind in ("experiment", "table")
    },
    **{
        f"{name} a {name_kind(model)} in the administration": (
            name_kind(model),
            partial(prepare, model),
        )
        for model in FACTORIES
        for name, prepare in (
            ("change", change_in_administration),
            ("delete", delete_in_administration),
            ("delete chosen:", delete_selected),
        )
    },
}

# The columns of an operation hold its own history.
NOT_LOGGED = {Operation}
DRAFT = "a draft decides nothing before its launch"
EVENTS = "events of the experiment tell it"
CARRIED = "changes nothing but by events of the experiment"
OF_BUNDLES = "the rows of a bundle are records, and the event of its import tells who brought it"
DEPOSIT = "the deposit's entries are tried by its own tests, with the service's stand-in"
VISIT = "asks a worker to look at a cluster, and changes nothing of ours"
STEP = "a cluster that is being added: its last step has tests of its own"
WEBHOOK = "of people, not of the catalogue: tests of webhooks read its entries"
TOKEN = "of people, not of the catalogue: tests of tokens read its entries"
LAUNCH = "asks for a launch, which events of the experiment tell"
OPERATION = "the row of the operation or the import tells it"
ADDRESSES_NOT_LOGGED = {
    **dict.fromkeys(("login", "logout", "workload_try", "experiment_script"), "changes no row"),
    **dict.fromkeys(("old_operation", "old_readers"), "leads to another address"),
    **dict.fromkeys(("notifications_read", "notification_choices"), "one's own notifications"),
    **dict.fromkeys(("webhook_new", "webhook", "webhook_rotate"), WEBHOOK),
    **dict.fromkeys(("webhook_switch", "webhook_delete"), WEBHOOK),
    **dict.fromkeys(("api_tokens", "api_token_withdraw"), TOKEN),
    "webhook_test": "changes no row that lasts",
    **dict.fromkeys(("experiment_new", "experiment_edit", "experiment_clone"), DRAFT),
    **dict.fromkeys(("own_preset_use", "reproduce"), DRAFT),
    **dict.fromkeys(("experiment_jobs", "experiment_results"), CARRIED),
    "bundle_import": OF_BUNDLES,
    "definition_import": "a draft; workloads that it makes have tests of their own",
    "deposit": DEPOSIT,
    **dict.fromkeys(("data_copy_check", "data_copy_read", "code_copy_check"), OPERATION),
    **dict.fromkeys(("recurring_launch", "recurring_trigger"), LAUNCH),
    "environment_against_itself": DRAFT,
    **dict.fromkeys(("experiment_launch", "experiment_cancel", "experiment_stop"), EVENTS),
    **dict.fromkeys(
        (f"study_{what}" for what in ("launch", "cancel", "pause", "continue")), EVENTS
    ),
    **dict.fromkeys(("experiment_pause", "experiment_continue", "experiment_extend"), EVENTS),
    **dict.fromkeys(("experiment_retry_unsent", "experiment_waive"), EVENTS),
    **dict.fromkeys(("run_exclude", "run_include"), EVENTS),
    **dict.fromkeys(("job_retry", "job_repair", "job_any_node", "job_collect"), EVENTS),
    **dict.fromkeys(("cluster_check", "cluster_connection", "credential_test"), VISIT),
    **dict.fromkeys(("host_key_fetch", "run_file_fetch", "cluster_read"), VISIT),
    **dict.fromkeys(("cluster_new", "cluster_draft_address", "cluster_draft_host_key"), STEP),
    **dict.fromkeys(("cluster_draft_credential", "cluster_draft_test"), STEP),
    **dict.fromkeys(("cluster_draft_confirm", "cluster_draft_discard"), STEP),
    **dict.fromkeys(("environment_inspect", "experiment_inspect", "staged_verify"), OPERATION),
    **dict.fromkeys(("operation_cancel", "image_import_cancel", "image_import_dismiss"), OPERATION),
    "image_match": OPERATION,
    "image_tree": OPERATION,
    "experiment_archive": "its entries are one statement; tests of labels try them",
    **dict.fromkeys(("experiments_selected", "runs_selected"), "by labels and events, as alone"),
    **dict.fromkeys(
        ("experiment_keep_new", "experiment_keep", "experiment_discard"),
        "changes what its owner alone sees",
    ),
    **dict.fromkeys(("saved_view_save", "saved_view_delete"), "changes what its owner alone sees"),
}


class Crash(Exception):
    """The process ends here."""


@contextmanager
def crash(moment: ModelSignal) -> Iterator[None]:
    """Fail whenever an entry of the audit log is written, before or after that."""

    def fail(**_: Any) -> None:
        raise Crash

    moment.connect(fail, sender=AuditEntry)
    try:
        yield
    finally:
        moment.disconnect(fail, sender=AuditEntry)


def everything_kept() -> dict[str, list[dict[str, Any]]]:
    """Return all rows by model, those of the audit log too."""
    models = [*apps.get_app_config("experiments").get_models(include_auto_created=True), Group]
    return {
        model._meta.label: list(model._base_manager.order_by("pk").values()) for model in models
    }


@pytest.fixture
def case(people: People, site: Site, tmp_path: Path) -> Case:
    return Case(people.admin, people.client("admin"), site, tmp_path)


@pytest.mark.parametrize("moment", [pre_save, post_save], ids=["before the entry", "after it"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_kept_with_its_entry_or_not_at_all(
    name: str, moment: ModelSignal, case: Case, django_capture_on_commit_callbacks: Any
) -> None:
    kind, prepare = CHANGES[name]
    act = prepare(case)
    before, entries = everything_kept(), AuditEntry.objects.filter(kind=kind)
    logged = entries.count()
    with crash(moment), django_capture_on_commit_callbacks() as tasks, pytest.raises(Crash):
        act()
    assert everything_kept() == before
    assert tasks == []
    act()
    assert everything_kept() != before
    assert entries.count() > logged


def test_every_kind_that_people_add_is_tried() -> None:
    assert {kind for kind, _ in CHANGES.values()} >= {
        name_kind(model) for model in MAKERS if model not in NOT_LOGGED
    }


def test_every_administration_page_that_changes_rows_is_tried() -> None:
    pages = admin.site._registry.items()
    assert {model for model, page in pages if isinstance(page, Ruled)} == set(FACTORIES)


def test_every_address_that_takes_a_change_is_tried_or_says_why_not(case: Case, mine: Any) -> None:
    tried = {name.partition(",")[0] for name in CHANGES}
    rows = mine(case.person)
    takes = set()
    for name, (_, what, _) in RULES.items():
        case.client.force_login(case.person)
        if case.client.post(reverse(name, args=rows[what])).status_code != 405:
            takes.add(name)
    assert sorted(takes - tried - ADDRESSES_NOT_LOGGED.keys()) == []
    assert sorted(takes & tried & ADDRESSES_NOT_LOGGED.keys()) == []
