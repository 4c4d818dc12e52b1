"""Every address of Tare. Actions are POST; everything else can be linked to."""

from django.contrib import admin
from django.contrib.auth import views as auth
from django.urls import path

from dashboard.forms import LoginForm
from dashboard.views import (
    catalogue,
    clusters,
    comparisons,
    drafts,
    experiments,
    exports,
    overview,
    runs,
    tables,
)

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("search/", overview.search, name="search"),
    path("healthz/", overview.healthz, name="healthz"),
    path("login/", auth.LoginView.as_view(authentication_form=LoginForm), name="login"),
    path("logout/", auth.LogoutView.as_view(), name="logout"),
    path("experiments/", experiments.experiments, name="experiments"),
    path("experiments/new/", drafts.new, name="experiment_new"),
    path("experiments/<int:pk>/", experiments.experiment, name="experiment"),
    path("experiments/<int:pk>/edit/", drafts.edit, name="experiment_edit"),
    path("experiments/<int:pk>/delete/", drafts.delete, name="experiment_delete"),
    path("experiments/<int:pk>/launch/", drafts.launch, name="experiment_launch"),
    path("experiments/<int:pk>/clone/", drafts.clone, name="experiment_clone"),
    path("experiments/<int:pk>/cancel/", experiments.cancel, name="experiment_cancel"),
    path("experiments/<int:pk>/stop/", experiments.stop, name="experiment_stop"),
    path("experiments/<int:pk>/readers/", experiments.readers, name="experiment_readers"),
    path("experiments/<int:pk>/comparison/", comparisons.comparison, name="comparison"),
    path("experiments/<int:pk>/comparison.csv", exports.comparison_csv, name="comparison_csv"),
    path("experiments/<int:pk>/comparison.json", exports.comparison_json, name="comparison_json"),
    path("experiments/<int:pk>/comparison.tex", exports.comparison_tex, name="comparison_tex"),
    path("experiments/<int:pk>/runs.csv", exports.runs_csv, name="runs_csv"),
    path("experiments/<int:pk>/runs.json", exports.runs_json, name="runs_json"),
    path("compare/", comparisons.compare, name="compare"),
    path("compare/tables/new/", tables.new, name="table_new"),
    path("compare/tables/<int:pk>/", comparisons.table, name="table"),
    path("compare/tables/<int:pk>/edit/", tables.edit, name="table_edit"),
    path("compare/tables/<int:pk>/delete/", tables.delete, name="table_delete"),
    path("compare/tables/<int:pk>/comparison.csv", exports.table_csv, name="table_csv"),
    path("compare/tables/<int:pk>/comparison.json", exports.table_json, name="table_json"),
    path("compare/tables/<int:pk>/comparison.tex", exports.table_tex, name="table_tex"),
    path("compare/tables/<int:pk>/table.csv", exports.table_text, name="table_text"),
    path("jobs/<slug:uid>/retry/", experiments.retry, name="job_retry"),
    path("runs/", runs.runs, name="runs"),
    path("runs/<slug:uid>/", runs.run, name="run"),
    path("runs/<slug:uid>/exclude/", runs.exclude, name="run_exclude"),
    path("catalogue/", catalogue.catalogue, name="catalogue"),
    path("catalogue/images/<int:pk>/", catalogue.image, name="image"),
    path("catalogue/workloads/new/", catalogue.workload_new, name="workload_new"),
    path("clusters/", clusters.clusters, name="clusters"),
    path("clusters/<int:pk>/", clusters.cluster, name="cluster"),
    path("clusters/<int:pk>/check/", clusters.check, name="cluster_check"),
    path("clusters/<int:pk>/host-key/", clusters.fetch_host_key, name="host_key_fetch"),
    path("host-keys/<int:pk>/pin/", clusters.pin_host_key, name="host_key_pin"),
    path("admin/", admin.site.urls),
]
