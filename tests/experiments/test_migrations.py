"""The tables are what the models say."""

import pytest
from django.core.management import call_command


@pytest.mark.django_db
def test_no_change_of_a_model_lacks_its_migration() -> None:
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)
