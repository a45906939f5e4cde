"""What can go wrong with the demo engine. Every text says what failed and what to look at, in a form for a person."""


class DemoError(Exception):
    """Base of those below."""


class SetupError(DemoError):
    """Its environment could not be installed."""


class NotInstalledError(DemoError):
    """Our own project runs from a checkout that was never installed, and so has no entry point to offer."""


class EngineError(DemoError):
    """The server did not start, or it died. The text ends with the last lines of its log."""


class EndedError(DemoError):
    """Something of what was kept running ended by itself. The text ends with the last lines of its log."""


class SidecarError(DemoError):
    """The sidecar did not start. The text ends with the last lines of its log."""
