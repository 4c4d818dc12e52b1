from django.apps import AppConfig


class ExperimentsConfig(AppConfig):
    """The Django application of all models."""

    name = "experiments"

    def ready(self) -> None:
        from experiments import settings_checks  # noqa: F401  (registers the system checks)
        from experiments.execution.task_worker import refuse_foreign_code

        refuse_foreign_code()
