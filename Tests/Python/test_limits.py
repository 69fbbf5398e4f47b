"""Breakers that limit how many calls are under way, over all processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

from shared_breaker import Rejected, SharedStore
from support import Resource, StoreTestCase, eventually

# Another process that has a call under way until a line comes.
HOLD_A_CALL = """
import sys
from shared_breaker import SharedStore
gpu = SharedStore(sys.argv[1]).breaker("gpu")
with gpu:
    print("held", flush=True)
    sys.stdin.readline()
"""


class Limits(StoreTestCase):
    def setUp(self):
        super().setUp()
        self.gpu = self.store.breaker("gpu", max_concurrent=1)
        with self.gpu:
            pass

    def patient(self, **words):
        """Return the breaker with a queue, in which nobody waits too long for a test."""
        gpu = self.store.breaker("gpu", max_concurrent=1, queue_timeout=3600, **words)
        with gpu:
            pass
        return gpu

    @contextlib.contextmanager
    def held_elsewhere(self):
        """Have a call under way in another process."""
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLD_A_CALL, self.path], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(holder.stdout.readline(), "held\n")
            yield holder
        finally:
            holder.kill()
            holder.communicate()

    def assert_busy(self):
        with self.assertRaises(Rejected) as caught, self.gpu:
            self.fail("the work was run")
        self.assertEqual(caught.exception.cause, "busy")

    def assert_free(self):
        with self.gpu:
            pass

    def test_the_calls_of_all_processes_count(self):
        with self.held_elsewhere() as holder:
            self.assert_busy()
            holder.communicate("\n")
            self.assert_free()
        self.assertEqual(self.totals("gpu")["failures"], 0)

    def test_the_room_of_a_killed_process_is_free_at_once(self):
        with self.held_elsewhere() as holder:
            self.assert_busy()
            holder.kill()
            holder.wait()
            eventually(self.is_free, seconds=1)

    def test_every_kind_of_call_gives_its_room_back(self):
        @self.gpu
        def function(fails):
            self.assert_busy()
            if fails:
                raise Resource("down")

        @self.gpu
        def generator():
            self.assert_busy()
            yield 1
            self.assert_busy()
            yield 2

        @self.gpu
        async def coroutine():
            self.assert_busy()
            await asyncio.sleep(0)
            self.assert_busy()

        @self.gpu
        async def async_generator():
            yield 1
            self.assert_busy()

        async def main():
            await coroutine()
            async for _ in async_generator():
                self.assert_busy()
            async with self.gpu:
                self.assert_busy()

        function(False)
        self.assert_free()
        with self.assertRaises(Resource):
            function(True)
        self.assert_free()
        for _ in generator():
            self.assert_busy()
        self.assert_free()
        # A stream keeps its room until it is closed.
        stream = generator()
        next(stream)
        self.assert_busy()
        stream.close()
        self.assert_free()
        asyncio.run(main())
        self.assert_free()
        self.gpu.call(self.assert_busy)
        permit = self.gpu.acquire()
        self.assert_busy()
        permit.report("success")
        permit = self.gpu.acquire()
        del permit
        self.assert_free()

    def test_a_thread_waits_for_its_turn(self):
        gpu = self.patient()
        ran = []

        def wait():
            with gpu:
                ran.append(1)

        with gpu:
            threads = [threading.Thread(target=wait) for _ in range(8)]
            for thread in threads:
                thread.start()
            self.assertEqual(ran, [])
        for thread in threads:
            thread.join()
        self.assertEqual(len(ran), 8)

    def test_many_coroutines_wait_without_blocking_their_loop(self):
        gpu = self.patient(max_failures=1000)
        most = now = 0

        async def work():
            nonlocal most, now
            async with gpu:
                now += 1
                most = max(most, now)
                await asyncio.sleep(0)
                now -= 1
                # What has to be written must not wait for those who wait.
                raise Resource("down")

        async def main():
            async with gpu:
                tasks = [asyncio.create_task(work()) for _ in range(30)]
                ticks = 0
                for _ in range(100):
                    await asyncio.sleep(0)
                    ticks += 1
                self.assertEqual((now, ticks), (0, 100))
            return await asyncio.gather(*tasks, return_exceptions=True)

        self.assertTrue(all(isinstance(one, Resource) for one in asyncio.run(main())))
        self.assertEqual(most, 1)

    def test_a_coroutine_that_is_cancelled_gives_its_place_up(self):
        gpu = self.patient(queue=1)

        async def work():
            async with gpu:
                self.fail("the work was run")

        async def main():
            async with gpu:
                waiting = asyncio.create_task(work())
                # There is one place in the queue, so that the next one is rejected.
                while True:
                    await asyncio.sleep(0.001)
                    try:
                        async with asyncio.timeout(0.001):
                            await work()
                    except TimeoutError:
                        continue
                    except Rejected:
                        break
                waiting.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await waiting
            async with asyncio.timeout(60):
                async with gpu:
                    pass

        if not hasattr(asyncio, "timeout"):
            self.skipTest("this Python has no asyncio.timeout()")
        asyncio.run(main())

    def test_a_signal_ends_a_wait(self):
        gpu = self.patient()

        class Alarm(Exception):
            pass

        def ring(*_):
            raise Alarm

        before = signal.signal(signal.SIGALRM, ring)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        with self.held_elsewhere() as holder:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with self.assertRaises(Alarm), gpu:
                self.fail("the work was run")
            holder.communicate("\n")
        self.assert_free()

    def test_a_process_forks_while_a_thread_waits(self):
        gpu = self.patient()
        ran = []
        with self.held_elsewhere() as holder:
            def wait():
                with gpu:
                    ran.append(1)

            thread = threading.Thread(target=wait)
            thread.start()
            time.sleep(0.05)
            child = os.fork()
            if child == 0:
                os._exit(7)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
            holder.communicate("\n")
            thread.join()
        self.assertEqual(ran, [1])

    def test_a_store_that_is_closed_sends_those_away_who_wait(self):
        gpu = self.patient()
        ended = []
        with self.held_elsewhere():
            def wait():
                with contextlib.suppress(Exception), gpu:
                    pass
                ended.append(1)

            thread = threading.Thread(target=wait)
            thread.start()
            time.sleep(0.05)
            self.store.close()
            thread.join(60)
        self.assertEqual(ended, [1])

    def test_calls_of_a_closed_store_give_their_room_back(self):
        other = SharedStore(self.path)
        gpu = other.breaker("gpu")
        with gpu:
            self.assert_busy()
            other.close()
        self.assert_free()

    def test_killed_calls_are_failures_where_the_policy_says_so(self):
        self.store.breaker("gpu", max_concurrent=1, lost_calls="failure", max_failures=1)
        with self.held_elsewhere() as holder:
            holder.kill()
            holder.wait()
            eventually(self.is_open)
        totals = self.totals("gpu")
        self.assertEqual((totals["failures"], totals["successes"] > 0), (1, True))

    def is_free(self):
        with contextlib.suppress(Rejected), self.gpu:
            return True

    def is_open(self):
        with contextlib.suppress(Rejected), self.gpu:
            pass
        return self.gpu.state == "open"
