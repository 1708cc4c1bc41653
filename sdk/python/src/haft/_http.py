"""JSON over HTTP with the standard library: one connection for each thread, kept open."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import threading
import urllib.parse
from collections.abc import Mapping
from typing import Any

DEFAULT_URL = "http://127.0.0.1:7800"


class Unreachable(Exception):
    """The server could not be reached, or the connection broke before it answered."""


class Answer:
    """A status and a body."""

    def __init__(self, status: int, body: Any, headers: Mapping[str, str]) -> None:
        self.status = status
        self.body = body
        self.headers = headers

    @property
    def message(self) -> str:
        """Why the request was refused."""
        error = self.body.get("error") if isinstance(self.body, dict) else None
        return str(error.get("message", "")) if isinstance(error, dict) else str(self.body)

    @property
    def code(self) -> str:
        """The stable code of a refusal, if it has one."""
        error = self.body.get("error") if isinstance(self.body, dict) else None
        details = error.get("details") if isinstance(error, dict) else None
        return str(details.get("code", "")) if isinstance(details, dict) else ""


class Server:
    """One server, as any number of threads talk to it."""

    def __init__(self, url: str, key: str | None) -> None:
        self.url = url.rstrip("/")
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"expected a URL such as {DEFAULT_URL}, found {url!r}")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._prefix = parts.path
        self._key = key
        self._local = threading.local()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float = 30.0,
        raw: bytes | None = None,
    ) -> Answer:
        """Sends a request and reads the whole answer."""
        sent: dict[str, str] = {"content-type": "application/json", **(headers or {})}
        if self._key:
            sent["x-api-key"] = self._key
        data = raw if raw is not None else (None if body is None else json.dumps(body).encode())
        if data is None and method == "POST":
            data = b"{}"
        connection = self._connection(timeout)
        is_broken = False
        try:
            try:
                connection.request(method, self._prefix + path, body=data, headers=sent)
            except (BrokenPipeError, ConnectionResetError):
                # What is refused may be refused before all of it was read.
                is_broken = True
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._drop()
            raise Unreachable(f"{self.url}: {error or type(error).__name__}") from error
        if is_broken:
            self._drop()
        kind = response.headers.get("content-type", "")
        try:
            read: Any = json.loads(text) if "json" in kind and text else text
        except ValueError as error:
            raise Unreachable(f"{self.url}: its answer is no JSON") from error
        return Answer(response.status, read, dict(response.headers.items()))

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        kept: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if kept is None:
            kept = self._connect(timeout)
            self._local.connection = kept
        if kept.sock is not None:
            kept.sock.settimeout(timeout)
        kept.timeout = timeout
        return kept

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        if not self._secure:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        trusted = ssl.create_default_context(cafile=os.environ.get("HAFT_CA_FILE"))
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=trusted)

    def _drop(self) -> None:
        kept: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        self._local.connection = None
        if kept is not None:
            kept.close()


def default_urls(url: str | list[str] | tuple[str, ...] | None) -> list[str]:
    """Reads the servers: as given, else from ``HAFT_URL`` (several with commas), else this machine."""
    if isinstance(url, (list, tuple)):
        return list(url)
    text = url or os.environ.get("HAFT_URL") or DEFAULT_URL
    return [part.strip() for part in text.split(",") if part.strip()]


def default_key(key: str | None) -> str | None:
    """Reads the key: as given, else from ``HAFT_API_KEY``."""
    return key or os.environ.get("HAFT_API_KEY")
