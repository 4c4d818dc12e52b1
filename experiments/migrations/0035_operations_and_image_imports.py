"""Name operations, image imports, inspections and waived differences as the pages name them."""

from django.db import migrations, models

REQUESTED = ("checkreport", "connectiontest", "hostkey", "imageimport", "operation", "runfile")


def rename_kind(old, new):
    def write(apps, schema_editor):
        rows = apps.get_model("experiments", "Operation").objects.using(schema_editor.connection.alias)
        rows.filter(kind=old).update(kind=new)

    return write


class Migration(migrations.Migration):
    dependencies = [("experiments", "0034_warm_up_labels")]
    operations = [
        migrations.RemoveIndex("runfile", "copy_wanted"),
        migrations.RemoveIndex("environmentsurvey", "survey_newest_first"),
        migrations.RenameModel("Chore", "Operation"),
        migrations.RenameModel("Arrival", "ImageImport"),
        migrations.RenameModel("EnvironmentSurvey", "EnvironmentInspection"),
        *(migrations.RenameField(model, "asked_at", "requested_at") for model in REQUESTED),
        migrations.RenameField("operation", "arrival", "image_import"),
        migrations.RenameField("environmentinspection", "chore", "operation"),
        migrations.RenameField("environmentinspection", "looked_at", "inspected_at"),
        migrations.RenameField("waiver", "here", "on_baseline"),
        migrations.RenameField("waiver", "there", "in_environment"),
        migrations.RenameIndex("operation", new_name="operation_alive", old_name="chore_alive"),
        migrations.AddIndex(
            "environmentinspection",
            models.Index(fields=["environment", "-inspected_at"], name="inspection_newest_first"),
        ),
        migrations.AddIndex(
            "runfile",
            models.Index(
                fields=["requested_at"],
                condition=models.Q(requested_at__isnull=False, copied_at=None, problem=""),
                name="copy_wanted",
            ),
        ),
        migrations.RemoveField("imageimport", "recipe"),
        migrations.RunPython(rename_kind("survey", "inspect"), rename_kind("inspect", "survey")),
    ]
