"""Words for failures of Tare itself: a reference for members, a text for administrators."""

from __future__ import annotations

import pytest
from cryptography.fernet import Fernet
from hypothesis import given
from hypothesis import strategies as st
from pytest_django.fixtures import Settings

from experiments.execution.own_failures import HIDDEN, LONGEST, describe_failure, hide_secrets
from runners.errors import Refused

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END OPENSSH PRIVATE KEY-----"


def test_everybody_gets_a_reference_that_leads_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    failure = describe_failure(ValueError("/srv/tare/images/private-of-ada is no image"))
    assert "private-of-ada" not in failure.message
    assert "ValueError: /srv/tare/images/private-of-ada" in failure.details
    reference = failure.message.rstrip(".").rpartition(" ")[2]
    assert reference in failure.details
    assert reference in caplog.text
    assert describe_failure(ValueError()).message != failure.message, "each failure has its own"


def test_what_another_side_answered_is_for_everybody() -> None:
    failure = describe_failure(Refused("sbatch: error: no"))
    assert (failure.message, failure.details) == ("sbatch: error: no", "")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (KEY, "b3BlbnNzaC1rZXktdjEA"),
        (KEY[:60], "b3BlbnNza"),
        ("redis://:hunter2@valkey:6379/0 refused", "hunter2"),
        ("postgresql://tare:hunter2@db/tare", "hunter2"),
        ("connection failed: host=db password=hunter2 dbname=tare", "hunter2"),
        ("{'user': 'ada', 'password': 'hunter2 and more'}", "and more"),
        ('{"passphrase": "hunter2', "hunter2"),
        ("Authorization: Bearer hunter2.x", "hunter2"),
        (
            f"Failing row contains (1, {Fernet(Fernet.generate_key()).encrypt(b'x').decode()})",
            "gAA",
        ),
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str, secret: str) -> None:
    assert secret not in describe_failure(ValueError(text)).details
    assert HIDDEN in hide_secrets(text)


@given(before=st.text(max_size=LONGEST), after=st.text(max_size=LONGEST))
def test_this_sites_own_secrets_are_hidden_wherever_they_stand(before: str, after: str) -> None:
    from django.conf import settings

    for secret in (settings.SECRET_KEY, *settings.CREDENTIAL_KEYS):
        assert secret not in describe_failure(ValueError(before + secret + after)).details


def test_words_without_secrets_stay(settings: Settings) -> None:
    settings.REDIS_URL = "redis://localhost:6379/0"
    text = "KeyError: 'time' at https://registry.example/v2/, user ada@example.org"
    assert hide_secrets(text) == text
