"""The lifetime of sessions: they end after a while without activity, and at a fixed age."""

from __future__ import annotations

import time
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.signals import user_logged_in
from django.contrib.auth.views import redirect_to_login
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import resolve_url
from django_htmx.http import HttpResponseClientRedirect, HttpResponseClientRefresh
from django_htmx.middleware import HtmxDetails

from dashboard.middleware import Answer

BEGAN, ACTIVE = "began", "active"
EXACT_SECONDS = 60
"""How exactly the last activity is known: not every request writes a row."""


@receiver(user_logged_in)
def note_log_in(request: HttpRequest, **kwargs: Any) -> None:
    """Keep in the session when it began and was last active."""
    request.session[BEGAN] = request.session[ACTIVE] = time.time()


def end_old_sessions(get_response: Answer) -> Answer:
    """Log out sessions that were idle for too long, or are too old.

    A page that reloads itself is no activity: requests of htmx that only read prolong nothing.
    """

    def checked(request: HttpRequest) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return get_response(request)
        now, session = time.time(), request.session
        began, active = session.setdefault(BEGAN, now), session.setdefault(ACTIVE, now)
        is_idle = now - active > settings.SESSION_IDLE_SECONDS
        if is_idle or now - began > settings.SESSION_COOKIE_AGE:
            logout(request)
            if request.headers.get("HX-Request"):
                return HttpResponseClientRefresh()
            messages.info(request, "You were logged out, because " + (IDLE if is_idle else OLD))
            return get_response(request)
        polls = request.method == "GET" and request.headers.get("HX-Request")
        if not polls and now - active > EXACT_SECONDS:
            session[ACTIVE] = now
        return get_response(request)

    return checked


def lead_to_log_in(get_response: Answer) -> Answer:
    """Have the browser open the log-in page where htmx would put it into the page that asked: a
    session, or the link that a visitor came by, may end while a page asks for itself again.
    """

    def answered(request: HttpRequest) -> HttpResponseBase:
        answer = get_response(request)
        login = resolve_url(settings.LOGIN_URL)
        if request.headers.get("HX-Request") and answer.get("Location", "").startswith(login):
            shown = HtmxDetails(request).current_url_abs_path or request.path
            return HttpResponseClientRedirect(redirect_to_login(shown).url)
        return answer

    return answered


IDLE = "nothing was done here for a while."
OLD = "your log-in was some days old."
