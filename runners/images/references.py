"""Names of images as people type them."""

import re
from dataclasses import dataclass

from runners.errors import Refused

WORD = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
REFERENCE = re.compile(
    r"(?:(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::\d{1,5})?|\[[0-9a-fA-F:]+\](?::\d{1,5})?)/)?"
    rf"(?P<repository>{WORD}(?:/{WORD})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


@dataclass(frozen=True)
class Reference:
    """The name of an image, as `docker pull` takes it. The digest wins over the tag."""

    host: str  # "docker.io", "localhost:5000"
    repository: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.host}/{self.repository}{tag}" + (f"@{self.digest}" if self.digest else "")

    @property
    def tag_or_digest(self) -> str:
        return self.digest or self.tag


def parse_reference(text: str) -> Reference:
    """Parse `docker://host/name:tag@sha256:...`; host and tag are optional. Raises Refused."""
    bare = re.sub(r"^(docker|oci|https?)://", "", text.strip())
    match = REFERENCE.fullmatch(bare)
    if not match:
        raise Refused(
            f"{text!r} is no reference of an image: it should look like "
            "docker://registry.example.org/group/name:tag, in small letters, without spaces."
        )
    host, repository = match["host"] or "", match["repository"]
    if host and not re.search(r"[.:\[]", host) and host != "localhost":
        host, repository = "", f"{host}/{repository}"  # "group/name" of the default registry
        if not re.fullmatch(rf"{WORD}(/{WORD})*", repository):
            raise Refused(f"{text!r} is no reference of an image: names are in small letters.")
    host = host or "docker.io"
    if host in ("docker.io", "index.docker.io"):
        host = "docker.io"
        repository = repository if "/" in repository else f"library/{repository}"
    tag, digest = match["tag"] or "", match["digest"] or ""
    return Reference(host, repository, tag or ("" if digest else "latest"), digest)
