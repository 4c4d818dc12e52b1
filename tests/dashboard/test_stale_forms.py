"""What a worker or somebody else has stored since a form's row was read stays when it is saved."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django import forms
from django.db import models
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from dashboard.access.log_in import PasswordForm
from dashboard.clusters.credential_forms import CredentialForm
from dashboard.comparisons.table_forms import TableForm
from dashboard.data_sets.data_set_forms import DataSetForm
from dashboard.planning.experiment_forms import ExperimentForm
from dashboard.presets.own_preset_forms import OwnPresetForm
from dashboard.recurring.recurring_forms import RecurringForm
from dashboard.software.environment_forms import EnvironmentForm
from dashboard.studies.study_forms import StudyForm
from experiments.access.own_columns import OwnColumns
from experiments.models import Cluster, Experiment, User
from tests.dashboard.conftest import People, Site
from tests.dashboard.planning.test_form import NEW, asked
from tests.factories import (
    ClusterFactory,
    CredentialFactory,
    DataSetFactory,
    EnvironmentFactory,
    OwnPresetFactory,
    PublishedTableFactory,
    RecurringExperimentFactory,
    StudyFactory,
    UserFactory,
)

pytestmark = pytest.mark.django_db
Make = Callable[[User, Any, dict[str, Any]], forms.BaseForm]
DIGEST = "sha256:" + "a" * 64


def fill_in(form: type[forms.BaseForm], **more: Any) -> Make:
    """Return what makes a form of a row, with all that the page shows and one value changed."""

    def make(user: User, row: Any, changed: dict[str, Any]) -> forms.BaseForm:
        options = more | ({} if form is CredentialForm else {"user": user})
        shown = form(instance=row, **options)  # type: ignore[call-arg]
        data = {
            name: field.prepare_value(shown[name].value()) for name, field in shown.fields.items()
        }
        data = {name: value for name, value in data.items() if value is not None} | changed
        return form(data, instance=row, **options)  # type: ignore[call-arg]

    return make


@pytest.mark.parametrize(
    ("factory", "make", "changed", "meanwhile"),
    [
        pytest.param(
            RecurringExperimentFactory,
            fill_in(RecurringForm),
            {"most_recurrences": 40},
            {"stopped_at": timezone.now(), "last_number": 7, "token_hash": "withdrawn"},
            id="a rule that was stopped, or recurred",
        ),
        pytest.param(
            RecurringExperimentFactory,
            fill_in(RecurringForm),
            {"most_recurrences": 40},
            {"due_at": timezone.now() + timedelta(days=3)},
            id="a rule whose next day was set",
        ),
        pytest.param(
            CredentialFactory,
            fill_in(CredentialForm),
            {"name": "other"},
            {"fingerprint": "SHA256:new", "public_key": "ssh-ed25519 new"},
            id="a credential whose key was rotated",
        ),
        pytest.param(
            DataSetFactory,
            fill_in(DataSetForm),
            {"name": "other"},
            {"digest": DIGEST, "files": 3, "size_bytes": 100},
            id="a data set that was read",
        ),
        pytest.param(
            EnvironmentFactory,
            fill_in(EnvironmentForm),
            {"name": "other"},
            {"recorded_tool": "apptainer"},
            id="an environment",
        ),
        pytest.param(
            StudyFactory,
            fill_in(StudyForm),
            {"name": "other"},
            {"text": "tare: 1", "described": "hash"},
            id="a study",
        ),
        pytest.param(
            StudyFactory,
            fill_in(StudyForm),
            {"name": "other"},
            {"question": "Asked by somebody else?", "notes": "theirs"},
            id="a study of which others changed other fields",
        ),
    ],
)
def test_saving_a_form_writes_what_it_has_changed_alone(
    people: People,
    factory: Any,
    make: Make,
    changed: dict[str, Any],
    meanwhile: dict[str, Any],
) -> None:
    row = factory(owner=people.admin)
    stored = type(row)._base_manager.filter(pk=row.pk)
    form: Any = make(people.admin, stored.get(), changed)
    assert form.is_valid(), form.errors
    stored.update(**meanwhile)

    form.save()

    assert stored.values(*changed, *meanwhile).get() == changed | meanwhile


def test_what_a_form_computes_of_its_fields_is_stored(people: People) -> None:
    rule = RecurringExperimentFactory(owner=people.admin, every_days=7)
    day = (timezone.now() + timedelta(days=30)).date()
    form: Any = fill_in(RecurringForm)(people.admin, rule, {"every_days": 2, "ends_on": str(day)})
    assert form.is_valid(), form.errors
    form.save()
    rule.refresh_from_db()
    assert rule.ends_at.date() == day
    assert rule.due_at < timezone.now() + timedelta(days=2, minutes=1)

    table = PublishedTableFactory(owner=people.admin)
    form = fill_in(TableForm)(people.admin, table, {"decimal": "point"})
    assert form.is_valid(), form.errors
    form.save()
    table.refresh_from_db()
    assert table.reading["decimal"] == "point"


def test_a_name_is_stored_as_its_form_cleans_it(people: People) -> None:
    preset = OwnPresetFactory(owner=people.admin)
    form: Any = fill_in(OwnPresetForm)(people.admin, preset, {"name": " two   words "})
    assert form.is_valid(), form.errors
    form.save()
    preset.refresh_from_db()
    assert preset.name == "two words"


def test_saving_a_draft_leaves_what_its_other_pages_have_stored(
    as_owner: Client, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_owner.post(NEW, asked(site) | {"action": "save"})
    draft = Experiment.objects.get()
    meanwhile = {"tags": ["mine"], "notes": "Wait for the driver.", "archived_at": timezone.now()}
    judge = ExperimentForm.clean

    def clean(form: Any) -> Any:
        Experiment.objects.filter(pk=draft.pk).update(**meanwhile)
        return judge(form)

    monkeypatch.setattr(ExperimentForm, "clean", clean)
    address = reverse("experiment_edit", args=[draft.pk])
    answer = as_owner.post(address, asked(site, repeats="7") | {"action": "save"})

    assert answer.status_code == 302, answer.context["form"].errors
    stored = Experiment.objects.filter(pk=draft.pk).values("repeats", *meanwhile).get()
    assert stored == {"repeats": 7, **meanwhile}


def test_who_changes_the_own_password_does_not_get_a_role_back() -> None:
    person: Any = UserFactory(role="site_administrator")
    person.set_password("an old one of mine")
    person.save()
    words = {"new_password1": "another-1-of-mine", "new_password2": "another-1-of-mine"}
    form = PasswordForm(
        User.objects.get(pk=person.pk), {"old_password": "an old one of mine"} | words
    )
    assert form.is_valid(), form.errors
    demoted = {"role": "viewer", "is_superuser": False, "is_staff": False, "is_active": False}
    User.objects.filter(pk=person.pk).update(**demoted)

    form.save()

    person.refresh_from_db()
    assert person.check_password("another-1-of-mine")
    assert {name: getattr(person, name) for name in demoted} == demoted


def test_the_administration_leaves_the_lease_of_a_visit(
    people: People, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its lease, a second visit would begin beside the first."""
    cluster: Cluster = ClusterFactory(owner=people.admin)
    client.force_login(people.admin)
    address = reverse("admin:experiments_cluster_change", args=[cluster.pk])
    page = client.get(address).context["adminform"].form
    data = {name: page[name].value() for name in page.fields}
    data = {name: value for name, value in data.items() if value not in (None, False)}
    for prefix in ("partitions", "runtimes"):
        data |= {f"{prefix}-TOTAL_FORMS": 0, f"{prefix}-INITIAL_FORMS": 0}
    take_lease_while_a_form_is_judged(monkeypatch, cluster)

    answer = client.post(address, data | {"max_live_jobs": 3})

    assert answer.status_code == 302, answer.context["errors"]
    cluster.refresh_from_db()
    assert (cluster.max_live_jobs, cluster.lease_token) == (3, "taken")


def take_lease_while_a_form_is_judged(
    monkeypatch: pytest.MonkeyPatch, cluster: models.Model
) -> None:
    from experiments.admin.cluster_pages import ClusterForm

    judge = ClusterForm.clean

    def clean(form: Any) -> Any:
        Cluster.objects.filter(pk=cluster.pk).update(lease_token="taken")
        return judge(form)

    monkeypatch.setattr(ClusterForm, "clean", clean)


UNSTORED = {
    "AddressForm": "a draft of a cluster, which its owner alone writes",
    "WorkDirectoryForm": "the same; its one column is named where it is stored",
    "LabelsForm": "it names the column that it stores itself",
    "ShareForm": "it stores no column, only who may use a credential",
}


def test_each_form_of_a_stored_row_writes_its_own_columns_alone() -> None:
    import_module("dashboard.urls")  # and with it all forms
    found = {
        form.__name__
        for form in list_subclasses(forms.ModelForm)
        if form.__module__.startswith("dashboard.") and not issubclass(form, OwnColumns)
    }
    assert found == set(UNSTORED)


def list_subclasses(kind: type[Any]) -> set[type[Any]]:
    return {kind, *(one for below in kind.__subclasses__() for one in list_subclasses(below))} - {
        forms.ModelForm
    }
