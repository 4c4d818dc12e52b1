"""The tables are what the models say."""

import ast
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from experiments.models import EnvironmentInspection, ImageImport, Operation, Webhook
from tests.source_tree import BASE, FLOORS

BEFORE_THE_RENAMING = "0034_warm_up_labels"


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
        state = MigrationExecutor(connection).loader.project_state(
            ("experiments", BEFORE_THE_RENAMING)
        )
        models = state.apps.app_configs["experiments"].models
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
    before = "0087_webhooks_and_alerts"
    call_command("migrate", "experiments", before, verbosity=0)
    try:
        state = MigrationExecutor(connection).loader.project_state(("experiments", before))
        models = state.apps.app_configs["experiments"].models
        owner = models["user"].objects.create(username="owner")
        now = timezone.now()
        models["webhook"].objects.create(owner=owner, address=address, created_at=now, secret="s")
        call_command("migrate", "experiments", verbosity=0)
        row = Webhook.objects.get()
        assert (row.host, row.address.reveal()) == ("hooks.example.org:8443", address)
        with connection.cursor() as cursor:
            cursor.execute("SELECT address FROM experiments_webhook")
            assert "hooks" not in cursor.fetchone()[0]
        call_command("migrate", "experiments", before, verbosity=0)
        assert models["webhook"].objects.get().address == address
    finally:
        call_command("migrate", "experiments", verbosity=0)
