"""Each operation of the API is open to the people to whom its page is, and to nobody else."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.apps import apps
from django.core.cache import caches
from django.db import transaction
from django.test import Client
from django.urls import reverse

from dashboard.api.api import api
from experiments.models import Experiment, PublishedTable, Role, ShareLink, User
from experiments.models.api_token import Scope
from tests.dashboard.access.test_roles import NOBODY, RULES, logged_in, make_own_rows, person
from tests.dashboard.api.conftest import list_counted
from tests.dashboard.api.requests_by_token import log_in
from tests.dashboard.conftest import Site
from tests.factories import TABLE, PartitionFactory

pytestmark = pytest.mark.django_db


def make_rows(site: Site, owner: User) -> dict[str, list[Any]]:
    """Make rows of a person, and a partition of their cluster."""
    own = make_own_rows(site, owner)
    own["partition"] = [PartitionFactory(cluster_id=own["cluster"][0]).pk]
    draft, table = own["draft"][0], own["table"][0]
    environment = Experiment.objects.get(pk=draft).environments.order_by("pk")[0]
    own["environment of a draft"] = [draft, environment.pk]
    own["link"] = own["link of"][1:]
    link = ShareLink.objects.make(PublishedTable.objects.get(pk=table))
    own["link of a table"] = [table, link.pk]
    return own


# Operation: the page with the same content or the same button. "": it is about oneself.
PAGES = {
    "read_me": "",
    "list_experiments": "experiments",
    "read_experiment": "experiment",
    "list_events": "experiment",
    "launch_experiment": "experiment_launch",
    "cancel_experiment": "experiment_cancel",
    "pause_experiment": "experiment_pause",
    "continue_experiment": "experiment_continue",
    "delete_draft": "experiment_delete",
    "change_experiment": "experiment_labels",
    "pin_experiment": "experiment_pin",
    "unpin_experiment": "experiment_pin",
    "archive_experiment": "experiment_archive",
    "unarchive_experiment": "experiment_archive",
    "clone_experiment": "experiment_clone",
    "extend_experiment": "experiment_extend",
    "stop_experiment": "experiment_stop",
    "retry_unsent_jobs": "experiment_retry_unsent",
    "exclude_run": "run_exclude",
    "include_run": "run_include",
    "retry_job": "job_retry",
    "repair_job": "job_repair",
    "allow_any_node": "job_any_node",
    "collect_job": "job_collect",
    "check_definition": "definition_import",
    "make_experiment": "definition_import",
    "replace_definition": "experiment_edit",
    "read_definition_yaml": "definition_yaml",
    "read_definition_json": "definition_json",
    "read_bundle_zip": "bundle_zip",
    "read_comparison_csv": "comparison_csv",
    "read_comparison_tex": "comparison_tex",
    "read_comparison_parquet": "comparison_parquet",
    "read_methods": "comparison",
    "read_progress": "experiment",
    "read_experiment_comparison": "comparison_json",
    "list_runs": "runs",
    "list_experiment_runs": "experiment",
    "read_run": "run",
    "read_series": "run",
    "read_output": "run_output",
    "list_studies": "study_list",
    "read_study": "study",
    "read_study_state": "study",
    "read_study_yaml": "study_yaml",
    "read_study_json": "study_json",
    "check_study": "study_new",
    "make_study": "study_new",
    "change_study": "study_edit",
    "delete_study": "study_delete",
    "launch_study": "study_launch",
    "cancel_study": "study_cancel",
    "pause_study": "study_pause",
    "continue_study": "study_continue",
    "list_clusters": "clusters",
    "read_cluster": "cluster",
    "list_partitions": "clusters",
    "read_partition": "cluster",
    "list_environments": "catalogue",
    "read_environment": "environment",
    "list_workloads": "catalogue",
    "read_workload": "workload",
    "list_images": "catalogue",
    "read_image": "image",
    "read_image_software_spdx_json": "image_spdx",
    "read_image_software_cdx_json": "image_cyclonedx",
    "list_data_sets": "catalogue",
    "read_data_set": "dataset",
    "list_staged_images": "catalogue",
    "read_staged_image": "image",
    "list_image_imports": "catalogue",
    "read_image_import": "image_import_dismiss",
    "list_data_copies": "catalogue",
    "list_code_copies": "catalogue",
    "read_data_copy": "dataset",
    "read_code_copy": "workload",
    "list_operations": "catalogue",
    "read_operation": "operation",
    "make_workload": "workload_new",
    "change_workload": "workload_edit",
    "delete_workload": "workload_delete",
    "make_environment": "environment_new",
    "change_environment": "environment_delete",
    "delete_environment": "environment_delete",
    "inspect_environment": "environment_inspect",
    "draft_aa_test": "environment_against_itself",
    "read_software": "experiment_software",
    "inspect_software": "experiment_inspect",
    "waive_differences": "experiment_waive",
    "withdraw_waivers": "experiment_waive",
    "import_image": "image_new",
    "build_image": "recipe_new",
    "build_from_file": "build_file_new",
    "make_own_tree": "image_tree",
    "change_image": "image_labels",
    "delete_image": "image_delete",
    "match_image": "image_match",
    "stage_image": "image_stage",
    "verify_staged_image": "staged_verify",
    "remove_staged_image": "staged_remove",
    "cancel_image_import": "image_import_cancel",
    "dismiss_image_import": "image_import_dismiss",
    "cancel_operation": "operation_cancel",
    "make_data_set": "dataset_new",
    "change_data_set": "dataset_edit",
    "delete_data_set": "dataset_delete",
    "put_code": "code_copy_put",
    "check_code_copy": "code_copy_check",
    "remove_code_copy": "code_copy_remove",
    "add_data_copy": "data_copy_add",
    "check_data_copy": "data_copy_check",
    "read_data_copy_again": "data_copy_read",
    "forget_data_copy": "data_copy_forget",
    "change_cluster": "cluster_limits",
    "read_check": "cluster",
    "check_cluster": "cluster_check",
    "take_limits": "cluster_limits",
    "try_cluster": "cluster_try",
    "list_pauses": "cluster",
    "try_pause": "cluster_try",
    "read_connection": "cluster_connection",
    "try_connection": "cluster_connection",
    "read_host_key": "host_key_fetch",
    "fetch_host_key": "host_key_fetch",
    "pin_host_key": "host_key_pin",
    "read_differences": "cluster_differences",
    "read_cluster_again": "cluster_read",
    "apply_differences": "cluster_differences_apply",
    "list_cluster_drafts": "cluster_new",
    "read_cluster_draft": "cluster_draft_address",
    "begin_cluster": "cluster_new",
    "change_address": "cluster_draft_address",
    "fetch_draft_host_key": "cluster_draft_host_key",
    "confirm_host_key": "cluster_draft_host_key",
    "choose_credential": "cluster_draft_credential",
    "try_cluster_draft": "cluster_draft_test",
    "confirm_cluster": "cluster_draft_confirm",
    "discard_cluster_draft": "cluster_draft_discard",
    "add_cluster_by_hand": "cluster_new_by_hand",
    "list_credentials": "credentials",
    "read_credential": "credential",
    "make_credential": "credential_new",
    "import_credential": "credential_import",
    "change_credential": "credential_edit",
    "share_credential": "credential_share",
    "add_certificate": "certificate_add",
    "try_credential": "credential_test",
    "rotate_credential": "credential_rotate",
    "give_up_rotation": "credential_give_up",
    "delete_credential": "credential_delete",
    "list_metrics": "runs",
    "export": "runs",
    "scrape_experiment": "experiment",
    "scrape_run": "run",
    "read_for_bencher": "bencher_json",
    "read_for_pytest_benchmark": "bencher_json",
    "propose_reproduction": "reproduce",
    "prepare_reproduction": "reproduce",
    "reproduce_experiment": "reproduce",
    "check_logs": "experiment_import",
    "import_logs": "experiment_import",
    "import_bundle": "bundle_import",
    "download_jobs": "experiment_jobs",
    "bring_results": "experiment_results",
    "list_tables": "compare",
    "list_known_tables": "table_new",
    "read_table": "table",
    "read_table_comparison": "table_json",
    "read_table_comparison_csv": "table_csv",
    "read_table_comparison_tex": "table_tex",
    "read_table_comparison_parquet": "table_parquet",
    "read_table_table_csv": "table_text",
    "check_table": "table_new",
    "make_table": "table_new",
    "change_table": "table_edit",
    "delete_table": "table_delete",
    "read_citation_bib": "citation_bib",
    "read_CITATION_cff": "citation_cff",
    "read_provenance_jsonld": "provenance_file",
    "read_checklist_md": "checklist_file",
    "list_recurring_experiments": "recurring_list",
    "read_recurring_experiment": "recurring",
    "read_over_time": "recurring_json",
    "read_over_time_csv": "recurring_csv",
    "make_recurring_experiment": "recurring_new",
    "change_recurring_experiment": "recurring_edit",
    "stop_recurring_experiment": "recurring_stop",
    "launch_recurrence": "recurring_launch",
    "restart_limits": "recurring_limits",
    "make_recurring_token": "recurring_token",
    "withdraw_recurring_token": "recurring_token",
    "list_own_notifications": "notifications",
    "mark_notifications_read": "notifications_read",
    "mark_notification_read": "notification",
    "read_own_choices": "",
    "change_own_choices": "notification_choices",
    "list_own_webhooks": "notification_choices",
    "read_webhook": "webhook",
    "make_webhook": "webhook_new",
    "change_webhook": "webhook",
    "test_webhook": "webhook_test",
    "rotate_webhook_secret": "webhook_rotate",
    "switch_webhook_on": "webhook_switch",
    "switch_webhook_off": "webhook_switch",
    "delete_webhook": "webhook_delete",
    "list_api_tokens": "api_tokens",
    "withdraw_api_token": "api_token_withdraw",
    "list_experiment_links": "visibility",
    "make_experiment_link": "link_make",
    "withdraw_experiment_link": "link_withdraw",
    "list_table_links": "table_edit",
    "make_table_link": "table_edit",
    "withdraw_table_link": "table_edit",
    "list_presets": "presets",
    "describe_preset": "preset",
    "use_preset": "preset",
    "list_own_presets": "presets",
    "save_own_preset": "own_preset_new",
    "change_own_preset": "own_preset_edit",
    "delete_own_preset": "own_preset_delete",
    "use_own_preset": "own_preset_use",
    "show_publication": "publication",
    "change_publication": "publication",
    "deposit_experiment": "deposit",
    "stop_deposit": "deposit",
    "forget_deposit": "deposit",
    "list_run_files": "run",
    "send_run_file": "run_file_fetch",
    "fetch_run_file": "run_file_fetch",
    "read_record": "run_record",
    "read_changes": "run_changes",
    "read_run_provenance": "run_provenance_file",
    "read_result_provenance": "result_provenance_file",
    "list_saved_views": "runs",
    "save_own_view": "saved_view_save",
    "delete_saved_view": "saved_view_delete",
    "change_selected_experiments": "experiments_selected",
    "summarize_studies": "studies_json",
    "summarize_studies_csv": "studies_csv",
    "summarize_studies_tex": "studies_tex",
}
BODIES: dict[str, dict[str, Any]] = {
    "change_experiment": {},
    "change_study": {},
    "extend_experiment": {"repeats": 5},
    "stop_experiment": {"analysis": 1},
    "exclude_run": {"why": "the node was throttled"},
    "include_run": {"why": "it was not throttled"},
    "make_workload": {"name": "new", "kind": "blas"},
    "change_workload": {"name": "other"},
    "make_environment": {"cluster": 1},
    "change_environment": {"name": "other"},
    "waive_differences": {"environment": 1, "what": [], "reason": "it does not matter"},
    "withdraw_waivers": {"environment": 1},
    "import_image": {"reference": "docker://docker.io/library/python:3.12"},
    "build_image": {"title": "new", "base": 1, "lock": "", "cluster": 1},
    "build_from_file": {"title": "new", "kind": "dockerfile", "text": "FROM x", "cluster": 1},
    "make_own_tree": {"cluster": 1},
    "change_image": {"labels": {"purpose": "tests"}},
    "match_image": {"cluster": 1},
    "stage_image": {"cluster": 1, "format": "sif"},
    "make_data_set": {"name": "new", "cluster": 1, "path": "/data"},
    "change_data_set": {"description": "other"},
    "put_code": {"cluster": 1},
    "add_data_copy": {"cluster": 1, "path": "/data"},
    "change_cluster": {"visibility": "members"},
    "pin_host_key": {"fingerprint": "SHA256:x"},
    "apply_differences": {"reading": 1, "differences": []},
    "begin_cluster": {"name": "new", "host": "login.example", "user_name": "me"},
    "change_address": {"user_name": "other"},
    "confirm_host_key": {"fingerprint": "SHA256:x"},
    "choose_credential": {"credential": 1},
    "try_cluster_draft": {"work_directory": "/tare"},
    "confirm_cluster": {"reading": 1, "partitions": {}},
    "add_cluster_by_hand": {"name": "far", "work_directory": "/tare"},
    "make_credential": {"name": "new", "user_name": "me"},
    "import_credential": {"name": "new", "user_name": "me", "private_key": "no key"},
    "change_credential": {"user_name": "other"},
    "share_credential": {"users": [], "groups": []},
    "add_certificate": {"certificate": "none"},
    "prepare_reproduction": {},
    "reproduce_experiment": {"seen": "nothing"},
    "check_table": {"text": TABLE},
    "make_table": {"text": TABLE},
    "change_table": {"source": "a paper"},
    "make_recurring_experiment": {},
    "change_recurring_experiment": {},
    "restart_limits": {"first": 1},
    "mark_notifications_read": {},
    "change_own_choices": {"kinds": {}},
    "make_webhook": {"address": "https://example.org/"},
    "change_webhook": {},
    "make_experiment_link": {},
    "make_table_link": {},
    "use_preset": {"cluster": 1, "environments": [1], "baseline": 1},
    "save_own_preset": {"name": "another"},
    "change_own_preset": {},
    "change_publication": {},
    "deposit_experiment": {},
    "save_own_view": {"name": "it", "query": ""},
    "change_selected_experiments": {"action": "archive", "experiments": [1]},
}
"""What is sent: a body that cannot be read is refused before anybody's rights are asked."""
OPEN, REFUSED, HIDDEN = "open", "refused", "hidden"


