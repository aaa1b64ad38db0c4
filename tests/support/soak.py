"""Whether this is a long run (``make soak``), which tries more than others have the time for."""

from __future__ import annotations

import os
from typing import Final

SOAK: Final = "MOLDAU_SOAK" in os.environ
