"""Notifications: what people are told about their experiments, once, where they want to be told."""

from experiments.notifications.inbox import (
    count_unread,
    list_notifications,
    mark_read,
)
from experiments.notifications.notice_texts import NoticeText, describe_notification
from experiments.notifications.watching import list_unwatched, watch_experiment

__all__ = [
    "NoticeText",
    "count_unread",
    "describe_notification",
    "list_notifications",
    "list_unwatched",
    "mark_read",
    "watch_experiment",
]