def list_operations() -> list[tuple[str, str, str, str]]:
    """Return the id, the method, the address and the scope of each operation."""
    return [
        (operation["operationId"], method, address, operation["security"][0]["token"][0])
        for address, methods in api.get_openapi_schema()["paths"].items()
        for method, operation in methods.items()
    ]


ROWS = {
    # operation: what it is about, where its page's address says it otherwise
    "read_partition": "partition",
    "read_staged_image": "staged",
    "read_data_copy": "data copy",
    "read_code_copy": "code copy",
    "try_pause": "pause",
    "list_experiment_links": "results",
    "make_experiment_link": "results",
    "withdraw_experiment_link": "link",
    "withdraw_table_link": "link of a table",
}


def find_rows(name: str, own: dict[str, list[Any]]) -> list[Any]:
    """Return the keys in the address of an operation: of the row that its page is about."""
    return own[ROWS.get(name) or RULES[PAGES[name]][1]]


def fill(address: str, name: str, own: dict[str, list[Any]]) -> str:
    """Return the address of that row."""
    if name == "export":
        return address.format(what="runs", ending="parquet")
    keys = iter(find_rows(name, own) if "{" in address else [])
    return re.sub(r"{\w+}", lambda _: str(next(keys)), address)


def judge(status: int) -> str:
    """Return what a status says about a person's rights: what follows them is another matter."""
    return {403: REFUSED, 404: HIDDEN}.get(status, OPEN)


