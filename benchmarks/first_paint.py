"""The first contentful paint of pages of a large site, with a cold cache, and the web's memory.

python benchmarks/first_paint.py [RUNS]

Chromium opens each page in a new profile on loopback, from the web server as it is in production.
Then all pages are fetched once, and the memory of the web process is read.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BASE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BASE))

from benchmarks.large_site import RUNS
from benchmarks.pages import prepare_site
from benchmarks.servers import run_servers, run_web
from benchmarks.site_pages import SORTED, Address, list_addresses

TIMES = 5
PAINT_GOAL, MEMORY_GOAL = 500, 200
FIRST_PAINT = """() => new Promise((resolve) => {
  const find = () => performance.getEntriesByName("first-contentful-paint")[0];
  const wait = () => (find() ? resolve(find().startTime) : setTimeout(wait, 5));
  wait();
})"""
LAST_BYTE = "() => performance.getEntriesByType('navigation')[0].responseEnd"


def main() -> None:
    with run_servers() as folder:
        person, _ = prepare_site(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS)
        addresses = list(list_addresses(person))
        with run_web(folder) as (base, pid):
            measure(base, pid, person, addresses)


def measure(base: str, pid: int, person: Any, addresses: list[Address]) -> None:
    """Print the paint of some pages, and the memory after all of them."""
    cookies = log_in(person)
    shown = choose_pages(addresses)
    print(f"{f'ms with a cold cache, median of {TIMES}':60}{'last byte':>12}{'paint':>10}")
    with open_browser() as browser:
        for path in shown:
            took = [measure_paint(browser, base, path, cookies) for _ in range(TIMES)]
            last_byte, paint = (statistics.median(values) for values in zip(*took, strict=True))
            print(f"{path[:60]:60}{last_byte:12.0f}{paint:10.0f}  goal {PAINT_GOAL}")
    statuses = [
        fetch_status(base + address.path, cookies, address.headers) for address in addresses
    ]
    family = list_family(pid)
    sizes = [read_memory(process) for process in family]
    shares = [read_share(process) for process in family]
    print(f"{statuses.count(200)} of {len(statuses)} addresses fetched")
    print(f"memory of the web processes: {sizes} MB; the goal of one is {MEMORY_GOAL} MB")
    print(f"of these their own, and their share of pages of libraries (PSS): {shares} MB")


def choose_pages(addresses: list[Address]) -> list[str]:
    """Return the pages that are painted: lists, one experiment, comparisons, and curves."""
    of_many = [each.path for each in addresses if each.kind == "comparison"][:1]
    of_curves = [each.path for each in addresses if each.kind == "curves"]
    paths = [each.path for each in addresses if each.kind == "page"]
    comparison = next(path for path in paths if path.endswith("/comparison/"))
    experiment = comparison.removesuffix("comparison/")
    lists = ["/", "/experiments/", SORTED, "/clusters/"]
    return [*lists, experiment, comparison, *of_many, *of_curves]


def log_in(person: Any) -> dict[str, str]:
    """Return the cookies of a session of this person."""
    from django.test import Client

    client = Client()
    client.force_login(person)
    return {name: cookie.value for name, cookie in client.cookies.items()}


@contextmanager
def open_browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    # Django would refuse statements beside Playwright's event loop.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    names = ("chromium-headless-shell", "chromium", "chromium-browser")
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if path is None:
        raise SystemExit("This needs Chromium: apt-get install chromium-headless-shell.")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


def measure_paint(
    browser: Any, base: str, path: str, cookies: dict[str, str]
) -> tuple[float, float]:
    """Return the ms until the page's last byte, and until its first contentful paint."""
    context = open_profile(browser, base, cookies)
    page = context.new_page()
    page.goto(base + path, wait_until="load", timeout=120_000)
    paint, last_byte = page.evaluate(FIRST_PAINT), page.evaluate(LAST_BYTE)
    context.close()
    return last_byte, paint


def open_profile(browser: Any, base: str, cookies: dict[str, str]) -> Any:
    """Return a new profile, whose cache is empty, with these cookies."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    if cookies:
        context.add_cookies(
            [{"name": name, "value": value, "url": base} for name, value in cookies.items()]
        )
    return context


def fetch_status(address: str, cookies: dict[str, str], headers: dict[str, str]) -> int:
    cookie = "; ".join(f"{name}={value}" for name, value in cookies.items())
    request = urllib.request.Request(
        address, headers={"Cookie": cookie, "Accept-Encoding": "gzip", **headers}
    )
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            answer.read()
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def list_family(pid: int) -> list[int]:
    """Return a process and all that descend from it."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue
        parent = int(text.rpartition(")")[2].split()[1])
        parents.setdefault(parent, []).append(int(path.parent.name))
    family = [pid]
    for member in family:
        family += parents.get(member, [])
    return family


def read_memory(pid: int) -> int:
    """Return the resident memory of a process in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) // 1000


def read_share(pid: int) -> int:
    """Return the memory of a process in MB, of pages that several share its part alone."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(rollup.partition("Pss:")[2].split()[0]) // 1000


if __name__ == "__main__":
    main()
