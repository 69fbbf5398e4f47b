"""Breakers for the requests of aiohttp, 3.12 or later, shared by all processes of the host.

    import aiohttp
    from shared_breaker.aiohttp import Middleware

    session = aiohttp.ClientSession(middlewares=[Middleware(max_failures=5, open_for=30)])
"""

from __future__ import annotations

from functools import cache

import aiohttp as _client

from . import _errors
from ._clients import Call, Calls, origin, with_credentials

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Unpack

    from aiohttp.client_middlewares import ClientHandlerType

    from ._breaker import Breaker
    from ._clients import ClientOptions

__all__ = ["Middleware", "Rejected", "account_of"]


class Rejected(_errors.Rejected, _client.ClientError):
    """A breaker rejected the request, which was not sent: an error of this package and of aiohttp."""


class Middleware:
    """Puts the requests of a session behind breakers, one for each host and port unless you say otherwise.

    ``breaker`` is one breaker for all requests, and ``name`` the name of a request's breaker, or a function that
    returns it. All else is what ``shared_breaker.breaker`` takes.
    """

    def __init__(
        self,
        *,
        breaker: Breaker | None = None,
        name: str | Callable[[_client.ClientRequest], str] | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        """Take the breakers."""
        # Errors of values are about the request: an address that is none, a header that cannot be sent.
        self._calls = Calls(breaker, name or _origin_of, {**options}, (ValueError,))

    async def __call__(self, request: _client.ClientRequest, handler: ClientHandlerType) -> _client.ClientResponse:
        """Send a request, if its breaker permits it."""
        try:
            call = await self._calls.begin_async(request)
        except _errors.Rejected as error:
            raise Rejected(*error.args) from None
        try:
            response = await handler(request)
        except BaseException as error:
            await call.ended_async(error)
            raise
        try:
            if await call.answered_async(response):
                _keep(call, response)
        except BaseException:
            response.close()
            raise
        return response


def account_of(request: _client.ClientRequest) -> str:
    """Return the name of the breaker for the host of a request and the account whose credentials it carries.

    Pass it as ``name=``. The name has a hash of ``Authorization`` or of an API key, and does not show them.
    """
    return with_credentials(_origin_of(request), request.headers)


def _origin_of(request: _client.ClientRequest) -> str:
    return origin(request.url.scheme, request.url.host, request.url.port)


@cache
def _kept(kind: Any) -> Any:
    """Return the class of an answer, changed so that the end of its body is the end of the call."""

    class Response(kind):  # type: ignore[misc]
        __slots__ = ()

        async def read(self) -> bytes:
            call: Call = self._shared_breaker_call
            call.is_awaited = True
            try:
                body: bytes = await super().read()
            except BaseException as error:
                await call.ended_async(error)
                raise
            finally:
                call.is_awaited = False
            await call.ended_async()
            return body

        def release(self) -> Any:
            self._end_call()
            return super().release()

        def close(self) -> None:
            self._end_call()
            super().close()

        def _end_call(self) -> None:
            # Only what has broken the body off is there before it is left.
            self._shared_breaker_call.end_soon(self.content.exception())

    Response.__name__, Response.__qualname__ = kind.__name__, kind.__qualname__
    return Response


def _keep(call: Call, response: Any) -> None:
    """Let a call last until the end of an answer's body."""
    if not isinstance(response, _client.ClientResponse) or hasattr(response, "_shared_breaker_call"):
        call.end_soon()  # of a test, or of a second middleware
        return
    kind: Any = type(response)
    response._shared_breaker_call = call  # type: ignore[attr-defined]
    response.__class__ = _kept(kind)
    # The client itself keeps an answer that is dropped until its body has come.
    response.content.on_eof(call.end_soon)
