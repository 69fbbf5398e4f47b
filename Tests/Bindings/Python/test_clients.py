"""The integrations of HTTP clients, against a server on loopback, where the clients are installed."""

from __future__ import annotations

import asyncio
import gc
import http.server
import importlib
import importlib.util
import json
import os
import pickle
import socket
import threading
import unittest
from unittest import mock
from urllib.parse import quote, unquote

import shared_breaker
from shared_breaker import Busy, Rejected, breaker
from support import StoreTestCase, eventually


def needs(*packages):
    """Leave tests out where a package is not installed."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    return unittest.skipIf(missing, f"not installed: {', '.join(missing)}")


class Service(http.server.BaseHTTPRequestHandler):
    """Answers with the status in the path, and with a body that the path describes.

    ``/200``, ``/503?Retry-After=7`` (a header), ``/200/slow`` (the rest of its body comes when the server is told),
    ``/200/broken`` (its body ends too early), ``/200/cut`` (its last part is missing), ``/late`` (its headers come when the server is told).
    """

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path, _, query = self.path.partition("?")
        words = path.strip("/").split("/")
        self.server.seen.append((self.headers.get("Authorization"), path))
        if words[-1] == "digest" and self.headers.get("Authorization"):
            words[0] = "500"
        if words[0] == "late":
            self.server.go_on.wait(60)
            words[0] = "200"
        self.send_response(int(words[0]))
        for header in filter(None, query.split("&")):
            self.send_header(*unquote(header).split("=", 1))
        body = b"" if words[0] == "204" else b"x" * 200_000
        kind = words[1] if len(words) > 1 else ""
        if kind == "cut":
            self.send_header("Transfer-Encoding", "chunked")
        elif body:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if kind == "cut":
            self.wfile.write(b"7d0\r\n" + body[:2_000] + b"\r\n")
            self.close_connection = True
            return
        try:
            self.wfile.write(body[:100_000])
            if kind == "slow":
                self.wfile.flush()
                self.server.go_on.wait(60)
            if kind == "broken":
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
            else:
                self.wfile.write(body[100_000:])
        except OSError:  # the client has left
            self.close_connection = True

    do_POST = do_GET

    def log_message(self, *words):
        pass


class Server(http.server.ThreadingHTTPServer):
    """A server whose clients may leave at any time."""

    daemon_threads = True

    def handle_error(self, request, client_address):
        pass


class ClientTestCase(StoreTestCase):
    """A test with a server on loopback, and with the package's default store in its directory."""

    Handler = Service

    def setUp(self):
        super().setUp()
        shared_breaker._default, previous = self.store, shared_breaker._default
        self.addCleanup(setattr, shared_breaker, "_default", previous)
        self.server = Server(("127.0.0.1", 0), self.Handler)
        self.server.go_on, self.server.seen = threading.Event(), []
        thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(self.server.shutdown)
        self.addCleanup(self.server.go_on.set)
        self.host = f"127.0.0.1:{self.server.server_port}"
        self.url = f"http://{self.host}"
        self.name = f"http/{self.host}"

    def counts(self, name=None):
        """Return how many successes, failures and ignored calls were counted."""
        totals = self.totals(name or self.name)
        return totals["successes"], totals["failures"], totals["ignored"]


    def assert_can_be_pickled(self, integration):
        """Assert that the errors of an integration survive pickling."""
        for kind, cause in ((integration.Rejected, "open"), (integration.Busy, "busy")):
            error = kind("api", "open", "automatic", 3.0, None, cause)
            again = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(again), str(again)), (kind, str(error)))


class Driver:
    """How the tests use a client: ``get`` reads a whole answer, and ``open`` one of which the body is to come."""

    def __init__(self, **options):
        self.options = options

    def __enter__(self):
        self.client = self.make()
        return self

    def __exit__(self, *error):
        self.client.close()


class Httpx(Driver):
    module = "httpx"

    def make(self):
        client = importlib.import_module(self.module)
        integration = importlib.import_module(f"shared_breaker.{self.module}")
        self.error, self.Rejected, self.Busy = client.TransportError, integration.Rejected, integration.Busy
        self.account_of = integration.account_of
        timeout = client.Timeout(30, pool=None)
        return client.Client(transport=integration.Transport(**self.options), timeout=timeout)

    def get(self, url, **headers):
        return self.client.get(url, headers=headers).status_code

    def open(self, url):
        answer = self.client.send(self.client.build_request("GET", url), stream=True)
        parts = answer.iter_raw()
        return lambda: next(parts), lambda: [None for _ in parts], answer.close


class Httpx2(Httpx):
    module = "httpx2"


class Requests(Driver):
    module = "requests"

    def make(self):
        import requests

        from shared_breaker import requests as integration

        self.error, self.Rejected, self.Busy = requests.RequestException, integration.Rejected, integration.Busy
        self.account_of = integration.account_of
        session = requests.Session()
        session.trust_env = False
        session.mount("http://", integration.Adapter(**self.options))
        return session

    def get(self, url, **headers):
        return self.client.get(url, headers=headers).status_code

    def open(self, url):
        answer = self.client.get(url, stream=True)
        parts = answer.iter_content(10_000)
        return lambda: next(parts), lambda: [None for _ in parts], answer.close


class InLoop(Driver):
    """A client for asyncio, driven from the thread of the test."""

    def __enter__(self):
        self.loop = asyncio.new_event_loop()
        try:
            self.client = self.run(self.make_async())
        except BaseException:
            self.loop.close()
            raise
        return self

    def __exit__(self, *error):
        try:
            self.run(self.close())
            self.run(self.loop.shutdown_asyncgens())
        finally:
            self.loop.close()

    def run(self, work):
        return self.loop.run_until_complete(work)


