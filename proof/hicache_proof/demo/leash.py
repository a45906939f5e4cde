"""Runs a command for as long as the process that asked for it lives. ``python leash.py COMMAND...``

Our stdin is a pipe whose other end only the asker holds. While it is open the command runs. When it closes, because
the asker closed it or died, even by SIGKILL, the command and all its descendants are asked to end, then made to. The
byte ``9`` on it means: kill them now. A thread may ask and end: the asker's process counts, not the thread
(PR_SET_PDEATHSIG goes by the thread). The command's process group is printed first; its output goes to our stderr.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time

GRACE = 1.0
"""Seconds from SIGTERM to SIGKILL."""
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

libc = ctypes.CDLL(None, use_errno=True)


def main(command: list[str]) -> int:
    # Orphans of the command become our children, so none is left as a zombie.
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        start_new_session=True,
        preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),
    )
    signal.signal(signal.SIGTERM, lambda *_: end(child, signal.SIGTERM))
    print(child.pid, flush=True)
    readable, _, _ = select.select([0, os.pidfd_open(child.pid)], [], [])
    kill = 0 in readable and os.read(0, 1) == b"9"
    end(child, signal.SIGKILL if kill else signal.SIGTERM)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def end(child: subprocess.Popen[bytes], gently: signal.Signals) -> None:
    """Signal the child's whole group, SIGKILL it when the grace is over, and come back when nobody is left."""
    deadline = time.monotonic() + GRACE
    number: int = gently
    while _signal_group(child.pid, number):
        _reap(child)
        number = signal.SIGKILL if time.monotonic() > deadline else 0
        time.sleep(0.02)


def _signal_group(group: int, number: int) -> bool:
    """Whether anybody is left in the group."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


def _reap(child: subprocess.Popen[bytes]) -> None:
    child.poll()
    if child.returncode is None:
        return  # Popen must be the one that collects it
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
