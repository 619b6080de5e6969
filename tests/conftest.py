"""What every test process needs: Ctrl-C that works, and properties without clock or dice."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

# A shell starts background jobs with SIGINT ignored, and children inherit it: tests that send it would hang.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine makes an example slow, not wrong, and a gate says the same of the same code. Other examples:
# pytest --hypothesis-profile explore
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("gate", settings.get_profile("explore"), derandomize=True)
settings.load_profile("gate")
