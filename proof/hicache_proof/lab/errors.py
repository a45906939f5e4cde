"""Why a run ends without a verdict."""

from __future__ import annotations


class CannotRunError(Exception):
    """The experiment could not be carried out; its text is one sentence for the user that says what to do next."""


class PreconditionError(CannotRunError):
    """The engine never got into the state that the next series needs, so no series after it would mean anything."""


class VoidRunError(CannotRunError):
    """A series broke a negative control, so the whole run proves nothing in either direction."""
