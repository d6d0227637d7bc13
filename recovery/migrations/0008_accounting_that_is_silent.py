from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('recovery', '0007_what_else_is_measured'),
    ]

    operations = [
        migrations.AddField(
            model_name='cluster',
            name='accounting_silent_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
