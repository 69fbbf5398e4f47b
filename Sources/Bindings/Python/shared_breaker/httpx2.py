"""Breakers for the requests of httpx2, shared by all processes of the host.

    import httpx2
    from shared_breaker.httpx2 import Transport

    client = httpx2.Client(transport=Transport(max_failures=5, open_for=30))
"""

from __future__ import annotations

import httpx2 as _client

from ._httpx import account_of, transports

__all__ = ["AsyncTransport", "Busy", "Rejected", "Transport", "account_of"]

Transport, AsyncTransport, Rejected, Busy = transports(_client)
for _kind in (Transport, AsyncTransport, Rejected, Busy):
    _kind.__module__, _kind.__qualname__ = __name__, _kind.__name__  # so that errors can be pickled
