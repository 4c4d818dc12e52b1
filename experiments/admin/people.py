"""Administration of people: roles and groups. Django's own permissions are not used."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.contrib.admin.widgets import FilteredSelectMultiple
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.forms import AdminUserCreationForm, UserChangeForm
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db.models import Model
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from experiments.access import audit, permissions
from experiments.admin.base import Ruled
from experiments.models import User


class PersonForm(UserChangeForm):  # type: ignore[type-arg]
    """The administration's form of a person."""

    by: ClassVar[User]

    class Meta(UserChangeForm.Meta):
        help_texts: ClassVar = {
            "groups": "They read and use what is shared with these groups.",
            "is_active": "Who is not can no longer log in. People who have done something here are "
            "put out of service, not deleted.",
        }

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        asked = cleaned.get("role") or self.instance.role
        active = cleaned.get("is_active", self.instance.is_active)
        # The form has not touched its instance yet.
        if problem := permissions.why_not_set_role(self.by, self.instance, asked, active=active):
            raise ValidationError(problem)
        return cleaned


class People(Ruled, UserAdmin):  # type: ignore[type-arg]
    """The administration's pages of people."""

    form = PersonForm
    add_form = AdminUserCreationForm
    fieldsets = (
        (None, {"fields": ("username", "password", "is_active")}),
        (
            "What they may do",
            {
                "fields": ("role", "groups"),
                "description": "A viewer reads what is shared. A researcher makes experiments and "
                "what they need. A cluster administrator makes clusters and credentials, and "
                "changes those that are theirs or shared with their groups. A site administrator "
                "does everything, and gives roles.",
            },
        ),
        ("Who they are", {"fields": ("first_name", "last_name", "email")}),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )
    add_fieldsets: Any = (
        (None, {"fields": ("username", "usable_password", "password1", "password2")}),
        ("What they may do", {"fields": ("role", "groups")}),
    )
    readonly_fields = ("last_login", "date_joined")
    filter_horizontal = ("groups",)
    list_display = ("username", "role", "email", "is_active", "last_login")
    list_filter = ("role", "groups", "is_active")

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody deletes themselves: so somebody is always left who gives roles."""
        return super().has_delete_permission(request, obj) and obj != request.user

    def user_change_password(self, request: Any, id: str, form_url: str = "") -> Any:  # noqa: A002
        person = self.get_object(request, id)
        if person is None or request.method != "POST":
            return super().user_change_password(request, id, form_url)
        with audit.log_change(request.user, person):
            return super().user_change_password(request, id, form_url)


class Wrapped(FilteredSelectMultiple):
    """The script puts its boxes before all else that surrounds the list: the label, if it can."""

    def render(self, *args: Any, **kwargs: Any) -> SafeString:
        inner = super().render(*args, **kwargs)
        return format_html('<div class="related-widget-wrapper">{}</div>', inner)


class GroupForm(forms.ModelForm):  # type: ignore[type-arg]
    """The administration's form of a group, with its members."""

    members = forms.ModelMultipleChoiceField(
        User.objects.order_by("username"),
        required=False,
        widget=Wrapped("people", is_stacked=False),
        help_text="They may read and use what is shared with the group.",
    )

    class Meta:
        model = Group
        fields = ("name",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.fields["members"].initial = self.instance.user_set.all()

    def _save_m2m(self) -> None:
        super()._save_m2m()  # type: ignore[misc]
        self.instance.user_set.set(self.cleaned_data["members"])


class Groups(Ruled):
    """The administration's pages of groups."""

    form = GroupForm
    fields = ("name", "members")
    search_fields = ("name",)


admin.site.unregister(Group)
admin.site.register(Group, Groups)
admin.site.register(User, People)