class AsyncHttpx(InLoop):
    module = "httpx"

    async def make_async(self):
        client = importlib.import_module(self.module)
        integration = importlib.import_module(f"shared_breaker.{self.module}")
        self.error, self.Rejected, self.Busy = client.TransportError, integration.Rejected, integration.Busy
        self.account_of = integration.account_of
        timeout = client.Timeout(30, pool=None)
        return client.AsyncClient(transport=integration.AsyncTransport(**self.options), timeout=timeout)

    async def close(self):
        await self.client.aclose()

    def get(self, url, **headers):
        return self.run(self.get_async(url, **headers))

    async def get_async(self, url, **headers):
        return (await self.client.get(url, headers=headers)).status_code

    async def stream_async(self, url):
        async with self.client.stream("GET", url) as answer:
            async for _ in answer.aiter_raw():
                pass

    def open(self, url):
        answer = self.run(self.client.send(self.client.build_request("GET", url), stream=True))
        parts = answer.aiter_raw()

        async def rest():
            return [None async for _ in parts]

        return (
            lambda: self.run(parts.__anext__()), lambda: self.run(rest()), lambda: self.run(answer.aclose()))


class AsyncHttpx2(AsyncHttpx):
    module = "httpx2"


class Aiohttp(InLoop):
    module = "aiohttp"

    async def make_async(self):
        import aiohttp

        from shared_breaker import aiohttp as integration

        self.error, self.Rejected, self.Busy = aiohttp.ClientError, integration.Rejected, integration.Busy
        self.account_of = integration.account_of
        return aiohttp.ClientSession(middlewares=[integration.Middleware(**self.options)])

    async def close(self):
        await self.client.close()

    def get(self, url, **headers):
        return self.run(self.get_async(url, **headers))

    async def get_async(self, url, **headers):
        async with self.client.get(url, headers=headers) as answer:
            await answer.read()
            return answer.status

    async def stream_async(self, url):
        async with self.client.get(url) as answer:
            async for _ in answer.content.iter_chunked(1_000):
                pass

    def open(self, url):
        answer = self.run(self.opened(url))

        async def rest():
            while await answer.content.readany():
                pass

        async def close():
            answer.close()

        return (lambda: self.run(answer.content.read(100)), lambda: self.run(rest()), lambda: self.run(close()))

    async def opened(self, url):
        return await self.client.get(url)


