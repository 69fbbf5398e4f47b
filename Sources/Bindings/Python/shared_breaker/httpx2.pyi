from collections.abc import Callable
from typing import Unpack

import httpx2

from . import Busy as _Busy
from . import Rejected as _Rejected
from ._breaker import Breaker
from ._clients import ClientOptions

__all__ = ["AsyncTransport", "Busy", "Rejected", "Transport", "account_of"]

class Rejected(_Rejected, httpx2.TransportError): ...
class Busy(Rejected, _Busy): ...

class Transport(httpx2.BaseTransport):
    def __init__(
        self,
        wrapped: httpx2.BaseTransport | None = None,
        *,
        breaker: Breaker | None = None,
        name: str | Callable[[httpx2.Request], str] | None = None,
        **options: Unpack[ClientOptions],
    ) -> None: ...

class AsyncTransport(httpx2.AsyncBaseTransport):
    def __init__(
        self,
        wrapped: httpx2.AsyncBaseTransport | None = None,
        *,
        breaker: Breaker | None = None,
        name: str | Callable[[httpx2.Request], str] | None = None,
        **options: Unpack[ClientOptions],
    ) -> None: ...

def account_of(request: httpx2.Request) -> str: ...
