"""The API at /api/v1/: its routes, and the OpenAPI document that is made of them."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver

from dashboard.api import (
    account_routes,
    across_routes,
    build_routes,
    by_hand_routes,
    catalogue_routes,
    cluster_draft_routes,
    cluster_reading_routes,
    cluster_routes,
    code_copy_routes,
    credential_routes,
    data_set_routes,
    definition_routes,
    environment_routes,
    experiment_actions,
    experiment_changes,
    experiment_routes,
    export_routes,
    file_routes,
    image_routes,
    import_routes,
    integration_routes,
    limits,
    link_routes,
    notification_routes,
    preset_routes,
    publication_routes,
    recurring_changes,
    recurring_routes,
    reproduction_routes,
    result_routes,
    run_actions,
    run_file_routes,
    run_routes,
    saved_view_routes,
    scrape_routes,
    selection_routes,
    software_routes,
    staging_routes,
    study_changes,
    study_routes,
    table_routes,
    token_routes,
    webhook_routes,
    workload_routes,
)
from dashboard.api.addresses import list_addresses
from dashboard.api.document import DocumentedApi
from dashboard.api.problems import answer_problems
from dashboard.api.strict_requests import StrictParser

api = DocumentedApi(
    title="Tare",
    version="1",
    description="What does a container cost? Experiments, their runs and their verdicts.",
    urls_namespace="api",
    docs_url=None,
    openapi_url="openapi.json",
    parser=StrictParser(),
    throttle=limits.USUAL,
)
answer_problems(api)
for routes in (
    account_routes,
    experiment_routes,
    definition_routes,
    experiment_actions,
    experiment_changes,
    run_actions,
    file_routes,
    result_routes,
    run_routes,
    scrape_routes,
    catalogue_routes,
    workload_routes,
    environment_routes,
    software_routes,
    image_routes,
    build_routes,
    staging_routes,
    code_copy_routes,
    data_set_routes,
    cluster_routes,
    cluster_reading_routes,
    cluster_draft_routes,
    credential_routes,
    export_routes,
    integration_routes,
    reproduction_routes,
    import_routes,
    by_hand_routes,
    table_routes,
    recurring_routes,
    recurring_changes,
    notification_routes,
    webhook_routes,
    token_routes,
    link_routes,
    preset_routes,
    publication_routes,
    run_file_routes,
    saved_view_routes,
    selection_routes,
    across_routes,
    study_routes,
    study_changes,
):
    api.add_router("", routes.router)


def list_urls() -> list[URLPattern | URLResolver]:
    """Return the addresses below /api/."""
    return list_addresses(api)
