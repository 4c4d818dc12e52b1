"""E-mails: what stands in them, and how they are sent.

Django refuses line breaks in headers; here all that people have typed loses them before, so that
no name of an experiment keeps a message from being sent.
"""

from __future__ import annotations

import logging
import smtplib
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.urls import reverse

from experiments.models import NotificationDelivery, NotificationMessage
from experiments.notifications.notice_texts import (
    NoticeText,
    describe_notification,
    write_address,
)
from experiments.notifications.outbox import (
    keep_failure,
    keep_success,
    list_visible_deliveries,
    postpone_others,
)
from experiments.notifications.plain_lines import clean_line

logger = logging.getLogger(__name__)

MOST_LISTED = 50
LONGEST_SUBJECT = 120
LONGEST_ANSWER = 300
PERMANENT = 500
"""The least code by which a mail server says no for ever (RFC 5321, 4.2.1)."""
SERVER_PAUSE = timedelta(minutes=1)
SILENT = "The mail server of this site does not answer, or does not let Tare in."


def send(message: NotificationMessage) -> None:
    """Send a message by e-mail, and keep what came of it."""
    rows = list_visible_deliveries(message)
    address = message.recipient.email
    count = rows.count()
    if not count:
        keep_failure(message, "", is_final=True)  # what it was about is hidden or gone
        return
    if not address:
        keep_failure(message, "Your account has no e-mail address.", is_final=True)
        return
    mail = write_mail(message, list(rows[:MOST_LISTED]), count)
    server = get_connection()
    try:
        server.open()
        refusal = _hand_over(server, mail)
    except (OSError, smtplib.SMTPException) as error:
        logger.warning("The mail server %s: %s", settings.EMAIL_HOST, clean_line(str(error)))
        keep_failure(message, SILENT)
        postpone_others(message.way, SERVER_PAUSE)
    else:  # before the farewell, which a server may leave without an answer
        if refusal:
            keep_failure(message, refusal.problem, is_final=refusal.is_final)
        else:
            keep_success(message)
    finally:
        with suppress(OSError):
            server.close()


class Refusal(NamedTuple):
    """Why a server does not take a message, and whether it never will."""

    problem: str
    is_final: bool


def _hand_over(server: Any, mail: EmailMessage) -> Refusal | None:
    """Give a mail to a server that answers; return why it does not take this one.

    A code from 500 on is for ever, one below may be another in a while. What is said about the
    sender is about the site, which an administrator can mend within the day.
    """
    try:
        server.send_messages([mail])
    except smtplib.SMTPRecipientsRefused as error:
        answers = error.recipients.values()
        texts = "; ".join(_write_answer(*answer) for answer in answers)
        is_final = all(code >= PERMANENT for code, _ in answers)
        return Refusal(f"The mail server said: {texts}", is_final)
    except smtplib.SMTPDataError as error:
        answer = _write_answer(error.smtp_code, error.smtp_error)
        return Refusal(f"The mail server said: {answer}", error.smtp_code >= PERMANENT)
    except smtplib.SMTPSenderRefused as error:
        answer = _write_answer(error.smtp_code, error.smtp_error)
        return Refusal(f"The mail server said: {answer}", is_final=False)
    except smtplib.SMTPNotSupportedError:  # an address with letters beyond ASCII
        return Refusal("The mail server does not know such addresses.", is_final=True)
    except ValueError as error:  # an address that no header can hold
        return Refusal(f"The address cannot be used: {clean_line(str(error))}", is_final=True)
    return None


def write_mail(
    message: NotificationMessage, rows: Sequence[NotificationDelivery], count: int
) -> EmailMessage:
    """Return the e-mail with these notifications; of `count` that there are."""
    texts = [describe_notification(row) for row in rows]
    first = f"{texts[0].what}: {texts[0].title}"
    subject = clean_line(first if count == 1 else f"{count} notifications")
    if len(subject) > LONGEST_SUBJECT:
        subject = f"{subject[: LONGEST_SUBJECT - 1]}…"
    host = urlsplit(settings.SITE_ADDRESS).hostname or "localhost"
    return EmailMessage(
        subject=f"Tare: {subject}",
        body=_write_body(texts, count),
        to=[message.recipient.email],
        headers={
            "Message-ID": f"<{message.uid}@{host}>",
            "Auto-Submitted": "auto-generated",  # no absence notes in return
        },
    )


def _write_body(texts: Sequence[NoticeText], count: int) -> str:
    parts = [
        f"{text.what}: {clean_line(text.title)}\n{text.sentence}\n{write_address(text.address)}"
        for text in texts
    ]
    if count > len(texts):
        more = write_address(reverse("notifications"))
        parts.append(f"And {count - len(texts)} more: {more}")
    choices = write_address(reverse("notification_choices"))
    parts.append(f"-- \nYou have chosen to get this by e-mail. To choose anew: {choices}")
    return "\n\n".join(parts) + "\n"


def _write_answer(code: int, text: bytes | str) -> str:
    answer = text.decode(errors="replace") if isinstance(text, bytes) else text
    return clean_line(f"{code} {answer}")[:LONGEST_ANSWER]
