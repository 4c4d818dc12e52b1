"""The WSGI entry point: what each web process does first."""

import gc
import os
import sys
from importlib import import_module

from django.conf import settings
from django.core.signals import request_finished
from django.core.wsgi import get_wsgi_application

from dashboard.freed_memory import free_memory, give_back_early

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")

NEW_OBJECTS = 10_000
"""So many new objects lead to a search for garbage; Python's own number is 700.

A large comparison is 20,000 rows, none of them garbage. Looking through the modules of Django again
and again while they are made takes up to four times as long as making them.
"""

sys.modules.setdefault("invoke", None)  # type: ignore[arg-type]  # paramiko does without it
give_back_early()  # before there are threads
request_finished.connect(free_memory.give_back)
application = get_wsgi_application()
import_module(settings.ROOT_URLCONF)  # with all views; else the first request would do it
gc.collect()
gc.freeze()  # modules and classes stay until the process ends: no search looks at them again
gc.set_threshold(NEW_OBJECTS)
