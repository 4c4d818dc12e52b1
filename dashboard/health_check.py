"""Exit 0 if what runs in this container works, else 1 with the reason: a container's health check.

    python dashboard/health_check.py web     the web server answers, and the database does
    python dashboard/health_check.py alive   the file of $ALIVE_PATH is not out of date

It starts every few seconds, so it loads no Django, which takes a second of the processor.
"""

from __future__ import annotations

import http.client
import os
import sys
import time

PORT = 8000
SECONDS = 8


def main(arguments: list[str]) -> int:
    """Run the named check and print what is wrong."""
    checks = {"web": check_web, "alive": check_alive}
    if len(arguments) != 1 or arguments[0] not in checks:
        print(__doc__)
        return 2
    problem = checks[arguments[0]]()
    print(problem or "ok")
    return 1 if problem else 0


def check_web(port: int = PORT) -> str:
    """Return what is wrong with the web server; "" for nothing."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        # As a proxy that speaks HTTPS would ask: a site may answer nothing else.
        headers = {"Host": choose_host(), "X-Forwarded-Proto": "https"}
        connection.request("GET", "/healthz/", headers=headers)
        answer = connection.getresponse()
        text = answer.read(1000).decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return f"The web server does not answer: {error!r}"
    finally:
        connection.close()
    return "" if answer.status == 200 else f"The web server answers {answer.status}: {text}"


def choose_host() -> str:
    """Return a name under which this site may be asked."""
    name = os.environ.get("ALLOWED_HOSTS", "").split(",")[0].strip().lstrip(".")
    return "localhost" if name in ("", "*") else name


def check_alive() -> str:
    """Return what is wrong with a worker or the clock, by its file; "" for nothing."""
    path = os.environ.get("ALIVE_PATH", "")
    try:
        late = time.time() - os.stat(path).st_mtime
    except OSError as error:
        return f"It has not begun to work: {error}"
    return f"The last sign of life should have been renewed {late:.0f} s ago." if late > 0 else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
