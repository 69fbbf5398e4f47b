"""A provider of an API with a quota, on loopback: it answers 429 beyond the quota, and counts every request.

    python3 provider.py --quota 60 --window 60

It prints its address, and serves until it is ended. Any path is a request, and /log is the list of all requests until
then: in which millisecond since the first one, in which window, with which status, and who has asked (the header
X-Asker).
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import email.utils
import http.client
import http.server
import itertools
import json
import math
import threading
import time

import children

# How an answer 429 names the time for which it asks to be left alone.
FORMS = {
    "seconds": lambda wait: {"Retry-After": str(math.ceil(wait / 1_000))},
    "milliseconds": lambda wait: {"retry-after-ms": str(wait)},
    "date": lambda wait: {
        "Retry-After": email.utils.formatdate(math.ceil(time.time() + wait / 1_000), usegmt=True)},
    "reset": lambda wait: {
        "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": f"{wait / 1_000}s"},
    "opensky": lambda wait: {"X-Rate-Limit-Retry-After-Seconds": str(math.ceil(wait / 1_000))},
    "nothing": lambda wait: {},
}


class Provider:
    """A provider in a process of its own, which ends with the block."""

    def __init__(self, *words: object) -> None:
        """Start one with the words of its command line."""
        self._child = children.start(serve, [str(word) for word in words])
        self.port = self._child.answer()

    def log(self) -> list[dict]:
        """Return all requests until now, in their order."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", "/log")
        log = json.loads(connection.getresponse().read())
        connection.close()
        return log

    def refused(self) -> list[dict]:
        """Return the requests that got a 429."""
        return [request for request in self.log() if request["status"] == 429]

    def __enter__(self) -> Provider:
        return self

    def __exit__(self, *exception: object) -> None:
        self._child.end()


def ask(port: int, who: object) -> http.client.HTTPResponse:
    """Make a request, and return the answer; nothing is tried again."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", "/v1/answers", headers={"X-Asker": str(who)})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


class Quota:
    """Decides about each request, in fixed windows that begin with the first one."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._window = max(1, round(options.window * 1_000))
        self._quotas = [int(quota) for quota in options.quota.split(",")]
        waits = options.wait and options.wait.split(",")
        self._waits = waits and itertools.chain(waits, itertools.repeat(waits[-1]))
        self._form = options.tell
        self._now = time.monotonic
        if options.clock:
            from shared_breaker.testing import Clock

            self._now = Clock(options.clock).now
        self._begun = None
        self._lock = threading.Lock()
        self._served = collections.Counter()
        self.log = []

    def decide(self, who: str | None) -> tuple[int, dict[str, str]]:
        """Return the status and the headers of an answer."""
        with self._lock:
            now = int(self._now() * 1_000)  # never ahead, so that no time that is named is too short
            self._begun = now if self._begun is None else self._begun
            number, into = divmod(now - self._begun, self._window)
            status = 200 if self._served[number] < self._quotas[number % len(self._quotas)] else 429
            self._served[number] += status == 200
            self.log.append({"at": now - self._begun, "window": number, "status": status, "who": who})
            return status, {} if status == 200 else self._headers(self._window - into)

    def _headers(self, left: int) -> dict[str, str]:
        if not self._waits:
            return FORMS[self._form](left)
        wait = next(self._waits)
        return {} if wait == "nothing" else FORMS[self._form](round(float(wait) * 1_000))


class Server(http.server.ThreadingHTTPServer):
    """A server for many callers at once."""

    request_queue_size = 256
    daemon_threads = True


def handler(quota: Quota, work: float) -> type:
    """Return the handler of requests; one that is served takes ``work`` seconds."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/log":
                return self._answer(200, {}, json.dumps(quota.log).encode())
            status, headers = quota.decide(self.headers["X-Asker"])
            if status == 200:
                time.sleep(work)
            self._answer(status, headers, b"an answer\n" if status == 200 else b"too many requests\n")

        do_POST = do_GET

        def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            """Print nothing: /log has it."""

    return Handler


def make(words: list[str] | None = None) -> Server:
    """Return the server of a command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quota", default="60", help="requests of each window; N,M,... for one window after the other")
    parser.add_argument("--window", type=float, default=60, help="seconds of a window")
    parser.add_argument("--tell", choices=FORMS, default="seconds", help="how a 429 names a time")
    parser.add_argument(
        "--wait", help="seconds that a 429 names instead of the rest of the window, or 'nothing'; "
        "N,M,... for one after the other, and the last for all others")
    parser.add_argument("--work", type=float, default=0, help="seconds that an answer takes")
    parser.add_argument("--clock", help="the file of a shared_breaker.testing.Clock, instead of the host's clock")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args(words)
    return Server(("127.0.0.1", options.port), handler(Quota(options), options.work))


def serve(commands: object, words: list[str]) -> None:
    """Be a provider of a replay: answer with the port, and serve until the end of the process."""
    server = make(words)
    commands.send(server.server_port)
    server.serve_forever()


if __name__ == "__main__":
    server = make()
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()
