"""All addresses of Tare. Actions are POST; everything else can be linked to."""

from django.contrib import admin
from django.contrib.auth import views as auth
from django.urls import path
from django.views.generic import RedirectView

from dashboard import glossary_views, overview_views
from dashboard.access import (
    account_views,
    api_token_views,
    audit_views,
    link_views,
    visibility_views,
)
from dashboard.access.log_in import AdminLoginForm, LoginForm
from dashboard.catalogue import catalogue_views
from dashboard.clusters import (
    carried_cluster_views,
    cluster_update_views,
    cluster_views,
    credential_views,
    new_cluster_views,
)
from dashboard.code_copies import code_copy_views
from dashboard.comparisons import (
    bundle_views,
    comparison_views,
    export_views,
    extension_views,
    figure_views,
    report_views,
    robustness_views,
    step_views,
    studies_views,
    table_views,
    tracker_views,
    two_experiments_views,
)
from dashboard.comparisons.figure_kinds import FOREST, RUN_FIGURES
from dashboard.data_sets import data_set_views
from dashboard.docs import client_views, doc_views
from dashboard.execution import (
    by_hand_views,
    experiment_action_views,
    experiment_list_views,
    experiment_views,
    label_views,
    operation_views,
    record_views,
    run_list_views,
    run_views,
    saved_view_views,
    selection_views,
    two_runs_views,
)
from dashboard.health import health_views
from dashboard.images import image_import_views, image_views
from dashboard.imports import bundle_import_views, import_views
from dashboard.late_addresses import include_late
from dashboard.notifications import notification_views, webhook_views
from dashboard.planning import (
    aa_test_views,
    definition_views,
    draft_views,
    script_views,
    unsaved_views,
    workload_views,
)
from dashboard.presets import own_preset_views, preset_views
from dashboard.provenance import checklist_views, provenance_views
from dashboard.publishing import publication_views, publishing_account_views
from dashboard.recurring import commit_views, recurring_views
from dashboard.reproductions import reproduction_views
from dashboard.search import search_views
from dashboard.software import environment_views, parity_views, recipe_views
from dashboard.studies import study_views

admin.site.login_form = AdminLoginForm