def send(client: Client, method: str, address: str, **sent: Any) -> int:
    """Send a request whose changes are taken back; return its status. None is one too many."""
    caches["limits"].clear()
    with transaction.atomic():
        status: int = getattr(client, method)(address, **sent).status_code
        transaction.set_rollback(True)
    assert status < 500, address
    return status


def make_body(name: str) -> dict[str, Any]:
    """Return the body of a request by which an operation is tried."""
    if name not in BODIES:
        return {}
    return {"data": BODIES[name], "content_type": "application/json"}


def hide_all() -> None:
    """Let nobody but owners and site administrators view anything."""
    for model in apps.get_models():
        if any(field.name == "visibility" for field in model._meta.fields):
            model._default_manager.update(visibility="private")


def test_the_document_lists_these_operations() -> None:
    assert {name for name, *_ in list_operations()} == set(PAGES)


@pytest.mark.parametrize("whose", ["own", "public", "private"])
@pytest.mark.parametrize("role", Role)
def test_a_program_may_what_its_owner_may(role: Role, whose: str, site: Site) -> None:
    user = person(role)
    own = make_rows(site, user if whose == "own" else person(Role.SITE_ADMINISTRATOR))
    if whose == "private":
        hide_all()
    client, headers = logged_in(user), log_in(user, *Scope.values)
    judged, others = {}, {}
    for name, method, address, _ in list_operations():
        body = make_body(name)
        caches["limits"].delete_many(list_counted())
        status = send(Client(), method, fill(address, name, own), headers=headers, **body)
        page = PAGES[name]
        if not page:
            assert status == 200
            continue
        page_method, what, _ = RULES[page]
        args = own[what] if what else []
        shown = send(client, page_method, reverse(page, args=args))
        if judge(status) != judge(shown):
            others[name] = (status, shown)
        judged[name] = judge(status)
    assert others == {}, "the operation and its page"
    if whose == "private" and role != Role.SITE_ADMINISTRATOR:
        reads = {
            name: verdict
            for name, verdict in judged.items()
            if name.startswith("read_") and user.is_at_least(Role(RULES[PAGES[name]][2]))
        }
        assert set(reads.values()) == {HIDDEN}, reads


