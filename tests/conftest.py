"""What every test process needs: Ctrl-C that works, also in the background; properties without a clock."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

# A shell starts background jobs with SIGINT ignored, and children inherit it: tests that send it would hang.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine makes an example slow, not wrong.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
