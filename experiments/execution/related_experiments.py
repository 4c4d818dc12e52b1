"""Whether an experiment has copies, reproductions or recurrences: most have none.

One small statement: the page of an experiment asks it every few seconds.
"""

from __future__ import annotations

from django.db import connection

from experiments.models import Experiment

FIND_RELATED = """
SELECT
    EXISTS (
        SELECT FROM experiments_experiment WHERE copied_from_id = %(pk)s OR reproduces_id = %(pk)s
    ),
    EXISTS (SELECT FROM experiments_recurrence WHERE experiment_id = %(pk)s)
"""


def find_related(experiment: Experiment) -> tuple[bool, bool]:
    """Return whether there are experiments that it was made from or into, and recurrences of it.

    Whether the reader may view any of them is not asked.
    """
    with connection.cursor() as cursor:
        cursor.execute(FIND_RELATED, {"pk": experiment.pk})
        is_source, recurs = cursor.fetchone()
    return bool(is_source or experiment.copied_from_id or experiment.reproduces_id), bool(recurs)
