"""Forms for keys. Secrets are write-only: no input ever shows one, even after an error."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.db.models import QuerySet
from django.views.decorators.debug import sensitive_variables

from dashboard.form_styles import Styled
from experiments.access.own_columns import OwnColumns
from experiments.clusters.credentials import Pair, read_pair
from experiments.models import Credential, User
from experiments.models.cluster_choices import scheduler_choices

MOST_BYTES = 64 * 1024  # of a key file; real ones have some hundred


class WriteOnly(forms.Textarea):
    """An input that shows neither what is stored nor what was typed before an error."""

    def format_value(self, value: Any) -> str:
        return ""


def _text_area(widget: type[forms.Textarea], **attributes: str) -> forms.Textarea:
    return widget(
        attrs={
            "rows": "6",
            "autocomplete": "off",
            "spellcheck": "false",
            "class": "form-control text",
            **attributes,
        }
    )


def read_text(upload: UploadedFile[Any] | None, what: str) -> str:
    """Return the text of a small file. ValidationError without any of it if it is none."""
    if upload is None:
        return ""
    if (upload.size or 0) > MOST_BYTES:
        raise ValidationError(f"This file is too large for {what}: 64 KB is the most.")
    content: bytes = upload.read()
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    try:
        return content.decode(encoding)
    except ValueError:
        raise ValidationError(f"This file is no text, and so not {what}.") from None


def check_account(name: str) -> str:
    """Return the name of an account on a login node. Raises ValidationError if it has blanks."""
    if any(letter.isspace() or not letter.isprintable() for letter in name):
        raise ValidationError("An account is the name that you log in with: it has no blanks.")
    return name


class CredentialForm(OwnColumns, Styled, forms.ModelForm):  # type: ignore[type-arg]
    """The form of a credential's name, account and limits: all but its key."""

    class Meta:
        model = Credential
        fields = ("name", "user_name", "forced_command", "work_directory", "scheduler")
        labels: ClassVar = {"user_name": "Account"}
        help_texts: ClassVar = {
            "name": "What Tare and you call it. The key's comment is tare-NAME.",
            "user_name": "The account on the login node that the key opens.",
            "work_directory": "Below it the key may write and read. Clusters that use the key say "
            "their own.",
            "scheduler": "Whose commands the key may run. Clusters that use the key say their own.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        scheduler: Any = self.fields["scheduler"]
        scheduler.choices = [("", "choose one"), *scheduler_choices()]

    def clean_user_name(self) -> str:
        return check_account(self.cleaned_data["user_name"])

    @property
    def has_forced_command(self) -> bool:
        """Return whether a forced command is chosen, or something about it is amiss."""
        chosen = self["forced_command"].value()
        return bool(chosen or self["work_directory"].errors or self["scheduler"].errors)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        # Clusters that use the key say it themselves.
        is_used = self.instance.pk is not None and self.instance.clusters.exists()
        if cleaned.get("forced_command") and not is_used:
            for name in ("work_directory", "scheduler"):
                if not cleaned.get(name) and name not in self.errors:
                    self.add_error(name, "A forced command is told this.")
        if not cleaned.get("work_directory", "").isprintable():
            self.add_error("work_directory", "A line cannot hold such a name.")
        return cleaned


class ImportForm(CredentialForm):
    """The form that imports an existing key."""

    key_file = forms.FileField(
        label="Private key, as a file", required=False, help_text="Such as id_ed25519."
    )
    private_key = forms.CharField(
        label="or as text",
        widget=_text_area(WriteOnly),
        required=False,
        strip=False,
        help_text="OpenSSH's format (ed25519, ECDSA or RSA), with its BEGIN and END lines.",
    )
    passphrase = forms.CharField(
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        required=False,
        strip=False,
        help_text="Of this key, if it has one. It is kept with the key, encrypted.",
    )

    pair: Pair | None = None

    @sensitive_variables()
    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        text = cleaned.pop("private_key", "") or ""
        upload, passphrase = cleaned.pop("key_file", None), cleaned.pop("passphrase", "")
        if upload and text.strip():
            self.add_error("private_key", "Give the file or the text, not both.")
            return cleaned
        try:
            text = read_text(upload, "a private key") or text
        except ValidationError as problem:
            self.add_error("key_file", problem)
            return cleaned
        if not text.strip():
            self.add_error("key_file", "A credential is its key: choose its file or paste it.")
            return cleaned
        try:
            self.pair = read_pair(text, passphrase)
        except ValueError as problem:
            message = str(problem)
            field = "key_file" if upload else "private_key"
            self.add_error("passphrase" if "passphrase" in message.lower() else field, message)
        return cleaned


class CertificateForm(Styled, forms.Form):
    """The form of a certificate that an authority has made of the public key."""

    certificate_file = forms.FileField(
        label="Certificate, as a file", required=False, help_text="Its name ends in -cert.pub."
    )
    certificate = forms.CharField(
        label="or as text",
        widget=_text_area(WriteOnly, rows="3"),
        required=False,
    )

    def text(self) -> str:
        """Return the text that was sent; ValidationError if it is not text."""
        upload = self.cleaned_data.get("certificate_file")
        return read_text(upload, "a certificate") or str(self.cleaned_data.get("certificate") or "")


class ShareForm(Styled, forms.ModelForm):  # type: ignore[type-arg]
    """The form that decides who may use a credential, besides its owner."""

    class Meta:
        model = Credential
        fields = ("groups", "users")
        labels: ClassVar = {"users": "People", "groups": "Groups"}
        widgets: ClassVar = {
            "users": forms.CheckboxSelectMultiple,
            "groups": forms.CheckboxSelectMultiple,
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        people = self.fields["users"]
        assert isinstance(people, forms.ModelMultipleChoiceField)
        people.queryset = list_others(self.instance)
        for name in ("users", "groups"):
            field = self.fields[name]
            assert isinstance(field, forms.ModelMultipleChoiceField)
            field.required = False
            nobody = "There are none yet: a site administrator adds them."
            field.help_text = "" if field.queryset else nobody


def list_others(credential: Credential) -> QuerySet[User]:
    """Return whoever could be given leave."""
    active = User.objects.filter(is_active=True) | User.objects.filter(
        usable_credentials=credential
    )
    return active.exclude(pk=credential.owner_id).order_by("username").distinct()
