"""Logging in: the address of a visitor, and limits on wrong passwords from one address.

django-axes counts wrong passwords, and closes a name to an address after ten. Beside that an
address that is wrong for many names has to wait between two tries: a little, so that others behind
the same one still come in.
"""

from __future__ import annotations

import math
from datetime import timedelta
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from django import forms
from django.apps import apps
from django.conf import settings
from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.core.exceptions import ValidationError
from django.core.validators import MaxLengthValidator
from django.db.models import Max, Sum
from django.http import HttpRequest
from django.utils import timezone

from dashboard.form_styles import Styled
from experiments.models import ApiToken, User

Address = IPv4Address | IPv6Address

FREE_FAILURES = 20
"""Of one address within the time that django-axes remembers, before it has to wait."""
LONGEST_WAIT_SECONDS = 30
NAMES_OF_IPV6 = 64
"""Bits of an IPv6 address that are one customer's: the others anybody there can choose."""


def find_client_address(request: HttpRequest) -> str | None:
    """Return the address that a request comes from; None where the server was told none.

    What a header says counts only as far as listed proxies wrote it (`TRUSTED_PROXIES`): it is read
    from its end, and the first address that is no proxy's is the client's.
    """
    address = _parsed(request.META.get("REMOTE_ADDR", ""))
    if address is None:
        return None
    forwarded = request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")
    while forwarded and _is_trusted(address):
        earlier = _parsed(forwarded.pop())
        if earlier is None:
            break
        address = earlier
    if isinstance(address, IPv6Address):
        return str(IPv6Network((address, NAMES_OF_IPV6), strict=False).network_address)
    return str(address)


def _parsed(text: str) -> Address | None:
    try:
        address = ip_address(text.strip())
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _is_trusted(address: Address) -> bool:
    return any(address in network for network in _networks(tuple(settings.TRUSTED_PROXIES)))


@cache
def _networks(listed: tuple[str, ...]) -> list[IPv4Network | IPv6Network]:
    return [ip_network(text, strict=False) for text in listed]


def count_seconds_to_wait(request: HttpRequest) -> int:
    """Return how long this address has to wait before its next try; 0: it need not."""
    now = timezone.now()
    remembered = timedelta(hours=settings.AXES_COOLOFF_TIME)
    attempts = apps.get_model("axes", "AccessAttempt")._default_manager.filter(
        ip_address=find_client_address(request), attempt_time__gt=now - remembered
    )
    known = attempts.aggregate(count=Sum("failures_since_start"), last=Max("attempt_time"))
    more = (known["count"] or 0) - FREE_FAILURES
    if more < 0:
        return 0
    wait: float = min(2.0 ** min(more, 10), LONGEST_WAIT_SECONDS)
    passed: timedelta = now - known["last"]
    return max(0, math.ceil(wait - passed.total_seconds()))


class RateLimitedLoginForm(AuthenticationForm):
    """A log-in form that checks no password while the visitor's address has to wait."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        longest = User._meta.get_field("username").max_length or 0
        self.fields["username"].validators.append(MaxLengthValidator(longest))

    def clean(self) -> dict[str, Any]:
        if self.request and (seconds := count_seconds_to_wait(self.request)):
            raise ValidationError(
                f"Too many wrong passwords came from your address. Try again in {seconds} s.",
                code="wait",
            )
        return super().clean()


class LoginForm(Styled, RateLimitedLoginForm):
    """Django's own form, in the style of these pages."""


class AdminLoginForm(RateLimitedLoginForm, AdminAuthenticationForm):
    """The log-in form of the administration pages."""


class PasswordForm(Styled, PasswordChangeForm):
    """The form of one's own password: the old one, the new one twice, and what to do with tokens.

    A token goes on when a password changes: who changes it because somebody else knows it has to
    withdraw them too.
    """

    withdraws_tokens = forms.BooleanField(required=False)

    def __init__(self, user: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(user, *args, **kwargs)
        count = ApiToken.objects.valid().filter(owner=user).count()
        if not count:
            del self.fields["withdraws_tokens"]
            return
        tokens, verb = ("API token", "works") if count == 1 else ("API tokens", "work")
        field = self.fields["withdraws_tokens"]
        field.label = f"Withdraw my {count} {tokens}"
        field.help_text = f"Otherwise {'it' if count == 1 else 'they'} {verb} as before."

    def save(self, commit: bool = True) -> Any:
        """Store the new password alone: role and groups may have been changed meanwhile."""
        person = super().save(commit=False)
        if commit:
            person.save(update_fields=["password"])
        return person