urlpatterns = [
    path("", overview_views.overview, name="overview"),
    path("search/", search_views.search, name="search"),
    path("search/results/", search_views.search_results, name="search_results"),
    path("glossary/", glossary_views.glossary, name="glossary"),
    path("client/", client_views.packages, name="client_packages"),
    path("client/<str:name>", client_views.package, name="client_package"),
    path("docs/", doc_views.docs, name="docs"),
    path("docs/files/<path:name>", doc_views.picture, name="document_picture"),
    path("docs/<path:name>/", doc_views.document, name="document"),
    path("healthz/", overview_views.healthz, name="healthz"),
    path("login/", auth.LoginView.as_view(authentication_form=LoginForm), name="login"),
    path("account/password/", account_views.password, name="password_change"),
    path("account/publishing/", publishing_account_views.publishing, name="publishing"),
    path(
        "account/publishing/token/delete/",
        publishing_account_views.delete_token,
        name="deposit_token_delete",
    ),
    path("account/tokens/", api_token_views.api_tokens, name="api_tokens"),
    path("account/tokens/all/", api_token_views.all_api_tokens, name="all_api_tokens"),
    path("account/tokens/<int:pk>/", api_token_views.api_token, name="api_token"),
    path(
        "account/tokens/<int:pk>/withdraw/",
        api_token_views.withdraw_api_token,
        name="api_token_withdraw",
    ),
    path("about/key/", publication_views.site_key, name="site_key"),
    path("account/notifications/", notification_views.choices, name="notification_choices"),
    path("account/webhooks/new/", webhook_views.new, name="webhook_new"),
    path("account/webhooks/<int:pk>/", webhook_views.webhook, name="webhook"),
    path("account/webhooks/<int:pk>/test/", webhook_views.test, name="webhook_test"),
    path("account/webhooks/<int:pk>/secret/", webhook_views.show_secret, name="webhook_secret"),
    path("account/webhooks/<int:pk>/rotate/", webhook_views.rotate, name="webhook_rotate"),
    path("account/webhooks/<int:pk>/switch/", webhook_views.switch, name="webhook_switch"),
    path("account/webhooks/<int:pk>/delete/", webhook_views.delete, name="webhook_delete"),
    path("notifications/", notification_views.notifications, name="notifications"),
    path("notifications/read/", notification_views.read, name="notifications_read"),
    path("notifications/<int:pk>/", notification_views.notification, name="notification"),
    path("logout/", auth.LogoutView.as_view(), name="logout"),
    path("experiments/", experiment_list_views.experiments, name="experiments"),
    path("experiments.csv", experiment_list_views.experiments_file, name="experiments_file"),
    path(
        "experiments.parquet",
        experiment_list_views.experiments_parquet,
        name="experiments_file_parquet",
    ),
    path(
        "experiments/selected/",
        selection_views.selected_experiments,
        name="experiments_selected",
    ),
    path("experiments/new/", draft_views.new, name="experiment_new"),
    path("experiments/new/script/", script_views.script, name="experiment_script"),
    path("experiments/new/keep/", unsaved_views.keep_new, name="experiment_keep_new"),
    path("experiments/<int:pk>/keep/", unsaved_views.keep, name="experiment_keep"),
    path("experiments/unsaved/<slug:key>/", unsaved_views.discard, name="experiment_discard"),
    path("experiments/import/", import_views.logs, name="experiment_import"),
    path("experiments/import/file/", definition_views.import_file, name="definition_import"),
    path("schemas/experiment-1.json", definition_views.schema, name="experiment_schema"),
    path(
        "experiments/<int:pk>/definition.yaml",
        definition_views.definition_yaml,
        name="definition_yaml",
    ),
    path(
        "experiments/<int:pk>/definition.json",
        definition_views.definition_json,
        name="definition_json",
    ),
    path("experiments/import/bundle/", bundle_import_views.bundle, name="bundle_import"),
    path("experiments/<int:pk>/", experiment_views.experiment, name="experiment"),
    path("experiments/<int:pk>/edit/", draft_views.edit, name="experiment_edit"),
    path("experiments/<int:pk>/labels/", label_views.experiment_labels, name="experiment_labels"),
    path("experiments/<int:pk>/archive/", label_views.archive, name="experiment_archive"),
    path("experiments/<int:pk>/delete/", draft_views.delete, name="experiment_delete"),
    path("experiments/<int:pk>/launch/", draft_views.launch, name="experiment_launch"),
    path("experiments/<int:pk>/clone/", draft_views.clone, name="experiment_clone"),
    path("experiments/<int:pk>/cancel/", experiment_action_views.cancel, name="experiment_cancel"),
    path("experiments/<int:pk>/pause/", experiment_action_views.pause, name="experiment_pause"),
    path(
        "experiments/<int:pk>/continue/", experiment_action_views.resume, name="experiment_continue"
    ),
    path("experiments/<int:pk>/pin/", experiment_action_views.pin, name="experiment_pin"),
    path("experiments/<int:pk>/extend/", extension_views.extend, name="experiment_extend"),
    path("experiments/<int:pk>/jobs.tar.gz", by_hand_views.jobs, name="experiment_jobs"),
    path("experiments/<int:pk>/results/", by_hand_views.results, name="experiment_results"),
    path("experiments/<int:pk>/stop/", experiment_action_views.stop, name="experiment_stop"),
    path("experiments/<int:pk>/software/", parity_views.software, name="experiment_software"),
    path(
        "experiments/<int:pk>/software/inspect/",
        parity_views.inspect_all,
        name="experiment_inspect",
    ),
    path("experiments/<int:pk>/software/waive/", parity_views.waive, name="experiment_waive"),
    path("experiments/<int:pk>/comparison/", comparison_views.comparison, name="comparison"),
    path("experiments/<int:pk>/comparison/steps/", step_views.steps, name="comparison_steps"),
    path(
        "experiments/<int:pk>/comparison/robustness/",
        robustness_views.robustness,
        name="robustness",
    ),
    path("experiments/<int:pk>/report.html", report_views.report, name="report"),
    path("experiments/<int:pk>/comparison.csv", export_views.comparison_csv, name="comparison_csv"),
    path(
        "experiments/<int:pk>/comparison.json", export_views.comparison_json, name="comparison_json"
    ),
    path("experiments/<int:pk>/comparison.tex", export_views.comparison_tex, name="comparison_tex"),
    path(
        "experiments/<int:pk>/comparison.parquet",
        export_views.comparison_parquet,
        name="comparison_parquet",
    ),
    *(
        path(f"{place}/<int:pk>/{address}.{ending}", view, {"ending": ending}, name=name)
        for ending in figure_views.KINDS
        for place, view, prefix in (
            ("experiments", figure_views.figure, ""),
            ("compare/tables", figure_views.table_figure, "table_"),
        )
        for address, name in (
            ("figures/<slug:name>", f"{prefix}figure_{ending}"),
            ("forest", f"{prefix}forest_{ending}"),  # of before there were others
        )
    ),
    path("experiments/<int:pk>/bundle.zip", bundle_views.bundle, name="bundle_zip"),
    path("experiments/<int:pk>/publication/", publication_views.publication, name="publication"),
    path("experiments/<int:pk>/deposit/", publication_views.change_deposit, name="deposit"),
    path("experiments/<int:pk>/citation.bib", publication_views.citation_bib, name="citation_bib"),
    path("experiments/<int:pk>/CITATION.cff", publication_views.citation_cff, name="citation_cff"),
    path("experiments/<int:pk>/provenance/", provenance_views.provenance, name="provenance"),
    path(
        "experiments/<int:pk>/provenance.jsonld",
        provenance_views.provenance_file,
        name="provenance_file",
    ),
    path(
        "experiments/<int:pk>/provenance/<int:number>/<int:place>/",
        provenance_views.result_provenance,
        name="result_provenance",
    ),
    path(
        "experiments/<int:pk>/provenance/<int:number>/<int:place>.jsonld",
        provenance_views.result_provenance_file,
        name="result_provenance_file",
    ),
    path("experiments/<int:pk>/checklist/", checklist_views.checklist, name="checklist"),
    path(
        "experiments/<int:pk>/checklist.md", checklist_views.checklist_file, name="checklist_file"
    ),
    path("experiments/<int:pk>/bencher.json", tracker_views.bencher_json, name="bencher_json"),
    path(
        "experiments/<int:pk>/pytest-benchmark.json",
        tracker_views.pytest_benchmark_json,
        name="pytest_benchmark_json",
    ),
    path("experiments/<int:pk>/runs.csv", export_views.runs_csv, name="runs_csv"),
    path("experiments/<int:pk>/runs.json", export_views.runs_json, name="runs_json"),
    path("experiments/<int:pk>/runs.parquet", export_views.runs_parquet, name="runs_parquet"),
    *(
        path(
            f"experiments/<int:pk>/{view.__name__}.{ending}",
            view,
            {"ending": ending},
            name=f"{view.__name__}_{ending}",
        )
        for view in (export_views.measurements, export_views.series)
        for ending in ("csv", "parquet")
    ),
    path("studies/", study_views.study_list, name="study_list"),
    path("studies/new/", study_views.new, name="study_new"),
    path("studies/<int:pk>/", study_views.study, name="study"),
    path("studies/<int:pk>/edit/", study_views.edit, name="study_edit"),
    path("studies/<int:pk>/delete/", study_views.delete, name="study_delete"),
    *(
        path(
            f"studies/<int:pk>/{action}/",
            study_views.act,
            {"action": action},
            name=f"study_{action}",
        )
        for action in study_views.ACTIONS
    ),
    *(
        path(
            f"studies/<int:pk>/definition.{ending}",
            study_views.definition,
            {"ending": ending},
            name=f"study_{ending}",
        )
        for ending in definition_views.TYPES
    ),
    path("schemas/study-1.json", definition_views.study_schema, name="study_schema"),
    path("compare/", comparison_views.compare, name="compare"),
    path("compare/studies/", studies_views.studies, name="studies"),
    path("compare/studies/studies.csv", studies_views.studies_csv, name="studies_csv"),
    path("compare/studies/studies.json", studies_views.studies_json, name="studies_json"),
    path("compare/studies/studies.tex", studies_views.studies_tex, name="studies_tex"),
    *(
        path(
            f"compare/studies/forest.{ending}",
            studies_views.studies_forest,
            {"ending": ending},
            name=f"studies_forest_{ending}",
        )
        for ending in figure_views.KINDS
    ),
    path(
        "compare/experiments/<int:left>/",
        two_experiments_views.choose_second_experiment,
        name="two_experiments_choose",
    ),
    path(
        "compare/experiments/<int:left>/<int:right>/",
        two_experiments_views.two_experiments,
        name="two_experiments",
    ),
    *(
        path(
            f"compare/experiments/<int:left>/<int:right>/{name}.{ending}",
            two_experiments_views.two_experiments_figure,
            {"ending": ending, "name": name},
            name=f"two_experiments_{name}_{ending}",
        )
        for name in (FOREST, two_experiments_views.STEPS)
        for ending in figure_views.KINDS
    ),
    path("compare/runs/<slug:left>/", two_runs_views.choose_second_run, name="two_runs_choose"),
    path("compare/runs/<slug:left>/<slug:right>/", two_runs_views.two_runs, name="two_runs"),
    *(
        path(
            f"compare/runs/<slug:left>/<slug:right>/series.{ending}",
            two_runs_views.two_runs_figure,
            {"ending": ending},
            name=f"two_runs_series_{ending}",
        )
        for ending in figure_views.KINDS
    ),
    path("compare/tables/new/", table_views.new, name="table_new"),
    path("compare/tables/<int:pk>/", comparison_views.table, name="table"),
    path("compare/tables/<int:pk>/robustness/", robustness_views.of_table, name="table_robustness"),
    path("compare/tables/<int:pk>/edit/", table_views.edit, name="table_edit"),
    path("compare/tables/<int:pk>/delete/", table_views.delete, name="table_delete"),
    path("compare/tables/<int:pk>/report.html", report_views.table_report, name="table_report"),
    path("compare/tables/<int:pk>/comparison.csv", export_views.table_csv, name="table_csv"),
    path("compare/tables/<int:pk>/comparison.json", export_views.table_json, name="table_json"),
    path(
        "compare/tables/<int:pk>/comparison.parquet",
        export_views.table_parquet,
        name="table_parquet",
    ),
    path("compare/tables/<int:pk>/comparison.tex", export_views.table_tex, name="table_tex"),
    path("compare/tables/<int:pk>/table.csv", export_views.table_text, name="table_text"),
    path(
        "experiments/<int:pk>/retry/",
        experiment_action_views.retry_unsent,
        name="experiment_retry_unsent",
    ),
    path("jobs/<slug:uid>/retry/", experiment_action_views.retry, name="job_retry"),
    path("jobs/<slug:uid>/collect/", experiment_action_views.collect_again, name="job_collect"),
    path("jobs/<slug:uid>/any-node/", experiment_action_views.allow_any_node, name="job_any_node"),
    path("jobs/<slug:uid>/repair/", experiment_action_views.repair, name="job_repair"),
    path("runs/", run_list_views.runs, name="runs"),
    path("runs.csv", run_list_views.runs_file, name="runs_file"),
    path("runs.parquet", run_list_views.runs_parquet, name="runs_file_parquet"),
    path("views/save/", saved_view_views.save, name="saved_view_save"),
    path("views/<int:pk>/delete/", saved_view_views.delete, name="saved_view_delete"),
    path("runs/selected/", selection_views.selected_runs, name="runs_selected"),
    path("runs/<slug:uid>/", run_views.run, name="run"),
    path("runs/<slug:uid>/exclude/", run_views.exclude, name="run_exclude"),
    path("runs/<slug:uid>/include/", run_views.include, name="run_include"),
    *(
        path(
            f"runs/<slug:uid>/{name}.{ending}",
            run_views.run_figure,
            {"ending": ending, "name": name},
            name=f"run_{name}_{ending}",
        )
        for name in RUN_FIGURES
        for ending in figure_views.KINDS
    ),
    path("runs/<slug:uid>/provenance/", provenance_views.run_provenance, name="run_provenance"),
    path(
        "runs/<slug:uid>/provenance.jsonld",
        provenance_views.run_provenance_file,
        name="run_provenance_file",
    ),
    path("runs/<slug:uid>/record.json", record_views.run_record, name="run_record"),
    path("runs/<slug:uid>/output.txt", record_views.run_output, name="run_output"),
    path("runs/<slug:uid>/changes.patch", record_views.run_changes, name="run_changes"),
    path("runs/<slug:uid>/files/<int:pk>/", run_views.run_file, name="run_file"),
    path("runs/<slug:uid>/files/<int:pk>/fetch/", run_views.fetch_file, name="run_file_fetch"),
    path("catalogue/", catalogue_views.catalogue, name="catalogue"),
    path("catalogue/images/new/", image_import_views.new, name="image_new"),
    path("catalogue/images/recipes/new/", recipe_views.new, name="recipe_new"),
    path("catalogue/images/files/new/", recipe_views.new_from_file, name="build_file_new"),
    path("catalogue/images/<int:pk>/", image_views.image, name="image"),
    path(
        "catalogue/images/<int:pk>/software.spdx.json",
        image_views.bill_of_materials,
        {"kind": "spdx"},
        name="image_spdx",
    ),
    path(
        "catalogue/images/<int:pk>/software.cdx.json",
        image_views.bill_of_materials,
        {"kind": "cdx"},
        name="image_cyclonedx",
    ),
    path("catalogue/images/<int:pk>/match/", recipe_views.match, name="image_match"),
    path("catalogue/images/<int:pk>/tree/", recipe_views.make_tree, name="image_tree"),
    path("catalogue/images/<int:pk>/stage/", image_views.stage, name="image_stage"),
    path("catalogue/images/<int:pk>/labels/", image_views.labels, name="image_labels"),
    path("catalogue/images/<int:pk>/delete/", image_views.delete, name="image_delete"),
    path("staged/<int:pk>/verify/", image_views.verify, name="staged_verify"),
    path("staged/<int:pk>/remove/", image_views.unstage, name="staged_remove"),
    path("image-imports/<int:pk>/cancel/", image_import_views.cancel, name="image_import_cancel"),
    path(
        "image-imports/<int:pk>/dismiss/", image_import_views.dismiss, name="image_import_dismiss"
    ),
    path("operations/", health_views.operations, name="operations"),
    path("operations/<int:pk>/", operation_views.operation, name="operation"),
    path("operations/<int:pk>/cancel/", operation_views.cancel, name="operation_cancel"),
    path("catalogue/environments/new/", environment_views.new, name="environment_new"),
    path("catalogue/environments/<int:pk>/", environment_views.environment, name="environment"),
    path(
        "catalogue/environments/<int:pk>/inspect/",
        parity_views.inspect_environment,
        name="environment_inspect",
    ),
    path(
        "catalogue/environments/<int:pk>/against-itself/",
        aa_test_views.new,
        name="environment_against_itself",
    ),
    path(
        "catalogue/environments/<int:pk>/delete/",
        environment_views.delete,
        name="environment_delete",
    ),
    path("recurring/trigger/", commit_views.trigger, name="recurring_trigger"),
    path("recurring/<int:pk>/token/", commit_views.token, name="recurring_token"),
    path("recurring/", recurring_views.recurring_list, name="recurring_list"),
    path("experiments/<int:pk>/reproduce/", reproduction_views.reproduce, name="reproduce"),
    path("experiments/<int:pk>/recur/", recurring_views.new, name="recurring_new"),
    path("recurring/<int:pk>/", recurring_views.recurring, name="recurring"),
    path("recurring/<int:pk>/edit/", recurring_views.edit, name="recurring_edit"),
    path("recurring/<int:pk>/stop/", recurring_views.stop, name="recurring_stop"),
    path("recurring/<int:pk>/launch/", recurring_views.launch_now, name="recurring_launch"),
    path("recurring/<int:pk>/limits/", recurring_views.restart_limits, name="recurring_limits"),
    path("recurring/<int:pk>/over-time.csv", recurring_views.recurring_csv, name="recurring_csv"),
    path(
        "recurring/<int:pk>/over-time.json", recurring_views.recurring_json, name="recurring_json"
    ),
    *(
        path(
            f"recurring/<int:pk>/charts.{ending}",
            recurring_views.recurring_figure,
            {"ending": ending},
            name=f"recurring_charts_{ending}",
        )
        for ending in figure_views.KINDS
    ),
    path("catalogue/presets/", preset_views.presets, name="presets"),
    path("experiments/<int:pk>/preset/", own_preset_views.new, name="own_preset_new"),
    path("catalogue/presets/own/<int:pk>/", own_preset_views.edit, name="own_preset_edit"),
    path("catalogue/presets/own/<int:pk>/use/", own_preset_views.use, name="own_preset_use"),
    path(
        "catalogue/presets/own/<int:pk>/delete/",
        own_preset_views.delete,
        name="own_preset_delete",
    ),
    path("catalogue/presets/<slug:key>/", preset_views.preset, name="preset"),
    path("catalogue/data-sets/new/", data_set_views.new, name="dataset_new"),
    path("catalogue/data-sets/<int:pk>/", data_set_views.data_set, name="dataset"),
    path("catalogue/data-sets/<int:pk>/edit/", data_set_views.edit, name="dataset_edit"),
    path("catalogue/data-sets/<int:pk>/delete/", data_set_views.delete, name="dataset_delete"),
    path("catalogue/data-sets/<int:pk>/copies/", data_set_views.add_copy, name="data_copy_add"),
    path("catalogue/workloads/<int:pk>/code/", code_copy_views.put, name="code_copy_put"),
    path("code-copies/<int:pk>/check/", code_copy_views.check, name="code_copy_check"),
    path("code-copies/<int:pk>/remove/", code_copy_views.remove, name="code_copy_remove"),
    path("data-copies/<int:pk>/check/", data_set_views.check, name="data_copy_check"),
    path("data-copies/<int:pk>/read/", data_set_views.read, name="data_copy_read"),
    path("data-copies/<int:pk>/forget/", data_set_views.forget, name="data_copy_forget"),
    path("catalogue/workloads/", workload_views.kinds, name="workload_kinds"),
    path("catalogue/workloads/new/", workload_views.new, name="workload_new"),
    path("catalogue/workloads/try/", workload_views.try_numbers, name="workload_try"),
    path("catalogue/workloads/<int:pk>/", workload_views.workload, name="workload"),
    path("catalogue/workloads/<int:pk>/edit/", workload_views.edit, name="workload_edit"),
    path("catalogue/workloads/<int:pk>/delete/", workload_views.delete, name="workload_delete"),
    path("clusters/", cluster_views.clusters, name="clusters"),
    path("clusters/new/", new_cluster_views.new, name="cluster_new"),
    path("clusters/new/by-hand/", carried_cluster_views.new, name="cluster_new_by_hand"),
    path("clusters/new/<int:pk>/", new_cluster_views.address, name="cluster_draft_address"),
    path(
        "clusters/new/<int:pk>/host-key/", new_cluster_views.host_key, name="cluster_draft_host_key"
    ),
    path(
        "clusters/new/<int:pk>/credential/",
        new_cluster_views.credential,
        name="cluster_draft_credential",
    ),
    path("clusters/new/<int:pk>/test/", new_cluster_views.test, name="cluster_draft_test"),
    path("clusters/new/<int:pk>/confirm/", new_cluster_views.confirm, name="cluster_draft_confirm"),
    path("clusters/new/<int:pk>/discard/", new_cluster_views.discard, name="cluster_draft_discard"),
    path("clusters/<int:pk>/", cluster_views.cluster, name="cluster"),
    path("clusters/<int:pk>/read/", cluster_update_views.read, name="cluster_read"),
    path(
        "clusters/<int:pk>/differences/",
        cluster_update_views.differences,
        name="cluster_differences",
    ),
    path(
        "clusters/<int:pk>/differences/apply/",
        cluster_update_views.apply_differences,
        name="cluster_differences_apply",
    ),
    path("clusters/<int:pk>/limits/", cluster_views.take_limits, name="cluster_limits"),
    path("pauses/<int:pk>/try/", cluster_views.try_pause, name="pause_try"),
    path("clusters/<int:pk>/try/", cluster_views.try_cluster, name="cluster_try"),
    path("clusters/<int:pk>/check/", cluster_views.check, name="cluster_check"),
    path("clusters/<int:pk>/host-key/", cluster_views.fetch_host_key, name="host_key_fetch"),
    path("clusters/<int:pk>/connection/", cluster_views.test_connection, name="cluster_connection"),
    path("credentials/", credential_views.credentials, name="credentials"),
    path("credentials/new/", credential_views.new, name="credential_new"),
    path("credentials/import/", credential_views.hand_in, name="credential_import"),
    path("credentials/tare-gate.py", credential_views.gate_script, name="gate_script"),
    path("credentials/<int:pk>/", credential_views.credential, name="credential"),
    path("credentials/<int:pk>/edit/", credential_views.edit, name="credential_edit"),
    path("credentials/<int:pk>/share/", credential_views.share, name="credential_share"),
    path("credentials/<int:pk>/certificate/", credential_views.certificate, name="certificate_add"),
    path("credentials/<int:pk>/test/", credential_views.test, name="credential_test"),
    path("credentials/<int:pk>/rotate/", credential_views.rotate, name="credential_rotate"),
    path("credentials/<int:pk>/give-up/", credential_views.give_up, name="credential_give_up"),
    path("credentials/<int:pk>/delete/", credential_views.delete, name="credential_delete"),
    path("host-keys/<int:pk>/pin/", cluster_views.pin_host_key, name="host_key_pin"),
    path("audit/", audit_views.audit, name="audit"),
    path("link/<str:token>/", link_views.open_link, name="link"),
    path("visibility/<slug:kind>/<int:pk>/links/", link_views.make, name="link_make"),
    path(
        "visibility/<slug:kind>/<int:pk>/links/<int:link_pk>/withdraw/",
        link_views.withdraw,
        name="link_withdraw",
    ),
    path("visibility/<slug:kind>/<int:pk>/", visibility_views.change_visibility, name="visibility"),
    # 40 MB of schemas, which sites do without whose people use pages alone.
    include_late("api/v1/", "dashboard.api.version_urls", "api"),
    include_late("api/", "dashboard.api.index_urls", "api_index"),
    path("admin/", admin.site.urls),
    # Pages that somebody may have linked to under an older word.
    path(
        "chores/<int:pk>/",
        RedirectView.as_view(pattern_name="operation", permanent=True),
        name="old_operation",
    ),
    path(
        "readers/<slug:kind>/<int:pk>/",
        RedirectView.as_view(pattern_name="visibility", permanent=True),
        name="old_readers",
    ),
]
