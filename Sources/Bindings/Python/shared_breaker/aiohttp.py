"""Breakers for the requests of aiohttp, 3.12 or later, shared by all processes of the host.

    import aiohttp
    from shared_breaker.aiohttp import Middleware

    session = aiohttp.ClientSession(middlewares=[Middleware(max_failures=5, open_for=30)])
"""

from __future__ import annotations

from asyncio import CancelledError
from contextvars import ContextVar
from functools import cache

import aiohttp as _client

from . import _errors
from ._clients import Call, Calls, Errors, origin, with_credentials

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Unpack

    from aiohttp.client_middlewares import ClientHandlerType

    from ._breaker import Breaker
    from ._clients import ClientOptions

__all__ = ["Busy", "Middleware", "Rejected", "account_of"]


def _targets_of(url: Any) -> tuple[str, ...]:
    return (url.raw_path_qs,)


_ERRORS = Errors((_client.ClientError, OSError), (_client.InvalidURL,), _targets_of)
# Ends a call of which nothing is known about the service, as when it had closed a connection that was kept.
_NOTHING = Exception()
# The methods of which a session itself sends a request again on another connection, once.
_SENT_TWICE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
# The request that this task's session is about to send again, as each middleware of the session knows it.
_again: ContextVar[dict[Middleware, tuple[object, ...]]] = ContextVar("shared_breaker_again")


class Rejected(_errors.Rejected, _client.ClientError):
    """A breaker rejected the request, which was not sent: an error of this package and of aiohttp."""


class Busy(Rejected, _errors.Busy):
    """There was no room for the request, which was not sent."""


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
        self._calls = Calls(breaker, name, _origin_of, {**options}, _ERRORS)

    async def __call__(self, request: _client.ClientRequest, handler: ClientHandlerType) -> _client.ClientResponse:
        """Send a request, if its breaker permits it."""
        was_lost = self._was_lost(request)
        try:
            call = await self._calls.begin_async(request)
        except _errors.Rejected as error:
            raise error.into(Rejected, Busy) from None
        try:
            response = await handler(request)
        except BaseException as error:
            if is_again := not was_lost and _is_sent_again(request, error):
                _again.set({**_again.get({}), self: (request.method, request.url)})
            tells = not is_again and not _is_of_body(error)
            await call.ended_async(_timeout_of(request, error) if tells else _NOTHING)
            raise
        try:
            if await call.answered_async(response):
                _keep(call, response)
        except BaseException:
            response.close()
            raise
        return response

    def _was_lost(self, request: _client.ClientRequest) -> bool:
        """Return whether this is the second time that the session sends a request, once."""
        lost = _again.get({})
        if self not in lost:
            return False
        _again.set({middleware: sent for middleware, sent in lost.items() if middleware is not self})
        return lost[self] == (request.method, request.url)


def _is_sent_again(request: _client.ClientRequest, error: BaseException) -> bool:
    """Return whether a session sends a request again, unless it has done so, because a kept connection was closed."""
    is_lost = isinstance(error, (_client.ClientOSError, _client.ServerDisconnectedError))
    if not is_lost or isinstance(error, _client.ClientConnectorError) or request.method not in _SENT_TWICE:
        return False
    # A body that was made once is not there any more.
    return not getattr(getattr(request, "_body", None), "consumed", False)


def _is_of_body(error: BaseException) -> bool:
    """Return whether the caller's own code has failed that makes the body of a request."""
    cause = error.__cause__
    return isinstance(error, _client.ClientConnectionError) and isinstance(cause, Exception) and not isinstance(
        cause, (_client.ClientError, OSError))


def _timeout_of(request: object, error: BaseException) -> BaseException:
    """Return the exception that has ended a request: the timeout that a session shows as a cancellation."""
    is_timeout = getattr(getattr(request, "_timer", None), "_cancelled", False)
    return TimeoutError() if is_timeout and isinstance(error, CancelledError) else error


def account_of(request: _client.ClientRequest) -> str:
    """Return the name of the breaker for the host of a request and the account whose credentials it carries.

    Pass it as ``name=``. The name has a hash of ``Authorization`` or of an API key, and does not show them.
    """
    return with_credentials(_origin_of(request), request.headers)


def _origin_of(request: _client.ClientRequest) -> str:
    return origin(request.url.scheme, request.url.raw_host, request.url.port)


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

        async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
            # A timeout and a cancellation end the reading, and not the body. Other errors are of the block itself, or the
            # body has them too.
            try:
                if isinstance(error, (TimeoutError, CancelledError)) and not self.content.is_eof():
                    is_own = isinstance(error, TimeoutError) and not getattr(self._timer, "_cancelled", False)
                    tells = not is_own or self.content.exception() is error
                    await self._shared_breaker_call.ended_async(error if tells else _NOTHING)
            finally:
                await super().__aexit__(kind, error, trace)

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
    if not isinstance(response, _client.ClientResponse):
        call.end_soon()  # of a test
        return
    # A middleware may be behind another one.
    call.inner = getattr(response, "_shared_breaker_call", None)
    if call.inner is None:
        kind: Any = type(response)
        response.__class__ = _kept(kind)
    response._shared_breaker_call = call  # type: ignore[attr-defined]
    if response.status != 101:  # a WebSocket, which has no body and lasts until it is closed
        # The client itself keeps an answer that is dropped until its body has come.
        response.content.on_eof(call.end_soon)
