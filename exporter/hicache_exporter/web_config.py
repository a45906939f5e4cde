"""TLS and basic authentication for our own server, from a web config file of the Prometheus exporter-toolkit's form.

::

    tls_server_config:
      cert_file: server.crt
      key_file: server.key
      client_auth_type: RequireAndVerifyClientCert   # NoClientCert, VerifyClientCertIfGiven
      client_ca_file: ca.crt
      min_version: TLS12                             # TLS13
    basic_auth_users:
      prometheus: $2b$12$...                         # bcrypt, as htpasswd -nBC 12 makes them

Paths are relative to the file. It is read again on SIGHUP: new connections get the new certificate and users.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Literal

import msgspec

CLIENT_AUTH = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
BCRYPT_PREFIXES = ("$2a$", "$2b$", "$2y$")


class WebConfigError(ValueError):
    """The message is one sentence that names the file and says what to do."""


class TlsServerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cert_file: str
    key_file: str
    client_auth_type: Literal["NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"] = "NoClientCert"
    client_ca_file: str | None = None
    min_version: Literal["TLS12", "TLS13"] = "TLS12"


class WebConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tls_server_config: TlsServerConfig | None = None
    basic_auth_users: dict[str, str] = {}


def read_web_config(path: Path) -> WebConfig:
    """Raises WebConfigError; its message never quotes the file, which holds password hashes."""
    try:
        config = msgspec.yaml.decode(path.read_bytes() or b"{}", type=WebConfig)
    except OSError as error:
        raise WebConfigError(f"web config {path}: {error.strerror}") from None
    except msgspec.ValidationError as error:
        raise WebConfigError(f"web config {path}: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise WebConfigError(f"web config {path} is no YAML") from None
    for user, hashed in config.basic_auth_users.items():
        if not hashed.startswith(BCRYPT_PREFIXES):
            raise WebConfigError(f"web config {path}: the password of {user!r} is no bcrypt hash (htpasswd -nBC 12)")
    return config


def fill_context(context: ssl.SSLContext, tls: TlsServerConfig, folder: Path) -> None:
    """Load certificates into a context, also into one in use. Raises WebConfigError."""
    if tls.client_auth_type != "NoClientCert" and tls.client_ca_file is None:
        raise WebConfigError(f"client_auth_type {tls.client_auth_type} needs a client_ca_file")
    for name in (tls.cert_file, tls.key_file, tls.client_ca_file):
        if name is not None:
            _check_readable(folder / name)
    try:
        context.load_cert_chain(folder / tls.cert_file, folder / tls.key_file)
        if tls.client_ca_file is not None:
            context.load_verify_locations(folder / tls.client_ca_file)
    except OSError as error:
        reason = error.strerror or getattr(error, "reason", "") or "not usable"
        files = ", ".join(name for name in (tls.cert_file, tls.key_file, tls.client_ca_file) if name is not None)
        raise WebConfigError(f"can't load the certificates {files} in {folder}: {reason}") from None
    context.minimum_version = VERSIONS[tls.min_version]
    context.verify_mode = CLIENT_AUTH[tls.client_auth_type]


def _check_readable(file: Path) -> None:
    """OpenSSL does not say which file it could not open."""
    try:
        file.open("rb").close()
    except OSError as error:
        raise WebConfigError(f"can't read {file}, which the web config names: {error.strerror}") from None
