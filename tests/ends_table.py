"""The table of `docs/how-runs-end.md`, from `runners.ends`.

After a change that is meant, write it anew with `python -m tests.ends_table`.
"""

from __future__ import annotations

from runners.ends import CAUSES, ENDS
from tests.source_tree import BASE

DOCUMENT = BASE / "docs" / "how-runs-end.md"
BEGIN, END = "<!-- the table of runners/ends.py -->\n", "<!-- its end -->\n"


def render_table() -> str:
    """Return the table in Markdown."""
    lines = ["| reason | what it means | cause | what you can do | again by rule |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for reason, end in ENDS.items():
        again = "yes" if end.by_rule else ""
        cells = (f"*{reason}*", end.meaning, end.cause, end.advice, again)
        lines.append(f"| {' | '.join(cells)} |".replace("|  |", "| |"))
    causes = [f"- **{cause}**: {meaning}" for cause, meaning in CAUSES.items()]
    return "\n".join([*lines, "", "The causes:", "", *causes, ""])


def replace_table(document: str) -> str:
    """Return the document with the table as it should be."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{render_table()}\n{END}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(replace_table(DOCUMENT.read_text()))
