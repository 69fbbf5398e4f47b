"""The recipes of the guide, with the packages that they are for, where those are installed."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import http.server
import importlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import unittest
from pathlib import Path

from shared_breaker import Rejected
from support import StoreTestCase, eventually, stop

RECIPES = Path(__file__).parent / "recipes"
GUIDE = (
    Path(__file__).parents[2] / "Sources/SharedBreaker/SharedBreaker.docc/UsingItFromPython.md")
# It is a program, which pip puts beside the interpreter.
UWSGI = shutil.which(
    "uwsgi", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")]))


def needs(package):
    """Leave a test out where a package is not installed."""
    return unittest.skipUnless(importlib.util.find_spec(package), f"{package} is not installed")


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
        import shared_breaker

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
        guide = GUIDE.read_text()
        for recipe in RECIPES.glob("*.py"):
            self.assertIn(f"```python\n{recipe.read_text()}```", guide, recipe.name)


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
    @needs("celery")
    def test_tasks_of_celery_go_back_to_the_queue_while_the_breaker_rejects(self):
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
        Path(self.directory, "celery_app.py").write_text(source.replace("open_for=30", "open_for=3600"))
        sys.path.insert(0, self.directory)
        self.addCleanup(sys.path.remove, self.directory)
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
                status = int(self.path.strip("/"))
                self.send_response(status)
                if status == 429:
                    self.send_header("Retry-After", "120")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *words):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=self.server.serve_forever)
        thread.start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(self.server.shutdown)
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
        self.assertAlmostEqual(caught.exception.retry_after, 120, delta=5)

    @needs("httpx")
    def test_clients_of_httpx_have_a_breaker_for_each_host(self):
        recipe = self.load("httpx_client")
        with recipe.client as client:
            self.assertEqual(client.get(f"{self.url}/200").status_code, 200)
            self.assertEqual(client.get(f"{self.url}/429").status_code, 429)
            with self.assertRaises(Rejected):
                client.get(f"{self.url}/200")
        self.store.breaker("http/127.0.0.1").reset()

        async def main():
            async with recipe.async_client as client:
                self.assertEqual((await client.get(f"{self.url}/200")).status_code, 200)
                for _ in range(5):
                    self.assertEqual((await client.get(f"{self.url}/500")).status_code, 500)
                with self.assertRaises(Rejected):
                    await client.get(f"{self.url}/200")

        asyncio.run(main())

    @needs("tenacity")
    def test_retries_of_tenacity_end_when_the_breaker_opens(self):
        recipe = self.load("tenacity_retries")
        self.assertEqual(recipe.charge("one"), "charged")
        with self.assertRaises(Rejected):
            recipe.charge("down")
        self.assertEqual(self.totals("payments")["failures"], 3)

    @needs("django")
    def test_a_view_of_django_answers_503_while_the_breaker_rejects(self):
        import django
        from django.conf import settings
        from django.test import RequestFactory

        if not settings.configured:
            settings.configure(ALLOWED_HOSTS=["*"])
            django.setup()
        recipe = self.load("django_views")
        request = RequestFactory().get("/")
        self.assertEqual(recipe.charge(request, "one").status_code, 200)
        for _ in range(5):
            with self.assertRaises(recipe.Http404):
                recipe.charge(request, order="unknown")
        for _ in range(3):
            with self.assertRaises(ConnectionError):
                recipe.charge(request, "down")
        with self.assertRaises(Rejected) as caught:
            recipe.charge(request, "one")
        answer = recipe.RejectedMiddleware(None).process_exception(request, caught.exception)
        self.assertEqual((answer.status_code, answer.headers["Retry-After"]), (503, "30"))

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
