"""Certificates of one's own: OpenSSL passes over a file that it cannot read, and then trusts nobody."""

from __future__ import annotations

import os
import ssl
from urllib.parse import urlsplit

from engines.contract import EngineError

VARIABLE = "SSL_CERT_FILE"


def check_certificates(url: str) -> None:
    """Before an https `url` is used. EngineError: what SSL_CERT_FILE names holds no certificates."""
    path = os.environ.get(VARIABLE)
    if not path or urlsplit(url).scheme != "https":
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except OSError as error:
        reason = "no certificate in it" if isinstance(error, ssl.SSLError) else error.strerror
        raise EngineError(
            f"{VARIABLE} {path}: cannot be read; give a file of PEM certificates, or unset it ({reason})"
        ) from None
