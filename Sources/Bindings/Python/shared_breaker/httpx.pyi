from collections.abc import Callable
from typing import Unpack

import httpx

from . import Busy as _Busy
from . import Rejected as _Rejected
from ._breaker import Breaker
from ._clients import ClientOptions

__all__ = ["AsyncTransport", "Busy", "Rejected", "Transport", "account_of"]

class Rejected(_Rejected, httpx.TransportError): ...
class Busy(Rejected, _Busy): ...

class Transport(httpx.BaseTransport):
    def __init__(
        self,
        wrapped: httpx.BaseTransport | None = None,
        *,
        breaker: Breaker | None = None,
        name: str | Callable[[httpx.Request], str] | None = None,
        **options: Unpack[ClientOptions],
    ) -> None: ...

class AsyncTransport(httpx.AsyncBaseTransport):
    def __init__(
        self,
        wrapped: httpx.AsyncBaseTransport | None = None,
        *,
        breaker: Breaker | None = None,
        name: str | Callable[[httpx.Request], str] | None = None,
        **options: Unpack[ClientOptions],
    ) -> None: ...

def account_of(request: httpx.Request) -> str: ...
