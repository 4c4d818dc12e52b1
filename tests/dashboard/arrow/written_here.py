"""Files of tables, written in the process of the tests: hundreds of them in a second."""

from __future__ import annotations

from io import BytesIO

from dashboard.arrow.arrow_files import Ending
from dashboard.arrow.table_frames import ANSWERED, END_OF_TABLE, PIECE, read_frame, write_frame
from dashboard.arrow.write_table_file import write_answers
from dashboard.arrow.writing_process import send_head, send_rows
from experiments.comparisons.typed_tables import CopiedTable, TypedTable


def write_here(table: TypedTable | CopiedTable, ending: Ending) -> bytes:
    """Return the file that the program would write, which is asked once, at the table's end."""
    sent, answered = BytesIO(), BytesIO()
    send_head(table, ending, sent)
    for _ in send_rows(table, sent):
        pass
    write_frame(sent, END_OF_TABLE)
    sent.seek(0)
    write_answers(sent, answered)
    answered.seek(0)
    pieces = []
    while (frame := read_frame(answered))[0] == PIECE:
        pieces.append(frame[1])
    assert frame == (ANSWERED, b"")
    assert not answered.read()
    return b"".join(pieces)
