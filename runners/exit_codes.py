"""The meanings of exit codes: those of shells and of `timeout`, and signals as 128 + n."""

from __future__ import annotations

import signal

CODES = {
    124: "ended by timeout: its time was up",
    126: "the program was found but could not be started",
    127: "the program was not found",
}
SIGNALS = {
    "SIGHUP": "its session ended",
    "SIGINT": "interrupted",
    "SIGILL": "illegal instruction: built for another processor?",
    "SIGABRT": "aborted by the program itself, as after a failed check",
    "SIGBUS": "bus error: a file or shared memory was too small",
    "SIGFPE": "arithmetic error",
    "SIGKILL": "killed, often because memory ran out",
    "SIGSEGV": "segmentation fault",
    "SIGPIPE": "nobody read its output",
    "SIGTERM": "asked to end, as when a job is cancelled or its time is up",
    "SIGXCPU": "its limit of processor time was reached",
    "SIGXFSZ": "its limit of file size was reached",
}


def describe_exit_code(code: int | None) -> str:
    """Return "137 (SIGKILL: killed, often because memory ran out)"; a dash for None.

    A code without a general meaning is returned by itself. Minus n, as Python has it, is signal n
    too.
    """
    if code is None:
        return "–"
    meaning = CODES.get(code) or _describe_signal(-code if code < 0 else code - 128)
    return f"{code} ({meaning})" if meaning else str(code)


def _describe_signal(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        return ""
    return f"{name}: {SIGNALS[name]}" if name in SIGNALS else f"ended by {name}"
