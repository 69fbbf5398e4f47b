"""Waiting for room in the ways of loops: those of gevent, eventlet and trio, where they are installed."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import unittest
from unittest import mock

from shared_breaker import Busy, Rejected
from support import StoreTestCase

# A server whose greenlets call one breaker. The holder can only end if the one that waits lets it run.
GREENLETS = """
from {kind} import {names}
from shared_breaker import SharedStore

gpu = SharedStore().breaker("gpu", max_concurrent=1, queue_timeout=3600)
order = []

def call(number):
    with gpu:
        order.append(("begins", number))
        sleep(0.01)
        order.append(("ends", number))

@gpu
def decorated(number):
    order.append(("begins", number))
    sleep(0.01)
    order.append(("ends", number))

def in_steps(number):
    permit = gpu.acquire()
    order.append(("begins", number))
    sleep(0.01)
    order.append(("ends", number))
    permit.report()

greenlets = [spawn((call, decorated, in_steps)[number % 3], number) for number in range(12)]
for greenlet in greenlets:
    greenlet.{join}()
expected = [(what, number) for number in range(12) for what in ("begins", "ends")]
assert order == expected, order
print(gpu.snapshot()["limit"]["in_use"])
"""

KILLED = """
import gevent
from shared_breaker import SharedStore

gpu = SharedStore().breaker("gpu", max_concurrent=1, queue_timeout=3600)

def call():
    try:
        with gpu:
            print("the work was run")
    except gevent.Timeout:
        pass

permit = gpu.acquire()
for ending in ("kill", "timeout"):
    greenlet = gevent.spawn(call)
    while gpu.snapshot()["limit"]["waiting"] != 1:
        gevent.sleep(0)
    if ending == "kill":
        greenlet.kill()
    else:
        greenlet.kill(gevent.Timeout(1))
    assert gpu.snapshot()["limit"]["waiting"] == 0
permit.report()
print(gpu.snapshot()["limit"]["in_use"])
"""

IMPATIENT = """
import gevent
from shared_breaker import Busy, SharedStore

gpu = SharedStore().breaker("gpu", max_concurrent=1, queue_timeout=3600)
permit = gpu.acquire()
is_over = gevent.event.Event()
others = gevent.spawn(is_over.wait)

def call(wait):
    try:
        gpu.acquire(wait=wait)
    except Busy:
        print("busy")

for wait in (0, 0.01):
    gevent.spawn(call, wait).join()
# It can only end if the one that waits lets it run.
waiting = gevent.spawn(call, 3000)
while gpu.snapshot()["limit"]["waiting"] != 1:
    gevent.sleep(0)
is_over.set()
others.join()
waiting.kill()
permit.report()
print(gpu.snapshot()["limit"]["in_use"])
"""


def has(module):
    return importlib.util.find_spec(module) is not None


class Greenlets(StoreTestCase):
    @unittest.skipUnless(has("gevent"), "gevent is not installed")
    def test_greenlets_of_gevent_wait_for_room_while_others_run(self):
        program = GREENLETS.format(kind="gevent", names="sleep, spawn", join="get")
        self.assertEqual(self.run_python(program), "0\n")
        self.assertEqual(self.run_python("from gevent import monkey; monkey.patch_all()\n" + program), "0\n")

    @unittest.skipUnless(has("eventlet"), "eventlet is not installed")
    def test_greenlets_of_eventlet_wait_for_room_while_others_run(self):
        program = GREENLETS.format(kind="eventlet", names="sleep, spawn", join="wait")
        # Its own resolver imports all of dnspython, and with httpx2 also trio, which cannot be imported by it.
        with mock.patch.dict(os.environ, {"EVENTLET_NO_GREENDNS": "yes"}):
            self.assertEqual(self.run_python(program), "0\n")
            self.assertEqual(self.run_python("import eventlet; eventlet.monkey_patch()\n" + program), "0\n")

    @unittest.skipUnless(has("gevent"), "gevent is not installed")
    def test_a_greenlet_that_is_killed_leaves_the_queue(self):
        self.assertEqual(self.run_python(KILLED), "0\n")

    @unittest.skipUnless(has("gevent"), "gevent is not installed")
    def test_a_greenlet_may_wait_for_less_time_than_the_policy_says_while_others_run(self):
        self.assertEqual(self.run_python(IMPATIENT), "busy\nbusy\n0\n")

    @unittest.skipUnless(has("gevent"), "gevent is not installed")
    def test_a_main_greenlet_of_a_patched_program_lets_others_run_while_it_waits(self):
        self.assertEqual(self.run_python("""
