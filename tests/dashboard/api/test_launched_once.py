"""Two programs that launch the same draft at once: one does, the other is refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection
from django.test import Client

from experiments.models import Event
from tests.dashboard.api.requests_by_token import log_in
from tests.factories import ExperimentFactory


@pytest.mark.django_db(transaction=True)
def test_a_draft_is_launched_once() -> None:
    draft = ExperimentFactory()
    headers, start = log_in(draft.owner, "experiments"), Barrier(2)

    def launch(_: int) -> int:
        start.wait(timeout=30)
        try:
            path = f"/api/v1/experiments/{draft.pk}/launch"
            return Client().post(path, headers=headers).status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(launch, range(2))) == [200, 409]
    assert Event.objects.filter(experiment=draft, what="launched").count() == 1
    assert draft.runs.count() == 2 * draft.repeats
