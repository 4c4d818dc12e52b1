"""Notifications: the list of a person's own, and what each person chooses to be told."""