class Cases:
    """The cases of every client."""

    def driver(self, **options):
        options = {"max_failures": 3, "open_for": 3_600, **options}
        return self.Driver(**{key: value for key, value in options.items() if value is not None})

    # Answers

    def test_an_answer_is_judged_by_its_status_and_returned_as_it_is(self):
        with self.driver(max_failures=100) as client:
            for status in (200, 204, 400, 403, 404, 501, 500, 502, 408):
                self.assertEqual(client.get(f"{self.url}/{status}"), status)
        self.assertEqual(self.counts(), (6, 3, 0))
        self.assertEqual(self.store.snapshot(self.name)["last_error"], "HTTP 408 from 127.0.0.1")

    def test_failures_open_the_breaker_of_the_host_for_all_processes(self):
        with self.driver() as client:
            for _ in range(3):
                client.get(f"{self.url}/500")
            with self.assertRaises(client.Rejected) as caught:
                client.get(f"{self.url}/200")
            self.assertNotIsInstance(caught.exception, Busy)
        self.assertIsInstance(caught.exception, Rejected)
        self.assertIsInstance(caught.exception, client.error)
        self.assertEqual(caught.exception.name, self.name)
        self.assertIn("is rejecting calls", str(caught.exception))
        self.assertEqual(breaker(self.name).state, "open")
        self.assertEqual(len(self.server.seen), 3)
        copy = pickle.loads(pickle.dumps(Rejected(*caught.exception.args)))
        self.assertEqual(copy.args, caught.exception.args)
        self.assertEqual(str(copy), str(caught.exception))

    def test_an_answer_says_how_long_the_breaker_is_open(self):
        with self.driver(max_failures=1) as client:
            self.assertEqual(client.get(f"{self.url}/503?Retry-After=120"), 503)
            with self.assertRaises(Rejected) as caught:
                client.get(f"{self.url}/200")
        self.assertAlmostEqual(caught.exception.retry_after, 120, delta=5)

    def test_too_many_requests_hold_every_caller_and_are_no_failure(self):
        with self.driver() as client:
            self.assertEqual(client.get(f"{self.url}/403"), 403)
            self.assertEqual(client.get(f"{self.url}/429?Retry-After=120"), 429)
            with self.assertRaises(client.Rejected) as caught:
                client.get(f"{self.url}/200")
        self.assertEqual(caught.exception.cause, "held")
        self.assertAlmostEqual(caught.exception.retry_after, 120, delta=5)
        self.assertEqual(self.counts()[1], 0)

    def test_rules_of_the_caller_replace_the_usual_ones(self):
        status = "status" if self.Driver is Aiohttp else "status_code"
        with self.driver(
                max_failures=1, hold=lambda answer: None,
                failure=lambda answer: getattr(answer, status, 0) == 404) as client:
            client.get(f"{self.url}/500")
            client.get(f"{self.url}/429")
            client.get(f"{self.url}/404")
            self.assertRaises(Rejected, client.get, f"{self.url}/200")
        self.assertEqual(self.counts(), (2, 1, 0))

    # Errors

    def test_a_host_that_does_not_answer_is_a_failure(self):
        with socket.create_server(("127.0.0.1", 0)) as unused:
            port = unused.getsockname()[1]
        with self.driver(max_failures=1) as client:
            self.assertRaises(client.error, client.get, f"http://127.0.0.1:{port}/")
            with self.assertRaises(client.Rejected):
                client.get(f"http://127.0.0.1:{port}/")
        self.assertEqual(self.counts(f"http/127.0.0.1:{port}"), (0, 1, 0))

    def test_a_body_that_breaks_off_is_a_failure(self):
        with self.driver(max_failures=1) as client:
            self.assertRaises(client.error, client.get, f"{self.url}/200/broken")
            self.assertRaises(client.Rejected, client.get, f"{self.url}/200")
        self.assertEqual(self.counts(), (0, 1, 0))

    def test_a_body_that_is_cut_off_between_its_parts_is_a_failure(self):
        with self.driver() as client:
            self.assertRaises(client.error, client.get, f"{self.url}/200/cut")
            first, rest, close = client.open(f"{self.url}/200/cut")
            self.assertRaises(client.error, lambda: (first(), rest()))
            close()
        eventually(lambda: self.counts() == (0, 2, 0))

    def test_the_words_of_a_failure_have_no_path_and_no_query(self):
        with socket.create_server(("127.0.0.1", 0)) as unused:
            port = unused.getsockname()[1]
        for length in (1, 1_000):
            with self.driver() as client:
                target = f"/bot123:{'secret' * length}/send?key=hidden&filter[a]=%2f"
                self.assertRaises(client.error, client.get, f"http://127.0.0.1:{port}{target}")
            words = self.store.snapshot(f"http/127.0.0.1:{port}")["last_error"]
            self.assertTrue(words)
            self.assertNotRegex(words, "secret|hidden|bot123")

    def test_a_misspelled_keyword_is_an_error_at_once(self):
        with self.assertRaisesRegex(TypeError, "max_failurs"):
            self.driver(max_failurs=3).__enter__()

    def test_a_stream_that_breaks_off_is_a_failure(self):
        with self.driver() as client:
            first, rest, close = client.open(f"{self.url}/200/broken")
            self.assertRaises(client.error, lambda: (first(), rest()))
            close()
        # A thread records what a callback of an event loop has found.
        eventually(lambda: self.counts() == (0, 1, 0))

    # Streams

    def test_a_call_keeps_its_room_until_its_body_was_read(self):
        with self.driver(max_concurrent=1) as client:
            first, rest, close = client.open(f"{self.url}/200/slow")
            first()
            with self.assertRaises(client.Busy) as caught:
                client.get(f"{self.url}/200")
            for kind in (Busy, client.Rejected, client.error):
                self.assertIsInstance(caught.exception, kind)
            self.assertEqual(self.counts()[0], 0)
            self.server.go_on.set()
            rest()
            close()
            self.assertEqual(client.get(f"{self.url}/200"), 200)
        self.assertEqual(self.counts(), (2, 0, 0))

    def test_a_call_keeps_its_room_until_its_body_is_closed(self):
        with self.driver(max_concurrent=1) as client:
            first, _, close = client.open(f"{self.url}/200/slow")
            first()
            self.assertRaises(client.Rejected, client.get, f"{self.url}/200")
            close()
            self.assertEqual(client.get(f"{self.url}/200"), 200)
        self.assertEqual(self.counts(), (2, 0, 0))

    def test_an_answer_that_is_dropped_gives_its_room_back(self):
        with self.driver(max_concurrent=1) as client:
            parts = client.open(f"{self.url}/200/slow")
            self.assertRaises(client.Rejected, client.get, f"{self.url}/200")
            del parts
            gc.collect()
            self.assertEqual(client.get(f"{self.url}/200"), 200)
        self.assertEqual(self.counts()[1], 0)

    def test_a_probe_is_over_with_its_headers(self):
        with self.driver(max_failures=1, open_for=0.001, jitter=0.0) as client:
            client.get(f"{self.url}/500")
            first, rest, close = eventually(lambda: self.opened(client))
            self.assertEqual(breaker(self.name).state, "closed")
            self.server.go_on.set()
            rest()
            close()
        self.assertEqual(self.counts(), (1, 1, 0))

    def opened(self, client):
        try:
            return client.open(f"{self.url}/200/slow")
        except Rejected:
            return None

    # Breakers

    def test_a_breaker_can_be_named_by_the_account(self):
        with self.driver(name=None) as first:
            account_of = first.account_of
        with self.driver(name=account_of) as client:
            client.get(f"{self.url}/200", Authorization="Bearer one")
            client.get(f"{self.url}/200", Authorization="Bearer two")
            client.get(f"{self.url}/200")
        names = [snapshot["name"] for snapshot in self.store.snapshots()]
        self.assertEqual(len(names), 3)
        self.assertIn(self.name, names)
        self.assertTrue(all(name.startswith(self.name) and "one" not in name for name in names))

    def test_a_breaker_can_be_given(self):
        given = breaker("api", max_failures=1)
        with self.Driver(breaker=given) as client:
            client.get(f"{self.url}/500")
            self.assertRaises(client.Rejected, client.get, f"{self.url}/200")
        self.assertEqual(given.state, "open")
        judged = breaker("judged", max_failures=1, failure=lambda answer: False)
        with self.Driver(breaker=judged) as client:
            self.assertEqual(client.get(f"{self.url}/500"), 500)
            self.assertEqual(client.get(f"{self.url}/500"), 500)
        with self.assertRaises(TypeError) as caught:
            self.Driver(breaker=given, name="other", max_failures=2).__enter__()
        self.assertIn("leave out name, max_failures, or breaker", str(caught.exception))

    def test_rules_that_cannot_judge_an_answer_leave_it_to_the_usual_ones(self):
        given = breaker("api", max_failures=2, hold=lambda answer: None, failure=OSError)
        with self.Driver(breaker=given) as client:
            self.assertEqual(client.get(f"{self.url}/429"), 429)
            self.assertEqual(client.get(f"{self.url}/500"), 500)
        self.assertEqual(self.counts("api"), (1, 1, 0))

    def test_a_name_can_be_given(self):
        with self.driver(name="api") as client:
            client.get(f"{self.url}/200")
        self.assertEqual(self.counts("api"), (1, 0, 0))