from gevent import monkey; monkey.patch_all()
import gevent
from shared_breaker import SharedStore
gpu = SharedStore().breaker("gpu", max_concurrent=1, queue_timeout=3600)
permit = gpu.acquire()
gevent.spawn_later(0.01, permit.report)
with gpu:
    print("in")
"""), "in\n")


class Coroutines(StoreTestCase):
    def setUp(self):
        super().setUp()
        self.gpu = self.store.breaker("gpu", max_concurrent=1, queue_timeout=3600)
        with self.gpu:
            pass

    def assert_refused(self, call):
        """Assert that a call which would wait for room in a coroutine is an error that says what to do."""
        with self.assertRaisesRegex(RuntimeError, "gpu has no room now.*async with.*acquire_async"):
            call()
        self.assertEqual(self.gpu.snapshot()["limit"]["waiting"], 0)

    def in_a_block(self):
        with self.gpu:
            self.fail("the work was run")

    def calls(self):
        return (
            self.in_a_block, self.gpu.acquire, lambda: self.gpu.call(self.fail),
            lambda: self.gpu(self.fail)("the work was run"))

    def test_a_block_in_a_coroutine_never_stops_the_loop(self):
        async def main():
            with self.gpu:  # there is room, and nothing to wait for
                pass
            permit = await self.gpu.acquire_async()
            for call in self.calls():
                self.assert_refused(call)
            # In a thread it waits.
            waiting = asyncio.create_task(asyncio.to_thread(self.gpu.acquire))
            while self.gpu.snapshot()["limit"]["waiting"] != 1:
                await asyncio.sleep(0)
            await permit.report_async()
            del waiting, permit

        asyncio.run(main())

    def test_a_coroutine_without_a_loop_is_told_that_it_cannot_wait(self):
        async def block():
            async with self.gpu:
                self.fail("the work was run")

        permit = self.gpu.acquire()
        with self.assertRaisesRegex(RuntimeError, "gpu has no room now.*asyncio or trio"):
            block().send(None)
        self.assertEqual(self.gpu.snapshot()["limit"]["waiting"], 0)
        permit.report()

    @unittest.skipUnless(has("trio"), "trio is not installed")
    def test_coroutines_of_trio_wait_while_others_run(self):
        import trio

        order = []

        @self.gpu
        async def decorated(number):
            order.append(("begins", number))
            await trio.sleep(0)
            order.append(("ends", number))

        async def block(number):
            async with self.gpu:
                order.append(("begins", number))
                await trio.sleep(0)
                order.append(("ends", number))

        async def in_steps(number):
            permit = await self.gpu.acquire_async()
            order.append(("begins", number))
            await trio.sleep(0)
            order.append(("ends", number))
            await permit.report_async()

        async def main():
            permit = await self.gpu.acquire_async()
            async with trio.open_nursery() as nursery:
                for number in range(12):
                    nursery.start_soon((decorated, block, in_steps)[number % 3], number)
                    while self.gpu.snapshot()["limit"]["waiting"] <= number:
                        await trio.sleep(0)
                for call in self.calls():
                    with self.assertRaisesRegex(RuntimeError, "async with"):
                        call()
                await permit.report_async()

        trio.run(main)
        self.assertEqual(
            order, [(what, number) for number in range(12) for what in ("begins", "ends")])
        self.assertEqual(self.gpu.snapshot()["limit"]["in_use"], 0)

    @unittest.skipUnless(has("trio"), "trio is not installed")
    def test_coroutines_of_trio_wait_with_one_descriptor(self):
        import trio

        async def wait():
            async with self.gpu:
                pass

        async def main():
            permit = await self.gpu.acquire_async()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                while self.gpu.snapshot()["limit"]["waiting"] != 1:
                    await trio.sleep(0)
                before = len(os.listdir("/proc/self/fd"))
                for _ in range(100):
                    nursery.start_soon(wait)
                while self.gpu.snapshot()["limit"]["waiting"] != 101:
                    await trio.sleep(0)
                most = len(os.listdir("/proc/self/fd"))
                await permit.report_async()
            return most - before

        self.assertLess(trio.run(main), 20)
        self.assertEqual(self.gpu.snapshot()["limit"]["in_use"], 0)

    @unittest.skipUnless(has("trio"), "trio is not installed")
    def test_a_coroutine_of_trio_may_wait_for_less_time_than_the_policy_says(self):
        import trio

        async def main():
            async with await self.gpu.acquire_async():
                for wait in (0, 0.01):
                    with self.assertRaises(Busy):
                        await self.gpu.acquire_async(wait=wait)
                with self.assertRaises(Busy):
                    self.gpu.acquire(wait=0)

        trio.run(main)
        self.assertEqual(self.gpu.snapshot()["limit"]["in_use"], 0)

    @unittest.skipUnless(has("trio"), "trio is not installed")
    def test_a_permit_can_be_a_block_in_trio_which_can_trip_and_hold(self):
        import trio

        payments = self.store.breaker("payments", max_failures=1)

        async def main():
            async with await payments.acquire_async():
                await trio.sleep(0)
            with trio.CancelScope() as scope:
                async with await payments.acquire_async():
                    scope.cancel()
                    await trio.sleep_forever()
            with self.assertRaises(LookupError):
                async with await payments.acquire_async():
                    raise LookupError
            await payments.trip_async(open_for=60)
            payments.reset()
            await payments.hold_async(60)
            with self.assertRaises(Rejected) as caught:
                await payments.acquire_async(wait=0)
            return caught.exception.cause

        self.assertEqual(trio.run(main), "held")
        totals = self.totals("payments")
        self.assertEqual((totals["successes"], totals["failures"], totals["ignored"]), (1, 1, 1))

    @unittest.skipUnless(has("trio"), "trio is not installed")
    def test_a_cancelled_coroutine_of_trio_leaves_the_queue_and_is_not_a_failure(self):
        import trio

        gpu = self.store.breaker(
            "gpu", max_concurrent=1, queue_timeout=3600, max_failures=1, failure=lambda error: True)

        async def wait():
            async with gpu:
                self.fail("the work was run")

        async def work():
            async with gpu:
                await trio.sleep_forever()

        async def main():
            permit = await gpu.acquire_async()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                while gpu.snapshot()["limit"]["waiting"] != 1:
                    await trio.sleep(0)
                nursery.cancel_scope.cancel()
            self.assertEqual(gpu.snapshot()["limit"]["waiting"], 0)
            await permit.report_async("ignored")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(work)
                while gpu.snapshot()["limit"]["in_use"] != 1:
                    await trio.sleep(0)
                nursery.cancel_scope.cancel()
            self.assertEqual((gpu.state, gpu.snapshot()["limit"]["in_use"]), ("closed", 0))

        trio.run(main)

    @unittest.skipUnless(has("trio"), "trio is not installed")
    def test_a_failure_in_trio_is_written_by_a_thread(self):
        import trio

        payments = self.store.breaker("payments", max_failures=1)

        async def fail():
            async with payments:
                raise LookupError

        async def main():
            with self.assertRaises(LookupError):
                await fail()
            with self.assertRaises(Rejected):
                await fail()

        trio.run(main)
        self.assertEqual(self.store.snapshot("payments")["state"], "open")


if __name__ == "__main__":
    unittest.main()
