"""The recipes of the guide, with the packages that they are for, where those are installed."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import http.server
import importlib
import importlib.util
import inspect
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types
import unittest
from pathlib import Path
from unittest import mock

import shared_breaker
from shared_breaker import Rejected, SharedStore
from shared_breaker._policy import _KINDS
from support import StoreTestCase, eventually, stop

RECIPES = Path(__file__).parent / "recipes"
GUIDES = Path(__file__).parents[3] / "Sources/Breaker/SharedBreaker/SharedBreaker.docc"
# It is a program, which pip puts beside the interpreter.
UWSGI = shutil.which(
    "uwsgi", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")]))


def needs(package):
    """Leave a test out where a package is not installed."""
    top = package.partition(".")[0]  # whose absence would be an error in looking for the rest
    is_there = importlib.util.find_spec(top) and importlib.util.find_spec(package)
    return unittest.skipUnless(is_there, f"{package} is not installed")


class Recipe(StoreTestCase):
    """A test of a recipe, which finds its default store in the directory of the test."""

    def setUp(self):
        super().setUp()
        sys.path.insert(0, str(RECIPES))
        self.addCleanup(sys.path.remove, str(RECIPES))
        previous = os.environ.get("SHARED_BREAKER_STORE")
        os.environ["SHARED_BREAKER_STORE"] = self.path
        self.addCleanup(self.restore, previous)

    def restore(self, previous):
        if previous is None:
            del os.environ["SHARED_BREAKER_STORE"]
        else:
            os.environ["SHARED_BREAKER_STORE"] = previous

    def load(self, name):
        """Load a recipe with a default store of its own."""
        shared_breaker._default = None
        self.addCleanup(setattr, shared_breaker, "_default", None)
        sys.modules.pop(name, None)
        return importlib.import_module(name)

    def start(self, *words, **options):
        process = subprocess.Popen(
            words, cwd=RECIPES, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True, **options)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        stop(process)


class Guide(unittest.TestCase):
    def test_the_guide_shows_the_recipes_as_they_are_tested(self):
        guide = (GUIDES / "PythonRecipes.md").read_text()
        for recipe in RECIPES.glob("*.py"):
            self.assertIn(f"```python\n{recipe.read_text()}```", guide, recipe.name)

    def test_the_guide_has_no_recipe_that_is_not_tested(self):
        guide = (GUIDES / "PythonRecipes.md").read_text()
        recipes = {recipe.read_text() for recipe in RECIPES.glob("*.py")}
        untested = [block for block in re.findall(r"```python\n(.*?)```", guide, re.DOTALL) if block not in recipes]
        # The import that moves a program from pybreaker, which test_pybreaker tests.
        self.assertEqual(len(untested), 3, untested)
        # test_testing.py has tests like these two.
        self.assertIn("breaker_clock", untested[0])
        self.assertIn("Host(tmp_path, store=shop.store)", untested[1])
        self.assertIn("from shared_breaker import pybreaker", untested[2])

    def test_the_guide_has_every_keyword_with_its_default(self):
        guide = (GUIDES / "UsingItFromPython.md").read_text()
        rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|", guide, re.MULTILINE))
        named = {key for row in rows for key in re.findall(r"`(\w+)`", row)}
        keywords = set(inspect.signature(shared_breaker.breaker).parameters) - {"name", "policy", "words"}
        keywords |= set(inspect.signature(SharedStore).parameters) - {"path"}
        self.assertEqual((set(_KINDS) | keywords) - named, set())
        with tempfile.TemporaryDirectory() as directory:
            with SharedStore(os.path.join(directory, "breakers.db")) as store:
                payments = store.breaker("payments")
                payments.call(int)
                policy = payments.snapshot()["policy"]
        self.assertEqual(policy.pop("max-failures"), 5)
        for row, defaults in rows.items():
            keys = re.findall(r"`(\w+)`", row)
            for key, default in zip(keys, defaults.split(", ") * len(keys)):
                if key in set(_KINDS) - {"max_failures"}:
                    value = policy.pop(key.replace("_", "-"))
                    if value == "1d":
                        value = 86400
                    shown = "`None`" if value is None else str(value).rstrip("s%")
                    if _KINDS[key] == "Word":
                        shown = f'`"{value}"`'
                    if _KINDS[key] == "Flag":
                        shown = f"`{value == 'yes'}`"
                    self.assertEqual(default, shown, key)
        self.assertEqual(policy, {})


class SharingALimit(Recipe):
    def test_the_example_of_the_guide_answers_and_says_when_it_is_busy(self):
        names = {"ask": str.upper}
        exec(self.examples()[0], names)
        self.assertEqual(names["answer"]("why"), "WHY")
        # Declared last, so it is in force: so long a wait would be no test.
        model = shared_breaker.breaker("model", max_concurrent=4, queue_timeout=0.001)
        permits = [model.acquire() for _ in range(4)]
        self.assertIn("Too many questions", names["answer"]("why"))
        for permit in permits:
            permit.report("success")
        self.assertEqual(names["answer"]("why"), "WHY")

    def test_the_other_examples_claim_units_and_start_a_command_inside_of_a_call(self):
        heavy, inside = self.examples()[1:]
        gpu = shared_breaker.breaker("gpu", max_concurrent=4)
        units = []
        program = "import os, sys; sys.exit(0 if os.environ['SHARED_BREAKER_INSIDE'] else 1)"
        names = {
            "gpu": gpu, "os": os, "subprocess": subprocess, "command": [sys.executable, "-c", program],
            "train": lambda: units.append(gpu.snapshot()["limit"]["in_use"])}
        exec(heavy, names)
        self.assertEqual(units, [2])
        exec(inside.replace("subprocess.run(", "done = subprocess.run("), names)
        self.assertEqual(names["done"].returncode, 0)

    def examples(self):
        """Return the programs of the guide, which use the default store."""
        shared_breaker._default = None
        self.addCleanup(setattr, shared_breaker, "_default", None)
        guide = (GUIDES / "SharingALimit.md").read_text()
        return re.findall(r"```python\n(.*?)```", guide, re.DOTALL)


# An application of which one request hangs.
HANGING_APP = """
import time
from shared_breaker import breaker

