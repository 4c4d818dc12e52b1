"""Notifications: what people are told about their experiments, once, where they want to be told."""

from experiments.notifications.delivering import deliver
from experiments.notifications.expiry import forget_notifications, forget_old
from experiments.notifications.inbox import (
    count_unread,
    list_notifications,
    mark_read,
    notify_person,
    parse_moment,
)
from experiments.notifications.notice_texts import NoticeText, describe_notification
from experiments.notifications.outbox import (
    drop_unwanted,
    find_last_trouble,
    list_due_people,
    list_open_ways,
)
from experiments.notifications.readers import Subject
from experiments.notifications.watching import list_unwatched, watch_experiment

__all__ = [
    "NoticeText",
    "Subject",
    "count_unread",
    "deliver",
    "describe_notification",
    "drop_unwanted",
    "find_last_trouble",
    "forget_notifications",
    "forget_old",
    "list_due_people",
    "list_notifications",
    "list_open_ways",
    "list_unwatched",
    "mark_read",
    "notify_person",
    "parse_moment",
    "watch_experiment",
]
