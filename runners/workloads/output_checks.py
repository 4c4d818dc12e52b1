"""Checks by a user's patterns whether a program's output says that its run went well. No I/O.

The output and the file to read are searched, of each what was fetched: of more than 64 MiB the end.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from runners.directories import END
from runners.workloads.findings import quote_end
from runners.workloads.patterns import PatternError, find_first_match, normalize_lines
from runners.workloads.reading import OUTPUT
from runners.workloads.results import SanityError

LONGEST_QUOTE = 200


def check_output(run_files: Mapping[str, bytes], parameters: Mapping[str, Any]) -> None:
    """Raise SanityError if the failure pattern matches, or the success pattern does not.

    Parameters from before there were such patterns have none.
    """
    success, failure = (parameters.get(f"{name}_pattern") for name in ("success", "failure"))
    if not (success or failure):
        return
    texts = dict(_list_texts(run_files, parameters))
    try:
        for name, text in texts.items():
            if failure and (span := find_first_match(failure, text)):
                number, line = quote_line(text, span)
                raise SanityError(
                    f"line {number} of {name} matches the failure pattern {failure}: {line}"
                )
        if success and not any(find_first_match(success, text) for text in texts.values()):
            searched = " and ".join(texts) or OUTPUT
            raise SanityError(
                f"the success pattern {success} matches nothing in {searched}. "
                f"{quote_end(next(reversed(texts.values()), ''))}"
            )
    except PatternError as error:  # the form refuses such patterns, other ways in may not
        raise SanityError(f"a pattern of success or failure: {error}") from None


def quote_line(text: str, span: tuple[int, int]) -> tuple[int, str]:
    """Return the number, from 1, and the text of the line in which a match begins."""
    start = text.rfind("\n", 0, span[0]) + 1
    end = text.find("\n", span[0])
    line = text[start : len(text) if end < 0 else end].strip()
    return text.count("\n", 0, span[0]) + 1, line[:LONGEST_QUOTE]


def _list_texts(
    run_files: Mapping[str, bytes], parameters: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    for name in dict.fromkeys((OUTPUT, parameters["file"] or OUTPUT)):
        content = run_files.get(name, run_files.get(name + END))
        if content is not None:
            yield name, normalize_lines(content)
