"""The tables are what the models say."""

import ast
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations import AddField, CreateModel
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
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
NEW_SINCE = "0098_stored_records"


def go_back_to(migration: str) -> None:
    """Take back, one by one, what came after a migration, though the database is a new one.

    Django offers no way back into a squashed migration, since it knows no more of what it replaces.
    """
    executor = MigrationExecutor(connection)
    executor.loader = MigrationLoader(connection, replace_migrations=False)
    executor.migrate([("experiments", migration)])


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


# What PostgreSQL keeps of tables, without the names that Django makes up of tables and columns:
# those stay as they were when something is renamed.
COLUMNS = """
SELECT table_name, column_name, data_type, character_maximum_length, is_nullable, column_default,
       is_identity
FROM information_schema.columns WHERE table_schema = 'public'
"""
INDEXES = """
SELECT tablename, regexp_replace(indexdef, 'INDEX \\S+ ON', 'INDEX ON'),
       substring(indexname FROM '^(?!.*_[0-9a-f]{8}(_|$|_like|_uniq)).*$')
FROM pg_indexes WHERE schemaname = 'public' AND indexname !~ '_pkey$|_key$'
"""
CONSTRAINTS = """
SELECT conrelid::regclass::text, contype::text, pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace = 'public'::regnamespace
"""
TRIGGERS = """
SELECT tgrelid::regclass::text, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
"""


def describe_tables(database: BaseDatabaseWrapper) -> dict[str, list[tuple[Any, ...]]]:
    """Return all columns, indexes, constraints and triggers of a database, sorted."""
    described = {}
    for part, query in [
        ("columns", COLUMNS),
        ("indexes", INDEXES),
        ("constraints", CONSTRAINTS),
        ("triggers", TRIGGERS),
    ]:
        with database.cursor() as cursor:
            cursor.execute(query)
            described[part] = sorted(cursor.fetchall(), key=repr)
    return described


@pytest.fixture
def upgraded(django_db_blocker: Any) -> Iterator[BaseDatabaseWrapper]:
    """Yield a connection to a second, empty database."""
    with django_db_blocker.unblock():
        name = f"{connection.settings_dict['NAME']}_upgraded"
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {connection.ops.quote_name(name)}")
        second = connection.copy(alias="upgraded")
        second.settings_dict = {**connection.settings_dict, "NAME": name}
        connections["upgraded"] = second
        try:
            yield second
        finally:
            second.close()
            del connections["upgraded"]
            with connection.cursor() as cursor:
                cursor.execute(f"DROP DATABASE {connection.ops.quote_name(name)}")


@pytest.mark.django_db(transaction=True)
def test_new_databases_have_the_tables_of_those_that_were_upgraded(
    upgraded: BaseDatabaseWrapper,
) -> None:
    """New ones begin with one migration instead of ninety: 0001_squashed_0091."""
    loader = MigrationLoader(upgraded, replace_migrations=False)
    replaced = {name for one in loader.replacements.values() for _, name in one.replaces}
    assert max(replaced) == "0091_goal_and_margin_if_faster"
    executor = MigrationExecutor(upgraded)
    executor.loader = loader
    executor.migrate([*executor.loader.graph.leaf_nodes("auth"), ("experiments", max(replaced))])
    call_command("migrate", database="upgraded", verbosity=0)
    assert ("experiments", "0001_squashed_0091") in MigrationRecorder(upgraded).applied_migrations()
    of_new, of_upgraded = describe_tables(connections[DEFAULT_DB_ALIAS]), describe_tables(upgraded)
    assert len(of_new["columns"]) > 500
    for part in of_new:
        assert of_new[part] == of_upgraded[part], part


@pytest.mark.django_db(transaction=True)
def test_rows_from_before_a_renaming_are_there_after_it() -> None:
    """Chores, arrivals and surveys are operations, image imports and inspections today."""
    go_back_to(BEFORE_THE_RENAMING)
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
    go_back_to(BEFORE_SECRET_ADDRESSES)
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
        go_back_to(BEFORE_SECRET_ADDRESSES)
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
    go_back_to(BEFORE_SECRET_ADDRESSES)
    try:
        rows = read_models(BEFORE_SECRET_ADDRESSES)["noticedexperiment"].objects
        for made, (ended, failures) in noticed.items():
            columns = {"looked_at": timezone.now(), "ended": ended, "failures": failures}
            rows.create(experiment_id=made.pk, **columns)
        call_command("migrate", "experiments", verbosity=0)
        upgraded = NoticedExperiment.objects.values_list("ended", "failures").order_by("pk")
        assert list(upgraded) == [(6, 6), (2, 4), (0, 2), (0, 2)]
        assert watch_experiment(repaired.pk) == watch_experiment(failed.pk) == "nothing new"
        go_back_to(BEFORE_SECRET_ADDRESSES)
        went_back = rows.values_list("ended", "failures").order_by("pk")
        assert list(went_back) == [(4, 1), (4, 4), (0, 2), (0, 2)]
    finally:
        call_command("migrate", "experiments", verbosity=0)


def test_processes_of_the_version_before_can_write_while_a_site_is_upgraded() -> None:
    """They know nothing of new columns, so that each is empty or has a value of the database's."""
    loader = MigrationLoader(None, replace_migrations=False)
    operations = [
        operation
        for (app, name), migration in sorted(loader.disk_migrations.items())
        if app == "experiments" and name > NEW_SINCE
        for operation in migration.operations
    ]
    new = {each.name_lower for each in operations if isinstance(each, CreateModel)}
    added = [each for each in operations if isinstance(each, AddField)]
    assert added
    lacking = [
        f"{each.model_name}.{each.name}"
        for each in added
        if each.model_name_lower not in new
        and not each.field.many_to_many
        and not each.field.null
        and not each.field.has_db_default()
    ]
    assert lacking == []
