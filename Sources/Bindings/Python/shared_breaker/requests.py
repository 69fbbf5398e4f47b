"""Breakers for the requests of requests, shared by all processes of the host.

    import requests
    from shared_breaker.requests import Adapter

    session = requests.Session()
    session.mount("https://", Adapter(max_failures=5, open_for=30))
"""

from __future__ import annotations

from functools import cache
from urllib.parse import urlsplit

import requests as _client
from requests.adapters import BaseAdapter, HTTPAdapter
from requests.exceptions import InvalidHeader, InvalidSchema, InvalidURL, MissingSchema
from urllib3 import HTTPResponse
from urllib3.exceptions import HTTPError
from urllib3.util import parse_url

from . import _errors
from ._clients import Call, Calls, Errors, origin, with_credentials

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Unpack

    from ._breaker import Breaker
    from ._clients import ClientOptions

__all__ = ["Adapter", "Busy", "Rejected", "account_of"]


def _targets_of(url: Any) -> tuple[str, ...]:
    parts = urlsplit(str(url))
    # The client encodes it once more where it says what has failed.
    return f"{parts.path}?{parts.query}" if parts.query else parts.path, parse_url(str(url)).request_uri


# A request that cannot be sent is the caller's own mistake, and so is an OSError of its files: of a certificate that is
# missing, or of a body that cannot be read.
_ERRORS = Errors(
    (_client.RequestException, HTTPError, ConnectionError, TimeoutError),
    (InvalidHeader, InvalidSchema, InvalidURL, MissingSchema), _targets_of)


class Rejected(_errors.Rejected, _client.RequestException):
    """A breaker rejected the request, which was not sent: an error of this package and of requests."""

    def __init__(self, *args: Any) -> None:
        # The class OSError, from which those of requests come, would take two of these for a number and its text.
        self.args = args
        self.request = self.response = None


class Busy(Rejected, _errors.Busy):
    """There was no room for the request, which was not sent."""


class Adapter(BaseAdapter):
    """Puts the requests of a session behind breakers, one for each host and port unless you say otherwise.

    It wraps an ``HTTPAdapter``, or the adapter that you give. ``breaker`` is one breaker for all requests, and
    ``name`` the name of a request's breaker, or a function that returns it. All else is what
    ``shared_breaker.breaker`` takes.
    """

    def __init__(
        self,
        wrapped: BaseAdapter | None = None,
        *,
        breaker: Breaker | None = None,
        name: str | Callable[[_client.PreparedRequest], str] | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        """Take the adapter to wrap, and the breakers."""
        super().__init__()
        self._calls = Calls(breaker, name, _origin_of, {**options}, _ERRORS)
        self._wrapped = HTTPAdapter() if wrapped is None else wrapped

    def send(self, request: _client.PreparedRequest, *args: Any, **options: Any) -> _client.Response:
        """Send a request, if its breaker permits it."""
        try:
            call = self._calls.begin(request)
        except _errors.Rejected as error:
            rejected = error.into(Rejected, Busy)
            rejected.request = request
            raise rejected from None
        try:
            response = self._wrapped.send(request, *args, **options)
        except BaseException as error:
            call.ended(error)
            raise
        # A second request with a password goes the same way.
        response.connection = self  # type: ignore[assignment]
        try:
            if call.answered(response):
                _keep(call, response.raw)
        except BaseException:
            response.close()
            raise
        return response

    def close(self) -> None:
        """Close the adapter that is wrapped."""
        self._wrapped.close()


def account_of(request: _client.PreparedRequest) -> str:
    """Return the name of the breaker for the host of a request and the account whose credentials it carries.

    Pass it as ``name=``. The name has a hash of ``Authorization`` or of an API key, and does not show them.
    """
    return with_credentials(_origin_of(request), request.headers)


def _origin_of(request: _client.PreparedRequest) -> str:
    url = urlsplit(str(request.url))
    return origin(url.scheme, url.hostname, url.port)


@cache
def _kept(kind: Any) -> Any:
    """Return the class of an answer's body, changed so that its end is the end of the call."""

    class Body(kind):  # type: ignore[misc]
        __slots__ = ()

        def stream(self, *args: Any, **options: Any) -> Iterator[bytes]:
            return self._parts(super().stream(*args, **options))

        def read_chunked(self, *args: Any, **options: Any) -> Iterator[bytes]:
            return self._parts(super().read_chunked(*args, **options))

        def _parts(self, parts: Iterator[bytes]) -> Iterator[bytes]:
            try:
                yield from parts
            except GeneratorExit:  # it is closed next
                raise
            except BaseException as error:
                self._shared_breaker_call.ended(error)
                raise
            self._shared_breaker_call.ended()

        def read(self, *args: Any, **options: Any) -> bytes:
            return self._read(super().read, *args, **options)

        def read1(self, *args: Any, **options: Any) -> bytes:
            return self._read(super().read1, *args, **options)

        def _read(self, read: Callable[..., bytes], *args: Any, **options: Any) -> bytes:
            try:
                part = read(*args, **options)
            except BaseException as error:
                self._shared_breaker_call.ended(error)
                raise
            if self.closed:
                self._shared_breaker_call.ended()
            return part

        def _update_chunk_length(self) -> None:
            # The client closes a body that was cut off before it says so.
            call: Call = self._shared_breaker_call
            call.is_awaited = True
            try:
                super()._update_chunk_length()
            finally:
                call.is_awaited = False

        def close(self) -> None:
            try:
                super().close()
            finally:
                if not self._shared_breaker_call.is_awaited:
                    self._shared_breaker_call.ended()

        def __del__(self) -> None:
            # A body that is dropped is closed, too, and gives its permit back.
            self._shared_breaker_call.is_awaited = True
            super().__del__()

    Body.__name__, Body.__qualname__ = kind.__name__, kind.__qualname__
    return Body


def _keep(call: Call, body: Any) -> None:
    """Let a call last until the end of a body."""
    if not isinstance(body, HTTPResponse) or body.closed:
        call.ended()  # of an adapter that has read it
        return
    # An adapter may be behind another one.
    call.inner = getattr(body, "_shared_breaker_call", None)
    if call.inner is None:
        body.__class__ = _kept(type(body))
    body._shared_breaker_call = call  # type: ignore[attr-defined]