def test_without_a_token_nothing_opens(site: Site) -> None:
    own = make_rows(site, person(Role.SITE_ADMINISTRATOR))
    for name, method, address, _ in list_operations():
        assert send(Client(), method, fill(address, name, own)) == 401, name


def test_a_token_opens_what_its_scopes_name(site: Site) -> None:
    user = person(Role.SITE_ADMINISTRATOR)
    own = make_rows(site, user)
    for scope in Scope.values:
        headers = log_in(user, scope)
        for name, method, address, needed in list_operations():
            status = send(Client(), method, fill(address, name, own), headers=headers)
            assert (status == 403) == (needed not in (scope, Scope.READ)), (name, scope, status)


def test_a_session_opens_what_reads_and_nothing_else(site: Site) -> None:
    user = person(Role.SITE_ADMINISTRATOR)
    own, client = make_rows(site, user), logged_in(user)
    for name, method, address, _ in list_operations():
        status = send(client, method, fill(address, name, own))
        assert (status == 401) == (method != "get"), (name, status)


def test_lists_have_the_rows_that_single_addresses_open(site: Site) -> None:
    make_rows(site, person(Role.SITE_ADMINISTRATOR))
    hide_all()
    user: User = person(Role.RESEARCHER)
    make_rows(site, user)
    headers = log_in(user)
    addresses = {name: address for name, _, address, _ in list_operations()}
    for word in ("experiments", "clusters", "environments", "workloads", "images", "data_sets"):
        listed = Client().get(addresses[f"list_{word}"], headers=headers).json()["items"]
        assert listed, word
        for item in listed:
            address = f"{addresses[f'list_{word}']}/{item['id']}"
            assert Client().get(address, headers=headers).status_code == 200, address


def test_documents_are_open_to_everybody() -> None:
    assert NOBODY not in PAGES
    for address in ("/api/", "/api/v1/", "/api/v1/openapi.json"):
        assert Client().get(address).status_code == 200, address