payments = breaker("payments", max_failures=1, open_for=3600)


def app(environ, start_response):
    if environ["QUERY_STRING"]:
        with payments:
            time.sleep(3600)
    start_response("200 OK", [])
    return [b""]
"""


SLOW_APP = """
import time
from shared_breaker import Rejected, breaker

payments = breaker("payments", max_failures=3, open_for=3600, max_concurrent=4, lost_calls="failure")


def app(environ, start_response):
    status = "200 OK"
    try:
        if environ["QUERY_STRING"] == "hang":
            with payments:
                time.sleep(3600)
    except Rejected:
        status = "503 Service Unavailable"
    start_response(status, [])
    return [b""]
"""


# A program whose requests wait for each other in one process.
TURNS_APP = """
import gevent
from shared_breaker import breaker

gpu = breaker("gpu", max_concurrent=1, queue_timeout=3600)


def app(environ, start_response):
    if environ["QUERY_STRING"]:
        with gpu:
            gevent.sleep(0.01)
    start_response("200 OK", [])
    return [b""]
"""


# One of which a request hangs in C, where no signal handler of Python runs: its worker can only be killed.
STUCK_APP = """
import ctypes
from shared_breaker import Rejected, breaker

payments = breaker("payments", max_failures=2, open_for=3600, max_concurrent=4, lost_calls="failure")
libc = ctypes.CDLL(None)


def app(environ, start_response):
    status = "200 OK"
    try:
        with payments:
            if environ["QUERY_STRING"] == "hang":
                lock = ctypes.create_string_buffer(128)
                libc.pthread_mutex_lock(lock)
                libc.pthread_mutex_lock(lock)
    except Rejected:
        status = "503 Service Unavailable"
    start_response(status, [])
    return [b""]
"""


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=30)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(self.path)


def has_ended(pid):
    """Return whether a process is gone, or only has to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


# An application that goes on with a call for good if the query is a file, which then gets its process.
HOLDING_APP = """
import os, threading
from shared_breaker import Rejected, breaker

payments = breaker("payments")


def app(environ, start_response):
    held = environ["QUERY_STRING"]
    while True:
        try:
            with payments:
                if held:
                    with open(f"{held}.new", "x") as file:
                        file.write(str(os.getpid()))
                    os.rename(f"{held}.new", held)
                    threading.Event().wait()
            start_response("200 OK", [])
            return [b""]
        except Rejected:
            if not held:
                start_response("503 Service Unavailable", [])
                return [b""]
"""


