"""What every test process needs: Ctrl-C that works, also where the suite was started in the background."""

from __future__ import annotations

import signal

# A shell starts background jobs with SIGINT ignored, and children inherit it: tests that send it would hang.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