class LoopCases(Cases):
    """The cases of clients in an event loop."""

    def test_cancelling_before_the_answer_tells_nothing(self):
        with self.driver(max_concurrent=1) as client:
            client.run(self.cancelled(client, f"{self.url}/late"))
            self.assertEqual(client.get(f"{self.url}/200"), 200)
        self.assertEqual(self.counts(), (1, 0, 1))

    def test_cancelling_while_the_body_comes_gives_the_room_back(self):
        with self.driver(max_concurrent=1) as client:
            client.run(self.cancelled(client, f"{self.url}/200/slow"))
            self.assertEqual(client.get(f"{self.url}/200"), 200)
        self.assertEqual(self.counts()[1], 0)

    async def cancelled(self, client, url, get=None):
        task = asyncio.ensure_future((get or client.get_async)(url))
        while not self.server.seen:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task

    def test_cancelling_a_stream_tells_nothing(self):
        with self.driver(max_concurrent=1) as client:
            client.run(self.cancelled(client, f"{self.url}/200/slow", client.stream_async))
            self.assertEqual(client.get(f"{self.url}/200"), 200)
        self.assertEqual(self.counts(), (1, 0, 1))

    def test_many_requests_share_the_limit(self):
        async def all_of(client):
            return await asyncio.gather(*[client.get_async(f"{self.url}/200") for _ in range(40)])

        with self.driver(max_concurrent=2, queue_timeout=60) as client:
            self.assertEqual(client.run(all_of(client)), [200] * 40)
        self.assertEqual(self.counts(), (40, 0, 0))


class PoolCases:
    """The cases of clients that say how long they wait for their pool."""

    def test_a_request_waits_for_room_no_longer_than_for_the_pool(self):
        for queue_timeout, pool in ((3_600, 0.01), (3_600, 0), (0.01, 3_600), (0.01, None)):
            self.server.go_on.clear()
            with self.driver(max_concurrent=1, queue_timeout=queue_timeout) as client:
                _, rest, close = client.open(f"{self.url}/200/slow")
                usual = client.client.timeout
                client.client.timeout = importlib.import_module(client.module).Timeout(30, pool=pool)
                self.assertRaises(client.Busy, client.get, f"{self.url}/200")
                client.client.timeout = usual
                self.server.go_on.set()
                rest()
                close()
                self.assertEqual(client.get(f"{self.url}/200"), 200)
        self.assertEqual(self.counts(), (8, 0, 0))


