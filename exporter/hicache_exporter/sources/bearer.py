"""The bearer token for engines that ask for one. It is read when it is used, so a rotated file needs no restart."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


class TokenError(RuntimeError):
    """The token can't be had; says where it was looked for, never what was found."""


@dataclass(frozen=True, slots=True)
class Bearer:
    """Where the token is: a file, or an environment variable. Never the token itself."""

    file: Path | None = None
    variable: str | None = None

    @property
    def place(self) -> str:
        return f"the token file {self.file}" if self.file is not None else f"the environment variable {self.variable}"

    def headers(self) -> dict[str, str]:
        """The header to send. Raises TokenError."""
        token = self._token()
        return {"Authorization": f"Bearer {token}"} if token is not None else {}

    def _token(self) -> str | None:
        if self.file is not None:
            try:
                token = self.file.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise TokenError(f"can't read {self.place}: {type(error).__name__}") from None
            return _usable(token, self.place)
        if self.variable is not None:
            return _usable(os.environ.get(self.variable, "").strip(), self.place)
        return None


def _usable(token: str, where: str) -> str:
    if not token:
        raise TokenError(f"{where} holds no token")
    if not (token.isascii() and token.isprintable()):
        raise TokenError(f"{where} holds characters that a header can't carry")
    return token
