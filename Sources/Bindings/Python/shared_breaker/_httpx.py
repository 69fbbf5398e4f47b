"""Transports of httpx and httpx2, which have the same interface."""

from __future__ import annotations

import ssl

from . import _errors
from ._clients import Call, Calls, Errors, origin, with_credentials

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def origin_of(request: Any) -> str:
    """Return the name of the breaker for the host of a request."""
    return origin(request.url.scheme, request.url.raw_host.decode("ascii", "replace"), request.url.port)


def targets_of(url: Any) -> tuple[str, ...]:
    """Return the path and the query of a URL."""
    return (url.raw_path.decode("ascii", "replace"),)


def account_of(request: Any) -> str:
    """Return the name of the breaker for the host of a request and the account whose credentials it carries.

    Pass it as ``name=``. The name has a hash of ``Authorization`` or of an API key, and does not show them.
    """
    return with_credentials(origin_of(request), request.headers)


def wait_of(request: Any) -> float | None:
    """Return how long a request waits for a connection of the pool, and so for room; None if it does not say."""
    wait: float | None = request.extensions.get("timeout", {}).get("pool")
    return wait


def transports(client: Any) -> tuple[type, type, type, type]:
    """Make ``Transport``, ``AsyncTransport``, ``Rejected`` and ``Busy`` for a module, httpx or httpx2."""
    # A full pool and a request that cannot be sent are the caller's own.
    errors = Errors(
        (client.TransportError, ConnectionError, TimeoutError, ssl.SSLError),
        (client.PoolTimeout, client.UnsupportedProtocol, client.LocalProtocolError), targets_of)

    class Rejected(_errors.Rejected, client.TransportError):  # type: ignore[misc]
        """A breaker rejected the request, which was not sent: an error of this package and of the client."""

        def __init__(self, *args: Any) -> None:
            Exception.__init__(self, *args)
            self._request = None

    class Busy(Rejected, _errors.Busy):
        """There was no room for the request, which was not sent."""

    def rejected(request: Any, error: _errors.Rejected) -> Rejected:
        raised = error.into(Rejected, Busy)
        raised.request = request
        return raised

    def check(request: Any) -> None:
        if not isinstance(request, client.Request):
            own, other = client.__name__, type(request).__module__.partition(".")[0]
            raise TypeError(f"this transport is for {own}: use shared_breaker.{other} with {other}")

    class Body(client.SyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, call: Call) -> None:
            self._stream = stream
            self._call = call

        def __iter__(self) -> Any:
            try:
                yield from self._stream
            except GeneratorExit:  # it is closed next
                raise
            except BaseException as error:
                self._call.ended(error)
                raise

        def close(self) -> None:
            try:
                self._stream.close()
            finally:
                self._call.ended()

    class AsyncBody(client.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, call: Call) -> None:
            self._stream = stream
            self._call = call

        async def __aiter__(self) -> Any:
            try:
                async for part in self._stream:
                    yield part
            except GeneratorExit:  # it is closed next
                raise
            except BaseException as error:
                await self._call.ended_async(error)
                raise

        async def aclose(self) -> None:
            try:
                await self._stream.aclose()
            finally:
                await self._call.ended_async()

    class Transport(client.BaseTransport):  # type: ignore[misc]
        """Puts the requests of a client behind breakers, one for each host and port unless you say otherwise."""

        def __init__(self, wrapped: Any = None, *, breaker: Any = None, name: Any = None, **options: Any) -> None:
            self._calls = Calls(breaker, name, origin_of, options, errors)
            self._wrapped = client.HTTPTransport() if wrapped is None else wrapped

        def handle_request(self, request: Any) -> Any:
            check(request)
            try:
                call = self._calls.begin(request, wait_of(request))
            except _errors.Rejected as error:
                raise rejected(request, error) from None
            try:
                response = self._wrapped.handle_request(request)
            except BaseException as error:
                call.ended(error)
                raise
            response.request = request
            try:
                if call.answered(response):
                    if response.is_closed:  # of a transport whose answers are in memory
                        call.ended()
                    else:
                        response.stream = Body(response.stream, call)
            except BaseException:
                response.close()
                raise
            return response

        def close(self) -> None:
            self._wrapped.close()

        def __enter__(self) -> Any:
            self._wrapped.__enter__()
            return self

        def __exit__(self, *error: Any) -> None:
            self._wrapped.__exit__(*error)

    class AsyncTransport(client.AsyncBaseTransport):  # type: ignore[misc]
        """Puts the requests of an asynchronous client behind breakers, as ``Transport`` does."""

        def __init__(self, wrapped: Any = None, *, breaker: Any = None, name: Any = None, **options: Any) -> None:
            self._calls = Calls(breaker, name, origin_of, options, errors)
            self._wrapped = client.AsyncHTTPTransport() if wrapped is None else wrapped

        async def handle_async_request(self, request: Any) -> Any:
            check(request)
            try:
                call = await self._calls.begin_async(request, wait_of(request))
            except _errors.Rejected as error:
                raise rejected(request, error) from None
            try:
                response = await self._wrapped.handle_async_request(request)
            except BaseException as error:
                await call.ended_async(error)
                raise
            response.request = request
            try:
                if await call.answered_async(response):
                    if response.is_closed:  # of a transport whose answers are in memory
                        await call.ended_async()
                    else:
                        response.stream = AsyncBody(response.stream, call)
            except BaseException:
                await response.aclose()
                raise
            return response

        async def aclose(self) -> None:
            await self._wrapped.aclose()

        async def __aenter__(self) -> Any:
            await self._wrapped.__aenter__()
            return self

        async def __aexit__(self, *error: Any) -> None:
            await self._wrapped.__aexit__(*error)

    return Transport, AsyncTransport, Rejected, Busy