@needs("httpx")
class HttpxTests(PoolCases, Cases, ClientTestCase):
    Driver = Httpx

    def test_a_full_pool_is_no_failure_of_the_service(self):
        import httpx

        from shared_breaker.httpx import Transport

        narrow = httpx.HTTPTransport(limits=httpx.Limits(max_connections=1))
        with httpx.Client(transport=Transport(narrow, max_failures=1), timeout=httpx.Timeout(30, pool=0.01)) as client:
            with client.stream("GET", f"{self.url}/200/slow"):
                self.assertRaises(httpx.PoolTimeout, client.get, f"{self.url}/200")
        self.assertEqual(self.counts()[1:], (0, 1))

    def test_an_exception_of_the_body_that_is_sent_tells_nothing(self):
        def body():
            yield b"x"
            raise KeyError("the caller's own")

        with self.driver(max_failures=1) as client:
            self.assertRaises(KeyError, client.client.post, f"{self.url}/200", content=body())
        self.assertEqual(self.counts(), (0, 0, 1))

    def test_a_host_with_a_long_name_has_a_breaker(self):
        import httpx

        from shared_breaker.httpx import Transport

        answer = httpx.MockTransport(lambda request: httpx.Response(200))
        with httpx.Client(transport=Transport(answer)) as client:
            for last in "ab":
                client.get("http://" + "long." * 48 + last)
        names = [snapshot["name"] for snapshot in self.store.snapshots()]
        self.assertEqual(len(set(names)), 2)

    def test_an_answer_in_memory_is_over_at_once(self):
        import httpx

        from shared_breaker.httpx import AsyncTransport, Transport

        answer = httpx.MockTransport(lambda request: httpx.Response(200, content=b"hello"))
        gc.disable()
        self.addCleanup(gc.enable)
        with httpx.Client(transport=Transport(answer, name="sync", max_concurrent=1)) as client:
            self.assertEqual([client.get(self.url).text for _ in range(3)], ["hello"] * 3)

        async def get():
            async with httpx.AsyncClient(transport=AsyncTransport(answer, name="async", max_concurrent=1)) as client:
                return [(await client.get(self.url)).text for _ in range(3)]

        self.assertEqual(asyncio.run(get()), ["hello"] * 3)
        self.assertEqual((self.counts("sync"), self.counts("async")), ((3, 0, 0), (3, 0, 0)))

    def test_each_redirection_has_the_breaker_of_its_host(self):
        import httpx

        from shared_breaker.httpx import Transport

        place = f"http://localhost:{self.server.server_port}/200"
        with httpx.Client(transport=Transport(), follow_redirects=True) as client:
            self.assertEqual(client.get(f"{self.url}/302?Location={place}").status_code, 200)
        names = {snapshot["name"] for snapshot in self.store.snapshots()}
        self.assertEqual(names, {self.name, f"http/localhost:{self.server.server_port}"})

    def test_a_client_with_a_transport_reads_no_proxy_from_the_environment_and_takes_one_that_is_given(self):
        import httpx

        from shared_breaker.httpx import Transport

        with socket.create_server(("127.0.0.1", 0)) as unused:
            nowhere = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with mock.patch.dict(os.environ, {"HTTP_PROXY": nowhere, "http_proxy": nowhere, "NO_PROXY": "", "no_proxy": ""}):
            with httpx.Client(transport=Transport(), trust_env=True) as client:
                self.assertEqual(client.get(f"{self.url}/200").status_code, 200)
            with httpx.Client(mounts={"http://": Transport(httpx.HTTPTransport(proxy=nowhere), name="through")}) as client:
                self.assertRaises(httpx.ConnectError, client.get, f"{self.url}/200")
        self.assertEqual((self.counts(), self.counts("through")), ((1, 0, 0), (0, 1, 0)))

    def test_a_request_through_a_proxy_has_the_breaker_of_its_host(self):
        import httpx

        from shared_breaker.httpx import Transport

        class Proxy(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(503)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *words):
                pass

        proxy = Server(("127.0.0.1", 0), Proxy)
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        self.addCleanup(proxy.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(proxy.shutdown)
        through = httpx.HTTPTransport(proxy=f"http://127.0.0.1:{proxy.server_port}")
        with httpx.Client(transport=Transport(through, max_failures=1)) as client:
            self.assertEqual(client.get("http://shop.example/").status_code, 503)
            self.assertRaises(Rejected, client.get, "http://shop.example/")
        self.assertEqual(self.counts("http/shop.example:80"), (0, 1, 0))

    def test_a_rejection_can_be_pickled(self):
        from shared_breaker import httpx as integration

        self.assert_can_be_pickled(integration)

    def test_the_room_of_a_process_that_is_killed_while_it_reads_is_free(self):
        program = """
import sys, httpx
from shared_breaker.httpx import Transport
client = httpx.Client(transport=Transport(max_concurrent=1))
with client.stream("GET", sys.argv[1]) as answer:
    print("open", flush=True)
    answer.read()
"""
        process = self.start_python(program, f"{self.url}/200/slow")
        self.assertEqual(process.stdout.readline(), "open\n")
        with self.driver(max_concurrent=1) as client:
            self.assertRaises(Rejected, client.get, f"{self.url}/200")
            process.kill()
            process.wait()
            self.assertEqual(eventually(lambda: self.got(client)), 200)

    def got(self, client):
        try:
            return client.get(f"{self.url}/200")
        except Rejected:
            return None

    @needs("tenacity")
    def test_retries_for_narrow_classes_leave_a_rejection_alone(self):
        import httpx
        import tenacity

        attempts = []

        def get(client):
            attempts.append(1)
            return client.get(f"{self.url}/200")

        breaker(self.name).trip()
        with self.driver() as client:
            retrying = tenacity.Retrying(
                retry=tenacity.retry_if_exception_type((httpx.ConnectError, httpx.TimeoutException)),
                stop=tenacity.stop_after_attempt(3), reraise=True)
            self.assertRaises(Rejected, retrying, get, client)
        self.assertEqual(len(attempts), 1)


@needs("httpx")
class AsyncHttpxTests(PoolCases, LoopCases, ClientTestCase):
    Driver = AsyncHttpx

    @needs("h2", "hypercorn")
    def test_streams_of_one_connection_of_http_2_are_calls_beside_each_other(self):
        import httpx
        from hypercorn.asyncio import serve
        from hypercorn.config import Config

        from shared_breaker.httpx import AsyncTransport

        async def answer(scope, receive, send):
            if scope["type"] == "lifespan":
                for _ in range(2):
                    await send({"type": (await receive())["type"] + ".complete"})
                return
            status = int(scope["path"].strip("/"))
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": b"x" * 1_000, "more_body": True})
            if status == 200:
                await go_on.wait()
            await send({"type": "http.response.body", "body": b"x" * 1_000})

        async def main():
            nonlocal go_on
            go_on, end = asyncio.Event(), asyncio.Event()
            path = os.path.join(self.directory, "http2")
            config = Config()
            config.bind, config.accesslog, config.errorlog = [f"unix:{path}"], None, None
            server = asyncio.create_task(serve(answer, config, shutdown_trigger=end.wait))
            while not os.path.exists(path):
                await asyncio.sleep(0.001)
            inner = httpx.AsyncHTTPTransport(http1=False, http2=True, uds=path)
            transport = AsyncTransport(inner, name="api", max_concurrent=2, max_failures=1)
            async with httpx.AsyncClient(transport=transport, base_url="http://shop.example", timeout=60) as client:
                async with client.stream("GET", "/200") as first:
                    async with client.stream("GET", "/200") as second:
                        versions = first.http_version, second.http_version
                        with self.assertRaises(Busy):
                            await client.get("/200")
                    # The stream that was closed early has given its room back, and its connection is still there.
                    async with client.stream("GET", "/200") as third:
                        go_on.set()
                        self.assertEqual(len(await third.aread()), 2_000)
                    self.assertEqual(len(await first.aread()), 2_000)
                self.assertEqual((await client.get("/500")).status_code, 500)
                with self.assertRaises(Rejected):
                    await client.get("/200")
            end.set()
            await server
            return versions

        go_on = None
        self.assertEqual(asyncio.run(main()), ("HTTP/2", "HTTP/2"))
        self.assertEqual(self.counts("api"), (3, 1, 0))

    @needs("trio")
    def test_streams_in_trio_keep_their_room_and_their_cancellation_tells_nothing(self):
        import httpx
        import trio

        from shared_breaker.httpx import AsyncTransport

        async def main():
            timeout = httpx.Timeout(60, pool=None)
            async with httpx.AsyncClient(transport=AsyncTransport(max_concurrent=1), timeout=timeout) as client:
                async with client.stream("GET", f"{self.url}/200/slow") as answer:
                    with self.assertRaises(Busy):
                        await client.get(f"{self.url}/200")
                    self.server.go_on.set()
                    self.assertEqual(len(await answer.aread()), 200_000)
                self.server.go_on.clear()
                with trio.CancelScope() as scope:
                    async with client.stream("GET", f"{self.url}/200/slow") as answer:
                        async for _ in answer.aiter_raw():
                            scope.cancel()
                self.assertTrue(scope.cancelled_caught)
                self.assertEqual((await client.get(f"{self.url}/200")).status_code, 200)
                with self.assertRaises(httpx.TransportError):
                    await client.get(f"{self.url}/200/broken")

        trio.run(main)
        self.assertEqual(self.counts(), (2, 1, 1))


@needs("httpx2")
class Httpx2Tests(PoolCases, Cases, ClientTestCase):
    Driver = Httpx2


@needs("httpx", "httpx2")
class BothTests(ClientTestCase):
    def test_a_transport_of_the_other_package_says_which_one_to_use(self):
        import httpx
        import httpx2

        from shared_breaker.httpx import AsyncTransport
        from shared_breaker.httpx2 import Transport

        with httpx.Client(transport=Transport()) as client, self.assertRaises(TypeError) as caught:
            client.get(self.url)
        self.assertEqual(str(caught.exception), "this transport is for httpx2: use shared_breaker.httpx with httpx")

        async def get():
            async with httpx2.AsyncClient(transport=AsyncTransport()) as client:
                await client.get(self.url)

        with self.assertRaises(TypeError) as caught:
            asyncio.run(get())
        self.assertEqual(str(caught.exception), "this transport is for httpx: use shared_breaker.httpx2 with httpx2")


@needs("httpx2")
class AsyncHttpx2Tests(PoolCases, LoopCases, ClientTestCase):
    Driver = AsyncHttpx2


@needs("requests")
class RequestsTests(Cases, ClientTestCase):
    Driver = Requests

    def test_retries_of_urllib3_are_one_call(self):
        import requests
        from requests.adapters import HTTPAdapter
        from urllib3.util.retry import Retry

        from shared_breaker.requests import Adapter

        retries = Retry(total=2, status_forcelist=[503], backoff_factor=0)
        with requests.Session() as session:
            session.mount("http://", Adapter(HTTPAdapter(max_retries=retries), max_failures=2))
            self.assertRaises(requests.exceptions.RetryError, session.get, f"{self.url}/503")
        self.assertEqual(len(self.server.seen), 3)
        self.assertEqual(self.counts(), (0, 1, 0))

    def test_an_exception_of_the_body_that_is_sent_tells_nothing(self):
        def body():
            yield b"x"
            raise KeyError("the caller's own")

        with self.driver(max_failures=1) as client:
            self.assertRaises(KeyError, client.client.post, f"{self.url}/200", data=body())
        self.assertEqual(self.counts(), (0, 0, 1))

    def test_a_certificate_that_is_missing_tells_nothing(self):
        from shared_breaker.requests import Adapter

        with self.driver() as client:
            client.client.mount("https://", Adapter(name="api", max_failures=1))
            self.assertRaises(OSError, client.client.get, "https://127.0.0.1:9/", verify="/missing.pem")
        self.assertEqual(self.counts("api"), (0, 0, 1))

    def test_an_answer_that_is_dropped_tells_nothing(self):
        with self.driver() as client:
            answer = client.client.get(f"{self.url}/200/slow", stream=True)
            del answer
            gc.collect()
        self.assertEqual(self.counts(), (0, 0, 1))

    def test_the_body_itself_can_be_read(self):
        with self.driver(max_concurrent=1) as client:
            answer = client.client.get(f"{self.url}/200", stream=True)
            self.assertEqual(len(answer.raw.read(50)), 50)
            self.assertRaises(Rejected, client.get, f"{self.url}/200")
            self.assertEqual(len(answer.raw.read()), 199_950)
            self.assertEqual(client.get(f"{self.url}/200"), 200)
            answer = client.client.get(f"{self.url}/200", stream=True)
            self.assertEqual(sum(map(len, iter(lambda: answer.raw.read1(10_000), b""))), 200_000)
            self.assertEqual(client.get(f"{self.url}/200"), 200)

    def test_a_body_that_breaks_off_is_a_failure_however_it_is_read(self):
        with self.driver() as client:
            answer = client.client.get(f"{self.url}/200/broken", stream=True)
            with self.assertRaises(Exception):
                while answer.raw.read1(10_000):
                    pass
            answer.close()
        self.assertEqual(self.counts(), (0, 1, 0))

    def test_a_request_that_is_sent_again_with_a_password_is_a_call(self):
        from requests.auth import HTTPDigestAuth

        with self.driver() as client:
            challenge = quote('WWW-Authenticate=Digest realm="r", nonce="n", qop="auth"')
            answer = client.client.get(f"{self.url}/401/digest?{challenge}", auth=HTTPDigestAuth("me", "secret"))
        self.assertEqual(answer.status_code, 500)
        self.assertEqual(self.counts(), (1, 1, 0))

    def test_one_adapter_can_be_behind_another(self):
        import requests

        from shared_breaker.requests import Adapter

        with requests.Session() as session:
            session.mount("http://", Adapter(Adapter(name="inner"), name="outer", max_concurrent=1))
            answer = session.get(f"{self.url}/200/slow", stream=True)
            self.assertRaises(Rejected, session.get, f"{self.url}/200")
            self.server.go_on.set()
            self.assertEqual(len(answer.content), 200_000)
        self.assertEqual((self.counts("outer"), self.counts("inner")), ((1, 0, 0), (1, 0, 0)))

    def test_a_session_can_be_pickled(self):
        with self.driver(max_failures=1) as client:
            client.get(f"{self.url}/200")
            with pickle.loads(pickle.dumps(client.client)) as copy:
                self.assertEqual(copy.get(f"{self.url}/500").status_code, 500)
            self.assertRaises(Rejected, client.get, f"{self.url}/200")

    def test_a_rejection_can_be_pickled(self):
        from shared_breaker import requests as integration

        self.assert_can_be_pickled(integration)


@needs("aiohttp")
class AiohttpTests(LoopCases, ClientTestCase):
    Driver = Aiohttp

    def test_an_answer_that_is_dropped_gives_its_room_back(self):
        with self.driver(max_concurrent=1) as client:
            parts = client.open(f"{self.url}/200/slow")
            del parts
            gc.collect()
            # The client itself keeps the answer until its body has come.
            self.assertRaises(client.Rejected, client.get, f"{self.url}/200")
            self.server.go_on.set()
            eventually(lambda: self.got(client) == 200)

    def test_a_timeout_of_all_is_a_failure_while_it_connects_and_while_a_stream_comes(self):
        import aiohttp
        from aiohttp.abc import AbstractResolver

        from shared_breaker.aiohttp import Middleware

        reached = []

        class Slow(AbstractResolver):
            async def resolve(self, *words, **options):
                reached.append("the resolver")
                await asyncio.sleep(3_600)

            async def close(self):
                pass

        async def connect(session):
            await session.get("http://slow.example/")

        async def read(session):
            async with session.get(f"{self.url}/200/slow") as answer:
                reached.append("the body")
                async for _ in answer.content.iter_chunked(1_000):
                    pass

        async def main(request, **options):
            middlewares, timeout = [Middleware(name="api", max_failures=10_000)], aiohttp.ClientTimeout(total=0.05)
            connector = aiohttp.TCPConnector(**options)
            async with aiohttp.ClientSession(middlewares=middlewares, connector=connector, timeout=timeout) as session:
                # On a busy machine the time may be over before the request is where it is to hang.
                while not reached:
                    before = self.counts("api")[1]
                    with self.assertRaises(TimeoutError):
                        await request(session)
            self.assertEqual(self.counts("api")[1] - before, 1)

        breaker("api").acquire().report("ignored")
        asyncio.run(main(connect, resolver=Slow()))
        reached.clear()
        asyncio.run(main(read))
        self.assertEqual(self.counts("api")[0], 0)

    def test_a_kept_connection_that_was_closed_is_no_failure(self):
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

        def serve():
            for requests in (2, 1):  # of the second request, only the connection ends
                connection = server.accept()[0]
                with connection:
                    for number in range(requests):
                        connection.recv(65_536)
                        if number == 0:
                            connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        self.addCleanup(thread.join)
        with self.driver(name="api", max_failures=1) as client:
            url = f"http://127.0.0.1:{server.getsockname()[1]}/"
            self.assertEqual([client.get(url), client.get(url)], [200, 200])
        self.assertEqual(self.counts("api"), (2, 0, 1))

    def test_each_kept_connection_that_was_closed_is_no_failure(self):
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

        def serve():
            for _ in range(3):  # of the second request of each, only the connection ends
                try:
                    connection = server.accept()[0]
                except OSError:  # the test is over
                    return
                with connection:
                    connection.recv(65_536)
                    connection.sendall(answer)
                    connection.recv(65_536)

        thread = threading.Thread(target=serve)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown, socket.SHUT_RDWR)

        async def main(client):
            return [await client.get_async(f"http://127.0.0.1:{server.getsockname()[1]}/") for _ in range(3)]

        with self.driver(name="api", max_failures=1) as client:
            self.assertEqual(client.run(main(client)), [200, 200, 200])
        self.assertEqual(self.counts("api"), (3, 0, 2))

    def test_an_exception_of_the_body_that_is_sent_tells_nothing(self):
        import aiohttp

        async def body():
            yield b"x"
            raise KeyError("the caller's own")

        async def post(client):
            await client.client.post(f"{self.url}/200", data=body())

        with self.driver(max_failures=1) as client:
            with self.assertRaises(aiohttp.ClientError):
                client.run(post(client))
        self.assertEqual(self.counts(), (0, 0, 1))

    def test_an_exception_of_the_block_is_no_failure_while_the_body_comes(self):
        import aiohttp

        async def get(client, path, error):
            async with client.client.get(f"{self.url}{path}", raise_for_status=False) as answer:
                if error is None:
                    answer.raise_for_status()
                raise error

        with self.driver(max_failures=1) as client:
            for path, error in (
                    ("/404/slow", None), ("/200/slow", OSError(28, "no space left")),
                    ("/200/slow", aiohttp.ClientConnectionResetError("of a server's own client"))):
                with self.assertRaises((aiohttp.ClientError, OSError)):
                    client.run(get(client, path, error))
        eventually(lambda: self.counts() == (3, 0, 0))

    def test_a_websocket_keeps_its_room_until_it_is_closed(self):
        import aiohttp
        from aiohttp import web

        from shared_breaker.aiohttp import Middleware

        async def answer(request):
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            async for message in socket:
                await socket.send_str(message.data)
            return socket

        async def main():
            application = web.Application()
            application.router.add_get("/", answer)
            runner = web.AppRunner(application)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
            async with aiohttp.ClientSession(middlewares=[Middleware(name="api", max_concurrent=1)]) as session:
                async with session.ws_connect(url) as first:
                    await first.send_str("hello")
                    self.assertEqual((await first.receive()).data, "hello")
                    with self.assertRaises(Rejected):
                        await session.ws_connect(url)
                async with session.ws_connect(url):
                    pass
            await runner.cleanup()

        asyncio.run(main())
        self.assertEqual(self.counts("api"), (2, 0, 0))

    def test_a_rejection_can_be_pickled(self):
        from shared_breaker import aiohttp as integration

        self.assert_can_be_pickled(integration)

    def test_a_certificate_that_is_not_valid_is_a_failure(self):
        import types

        import aiohttp
        from yarl import URL

        from shared_breaker.aiohttp import Middleware

        key = types.SimpleNamespace(host="api.example", port=443, is_ssl=True, ssl=True)

        async def handler(request):
            raise aiohttp.ClientConnectorCertificateError(key, Exception("expired"))

        request = types.SimpleNamespace(method="GET", url=URL("https://api.example/"))
        with self.assertRaises(aiohttp.ClientConnectorCertificateError):
            asyncio.run(Middleware()(request, handler))
        self.assertEqual(self.counts("http/api.example:443"), (0, 1, 0))

    def test_one_middleware_can_be_behind_another(self):
        import aiohttp

        from shared_breaker.aiohttp import Middleware

        async def main():
            both = [Middleware(name="outer", max_concurrent=1), Middleware(name="inner")]
            async with aiohttp.ClientSession(middlewares=both) as session:
                answer = await session.get(f"{self.url}/200/slow")
                with self.assertRaises(Rejected):
                    await session.get(f"{self.url}/200")
                self.server.go_on.set()
                await answer.read()

        asyncio.run(main())
        self.assertEqual((self.counts("outer"), self.counts("inner")), ((1, 0, 0), (1, 0, 0)))

    def got(self, client):
        try:
            return client.get(f"{self.url}/200")
        except Rejected:
            return None


