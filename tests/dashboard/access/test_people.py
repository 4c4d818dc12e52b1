"""Site administrators give roles and fill groups; what is changed there is written down."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from experiments.access import permissions
from experiments.models import AuditEntry, Role, User
from tests.dashboard.conftest import People
from tests.factories import AdminFactory, UserFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def as_admin(people: People) -> Client:
    return people.client("admin")


def sent(user: User, **changes: Any) -> dict[str, Any]:
    fields = {"username": user.username, "role": user.role, "is_active": "on"} | changes
    return {name: value for name, value in fields.items() if value is not None}


def change(client: Client, user: User, **changes: Any) -> str:
    address = reverse("admin:experiments_user_change", args=[user.pk])
    answer = client.post(address, sent(user, **changes))
    user.refresh_from_db()
    return "" if answer.status_code == 302 else answer.content.decode()


def test_a_site_administrator_gives_a_role_and_groups(as_admin: Client, people: People) -> None:
    group = Group.objects.create(name="neurophysics")
    wanted = Role.CLUSTER_ADMINISTRATOR
    assert change(as_admin, people.other, role=wanted, groups=[group.pk]) == ""
    assert (people.other.role, people.other.is_staff) == (wanted, True)
    assert list(people.other.groups.all()) == [group]
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.kind, entry.name) == (people.admin, "user", "other")
    assert entry.changes == {
        "groups": [[], ["neurophysics"]],
        "role": ["researcher", "cluster_administrator"],
    }


def test_nobody_changes_their_own_role(as_admin: Client, people: People) -> None:
    for changes in ({"role": Role.VIEWER}, {"is_active": None}):
        assert "Nobody changes their own role" in change(as_admin, people.admin, **changes)
    assert people.admin.is_at_least(Role.SITE_ADMINISTRATOR)
    assert change(as_admin, people.admin, email="me@example.org") == ""
    delete = reverse("admin:experiments_user_delete", args=[people.admin.pk])
    assert as_admin.post(delete, {"post": "yes"}).status_code == 403
    selected = {"action": "delete_selected", "_selected_action": [people.admin.pk], "post": "yes"}
    as_admin.post(reverse("admin:experiments_user_changelist"), selected)
    assert User.objects.filter(pk=people.admin.pk).exists()


def test_the_last_site_administrator_stays_one(people: People) -> None:
    other = AdminFactory()
    assert permissions.why_not_set_role(people.admin, other, Role.VIEWER) == ""
    assert permissions.why_not_set_role(people.admin, other, other.role, active=False) == ""
    # Meanwhile the first one was demoted in another request.
    User.objects.filter(pk=people.admin.pk).update(
        role=Role.RESEARCHER, is_staff=False, is_superuser=False
    )
    for asked, active in ((Role.RESEARCHER, True), (other.role, False)):
        words = permissions.why_not_set_role(people.admin, other, asked, active=active)
        assert "is the last site administrator" in words


@pytest.mark.parametrize("role", [Role.VIEWER, Role.RESEARCHER, Role.CLUSTER_ADMINISTRATOR])
def test_nobody_else_gives_roles(role: Role, people: People) -> None:
    user = UserFactory(role=role)
    client = Client()
    client.force_login(user)
    change(client, people.other, role=Role.SITE_ADMINISTRATOR)
    change(client, user, role=Role.SITE_ADMINISTRATOR)
    assert not User.objects.exclude(pk=people.admin.pk).filter(is_superuser=True).exists()
    assert "To set a role you must be a site administrator" in permissions.why_not_set_role(
        user, people.other, Role.VIEWER
    )


def test_a_new_person_is_written_down_without_the_password(
    as_admin: Client, people: People
) -> None:
    word = "a long and secret word"
    fields = {"username": "ada", "password1": word, "password2": word, "usable_password": "true"}
    answer = as_admin.post(reverse("admin:experiments_user_add"), fields | {"role": Role.VIEWER})
    assert answer.status_code == 302
    ada = User.objects.get(username="ada")
    assert (ada.role, ada.check_password(word)) == (Role.VIEWER, True)
    entry = AuditEntry.objects.get()
    assert entry.what == "added"
    assert entry.changes["role"] == [None, "viewer"]
    assert entry.changes["password"] == "changed"
    assert ada.password not in str(entry.changes)


def test_a_password_that_is_set_for_somebody_is_written_down(
    as_admin: Client, people: People
) -> None:
    word = "another long and secret word"
    address = reverse("admin:auth_user_password_change", args=[people.other.pk])
    fields = {"password1": word, "password2": word, "usable_password": "true"}
    assert as_admin.post(address, fields).status_code == 302
    people.other.refresh_from_db()
    assert people.other.check_password(word)
    assert AuditEntry.objects.get().changes == {"password": "changed"}


def test_a_groups_members_are_written_down(as_admin: Client, people: People) -> None:
    add = {"name": "neurophysics", "members": [people.owner.pk, people.other.pk]}
    assert as_admin.post(reverse("admin:auth_group_add"), add).status_code == 302
    group = Group.objects.get()
    assert set(group.user_set.all()) == {people.owner, people.other}
    page = reverse("admin:auth_group_change", args=[group.pk])
    as_admin.post(page, {"name": "neurophysics", "members": [people.owner.pk]})
    assert list(group.user_set.all()) == [people.owner]
    as_admin.post(reverse("admin:auth_group_delete", args=[group.pk]), {"post": "yes"})
    told = [(entry.what, entry.changes["members"]) for entry in AuditEntry.objects.all()]
    assert told == [
        ("deleted", [["owner"], None]),
        ("changed", [["other", "owner"], ["owner"]]),
        ("added", [None, ["other", "owner"]]),
    ]


def test_the_command_that_makes_superusers_is_written_down() -> None:
    call_command("createsuperuser", username="root", email="root@example.org", interactive=False)
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.name, entry.why) == (None, "root", "createsuperuser")
    assert entry.changes["role"] == [None, "site_administrator"]
