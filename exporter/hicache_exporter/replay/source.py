"""What can be replayed: a session in a file, or a folder of recorded rings, with or without a session beside them."""

from __future__ import annotations

import lzma
import zlib
from pathlib import Path

from hicache_dashboards.session.model import Recording, read
from hicache_dashboards.session.tape import recorded

RINGS = ("*.ring", "*.ring.gz")
UNREADABLE = (
    OSError,
    EOFError,
    zlib.error,
    ValueError,
    TypeError,
    KeyError,
    RecursionError,
    OverflowError,
)
"""What reading a file that is no session, or a damaged one, may raise."""


class NothingToReplayError(Exception):
    """One sentence for the user."""


def recording(path: Path) -> Recording:
    """Raises NothingToReplayError."""
    try:
        return _of_folder(path) if path.is_dir() else read(path)
    except lzma.LZMAError:
        what = "a session is a *.xz file, as those in deploy/sessions; for recorded rings name their folder"
        raise NothingToReplayError(f"{path} is no recorded session, or a damaged one: {what}") from None
    except UNREADABLE as error:
        raise NothingToReplayError(f"{path} is no recorded session: {error}") from None


def _of_folder(path: Path) -> Recording:
    """A copy of a ring folder, as it is made after an incident."""
    rings = [file for pattern in RINGS for file in sorted(path.glob(pattern))]
    sessions = sorted(path.glob("*.xz"))
    if len(sessions) > 1:
        raise NothingToReplayError(f"{path} holds {len(sessions)} sessions (*.xz): name one of them")
    if not rings and not sessions:
        raise NothingToReplayError(f"{path} holds no session (*.xz) and no recorded ring ({', '.join(RINGS)})")
    told = read(sessions[0]) if sessions else Recording([])
    return Recording(told.frames, (*told.rings, *map(recorded, rings)), told.begin_ns)
