"""Pages keep answering at the addresses that they had under older words."""

from __future__ import annotations

import pytest

from tests.dashboard.conftest import People

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/chores/7/", "/operations/7/"),
        ("/readers/experiment/7/", "/visibility/experiment/7/"),
    ],
)
def test_an_old_address_leads_to_the_page_for_good(old: str, new: str, people: People) -> None:
    answer = people.client("owner").get(old)
    assert (answer.status_code, answer["Location"]) == (301, new)
