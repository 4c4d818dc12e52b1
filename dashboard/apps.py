from django.apps import AppConfig


class DashboardConfig(AppConfig):
    """The Django application of all pages."""

    name = "dashboard"

    def ready(self) -> None:
        from dashboard.access import sessions  # noqa: F401  (listens for log-ins)
