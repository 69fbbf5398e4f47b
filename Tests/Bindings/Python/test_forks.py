"""Forks at any moment, and processes that multiprocessing starts."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import unittest
from multiprocessing import util

from shared_breaker import Rejected, SharedStore
from support import Resource, StoreTestCase, eventually, in_child


def use(path, times):
    """Work as a process that multiprocessing has started; at the top, so that it can be pickled."""
    with SharedStore(path) as store:
        payments = store.breaker("payments")
        for _ in range(times):
            with payments:
                pass
        try:
            with payments:
                raise Resource("down")
        except Resource:
            pass


_left = []


def leave_calls(payments):
    """Return in the middle of two calls: of a daemon thread, and of a permit that is still out."""
    has_begun = threading.Event()

    def hang():
        with payments:
            has_begun.set()
            threading.Event().wait()

    threading.Thread(target=hang, daemon=True).start()
    has_begun.wait()
    _left.append(payments.acquire())


def leave_calls_of(path):
    leave_calls(SharedStore(path).breaker("payments"))


def use_after_return(path):
    """Return at once; a thread makes calls when all else has ended."""
    payments = SharedStore(path).breaker("payments")
    payments.call(int)
    is_over = threading.Event()
    util.Finalize(None, is_over.set, exitpriority=-1_000)

    def go_on():
        is_over.wait()
        for _ in range(100):
            payments.call(int)

    threading.Thread(target=go_on).start()


class Forks(StoreTestCase):
    def setUp(self):
        super().setUp()
        self.payments = self.store.breaker("payments", max_failures=1_000)
        self.payments.call(int)

    def test_a_child_uses_the_breakers_of_its_parent(self):
        def child():
            for _ in range(100):
                self.payments.call(int)
            self.let_fail(self.payments)

        for _ in range(3):
            self.assertEqual(in_child(child), 0)
        self.payments.acquire().report()
        totals = self.totals("payments")
        self.assertEqual((totals["successes"], totals["failures"]), (302, 3))

    def test_the_next_call_sees_a_trip_of_the_parent_or_of_the_child(self):
        def child():
            try:
                self.payments.call(int)
                return 1
            except Rejected:
                self.payments.reset()

        self.payments.trip()
        self.assertEqual(in_child(child), 0)
        self.assertEqual(self.payments.call(int), 0)

    def test_a_fork_inside_a_block_leaves_the_outcome_to_the_parent(self):
        with self.payments:
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    with self.payments:
                        pass
                    code = 0
                finally:
                    os._exit(code)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)

        def child():
            # A block of the parent is no block here.
            self.payments.__exit__(None, None, None)
            with self.payments:
                pass

        self.payments.__enter__()
        self.assertEqual(in_child(child), 0)
        self.payments.__exit__(None, None, None)
        self.payments.acquire().report()
        self.assertEqual(self.totals("payments")["successes"], 6)

    def test_a_probe_stays_with_the_process_that_took_it(self):
        self.payments.trip(0.001)
        permit = eventually(self.probe)

        def child():
            return 0 if permit.report() == "refused" else 1

        self.assertEqual(in_child(child), 0)
        self.assertEqual(permit.report(), "counted")

    def probe(self):
        try:
            return self.payments.acquire()
        except Rejected:
            return None

    def test_a_child_forks_again(self):
        def grandchild():
            self.let_fail(self.payments)

        def child():
            self.let_fail(self.payments)
            return in_child(grandchild)

        self.assertEqual(in_child(child), 0)
        self.assertEqual(self.totals("payments")["failures"], 2)

    def test_forks_while_threads_use_the_breaker_leave_both_sides_working(self):
        stop = threading.Event()

        def work():
            while not stop.is_set():
                self.let_fail(self.payments)
                self.payments.call(int)

        workers = [threading.Thread(target=work) for _ in range(4)]
        for worker in workers:
            worker.start()

        def child():
            signal.alarm(60)
            for _ in range(20):
                self.payments.call(int)
                self.let_fail(self.payments)

        for _ in range(20):
            self.assertEqual(in_child(child), 0)
        stop.set()
        for worker in workers:
            worker.join()

    def test_a_child_closes_a_store_that_another_thread_of_its_parent_was_using(self):
        stop = threading.Event()

        def look():
            while not stop.is_set():
                self.store.path  # noqa: B018

        def has_file():
            links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
            return self.path in [os.readlink(link) for link in links if os.path.islink(link)]

        def child():
            self.let_fail(self.payments)
            had_file = has_file()
            self.store.close()
            return 0 if had_file and not has_file() else 1

        # Without the GIL, which a thread takes again after each call, most forks are in a call.
        looker = threading.Thread(target=look)
        looker.start()
        try:
            for _ in range(30):
                self.assertEqual(in_child(child), 0)
        finally:
            stop.set()
            looker.join()

    def test_a_loop_in_a_child_has_threads_of_its_own(self):
        async def fail():
            async with self.payments:
                raise Resource("down")

        def run():
            with self.assertRaises(Resource):
                asyncio.run(fail())

        run()
        self.assertEqual(in_child(run), 0)
        self.assertEqual(self.totals("payments")["failures"], 2)

    def test_multiprocessing_starts_processes_in_every_way(self):
        for way in ("fork", "spawn", "forkserver"):
            before = self.totals("payments")
            context = multiprocessing.get_context(way)
            processes = [
                context.Process(target=use, args=(self.path, 100)) for _ in range(2)]
            for process in processes:
                process.start()
            for process in processes:
                process.join(60)
                self.assertEqual(process.exitcode, 0, way)
            self.payments.acquire().report()
            totals = self.totals("payments")
            self.assertEqual(totals["failures"] - before["failures"], 2, way)
            self.assertEqual(totals["successes"] - before["successes"], 201, way)

    def run_process(self, way, target, *args):
        process = multiprocessing.get_context(way).Process(target=target, args=args)
        process.start()
        process.join(60)
        self.assertEqual(process.exitcode, 0, way)

    def test_a_process_of_multiprocessing_that_returns_loses_no_calls(self):
        payments = self.store.breaker(
            "payments", max_concurrent=2, max_failures=1, lost_calls="failure")
        for way, target, argument in (
            ("fork", leave_calls, payments), ("fork", leave_calls_of, self.path),
            ("spawn", leave_calls_of, self.path), ("forkserver", leave_calls_of, self.path),
        ):
            self.run_process(way, target, argument)
            # It needs all of the room, so it finds what the process has left.
            with payments.claiming(units=2):
                pass
            self.assertEqual(self.totals("payments")["lost_calls"], 0, (way, target))

    def test_a_process_that_imports_the_package_in_its_work_loses_no_calls(self):
        program = """
