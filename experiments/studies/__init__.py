"""Studies: several experiments that answer one question, made, changed and written together."""
