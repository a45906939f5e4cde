"""Tests on whatever machine, however they were started."""

import signal

from hypothesis import HealthCheck, settings

# How long an example takes on a busy machine says nothing about the code.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

# A shell that starts us in the background has Ctrl-C ignored, by us and by all that we start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
