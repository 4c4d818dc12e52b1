"""PostgreSQL notes which experiments' values are to be stored anew; all are, to begin with.

Each statement is a transaction of its own, so that none waits for the runs that another one keeps
from being written. Interrupted, it begins anew.
"""

from django.db import migrations

NOTE = """
CREATE OR REPLACE FUNCTION note_new_runs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO experiments_valuechange (experiment_id)
    SELECT DISTINCT experiment_id FROM changed_runs WHERE state = 'succeeded';
    RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION note_changed_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO experiments_valuechange (experiment_id)
    SELECT DISTINCT pk FROM unnest(ARRAY[OLD.experiment_id, NEW.experiment_id]) AS pk;
    RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION note_measurements() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- Whatever the runs' state is: another transaction may be changing it.
    INSERT INTO experiments_valuechange (experiment_id)
    SELECT DISTINCT experiment_id FROM experiments_run
    WHERE id IN (SELECT run_id FROM changed_rows);
    RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION note_changed_facts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO experiments_valuechange (experiment_id)
    SELECT DISTINCT experiment_id FROM experiments_run WHERE snapshot_id = NEW.id;
    RETURN NULL;
END $$;
"""
TRIGGERS = (
    """CREATE OR REPLACE TRIGGER note_inserted_runs AFTER INSERT ON experiments_run
    REFERENCING NEW TABLE AS changed_runs FOR EACH STATEMENT EXECUTE FUNCTION note_new_runs()""",
    """CREATE OR REPLACE TRIGGER note_deleted_runs AFTER DELETE ON experiments_run
    REFERENCING OLD TABLE AS changed_runs FOR EACH STATEMENT EXECUTE FUNCTION note_new_runs()""",
    """CREATE OR REPLACE TRIGGER note_changed_runs
    AFTER UPDATE OF state, experiment_id, workload_id, scale, snapshot_id, spec ON experiments_run
    FOR EACH ROW WHEN ((OLD.state = 'succeeded' OR NEW.state = 'succeeded') AND (
        OLD.state != NEW.state OR OLD.experiment_id != NEW.experiment_id
        OR OLD.workload_id != NEW.workload_id OR OLD.scale != NEW.scale
        OR OLD.snapshot_id IS DISTINCT FROM NEW.snapshot_id OR OLD.spec IS DISTINCT FROM NEW.spec
    )) EXECUTE FUNCTION note_changed_run()""",
    """CREATE OR REPLACE TRIGGER note_inserted_measurements AFTER INSERT ON experiments_measurement
    REFERENCING NEW TABLE AS changed_rows
    FOR EACH STATEMENT EXECUTE FUNCTION note_measurements()""",
    """CREATE OR REPLACE TRIGGER note_changed_measurements AFTER UPDATE ON experiments_measurement
    REFERENCING NEW TABLE AS changed_rows
    FOR EACH STATEMENT EXECUTE FUNCTION note_measurements()""",
    """CREATE OR REPLACE TRIGGER note_deleted_measurements AFTER DELETE ON experiments_measurement
    REFERENCING OLD TABLE AS changed_rows
    FOR EACH STATEMENT EXECUTE FUNCTION note_measurements()""",
    """CREATE OR REPLACE TRIGGER note_changed_facts AFTER UPDATE OF facts ON experiments_snapshot
    FOR EACH ROW WHEN (OLD.facts IS DISTINCT FROM NEW.facts)
    EXECUTE FUNCTION note_changed_facts()""",
)
FILL = """
INSERT INTO experiments_valuechange (experiment_id)
SELECT id FROM experiments_experiment ORDER BY id
"""
FORGET = """
DROP TRIGGER IF EXISTS note_inserted_runs ON experiments_run;
DROP TRIGGER IF EXISTS note_deleted_runs ON experiments_run;
DROP TRIGGER IF EXISTS note_changed_runs ON experiments_run;
DROP TRIGGER IF EXISTS note_inserted_measurements ON experiments_measurement;
DROP TRIGGER IF EXISTS note_changed_measurements ON experiments_measurement;
DROP TRIGGER IF EXISTS note_deleted_measurements ON experiments_measurement;
DROP TRIGGER IF EXISTS note_changed_facts ON experiments_snapshot;
DROP FUNCTION IF EXISTS note_new_runs();
DROP FUNCTION IF EXISTS note_changed_run();
DROP FUNCTION IF EXISTS note_measurements();
DROP FUNCTION IF EXISTS note_changed_facts();
"""


class Migration(migrations.Migration):
    atomic = False  # runs are made and results collected meanwhile

    dependencies = [("experiments", "0122_experiment_values")]

    operations = [
        migrations.RunSQL(NOTE, FORGET),
        *(migrations.RunSQL(trigger, migrations.RunSQL.noop) for trigger in TRIGGERS),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