import multiprocessing, sys

def work():
    from shared_breaker import SharedStore
    global permit
    permit = SharedStore(sys.argv[1]).breaker("payments").acquire()

process = multiprocessing.get_context("fork").Process(target=work)
process.start()
process.join()
"""
        payments = self.store.breaker("payments", max_concurrent=1, lost_calls="failure")
        subprocess.run([sys.executable, "-c", program, self.path], check=True)
        with payments:
            pass
        self.assertEqual(self.totals("payments")["lost_calls"], 0)

    def test_threads_that_a_process_of_multiprocessing_waits_for_go_on_with_its_breakers(self):
        for way in ("fork", "forkserver"):
            before = self.totals("payments")
            self.run_process(way, use_after_return, self.path)
            self.payments.acquire().report()
            successes = self.totals("payments")["successes"] - before["successes"]
            self.assertEqual(successes, 102, way)


class Kills(StoreTestCase):
    def test_a_probe_whose_process_is_killed_frees_its_slot_at_once(self):
        program = """
from shared_breaker import Rejected, breaker
payments = breaker("payments")
while True:
    try:
        with payments:
            print("probing", flush=True)
            input()
    except Rejected:
        pass
"""
        payments = self.store.breaker("payments", max_failures=1, probe_timeout=3600)
        payments.trip(0.001)
        other = self.start_python(program)
        self.assertEqual(other.stdout.readline(), "probing\n")
        with self.assertRaises(Rejected):
            payments.call(int)
        other.kill()
        other.wait()
        # Nothing waits: a slot that is not free by now is free in an hour.
        self.assertEqual(payments.acquire().kind, "probe")


if __name__ == "__main__":
    unittest.main()