class Servers(Recipe):
    def ask(self, path, query=""):
        connection = UnixConnection(path)
        try:
            connection.request("GET", f"/{query}")
            answer = connection.getresponse()
            return answer.status, answer.headers.get("Retry-After")
        finally:
            connection.close()

    def check_gunicorn(self, *options):
        path = os.path.join(self.directory, "socket")
        self.check_server(
            path, sys.executable, "-m", "gunicorn", "--workers", "4", "--bind", f"unix:{path}",
            *options, "wsgi_app:app")

    @needs("gunicorn")
    def test_a_worker_of_gunicorn_that_is_killed_in_a_probe_frees_its_slot_at_once(self):
        self.check_killed_worker()

    @needs("gunicorn")
    def test_a_worker_of_a_preloaded_application_that_is_killed_in_a_probe_frees_its_slot_at_once(self):
        self.check_killed_worker("--preload")

    def check_killed_worker(self, *options):
        """Kill a worker in a probe whose lease has an hour: only the freed slot permits the next."""
        path = os.path.join(self.directory, "socket")
        held = os.path.join(self.directory, "held")
        Path(self.directory, "holding_app.py").write_text(HOLDING_APP)
        payments = self.store.breaker("payments", max_failures=1, probe_timeout=3600)
        self.start(
            sys.executable, "-m", "gunicorn", "--workers", "4", "--timeout", "3600",
            "--bind", f"unix:{path}", *options, "holding_app:app",
            env={**os.environ, "PYTHONPATH": os.pathsep.join([self.directory, *sys.path])})
        eventually(lambda: os.path.exists(path) and self.answers(path))
        payments.trip(0.001)
        with contextlib.closing(UnixConnection(path)) as connection:
            connection.request("GET", f"/?{held}")
            worker = int(eventually(lambda: os.path.exists(held) and Path(held).read_text()))
            for _ in range(20):
                self.assertEqual(self.ask(path)[0], 503)
            os.kill(worker, signal.SIGKILL)
            with self.assertRaises((http.client.HTTPException, OSError)):
                connection.getresponse()
        # Its server reaps it; until then, its files are closed all the same.
        eventually(lambda: has_ended(worker))
        self.assertEqual(self.ask(path)[0], 200)
        self.assertEqual(self.store.snapshot("payments")["state"], "closed")

    @needs("uvicorn")
    def test_workers_of_uvicorn_share_a_breaker(self):
        path = os.path.join(self.directory, "socket")
        self.check_server(
            path, sys.executable, "-m", "uvicorn", "--workers", "4", "--uds", path, "asgi_app:app")

    @needs("hypercorn")
    def test_workers_of_hypercorn_share_a_breaker(self):
        path = os.path.join(self.directory, "socket")
        self.check_server(
            path, sys.executable, "-m", "hypercorn", "--workers", "4", "--bind", f"unix:{path}",
            "asgi_app:app")

    def check_uwsgi(self, *options):
        path = os.path.join(self.directory, "socket")
        self.check_server(
            path, UWSGI, "--master", "--processes", "4", "--http-socket", path, *options,
            "--module", "wsgi_app:app")

    def check_server(self, path, *command):
        self.start(*command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        eventually(lambda: os.path.exists(path) and self.answers(path))
        statuses = [self.ask(path, "?down")[0] for _ in range(20)]
        self.assertEqual(statuses, [502] * 3 + [503] * 17)
        status, wait = self.ask(path)
        self.assertEqual(status, 503)
        self.assertTrue(1 <= int(wait) <= 30, wait)
        self.store.breaker("payments").reset()
        self.assertEqual({self.ask(path)[0] for _ in range(20)}, {200})
        self.assertEqual(self.totals("payments")["failures"], 3)

    def answers(self, path):
        try:
            return self.ask(path)
        except OSError:
            return None

    @needs("gunicorn")
    def test_workers_of_gunicorn_share_a_breaker(self):
        self.check_gunicorn()

    @needs("gunicorn")
    def test_workers_of_gunicorn_share_a_breaker_of_a_preloaded_application(self):
        self.check_gunicorn("--preload")

    @unittest.skipIf(os.getuid() != 0, "only root can let workers be of another user")
    @needs("gunicorn")
    def test_workers_of_gunicorn_share_a_breaker_that_their_master_declares_as_root(self):
        os.chmod(self.directory, 0o777)
        self.check_gunicorn("--preload", "-u", "65534", "-g", "65534")
        self.assertEqual(os.stat(self.path).st_uid, 65_534)

    @unittest.skipUnless(UWSGI, "uwsgi is not installed")
    def test_workers_of_uwsgi_share_a_breaker_that_they_are_forked_with(self):
        # Without --enable-threads: then the interpreter is never made ready for threads.
        self.check_uwsgi()

    @unittest.skipUnless(UWSGI, "uwsgi is not installed")
    def test_workers_of_uwsgi_share_a_breaker_that_each_of_them_opens(self):
        self.check_uwsgi("--lazy-apps")

    @unittest.skipUnless(UWSGI, "uwsgi is not installed")
    def test_threads_of_uwsgi_share_a_breaker(self):
        self.check_uwsgi("--threads", "4")

    @needs("gunicorn")
    def test_a_request_that_takes_longer_than_gunicorn_allows_is_a_failure(self):
        self.assertEqual(self.hang(hook="def worker_abort"), 500)
        after = self.store.snapshot("payments")
        self.assertEqual((after["state"], after["totals"]["failures"]), ("open", 1))
        self.assertIn("WorkerTimeout", after["last_error"])

    @needs("gunicorn")
    def test_a_request_that_gunicorn_ends_without_the_hook_is_ignored(self):
        self.hang(hook="def unused")
        eventually(lambda: self.totals("payments")["ignored"] == 1)
        self.assertEqual(self.store.snapshot("payments")["state"], "closed")

    def hang(self, hook):
        """Let a request hang, and return the status of its answer; None if there is none."""
        path = os.path.join(self.directory, "socket")
        Path(self.directory, "hanging_app.py").write_text(HANGING_APP)
        settings = Path(RECIPES, "gunicorn_conf.py").read_text()
        settings = settings.replace("timeout = 30", "timeout = 1").replace("def worker_abort", hook)
        Path(self.directory, "conf.py").write_text(settings)
        self.start(
            sys.executable, "-m", "gunicorn", "--config", os.path.join(self.directory, "conf.py"),
            "--bind", f"unix:{path}", "hanging_app:app",
            env={**os.environ, "PYTHONPATH": os.pathsep.join([self.directory, *sys.path])})
        eventually(lambda: os.path.exists(path) and self.answers(path))
        try:
            return self.ask(path, "?hang")[0]
        except (http.client.HTTPException, OSError):
            return None

    @needs("gunicorn")
    def test_requests_that_hang_until_gunicorn_kills_their_workers_open_the_breaker(self):
        path = os.path.join(self.directory, "socket")
        Path(self.directory, "stuck_app.py").write_text(STUCK_APP)
        self.start(
            sys.executable, "-m", "gunicorn", "--workers", "2", "--timeout", "2", "--bind", f"unix:{path}",
            "stuck_app:app", env={**os.environ, "PYTHONPATH": os.pathsep.join([self.directory, *sys.path])})
        eventually(lambda: os.path.exists(path) and self.answers(path))
        # Nothing succeeds in between. A process that makes a call a second later records the lost calls.
        for hung in range(8):
            try:
                self.assertEqual(self.ask(path, "?hang")[0], 503)
                break
            except (http.client.HTTPException, OSError):
                pass
        snapshot = self.store.snapshot("payments")
        self.assertEqual(snapshot["state"], "open", hung)
        self.assertGreaterEqual(hung, 2)
        self.assertEqual(snapshot["totals"]["failures"], snapshot["totals"]["lost_calls"])
        self.assertIn("ended while the call was under way", snapshot["last_error"])

    @needs("gunicorn")
    @needs("gevent")
    def test_requests_of_a_gevent_worker_wait_for_room_while_others_are_served(self):
        path = os.path.join(self.directory, "socket")
        Path(self.directory, "turns_app.py").write_text(TURNS_APP)
        self.start(
            sys.executable, "-m", "gunicorn", "-k", "gevent", "--bind", f"unix:{path}", "turns_app:app",
            env={**os.environ, "PYTHONPATH": os.pathsep.join([self.directory, *sys.path])})
        eventually(lambda: os.path.exists(path) and self.answers(path))
        answers = []
        requests = [
            threading.Thread(target=lambda: answers.append(self.ask(path, "?turn")[0])) for _ in range(20)]
        for request in requests:
            request.start()
        for request in requests:
            request.join()
        self.assertEqual(answers, [200] * 20)

    @needs("gunicorn")
    def test_requests_that_gunicorn_ends_are_failures_where_lost_calls_are(self):
        path = os.path.join(self.directory, "socket")
        Path(self.directory, "slow_app.py").write_text(SLOW_APP)
        self.start(
            sys.executable, "-m", "gunicorn", "--timeout", "1", "--bind", f"unix:{path}", "slow_app:app",
            env={**os.environ, "PYTHONPATH": os.pathsep.join([self.directory, *sys.path])})
        eventually(lambda: os.path.exists(path) and self.answers(path))
        for hung in range(6):
            with contextlib.suppress(http.client.HTTPException, OSError):
                # gunicorn may have answered 500 before it ends the worker.
                if self.ask(path, "?hang")[0] == 503:
                    break
        snapshot = self.store.snapshot("payments")
        self.assertEqual((hung, snapshot["state"], snapshot["totals"]["ignored"]), (3, "open", 0))
        self.assertIn("SystemExit: 1", snapshot["last_error"])

    @needs("gunicorn")
    @needs("prometheus_client")
    def test_any_worker_of_gunicorn_answers_a_scrape_for_all(self):
        path = os.path.join(self.directory, "socket")
        files = os.path.join(self.directory, "metrics")
        os.mkdir(files)
        payments = self.store.breaker("payments", max_failures=3)
        payments.call(int)
        self.let_fail(payments, times=3)
        self.start(
            sys.executable, "-m", "gunicorn", "--workers", "4", "--bind", f"unix:{path}",
            "prometheus_app:app", env={
                **os.environ, "PYTHONPATH": os.pathsep.join(sys.path),
                "PROMETHEUS_MULTIPROC_DIR": files})
        eventually(lambda: os.path.exists(path) and self.answers(path))
        count = len([self.ask(path) for _ in range(20)])
        for _ in range(10):
            lines = self.read(path, "metrics").splitlines()
            self.assertIn('shared_breaker_state{name="payments",state="open"} 1.0', lines)
            self.assertIn('shared_breaker_calls_total{name="payments",outcome="failure"} 3.0', lines)
            requests = [line for line in lines if line.startswith("shop_requests_total")]
            self.assertGreaterEqual(float(requests[0].split()[1]), count)

    def read(self, path, page):
        with contextlib.closing(UnixConnection(path)) as connection:
            connection.request("GET", f"/{page}")
            return connection.getresponse().read().decode()

    @needs("flask")
    def test_an_application_of_flask_answers_503_while_the_breaker_rejects(self):
        client = self.load("flask_app").app.test_client()
        self.assertEqual(client.post("/orders/one").text, "charged\n")
        for _ in range(3):
            self.assertEqual(client.post("/orders/down").status_code, 502)
        answer = client.post("/orders/one")
        self.assertEqual((answer.status_code, answer.headers["Retry-After"]), (503, "30"))

    @needs("fastapi")
    @needs("httpx")
    def test_a_dependency_of_fastapi_is_behind_the_breaker(self):
        import httpx

        recipe = self.load("fastapi_app")

        async def main():
            transport = httpx.ASGITransport(recipe.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:

                async def ask(order):
                    return await client.post(f"/orders/{order}")

                one = await asyncio.gather(*(ask("one") for _ in range(20)))
                unknown = [await ask("unknown") for _ in range(5)]
                down = [await ask("down") for _ in range(3)]
                return [each.status_code for each in one + unknown + down], await ask("one")

        statuses, answer = asyncio.run(main())
        self.assertEqual(statuses, [200] * 20 + [404] * 5 + [502] * 3)
        self.assertEqual((answer.status_code, answer.headers["Retry-After"]), (503, "30"))
        totals = self.totals("payments")
        self.assertEqual(
            (totals["successes"], totals["ignored"], totals["failures"]), (20, 5, 3))

    def test_a_server_of_asyncio_answers_while_the_breaker_rejects(self):
        recipe = self.load("asyncio_server")
        path = os.path.join(self.directory, "socket")

        async def ask(order):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(f"{order}\n".encode())
            answer = (await reader.readline()).decode().strip()
            writer.close()
            return answer

        async def main():
            server = asyncio.create_task(recipe.main(path))
            while not os.path.exists(path):
                await asyncio.sleep(0.01)
            answers = [await ask("one")] + [await ask("down") for _ in range(3)] + [await ask("two")]
            server.cancel()
            return answers

        answers = asyncio.run(main())
        self.assertEqual(answers[:-1], ["charged", "no answer", "no answer", "no answer"])
        self.assertRegex(answers[-1], r"^try again in \d+ s$")


class Queues(Recipe):
    def start_celery(self, *replacements):
        """Start a worker with the recipe, in which some words are replaced, and return the recipe."""
        directory = os.path.join(self.directory, "queue")
        os.mkdir(directory)
        settings = os.path.join(self.directory, "celery_settings.py")
        Path(settings).write_text(f"""
broker_url = "filesystem://"
broker_transport_options = {{
    "data_folder_in": {directory!r}, "data_folder_out": {directory!r},
    "control_folder": {directory + "-control"!r}}}
worker_hijack_root_logger = False
""")
        # Open for longer than any test: no probe comes between, however slow the worker is.
        source = Path(RECIPES, "celery_app.py").read_text()
        for old, new in (("open_for=30", "open_for=3600"), *replacements):
            self.assertIn(old, source)
            source = source.replace(old, new)
        Path(self.directory, "celery_app.py").write_text(source)
        sys.path.insert(0, self.directory)
        self.addCleanup(sys.path.remove, self.directory)
        sys.modules.pop("celery_settings", None)
        recipe = self.load("celery_app")
        recipe.app.config_from_object("celery_settings")
        environment = {
            **os.environ, "PYTHONPATH": os.pathsep.join(sys.path),
            "CELERY_CONFIG_MODULE": "celery_settings", "C_FORCE_ROOT": "1"}
        program = (
            f"import sys; sys.path.insert(0, {self.directory!r}); import celery_app; "
            "celery_app.app.config_from_object('celery_settings'); "
            "celery_app.app.worker_main("
            "['worker', '-P', 'prefork', '-c', '3', '--without-mingle', '--without-gossip'])")
        self.start(sys.executable, "-c", program, env=environment)
        return recipe

    @needs("celery")
    def test_a_task_of_celery_that_hangs_is_a_failure_at_its_soft_limit(self):
        recipe = self.start_celery(
            ("soft_time_limit=20", "soft_time_limit=1"), ("max_failures=3", "max_failures=1"),
            ('return "charged"', "__import__('time').sleep(3600)"))
        recipe.charge.delay("one")
        eventually(lambda: (self.store.snapshot("payments") or {}).get("trips"), seconds=300)
        self.assertIn("SoftTimeLimitExceeded", self.store.snapshot("payments")["last_error"])

    @needs("celery")
    def test_a_task_of_celery_that_hangs_is_a_failure_at_its_hard_limit_where_lost_calls_are(self):
        recipe = self.start_celery(
            ("soft_time_limit=20, time_limit=30", "time_limit=1"),
            ("max_failures=3", "max_failures=1, max_concurrent=2, lost_calls='failure'"),
            ('return "charged"', "__import__('time').sleep(3600)"))
        recipe.charge.delay("one")
        eventually(lambda: (self.store.snapshot("payments") or {}).get("trips"), seconds=300)
        snapshot = self.store.snapshot("payments")
        self.assertEqual((snapshot["totals"]["failures"], snapshot["totals"]["ignored"]), (1, 0))

    @needs("celery")
    def test_tasks_of_celery_go_back_to_the_queue_while_the_breaker_rejects(self):
        recipe = self.start_celery()
        for _ in range(8):
            recipe.charge.delay("down")

        def asked():
            totals = self.store.snapshot("payments") and self.totals("payments")
            return totals and totals["failures"] + totals["rejections"]

        eventually(lambda: asked() == 8, seconds=300)
        self.assertEqual(self.store.snapshot("payments")["trips"], 1)
        # Of three workers, two may be at work while the third one trips the breaker.
        self.assertLessEqual(self.totals("payments")["failures"], 5)


class Clients(Recipe):
    def setUp(self):
        super().setUp()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                status = int(self.path.rpartition("/")[2])
                self.send_response(status)
                if status == 429:
                    self.send_header("Retry-After", "120")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.path = "/429"
                self.do_GET()

            def log_message(self, *words):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=self.server.serve_forever)
        thread.start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(self.server.shutdown)
        self.name = f"http/127.0.0.1:{self.server.server_port}"
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @needs("requests")
    def test_a_session_of_requests_has_a_breaker_for_each_host(self):
        recipe = self.load("requests_session")
        with recipe.session as session:
            self.assertEqual(session.get(f"{self.url}/200").status_code, 200)
            self.assertEqual(session.get(f"{self.url}/404").status_code, 404)
            self.assertEqual(session.get(f"{self.url}/429").status_code, 429)
            with self.assertRaises(Rejected) as caught:
                session.get(f"{self.url}/200")
        self.assertEqual(caught.exception.cause, "held")
        self.assertAlmostEqual(caught.exception.retry_after, 120, delta=5)

    @needs("httpx")
    def test_clients_of_httpx_have_a_breaker_for_each_host(self):
        recipe = self.load("httpx_client")
        with recipe.client as client:
            self.assertEqual(client.get(f"{self.url}/200").status_code, 200)
            self.assertEqual(client.get(f"{self.url}/429").status_code, 429)
            with self.assertRaises(Rejected):
                client.get(f"{self.url}/200")
        self.store.breaker(self.name).reset()

        async def main():
            async with recipe.async_client as client:
                self.assertEqual((await client.get(f"{self.url}/200")).status_code, 200)
                for _ in range(5):
                    self.assertEqual((await client.get(f"{self.url}/500")).status_code, 500)
                with self.assertRaises(Rejected):
                    await client.get(f"{self.url}/200")

        asyncio.run(main())

    @needs("aiohttp")
    def test_sessions_of_aiohttp_have_a_breaker_for_each_host(self):
        recipe = self.load("aiohttp_client")

        async def main():
            async with recipe.new_session() as session:

                async def get(status):
                    async with session.get(f"{self.url}/{status}") as answer:
                        return answer.status

                answers = [await get(status) for status in (200, 404, 429)]
                with self.assertRaises(Rejected) as caught:
                    await get(200)
                self.store.breaker(self.name).reset()
                answers += [await get(500) for _ in range(5)]
                with self.assertRaises(Rejected):
                    await get(200)
                return answers, caught.exception.retry_after

        answers, wait = asyncio.run(main())
        self.assertEqual(answers, [200, 404, 429] + [500] * 5)
        self.assertAlmostEqual(wait, 120, delta=5)

    @needs("openai")
    def test_a_client_of_an_sdk_holds_the_account(self):
        with mock.patch.dict(os.environ, {"OPENAI_API_KEY": "secret", "OPENAI_BASE_URL": self.url}):
            recipe = self.load("sdk_client")
        with recipe.client:
            self.assertRaises(recipe.openai.RateLimitError, recipe.ask, "why")
            with self.assertRaises(recipe.openai.APIConnectionError) as caught:
                recipe.ask("why")
        self.assertIsInstance(caught.exception.__cause__, Rejected)
        self.assertRegex(caught.exception.__cause__.name, f"^{self.name}/[0-9a-f]{{12}}$")

    @needs("httpx2")
    def test_a_client_of_huggingface_hub_has_a_breaker_for_each_host(self):
        import httpx2

        made = []
        # It stands for the package, of which the recipe uses only this function.
        package = types.SimpleNamespace(set_client_factory=made.append)
        with mock.patch.dict(sys.modules, {"huggingface_hub": package}):
            recipe = self.load("huggingface_client")
        self.assertEqual(made, [recipe.new_client])
        with made[0]() as client:
            self.assertEqual(client.get(f"{self.url}/200").status_code, 200)
            self.assertEqual(client.get(f"{self.url}/429").status_code, 429)
            with self.assertRaises(Rejected) as caught:
                client.get(f"{self.url}/200")
        self.assertEqual(caught.exception.cause, "held")
        self.assertIsInstance(caught.exception, httpx2.TransportError)
        # The package sends a request again after any of these.
        self.assertNotIsInstance(caught.exception, (httpx2.TimeoutException, httpx2.NetworkError))

    def test_a_key_that_an_sdk_uses_is_held_for_all_and_has_not_failed(self):
        class APIStatusError(Exception):
            def __init__(self, status, **headers):
                super().__init__(f"Error code: {status}")
                self.status_code = status
                self.response = types.SimpleNamespace(status_code=status, headers=headers)

        answers = []

        class Client:
            def __init__(self, **options):
                self.responses = self

            def create(self, model, input):
                answer = answers.pop(0)
                if isinstance(answer, Exception):
                    raise answer
                return types.SimpleNamespace(output_text=answer)

        sdk = types.ModuleType("openai")
        sdk.APIStatusError, sdk.OpenAI = APIStatusError, Client
        sdk.APIConnectionError = type("APIConnectionError", (Exception,), {})
        before = sys.modules.get("openai")
        sys.modules["openai"] = sdk
        self.addCleanup(lambda: sys.modules.pop("openai") if before is None else sys.modules.update(openai=before))
        recipe = self.load("one_key")
        answers += ["yes", APIStatusError(400), sdk.APIConnectionError(), APIStatusError(429, **{"retry-after": "60"})]
        self.assertEqual(recipe.ask("?"), "yes")
        for error in (APIStatusError, sdk.APIConnectionError, APIStatusError):
            self.assertRaises(error, recipe.ask, "?")
        with self.assertRaises(Rejected) as caught:
            recipe.ask("?")
        self.assertEqual(caught.exception.cause, "held")
        self.assertAlmostEqual(caught.exception.retry_after, 60, delta=2)
        totals = self.totals("openai/prod-key")
        counted = [totals[key] for key in ("successes", "failures", "holds", "held")]
        self.assertEqual(counted, [1, 1, 1, 1])

    @needs("boto3")
    def test_calls_of_boto3_fail_with_their_service_only(self):
        for name, value in (
            ("AWS_ENDPOINT_URL", self.url), ("AWS_ACCESS_KEY_ID", "a"),
            ("AWS_SECRET_ACCESS_KEY", "b"), ("AWS_EC2_METADATA_DISABLED", "true")):
            os.environ[name] = value
            self.addCleanup(os.environ.pop, name)
        recipe = self.load("boto3_client")
        # The last part of the path is the status of the answer.
        self.assertEqual(recipe.read("bucket", "200"), b"")
        for _ in range(5):
            self.assertRaises(recipe.ClientError, recipe.read, "bucket", "404")
        for _ in range(3):
            self.assertRaises(recipe.ClientError, recipe.read, "bucket", "500")
        self.assertRaises(Rejected, recipe.read, "bucket", "200")
        self.assertEqual(self.totals("s3")["failures"], 3)

    @needs("grpc")
    def test_channels_of_grpc_pass_the_breaker(self):
        import grpc
        from concurrent.futures import ThreadPoolExecutor

        recipe = self.load("grpc_client")
        known = {b"down": grpc.StatusCode.UNAVAILABLE, b"unknown": grpc.StatusCode.NOT_FOUND}

        def charge(order, context):
            if order in known:
                context.abort(known[order], order.decode())
            return b"charged"

        server = grpc.server(ThreadPoolExecutor(4))
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(
            "Shop", {"Charge": grpc.unary_unary_rpc_method_handler(charge)})])
        address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())

        with recipe.new_channel(address) as channel:
            call = channel.unary_unary("/Shop/Charge")
            self.assertEqual(call(b"one", timeout=30), b"charged")
            for order in (b"unknown", b"down", b"down", b"unknown", b"down", b"down", b"down"):
                with self.assertRaises(grpc.RpcError) as caught:
                    call(order, timeout=30)
                self.assertEqual(caught.exception.code(), known[order])
            self.assertRaises(Rejected, call, b"one", timeout=30)
            self.assertRaises(Rejected, call.future(b"one", timeout=30).result)
        after = self.store.snapshot("payments")
        self.assertEqual(after["last_error"], "down")
        self.store.breaker("payments").reset()

        async def main():
            async with recipe.new_async_channel(address) as channel:
                call = channel.unary_unary("/Shop/Charge")
                self.assertEqual(await call(b"one", timeout=30), b"charged")
                for order in (b"unknown", b"down", b"down", b"down"):
                    with self.assertRaises(grpc.RpcError):
                        await call(order, timeout=30)
                with self.assertRaises(Rejected):
                    await call(b"one", timeout=30)

        asyncio.run(main())

    def test_a_timeout_of_asyncio_inside_the_breaker_is_a_failure(self):
        recipe = self.load("asyncio_timeout")

        class Timeouts:
            def timeout(self, seconds):
                return asyncio.timeout(0.001)

            def wait_for(self, work, seconds):
                return asyncio.wait_for(work, 0.001)

        recipe.asyncio = Timeouts()

        async def hang(order):
            await asyncio.Event().wait()

        async def main():
            for charge in (recipe.charge, recipe.charge_by_wait_for):
                with self.assertRaises(TimeoutError):
                    await charge(hang, "one")
            recipe.asyncio = asyncio
            with self.assertRaises(TimeoutError):
                await asyncio.wait_for(recipe.charge(hang, "one"), 0.001)

        asyncio.run(main())
        totals = self.totals("payments")
        self.assertEqual((totals["failures"], totals["ignored"]), (2, 1))

    @needs("opentelemetry.sdk")
    def test_spans_of_opentelemetry_have_the_failures_of_their_calls(self):
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        spans = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(spans))
        self.addCleanup(provider.shutdown)
        recipe = self.load("opentelemetry_app")
        # The provider of the process can be set once only.
        recipe.tracer = trace.get_tracer("shop", tracer_provider=provider)

        def send(order):
            raise ConnectionError(order)

        for _ in range(3):
            self.assertRaises(ConnectionError, recipe.charge, send, "one")
        self.assertRaises(Rejected, recipe.charge, send, "one")
        self.assertEqual(
            [event.name for span in spans.get_finished_spans() for event in span.events
             if event.name != "exception"],
            ["shared_breaker.failure"] * 3
            + ["shared_breaker.transition", "shared_breaker.rejection"])

    @needs("tenacity")
    def test_retries_of_tenacity_end_when_the_breaker_opens(self):
        recipe = self.load("tenacity_retries")
        self.assertEqual(recipe.charge("one"), "charged")
        with self.assertRaises(Rejected):
            recipe.charge("down")
        self.assertEqual(self.totals("payments")["failures"], 3)

    @needs("tenacity")
    def test_retries_of_tenacity_count_against_the_budget(self):
        recipe = self.load("tenacity_budget")
        self.assertEqual(recipe.find("anything"), ["anything"])
        with self.assertRaises(ConnectionError):
            recipe.find("down")
        totals = self.totals("search")
        self.assertEqual((totals["failures"], totals["retries"], totals["over_budget"]), (5, 4, 0))

    @needs("django")
    def test_a_service_of_django_answers_503_while_a_breaker_rejects(self):
        import django
        from django.conf import settings

        logging.getLogger("django").addHandler(logging.NullHandler())
        recipe = self.load("django_views")
        settings.configure(
            ALLOWED_HOSTS=["*"], ROOT_URLCONF=recipe, LOGGING_CONFIG=None,
            MIDDLEWARE=["django_views.RejectedMiddleware", "django_views.DatabaseMiddleware"],
            DATABASES={"default": {
                "ENGINE": "django.db.backends.sqlite3", "ATOMIC_REQUESTS": True,
                "NAME": os.path.join(self.directory, "shop.db")}})
        django.setup()
        from django.db import connection
        from django.test import Client
        from django.urls import path

        def write(request, order):
            with connection.cursor() as cursor:
                cursor.execute("INSERT INTO orders VALUES (%s)", [order])
            return recipe.charge(request, order)

        recipe.urlpatterns = [path("charge/<order>", recipe.charge), path("write/<order>", write)]
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE orders (number)")

        def ask(page):
            return Client(raise_request_exception=False).get(page)

        def written():
            with connection.cursor() as cursor:
                return [row[0] for row in cursor.execute("SELECT * FROM orders")]

        self.assertEqual(ask("/charge/one").status_code, 200)
        self.assertEqual({ask("/charge/unknown").status_code for _ in range(5)}, {404})
        self.assertEqual([ask("/charge/down").status_code for _ in range(3)], [500] * 3)
        answer = ask("/write/one")
        self.assertEqual((answer.status_code, answer.headers["Retry-After"]), (503, "30"))
        self.assertEqual(written(), [])  # it was rolled back
        self.store.breaker("payments").reset()
        self.assertEqual(ask("/write/one").status_code, 200)
        self.assertEqual(written(), ["one"])
        # The database fails at the BEGIN, outside of the view.
        connection.close()
        connection.settings_dict["NAME"] = "/proc/no/such/database"
        self.assertEqual([ask("/charge/one").status_code for _ in range(3)], [500] * 3)
        answer = ask("/charge/one")
        self.assertEqual((answer.status_code, answer.headers["Retry-After"]), (503, "10"))
        self.assertEqual(self.totals("payments")["failures"], 3)
        self.assertEqual(self.totals("database")["failures"], 3)

    @needs("sqlalchemy")
    def test_transactions_of_sqlalchemy_fail_with_their_database_only(self):
        import sqlalchemy

        recipe = self.load("sqlalchemy_engine")
        engine = sqlalchemy.create_engine("sqlite://", poolclass=sqlalchemy.pool.StaticPool)
        self.addCleanup(engine.dispose)
        with recipe.transaction(engine) as connection:
            connection.execute(sqlalchemy.text("CREATE TABLE t (x UNIQUE)"))
            connection.execute(sqlalchemy.text("INSERT INTO t VALUES (1)"))
        for error, statement in (
            (sqlalchemy.exc.IntegrityError, "INSERT INTO t VALUES (1)"), (ValueError, None)):
            for _ in range(5):
                with self.assertRaises(error):
                    with recipe.transaction(engine) as connection:
                        if statement is None:
                            raise ValueError
                        connection.execute(sqlalchemy.text(statement))
        gone = sqlalchemy.create_engine("sqlite:////proc/no/such/database")
        self.addCleanup(gone.dispose)
        for _ in range(3):
            with self.assertRaises(sqlalchemy.exc.OperationalError):
                with recipe.transaction(gone):
                    pass
        with self.assertRaises(Rejected):
            with recipe.transaction(engine):
                pass


if __name__ == "__main__":
    unittest.main()
