"""The package under a type checker, where mypy is installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = """
from datetime import timedelta
from shared_breaker import Breaker, Busy, Rejected, SharedStore, breaker, retry_after, too_many_requests

payments: Breaker = breaker(
    "payments", max_failures=3, open_for=timedelta(seconds=30), failure_rate=None, ignore=KeyError)
other = SharedStore("/tmp/x", on_store_failure="permit").breaker("other", open_for=retry_after, hold=too_many_requests)

@payments
def charge(order: int, *, twice: bool = False) -> str:
    return str(order)

@payments
async def charge_async(order: int) -> bytes:
    return b""

for entry in payments.store.follow("payments"):
    name: str = entry["name"]
stop = payments.store.listen(lambda event: print(event.kind))
payments.store.handle("pager", lambda entry: None)

gpu: Breaker = payments.claiming(units=2, background=True)
with gpu.acquire(wait=timedelta(seconds=1), units=2, background=True) as permit:
    kind: str | None = permit.kind

@gpu
def train(epochs: int) -> int:
    return epochs

class ShopError(Exception): ...
class ShopRejected(Rejected, ShopError): ...
class ShopBusy(ShopRejected, Busy): ...

def work() -> float | None:
    try:
        with payments:
            text: str = charge(1, twice=True)
        number: int = payments.call(len, text)
        return float(number)
    except Busy as busy:
        return busy.retry_after
    except Rejected as rejected:
        own: ShopRejected = rejected.into(ShopRejected, ShopBusy)
        raise own from None

async def work_async() -> bytes:
    async with await payments.acquire_async(wait=0) as permit:
        await permit.report_async("hold", hold_for=2)
    await payments.trip_async(open_for=timedelta(seconds=3), reason="repairs")
    await payments.hold_async(hold_for=4, reason="quota")
    async with payments:
        return await charge_async(2)
"""

CLIENTS = """
import aiohttp
import httpx
import httpx2
import requests
from shared_breaker import breaker, httpx2 as other
from shared_breaker.aiohttp import Middleware
from shared_breaker.httpx import AsyncTransport, Busy, Rejected, Transport, account_of
from shared_breaker.requests import Adapter

def open_all() -> None:
    client = httpx.Client(transport=Transport(httpx.HTTPTransport(http2=True), name=account_of, max_failures=3))
    by_path = httpx.AsyncClient(transport=AsyncTransport(name=lambda request: request.url.path, open_for=30))
    newer = httpx2.Client(transport=other.Transport(breaker=breaker("api")))
    session = requests.Session()
    session.mount("https://", Adapter(name="api", hold=lambda answer: None))
    try:
        client.get("/")
    except Busy as busy:
        error: httpx.TransportError = busy
    except Rejected as rejected:
        wait: float | None = rejected.retry_after
        request: httpx.Request = rejected.request

async def open_loop() -> None:
    async with aiohttp.ClientSession(middlewares=[Middleware(max_concurrent=4)]) as session:
        await session.get("/")
"""

WRONG = """
from shared_breaker import breaker
payments = breaker("payments", max_failures="3", max_failure=3)

@payments
def charge(order: int) -> str:
    return str(order)

charge("one")
payments.force("ajar")
"""


@unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not installed")
class Types(unittest.TestCase):
    def check(self, *words):
        package = Path(importlib.util.find_spec("shared_breaker").origin).parents[1]
        with tempfile.TemporaryDirectory() as cache:
            done = subprocess.run(
                [sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, *words],
                cwd=package, env={**os.environ, "MYPYPATH": str(package)}, text=True,
                stdout=subprocess.PIPE, timeout=300)
        return done.returncode, done.stdout

    def test_the_package_is_strictly_typed(self):
        code, words = self.check("-p", "shared_breaker")
        self.assertEqual(code, 0, words)

    def test_a_program_that_uses_it_is_strictly_typed(self):
        code, words = self.check("-c", PROGRAM)
        self.assertEqual(code, 0, words)

    @unittest.skipUnless(
        all(map(importlib.util.find_spec, ("aiohttp", "httpx", "httpx2", "requests"))), "a client is not installed")
    def test_a_program_that_uses_clients_is_strictly_typed(self):
        code, words = self.check("-c", CLIENTS)
        self.assertEqual(code, 0, words)

    def test_mistakes_are_found(self):
        code, words = self.check("-c", WRONG)
        self.assertEqual(code, 1)
        for line in (3, 9, 10):
            self.assertIn(f":{line}: error", words)


if __name__ == "__main__":
    unittest.main()
