"""Who may ask our server: TLS, client certificates and users, as the web config file says."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import logging
import ssl
from collections import OrderedDict
from pathlib import Path

import bcrypt
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from hicache_exporter.web_config import WebConfig, WebConfigError, fill_context, read_web_config

log = logging.getLogger(__name__)

REMEMBERED = 100
NOBODY = "$2b$12$Z3PW5N33FybELk/ALrC/s.kg9Du4zSDRP6tlS0WJ0vBN2SdghbOQO"  # checked for users that there are not
REALM = {hdrs.WWW_AUTHENTICATE: 'Basic realm="hicache-witness"'}


class WebSecurity:
    """Without a file everybody may ask, unencrypted: the server listens on this machine only, unless told otherwise."""

    def __init__(self, path: Path | None) -> None:
        """Raises WebConfigError."""
        self._path = path
        self._config = read_web_config(path) if path is not None else WebConfig()
        self._good: OrderedDict[bytes, None] = OrderedDict()
        self.context: ssl.SSLContext | None = None
        if path is not None and self._config.tls_server_config is not None:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            fill_context(self.context, self._config.tls_server_config, path.parent)

    def reload(self) -> None:
        """Read the file again. If it is bad the last good one stays in use, and the log says so."""
        if self._path is None:
            return
        try:
            config = read_web_config(self._path)
            if (config.tls_server_config is None) != (self.context is None):
                raise WebConfigError("TLS can't be switched on or off without a restart")
            if self.context is not None and config.tls_server_config is not None:
                fill_context(self.context, config.tls_server_config, self._path.parent)
        except WebConfigError as error:
            log.warning("the web config was not read again: %s", error)
            return
        self._config = config

    @web.middleware
    async def authenticate(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        users = self._config.basic_auth_users
        if users and not await self._known(request.headers.get(hdrs.AUTHORIZATION, ""), users):
            return web.Response(status=401, text="unauthorized\n", headers=REALM)
        return await handler(request)

    async def _known(self, header: str, users: dict[str, str]) -> bool:
        """Checking is slow on purpose: it runs on a thread, and what was right is remembered (as a hash)."""
        name, password = _credentials(header)
        hashed = users.get(name)
        key = hashlib.sha256(f"{name}\0{password}\0{hashed}".encode()).digest()
        if key in self._good:
            return True
        right = await asyncio.to_thread(_matches, password, hashed or NOBODY)
        if not right or hashed is None:
            return False
        self._good[key] = None
        if len(self._good) > REMEMBERED:
            self._good.popitem(last=False)
        return True


def _credentials(header: str) -> tuple[str, str]:
    """("", "") where there are none."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return name, password


def _matches(password: str, hashed: str) -> bool:
    try:
        return bcrypt.checkpw(password.encode()[:72], hashed.encode())
    except ValueError:
        return False
