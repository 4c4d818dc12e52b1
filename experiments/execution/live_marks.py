"""Marks of what live parts of pages show: as long as a mark is the same, there is no news.

Each is found by one small statement, from the versions of the rows that are shown (PostgreSQL's
`xmin` and `ctid`: which transaction wrote a row, and where it lies) and the last events. Of a
cluster it holds all columns but those that every visit writes.

None: the reader may not view it, it is gone, or a page that shows it has to have something done.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.db import models

from experiments.models import Cluster, Credential, Experiment, Image, ImageImport, Study
from experiments.models.compiled_rows import KEY
from experiments.models.prepared_statements import PreparedStatement, Sign, fetch_all
from experiments.models.visibility import MEMBER, write_rule

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from experiments.models import User

Rule = tuple[type[models.Model], str]
"""A model, and the method of its rows that leaves what a person may view, or use."""

WRITTEN_BY_EVERY_VISIT = (
    *("lease_token", "lease_until", "visitor", "wanted_at", "changed_at", "last_seen_at"),
    *("last_tick_at", "last_tick_seconds", "last_interval_seconds", "removal_checked_at"),
)
DJANGO_TABLES = {"experiment": "experiments_experiment", "cluster": "experiments_cluster"}
"""For `fill_mark`: the names in statements that Django writes."""


def write_cluster(table: str = "cluster") -> str:
    """Return SQL for all of a cluster but what every visit writes."""
    return f"to_jsonb({table}) - ARRAY{[*WRITTEN_BY_EVERY_VISIT]}"


def write_events(table: str = "experiment") -> str:
    """Return SQL for the keys of an experiment's last events.

    Of a few: one with a smaller key may be committed after one with a larger one.
    """
    return f"""ARRAY(
        SELECT event.id FROM experiments_event AS event WHERE event.experiment_id = {table}.id
        ORDER BY event.at DESC, event.id DESC LIMIT 20
    )"""  # noqa: S608 -- a name of this program


def write_last_event(column: str, experiment: str) -> str:
    """Return SQL for a column of an experiment's last event; `experiment` is SQL for its key."""
    return f"""
        SELECT event.{column} FROM experiments_event AS event
        WHERE event.experiment_id = {experiment} ORDER BY event.at DESC, event.id DESC LIMIT 1
    """  # noqa: S608 -- names of this program


def write_pauses(table: str = "cluster") -> str:
    """Return SQL for the versions of what a cluster waits for."""
    return f"""ARRAY(
        SELECT (pause.id, pause.ctid, pause.xmin)::text FROM experiments_pause AS pause
        WHERE pause.cluster_id = {table}.id ORDER BY pause.id
    )"""  # noqa: S608 -- a name of this program


def fill_mark(
    template: str, *, experiment: str = "experiment", cluster: str = "cluster", **rules: str
) -> str:
    """Return a statement or an expression with its parts filled in.

    These are {cluster}, {events} and {pauses}, of the tables with these names, and its `rules`.
    """
    return template.format(
        cluster=write_cluster(cluster),
        events=write_events(experiment),
        pauses=write_pauses(cluster),
        **rules,
    )