class Provider(http.server.BaseHTTPRequestHandler):
    """Answers as the services of language models do: after ``server.refusals`` answers 429 or 500."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append(question)
        if self.server.refusals:
            status, headers = self.server.refusals.pop(0)
            self.answer(status, b'{"error": {"message": "later", "type": "rate_limit_error"}}', **headers)
        elif question.get("stream"):
            parts = self.openai_parts() if "completions" in self.path else self.anthropic_parts()
            self.answer(200, parts, **{"Content-Type": "text/event-stream"})
        elif "completions" in self.path:
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}
            self.answer(200, json.dumps(self.completion("chat.completion", choice)).encode())
        else:
            content = [{"type": "text", "text": "hello"}]
            self.answer(200, json.dumps(self.message(content, "end_turn")).encode())

    def answer(self, status, body, **headers):
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def completion(self, kind, choice):
        return {"id": "1", "object": kind, "created": 1, "model": "small", "choices": [choice]}

    def openai_parts(self):
        choices = [
            {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None} for text in ("hel", "lo")]
        parts = [json.dumps(self.completion("chat.completion.chunk", choice)) for choice in choices]
        return "".join(f"data: {part}\n\n" for part in [*parts, "[DONE]"]).encode()

    def message(self, content, reason):
        return {
            "id": "1", "type": "message", "role": "assistant", "model": "small", "content": content,
            "stop_reason": reason, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}

    def anthropic_parts(self):
        events = [
            {"type": "message_start", "message": self.message([], None)},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hello"}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
             "usage": {"output_tokens": 1}},
            {"type": "message_stop"}]
        return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()

    def log_message(self, *words):
        pass


class ModelCases:
    """The cases of both SDKs of language models."""

    Handler = Provider

    def setUp(self):
        super().setUp()
        self.server.refusals = []

    def test_a_call_is_answered_and_a_stream_read(self):
        with self.client() as client:
            self.assertEqual(self.ask(client), "hello")
            self.assertEqual(self.stream(client), "hello")
        self.assertEqual(self.counts(), (2, 0, 0))

    def test_an_asynchronous_call_is_answered_and_a_stream_read(self):
        async def main():
            async with self.async_client() as client:
                return await self.ask_async(client), await self.stream_async(client)

        self.assertEqual(asyncio.run(main()), ("hello", "hello"))
        self.assertEqual(self.counts(), (2, 0, 0))

    def test_a_hold_stops_every_call_of_a_client_that_does_not_retry(self):
        self.server.refusals = [(429, {"Retry-After": "60"})]
        with self.client(max_retries=0) as client:
            self.assertRaises(self.sdk.RateLimitError, self.ask, client)
            with self.assertRaises(self.sdk.APIConnectionError) as caught:
                self.ask(client)
        self.assertIsInstance(caught.exception.__cause__, Rejected)
        self.assertEqual(caught.exception.__cause__.cause, "held")
        self.assertEqual(len(self.server.seen), 1)

    def test_a_client_with_its_usual_retries_does_not_reach_the_service_either(self):
        self.server.refusals = [(429, {"Retry-After": "60", "x-should-retry": "false"})]
        with self.client() as client:
            self.assertRaises(self.sdk.RateLimitError, self.ask, client)
            self.assertRaises(self.sdk.APIConnectionError, self.ask, client)
        self.assertEqual(len(self.server.seen), 1)

    def test_a_service_that_fails_opens_the_breaker(self):
        self.server.refusals = [(500, {})] * 3
        with self.client(max_retries=0) as client:
            for _ in range(3):
                self.assertRaises(self.sdk.InternalServerError, self.ask, client)
            self.assertRaises(self.sdk.APIConnectionError, self.ask, client)
        self.assertEqual(self.counts()[1], 3)

    @property
    def integration(self):
        """The integration of the package that the SDK uses."""
        used = next(kind.__module__ for kind in self.sdk.DefaultHttpxClient.__mro__ if kind.__name__ == "Client")
        return importlib.import_module(f"shared_breaker.{used.partition('.')[0]}")

    def client(self, **options):
        http_client = self.sdk.DefaultHttpxClient(transport=self.integration.Transport(max_failures=3, open_for=3_600))
        return self.kind(base_url=self.url, api_key="secret", http_client=http_client, **options)

    def async_client(self, **options):
        http_client = self.sdk.DefaultAsyncHttpxClient(transport=self.integration.AsyncTransport(max_failures=3, open_for=3_600))
        return self.async_kind(base_url=self.url, api_key="secret", http_client=http_client, **options)


@needs("httpx", "openai")
class OpenAITests(ModelCases, ClientTestCase):
    words = {"model": "small", "messages": [{"role": "user", "content": "hello?"}]}

    @property
    def sdk(self):
        return importlib.import_module("openai")

    @property
    def kind(self):
        return self.sdk.OpenAI

    @property
    def async_kind(self):
        return self.sdk.AsyncOpenAI

    def ask(self, client):
        return client.chat.completions.create(**self.words).choices[0].message.content

    def stream(self, client):
        with client.chat.completions.create(stream=True, **self.words) as parts:
            return "".join(part.choices[0].delta.content for part in parts)

    async def ask_async(self, client):
        return (await client.chat.completions.create(**self.words)).choices[0].message.content

    async def stream_async(self, client):
        async with await client.chat.completions.create(stream=True, **self.words) as parts:
            return "".join([part.choices[0].delta.content async for part in parts])


@needs("httpx", "anthropic")
class AnthropicTests(ModelCases, ClientTestCase):
    words = {"model": "small", "max_tokens": 5, "messages": [{"role": "user", "content": "hello?"}]}

    @property
    def sdk(self):
        return importlib.import_module("anthropic")

    @property
    def kind(self):
        return self.sdk.Anthropic

    @property
    def async_kind(self):
        return self.sdk.AsyncAnthropic

    def ask(self, client):
        return client.messages.create(**self.words).content[0].text

    def stream(self, client):
        with client.messages.stream(**self.words) as parts:
            return "".join(parts.text_stream)

    async def ask_async(self, client):
        return (await client.messages.create(**self.words)).content[0].text

    async def stream_async(self, client):
        async with client.messages.stream(**self.words) as parts:
            return "".join([part async for part in parts.text_stream])


if __name__ == "__main__":
    unittest.main()
