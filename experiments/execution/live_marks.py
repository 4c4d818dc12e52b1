"""Marks of what live parts of pages show: as long as a mark is the same, there is no news.

Each is found by one small statement, from the versions of the rows that are shown (PostgreSQL's
`xmin` and `ctid`: which transaction wrote a row, and where it lies) and the last events. Of a
cluster it holds all columns but those that every visit writes.

None: the reader may not view it, it is gone, or something has to be done for who looks at it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import connection

from experiments.models import Cluster, Credential, Experiment, Image, Study
from experiments.models.visibility import write_rule

if TYPE_CHECKING:
    from experiments.models import User

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
        WHERE incoming.dismissed_at IS NULL AND (%s OR incoming.owner_id = %s)
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


def mark_overview(reader: User) -> str | None:
    """Return the mark of the live part of the first page."""
    experiments, values = write_rule(Experiment, reader)
    clusters, of_clusters = write_rule(Cluster, reader)
    known = [*values, *of_clusters]
    return read_mark(OF_OVERVIEW, known, experiments=experiments, clusters=clusters)


def mark_study(reader: User, pk: int) -> str | None:
    """Return the mark of the live parts of a study's page."""
    experiments, values = write_rule(Experiment, reader)
    studies, of_studies = write_rule(Study, reader)
    known = [*values, *of_studies, pk]
    return read_mark(OF_STUDY, known, experiments=experiments, studies=studies)


def mark_image(reader: User, pk: int) -> str | None:
    """Return the mark of the live part of an image's page."""
    clusters, of_clusters = write_rule(Cluster, reader)
    images, of_images = write_rule(Image, reader)
    known = [*of_clusters, *of_images, pk]
    return read_mark(OF_IMAGE, known, clusters=clusters, images=images)


def mark_catalogue(reader: User) -> str | None:
    """Return the mark of the catalogue's live part: clusters being set up, and image imports."""
    clusters, of_clusters = write_rule(Cluster, reader)
    images, of_images = write_rule(Image, reader)
    known = [*of_clusters, *of_images, reader.is_superuser, reader.pk]
    return read_mark(OF_CATALOGUE, known, clusters=clusters, images=images)


def mark_credential(reader: User, pk: int) -> str | None:
    """Return the mark of the live part of a credential's page."""
    credentials, values = write_rule(Credential, reader, "usable_by")
    return read_mark(OF_CREDENTIAL, [*values, pk], credentials=credentials)


def read_mark(template: str, values: list[Any], **rules: str) -> str | None:
    """Return what a statement gives, with `rules` that select what the reader may view.

    It may name the parts of other ones, {cluster}, {events} and {pauses}.
    """
    statement = fill_mark(template, **rules)
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        row = cursor.fetchone()
    return str(row[0]) if row else None
