"""Lists of runs are sorted and filtered by any parameter: tables and what writes their rows.

Rows of runs from before are written by the next migration, while others are made.
"""

import django.db.models.deletion
from django.db import migrations, models

MOST, LONGEST_NAME, LONGEST_NUMBER = 301, 200, 1000
"""Characters of a text, a name and a number: together they fit into one row of an index."""

KEEP = f"""
CREATE FUNCTION list_run_parameters(spec jsonb) RETURNS TABLE (name text, value jsonb)
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT pair.key, CASE
        WHEN jsonb_typeof(pair.value) = 'array' THEN to_jsonb(left(pair.value::text, {MOST}))
        WHEN jsonb_typeof(pair.value) = 'string' AND length(pair.value #>> '{{}}') > {MOST}
        THEN to_jsonb(left(pair.value #>> '{{}}', {MOST})) ELSE pair.value END
    FROM jsonb_each(CASE WHEN jsonb_typeof(spec #> '{{workload,parameters}}') = 'object'
        THEN spec #> '{{workload,parameters}}' ELSE '{{}}' END) AS pair
    WHERE length(pair.key) <= {LONGEST_NAME} AND (jsonb_typeof(pair.value) IN ('string', 'boolean')
        OR jsonb_typeof(pair.value) = 'number' AND length(pair.value::text) <= {LONGEST_NUMBER}
        OR jsonb_typeof(pair.value) = 'array' AND jsonb_typeof(pair.value -> 0) = 'string')
$$;
CREATE FUNCTION keep_run_parameters() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO experiments_runparameter (run_id, name, value)
    SELECT run.id, parameter.name, parameter.value
    FROM new_runs AS run, list_run_parameters(run.spec) AS parameter
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE FUNCTION replace_run_parameters() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM experiments_runparameter WHERE run_id = NEW.id;
    INSERT INTO experiments_runparameter (run_id, name, value)
    SELECT NEW.id, parameter.name, parameter.value FROM list_run_parameters(NEW.spec) AS parameter
    ON CONFLICT (run_id, name) DO UPDATE SET value = EXCLUDED.value;
    RETURN NULL;
END $$;
CREATE TRIGGER parameters_of_new_runs AFTER INSERT ON experiments_run
    REFERENCING NEW TABLE AS new_runs FOR EACH STATEMENT EXECUTE FUNCTION keep_run_parameters();
CREATE TRIGGER parameters_of_changed_runs AFTER UPDATE OF spec ON experiments_run
    FOR EACH ROW WHEN (OLD.spec IS DISTINCT FROM NEW.spec)
    EXECUTE FUNCTION replace_run_parameters();
"""
FORGET = """
DROP TRIGGER parameters_of_new_runs ON experiments_run;
DROP TRIGGER parameters_of_changed_runs ON experiments_run;
DROP FUNCTION keep_run_parameters();
DROP FUNCTION replace_run_parameters();
DROP FUNCTION list_run_parameters(jsonb);
"""


class Migration(migrations.Migration):
    dependencies = [("experiments", "0118_code_paths")]

    operations = [
        migrations.CreateModel(
            name="RunParameter",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "run", "name", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="parameters",
                        to="experiments.run",
                    ),
                ),
                ("name", models.CharField(max_length=200)),
                ("value", models.JSONField()),
            ],
        ),
        migrations.RunSQL(KEEP, FORGET),
    ]
