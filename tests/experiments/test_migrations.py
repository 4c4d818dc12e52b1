"""The tables are what the models say."""

import ast
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from experiments.models import (
    EnvironmentInspection,
    Experiment,
    ImageImport,
    NoticedExperiment,
    Operation,
    Webhook,
)
from experiments.notifications import watch_experiment
from tests.factories import JobFactory, LaunchedFactory, RunFactory
from tests.source_tree import BASE, FLOORS

BEFORE_THE_RENAMING = "0034_warm_up_labels"
BEFORE_SECRET_ADDRESSES = "0087_webhooks_and_alerts"


def read_models(migration: str) -> dict[str, Any]:
    """Return the models as they were after a migration, by their names in lower case."""
    state = MigrationExecutor(connection).loader.project_state(("experiments", migration))
    models: dict[str, Any] = state.apps.app_configs["experiments"].models
    return models


@pytest.mark.django_db
def test_no_change_of_a_model_lacks_its_migration() -> None:
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


def names_in_migrations() -> Iterator[tuple[str, str]]:
    """Yield each dotted name of the project's own code that a migration uses, with its file."""
    for path in sorted((BASE / "experiments" / "migrations").glob("0*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                name = ast.unparse(node)
                if name.split(".")[0] in FLOORS:
                    yield path.name, name


def test_what_migrations_name_in_the_code_is_still_there() -> None:
    """A function that only old rows reach would otherwise be missed at an upgrade."""
    names = list(names_in_migrations())
    assert ("0027_share_links.py", "experiments.models.link.new_token") in names
    for file, name in names:
        value = import_module(name.split(".")[0])
        for part in name.split(".")[1:]:
            if isinstance(value, ModuleType) and not hasattr(value, part):
                value = import_module(f"{value.__name__}.{part}")
            else:
                assert hasattr(value, part), f"{file} uses {name}"
                value = getattr(value, part)


@pytest.mark.django_db(transaction=True)
def test_rows_from_before_a_renaming_are_there_after_it() -> None:
    """Chores, arrivals and surveys are operations, image imports and inspections today."""
    call_command("migrate", "experiments", BEFORE_THE_RENAMING, verbosity=0)
    try:
        models = read_models(BEFORE_THE_RENAMING)
        owner = models["user"].objects.create(username="owner")
        cluster = models["cluster"].objects.create(name="alpha", owner=owner, work_directory="/w")
        environment = models["environment"].objects.create(name="e", cluster=cluster, owner=owner)
        arrival = models["arrival"].objects.create(kind="recipe", reference="a:1", owner=owner)
        alive = {"cluster": cluster, "owner": owner}
        models["chore"].objects.create(kind="build", arrival=arrival, **alive)
        chore = models["chore"].objects.create(kind="survey", environment=environment, **alive)
        models["environmentsurvey"].objects.create(
            environment=environment, chore=chore, definition="d", looked_at=timezone.now()
        )
        asked_at = arrival.asked_at
    finally:
        call_command("migrate", "experiments", verbosity=0)
    build, inspection = Operation.objects.order_by("pk")
    assert build.image_import == ImageImport.objects.get(reference="a:1", requested_at=asked_at)
    assert inspection.kind == Operation.Kind.INSPECT
    assert EnvironmentInspection.objects.get().operation == inspection


@pytest.mark.django_db(transaction=True)
def test_addresses_of_older_webhooks_are_encrypted_and_can_go_back() -> None:
    address = "https://hooks.example.org:8443/services/" + "x" * 400
    call_command("migrate", "experiments", BEFORE_SECRET_ADDRESSES, verbosity=0)
    try:
        models = read_models(BEFORE_SECRET_ADDRESSES)
        owner = models["user"].objects.create(username="owner")
        now = timezone.now()
        models["webhook"].objects.create(owner=owner, address=address, created_at=now, secret="s")
        call_command("migrate", "experiments", verbosity=0)
        row = Webhook.objects.get()
        assert (row.host, row.address.reveal()) == ("hooks.example.org:8443", address)
        with connection.cursor() as cursor:
            cursor.execute("SELECT address FROM experiments_webhook")
            assert "hooks" not in cursor.fetchone()[0]
        call_command("migrate", "experiments", BEFORE_SECRET_ADDRESSES, verbosity=0)
        assert models["webhook"].objects.get().address == address
    finally:
        call_command("migrate", "experiments", verbosity=0)


def make_repaired() -> Experiment:
    """Return an experiment with a run that has failed in the repair of a repair: 3 + 2 + 1."""
    made: Experiment = LaunchedFactory()
    first = JobFactory(experiment=made, attempt=3)
    RunFactory(job=first)
    second = JobFactory(experiment=made, attempt=2, repairs=first)
    RunFactory(job=JobFactory(experiment=made, repairs=second), state="failed")
    return made


def make_failed() -> Experiment:
    """Return an experiment with two runs that have failed in the second attempt of their job."""
    made: Experiment = LaunchedFactory()
    job = JobFactory(experiment=made, attempt=2)
    for environment in (made.baseline, made.environments.exclude(pk=made.baseline_id).get()):
        RunFactory(job=job, environment=environment, state="failed")
    return made


@pytest.mark.django_db(transaction=True)
def test_what_was_noticed_of_experiments_stays_noticed_both_ways() -> None:
    """The version before sums the attempts of each run's job, this one those of all jobs."""
    repaired, failed, open_one, tried_again = (
        make_repaired(),
        make_failed(),
        make_failed(),
        make_failed(),
    )
    # Of each what the version before has noticed: its end, and failures.
    noticed = {repaired: (4, 1), failed: (4, 4), open_one: (0, 2), tried_again: (2, 2)}
    call_command("migrate", "experiments", BEFORE_SECRET_ADDRESSES, verbosity=0)
    try:
        rows = read_models(BEFORE_SECRET_ADDRESSES)["noticedexperiment"].objects
        for made, (ended, failures) in noticed.items():
            columns = {"looked_at": timezone.now(), "ended": ended, "failures": failures}
            rows.create(experiment_id=made.pk, **columns)
        call_command("migrate", "experiments", verbosity=0)
        upgraded = NoticedExperiment.objects.values_list("ended", "failures").order_by("pk")
        assert list(upgraded) == [(6, 6), (2, 4), (0, 2), (0, 2)]
        assert watch_experiment(repaired.pk) == watch_experiment(failed.pk) == "nothing new"
        call_command("migrate", "experiments", BEFORE_SECRET_ADDRESSES, verbosity=0)
        went_back = rows.values_list("ended", "failures").order_by("pk")
        assert list(went_back) == [(4, 1), (4, 4), (0, 2), (0, 2)]
    finally:
        call_command("migrate", "experiments", verbosity=0)