OF_OVERVIEW = """
SELECT md5(jsonb_build_array(
    ARRAY(
        SELECT (experiment.id, experiment.ctid, experiment.xmin, {events})::text
        FROM experiments_experiment AS experiment
        WHERE experiment.id IN ({experiments}) AND EXISTS (
            SELECT FROM experiments_run AS run WHERE run.experiment_id = experiment.id
            AND run.state IN ('planned', 'running')
        ) ORDER BY experiment.id
    ),
    ARRAY(
        SELECT jsonb_build_array({cluster}, {pauses}) FROM experiments_cluster AS cluster
        WHERE cluster.enabled AND cluster.id IN ({clusters}) ORDER BY cluster.id
    )
)::text)
"""
OF_STUDY = """
SELECT md5(jsonb_build_array(
    (study.ctid, study.xmin)::text,
    ARRAY(
        SELECT jsonb_build_array(
            member.id, (experiment.ctid, experiment.xmin)::text, {cluster}, {events}, {pauses},
            (SELECT (kept.ctid, kept.xmin)::text FROM experiments_keptcomparison AS kept
             WHERE kept.experiment_id = experiment.id)
        )
        FROM experiments_studyexperiment AS member
        JOIN experiments_experiment AS experiment ON experiment.id = member.experiment_id
        JOIN experiments_cluster AS cluster ON cluster.id = experiment.cluster_id
        WHERE member.study_id = study.id AND experiment.id IN ({experiments})
        ORDER BY member.place, member.id
    )
)::text)
FROM experiments_study AS study WHERE study.id IN ({studies}) AND study.id = %s
"""
OF_IMAGE = """
SELECT md5(jsonb_build_array(
    (image.ctid, image.xmin)::text,
    ARRAY(
        SELECT jsonb_build_array(staged.id, (staged.ctid, staged.xmin)::text, {cluster})
        FROM experiments_stagedimage AS staged
        JOIN experiments_cluster AS cluster ON cluster.id = staged.cluster_id
        WHERE staged.image_id = image.id AND cluster.id IN ({clusters}) ORDER BY staged.id
    ),
    ARRAY(
        SELECT (environment.id, environment.ctid, environment.xmin)::text
        FROM experiments_environment AS environment
        JOIN experiments_stagedimage AS staged ON staged.id = environment.staged_image_id
        WHERE staged.image_id = image.id ORDER BY environment.id
    ),
    ARRAY(
        SELECT (operation.id, operation.ctid, operation.xmin)::text
        FROM experiments_operation AS operation WHERE operation.id IN (
            SELECT id FROM experiments_operation WHERE image_id = image.id
            UNION SELECT of_staged.id FROM experiments_operation AS of_staged
            JOIN experiments_stagedimage AS staged ON staged.id = of_staged.staged_image_id
            WHERE staged.image_id = image.id
            UNION SELECT of_import.id FROM experiments_operation AS of_import
            JOIN experiments_imageimport AS incoming ON incoming.id = of_import.image_import_id
            WHERE incoming.image_id = image.id
        ) ORDER BY operation.id
    )
)::text)
FROM experiments_image AS image WHERE image.id IN ({images}) AND image.id = %s
"""
OF_CATALOGUE = """
SELECT md5(jsonb_build_array(
    ARRAY(
        SELECT (cluster.id, cluster.name, cluster.preparing, cluster.preparing_percent)::text
        FROM experiments_cluster AS cluster
        WHERE cluster.preparing <> '' AND cluster.id IN ({clusters}) ORDER BY cluster.id
    ),
    ARRAY(
        SELECT (
            incoming.id, incoming.ctid, incoming.xmin, image.ctid, image.xmin,
            image.id IN ({images}),
            ARRAY(
                SELECT (operation.id, operation.state, operation.doing)::text
                FROM experiments_operation AS operation
                WHERE operation.image_import_id = incoming.id ORDER BY operation.id
            )
        )::text
        FROM experiments_imageimport AS incoming
        LEFT JOIN experiments_image AS image ON image.id = incoming.image_id
        WHERE incoming.id IN ({imports})
        ORDER BY incoming.id
    )
)::text)
"""
OF_CREDENTIAL = """
SELECT md5(jsonb_build_array(
    to_jsonb(credential)
        - ARRAY['private_key', 'passphrase', 'next_private_key', 'last_used_at'],
    ARRAY(
        SELECT {cluster} FROM experiments_cluster AS cluster
        WHERE cluster.credential_id = credential.id ORDER BY cluster.id
    ),
    ARRAY(
        SELECT (test.id, test.ctid, test.xmin)::text
        FROM experiments_connectiontest AS test WHERE test.credential_id = credential.id
        ORDER BY test.ended_at DESC NULLS FIRST, test.id DESC LIMIT 4
    )
)::text)
FROM experiments_credential AS credential
WHERE credential.id IN ({credentials}) AND credential.id = %s
"""
"""Without what is secret, and without when it was used last, which every visit writes."""


class LiveMark:
    """The mark of one live part, found by one statement that is made once a process."""

    def __init__(self, template: str, *signs: Sign, **rules: Rule) -> None:
        """`template` names the parts of `fill_mark`, and in the order in which they come its rules:
        keys of what the reader may view. Then come the values that the signs stand for.
        """
        self._template, self._signs, self._rules = template, signs, rules

    def read(self, reader: User | AnonymousUser, *values: Sign) -> str | None:
        """Return the mark for a reader; None where the part is hidden or gone."""
        if not reader.is_authenticated:
            rows = fetch_all(*self._write(reader, values))
        elif reader.is_superuser:
            rows = self._of_administrator.fetch(*values)
        else:
            rows = self._of_member.fetch(reader.pk, *values)
        return rows[0][0] if rows else None

    @cached_property
    def _of_member(self) -> PreparedStatement:
        member = get_user_model()(pk=MEMBER)
        return PreparedStatement(*self._write(member, self._signs), (MEMBER, *self._signs))

    @cached_property
    def _of_administrator(self) -> PreparedStatement:
        administrator = get_user_model()(is_superuser=True)
        return PreparedStatement(*self._write(administrator, self._signs), self._signs)

    def _write(
        self, reader: User | AnonymousUser, values: Sequence[Sign]
    ) -> tuple[str, tuple[Any, ...]]:
        """Return the statement for one reader, and its parameters."""
        rules = {
            name: write_rule(model, reader, rule) for name, (model, rule) in self._rules.items()
        }
        own = [parameter for _, parameters in rules.values() for parameter in parameters]
        statements = {name: statement for name, (statement, _) in rules.items()}
        return fill_mark(self._template, **statements), (*own, *values)


VIEWED = "visible_to"
OVERVIEW = LiveMark(OF_OVERVIEW, experiments=(Experiment, VIEWED), clusters=(Cluster, VIEWED))
STUDY = LiveMark(OF_STUDY, KEY, experiments=(Experiment, VIEWED), studies=(Study, VIEWED))
IMAGE = LiveMark(OF_IMAGE, KEY, clusters=(Cluster, VIEWED), images=(Image, VIEWED))
CATALOGUE = LiveMark(
    OF_CATALOGUE,
    clusters=(Cluster, VIEWED),
    images=(Image, VIEWED),
    imports=(ImageImport, "listed_for"),
)
CREDENTIAL = LiveMark(OF_CREDENTIAL, KEY, credentials=(Credential, "usable_by"))
