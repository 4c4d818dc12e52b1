from django.apps import AppConfig


class ExperimentsConfig(AppConfig):
    name = "experiments"

    def ready(self) -> None:
        from experiments import checks  # noqa: F401  (registers the system checks)
        from experiments.task_worker import refuse_foreign_code

        refuse_foreign_code()
