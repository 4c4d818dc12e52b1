"""How the tests of published tables hand one in, and read what the page makes of it."""

from __future__ import annotations

import json
from typing import Any

from django.test import Client
from django.urls import reverse

from experiments.models import PublishedTable

NEW = "/compare/tables/new/"

# BIDS'19, Table 3: training times of a container study, mean and SE of 3 runs.
TABLE_3 = """gpus,environment,mean_s,standard_error_s,runs
1,baremetal,3710,10,3
1,uDocker,3730,10,3
2,baremetal,2390,30,3
2,uDocker,2360,16,3
4,baremetal,1860,40,3
4,uDocker,1880,10,3
"""
WIDE = "model,gpus,official,udocker\nResNet50,1,51,56\nAlexNet,1,639,604\n"
CLOCK = "machine,epochs,gpus,top_1,time_hh_mm\none,5,1,0.36,33:45\ntwo,10,1,0.53,30:23\n"
LAUNCHERS = "launcher,gpus,data,images_per_second\nplain,1,a,118\nplain,2,a,225\nother,2,b,252\n"


def fields(text: str, **more: Any) -> dict[str, Any]:
    return {"text": text, "margin": "2", "visibility": "members", **more}


def shown(client: Client, text: str, **more: Any) -> Any:
    """Return the page that shows what is read."""
    return client.post(NEW, fields(text, action="preview", **more))


def said_on(page: Any) -> dict[str, str]:
    """Return what a browser would send back of the columns as they are shown."""
    found = page.context["form"]
    sent = {"said": found.said, "baseline": found.preview.baseline}
    for place, column in enumerate(found.preview.columns):
        sent |= {
            f"name-{place}": column.name,
            f"shown-{place}": column.role,
            f"role-{place}": column.role,
        }
    return sent


def chosen(page: Any, **roles: str) -> dict[str, str]:
    """Return the same with other roles for the columns named."""
    sent = said_on(page)
    for place, column in enumerate(page.context["form"].preview.columns):
        if column.name in roles:
            sent[f"role-{place}"] = roles[column.name]
    return sent


def kept(client: Client, text: str, **more: Any) -> PublishedTable:
    """Show, then keep."""
    sent = said_on(shown(client, text, **more)) | more
    answer = client.post(NEW, fields(text, **{"action": "save", **sent}))
    assert answer.status_code == 302, answer.context["form"].errors
    row = PublishedTable.objects.get()
    assert answer["Location"] == row.get_absolute_url()
    return row


def document(client: Client, row: PublishedTable) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(client.get(reverse("table_json", args=[row.pk])).content)
    return found


def problem(page: Any) -> str:
    """Return what the page says is wrong; it is on the page, and nothing was kept."""
    found: str = page.context["form"].preview.problem
    assert 'class="problem mb-1"' in page.content.decode()
    assert not PublishedTable.objects.exists()
    return found


def kept_from(client: Client, page: Any, text: str) -> PublishedTable:
    answer = client.post(NEW, fields(text, action="save", **said_on(page)))
    assert answer.status_code == 302, answer.context["form"].errors
    return PublishedTable.objects.get()
