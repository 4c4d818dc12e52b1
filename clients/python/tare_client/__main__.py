"""`python -m tare_client`: the command tare."""

from __future__ import annotations

import sys

from tare_client.command_line import main

sys.exit(main())
