import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('experiments', '0092_measures_of_runs'),
    ]

    operations = [
        migrations.AddField(
            model_name='experiment',
            name='accuracy_margin',
            field=models.FloatField(blank=True, help_text='Percentage points of an accuracy within which trainings count as equivalent.', null=True, validators=[django.core.validators.MinValueValidator(0.001), django.core.validators.MaxValueValidator(100)]),
        ),
        migrations.AddField(
            model_name='experiment',
            name='loss_margin',
            field=models.FloatField(blank=True, help_text='The same for the last loss, in its own unit. Empty: no verdict on training.', null=True, validators=[django.core.validators.MinValueValidator(1e-09), django.core.validators.MaxValueValidator(1000000.0)]),
        ),
        migrations.AddConstraint(
            model_name='experiment',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('accuracy_margin', None), models.Q(('accuracy_margin__gt', 0), ('accuracy_margin__lte', 100)), _connector='OR'), models.Q(('loss_margin', None), models.Q(('loss_margin__gt', 0), ('loss_margin__lte', 1000000.0)), _connector='OR')), name='margins_of_training'),
        ),
    ]
