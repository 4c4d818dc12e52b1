"""The WSGI entry point: what each web process does first."""

import gc
import os
from importlib import import_module

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.template.loader import get_template

from dashboard.early_returns import give_back_early

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")

NEW_OBJECTS = 10_000
"""So many new objects lead to a search for garbage; Python's own number is 700.

A large comparison is 20,000 rows, none of them garbage. Looking through the modules of Django again
and again while they are made takes up to four times as long as making them.
"""

give_back_early()  # before there are threads
application = get_wsgi_application()
TEMPLATES = settings.BASE_DIR / "templates"
import_module(settings.ROOT_URLCONF)  # with all views; else the first request would do it
for template in TEMPLATES.rglob("*.html"):
    # What stays is made before what pages need for a moment: between rows of a large page it would
    # keep the memory of these from being given back.
    get_template(template.relative_to(TEMPLATES).as_posix())
gc.collect()
gc.freeze()  # modules and classes stay until the process ends: no search looks at them again
gc.set_threshold(NEW_OBJECTS)
