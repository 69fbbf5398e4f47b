"""Breakers that limit how many calls are under way, over all processes."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from unittest import mock

from shared_breaker import Breaker, Busy, Rejected, SharedStore, StoreError
from support import Resource, StoreTestCase, eventually, in_child, stop, threads

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
        """Return the breaker with a queue, in which no caller waits too long for a test."""
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

    def assert_outside(self):
        """Assert that this code is not inside of the call that has the only room."""
        with self.assertRaises(Rejected) as caught, self.gpu:
            self.fail("the work was run")
        self.assertEqual(caught.exception.cause, "busy")

    def assert_busy(self):
        """Assert that others find no room."""
        contextvars.Context().run(self.assert_outside)

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

    def test_a_probe_is_made_although_a_killed_process_had_all_the_room(self):
        def block():
            with self.gpu:
                pass

        async def coroutine():
            async with self.patient():
                pass

        for call in (block, lambda: asyncio.run(coroutine())):
            with self.held_elsewhere() as holder:
                self.gpu.trip(open_for=1e-9)
                holder.kill()
                holder.wait()

                def is_made(call=call):
                    try:
                        call()
                    except Rejected as rejected:
                        # A caller looks for the dead at most once a millisecond.
                        self.assertEqual(rejected.cause, "busy")
                        return False
                    return True

                eventually(is_made)
            self.assertEqual(self.gpu.state, "closed")

    def test_callers_wait_for_the_end_of_a_hold(self):
        gpu = self.patient()

        def block():
            with gpu:
                return "made"

        async def coroutine():
            async with gpu:
                return "made"

        for call in (block, gpu(lambda: "made"), lambda: asyncio.run(coroutine())):
            gpu.hold(0.2)
            before = self.totals("gpu")["held"]
            self.assertEqual(call(), "made")
            self.assertIsNone(gpu.snapshot()["hold"])
            self.assertEqual(self.totals("gpu")["held"], before)

    def test_a_caller_that_cannot_wait_until_the_end_of_a_hold_is_turned_away_at_once(self):
        gpu = self.patient()
        gpu.hold(4_000)

        async def coroutine():
            async with gpu:
                self.fail("the work was run")

        def block():
            with gpu:
                self.fail("the work was run")

        for call in (block, lambda: asyncio.run(coroutine())):
            with self.assertRaises(Rejected) as caught:
                call()
            self.assertEqual(caught.exception.cause, "held")
            self.assertGreater(caught.exception.retry_after, 3_600)

    def test_coroutines_that_wait_for_the_end_of_a_hold_go_when_it_is_ended_by_hand(self):
        gpu = self.patient()
        gpu.hold(1_000)
        made = []

        async def coroutine():
            async with gpu:
                made.append(1)

        async def main():
            calls = [asyncio.create_task(coroutine()) for _ in range(20)]
            while gpu.snapshot()["limit"]["waiting"] < 20:
                await asyncio.sleep(0)
            gpu.end_hold()
            await asyncio.gather(*calls)

        asyncio.run(main())
        self.assertEqual(len(made), 20)

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

    def ways_to_acquire(self, gpu):
        """Return functions that ask for a permit with the arguments of ``acquire``: in a thread, and in a loop."""
        return gpu.acquire, lambda **words: asyncio.run(gpu.acquire_async(**words))

    def test_a_call_may_wait_for_less_time_than_the_policy_says(self):
        gpu = self.patient()
        permit = gpu.acquire()
        for acquire in self.ways_to_acquire(gpu):
            for wait in (0, 0.01, timedelta(milliseconds=1)):
                with self.assertRaises(Busy):
                    acquire(wait=wait)
                self.assertEqual(gpu.snapshot()["limit"]["waiting"], 0)
        permit.report()
        for acquire in self.ways_to_acquire(gpu):
            for wait in (0, 5):
                self.assertEqual(acquire(wait=wait).report(), "counted")

    def test_a_call_that_may_wait_long_enough_gets_its_turn(self):
        gpu = self.patient()
        for acquire in self.ways_to_acquire(gpu):
            permit = gpu.acquire()
            got = []
            thread = threading.Thread(target=lambda acquire=acquire, got=got: got.append(acquire(wait=3_000).report()))
            thread.start()
            eventually(lambda: gpu.snapshot()["limit"]["waiting"] == 1)
            permit.report()
            thread.join()
            self.assertEqual(got, ["counted"])

    def test_no_call_waits_longer_than_the_policy_says(self):
        for words in ({"queue_timeout": 0.01}, {}):
            gpu = self.store.breaker("gpu", max_concurrent=1, **words)
            with gpu:
                for acquire in map(self.outside, self.ways_to_acquire(gpu)):
                    for wait in (3_600, 365 * 86_400):
                        self.assertRaises(Busy, acquire, wait=wait)

    def outside(self, acquire):
        """Return a function that asks outside of the calls that surround this code."""
        return lambda **words: contextvars.Context().run(lambda: acquire(**words))

    def test_a_call_that_may_not_wait_until_the_end_of_a_hold_is_turned_away_at_once(self):
        gpu = self.patient()
        gpu.hold(3_000)
        for acquire in self.ways_to_acquire(gpu):
            for wait in (0, 2_900):
                with self.assertRaises(Rejected) as caught:
                    acquire(wait=wait)
                self.assertEqual(caught.exception.cause, "held")

    def test_a_call_that_does_not_wait_stops_no_event_loop(self):
        gpu = self.patient()

        async def main():
            permit = await gpu.acquire_async()
            with self.assertRaises(Busy):
                gpu.acquire(wait=0)
            with self.assertRaisesRegex(RuntimeError, "async with"):
                gpu.acquire(wait=0.01)
            await permit.report_async()
            self.assertEqual(gpu.acquire(wait=0).report(), "counted")

        asyncio.run(main())

    def test_calls_that_begin_to_wait_together_read_the_policy_together(self):
        gpu, reads, all_ask = self.patient(), [], threading.Event()
        snapshot = Breaker.snapshot

        def read(breaker):
            all_ask.wait()
            reads.append(1)
            return snapshot(breaker)

        async def main():
            permit = await gpu.acquire_async()
            tasks = [asyncio.create_task(gpu.acquire_async(wait=3_000)) for _ in range(100)]
            await asyncio.sleep(0)
            all_ask.set()
            while self.store.snapshot("gpu")["limit"]["waiting"] < 100:
                await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await permit.report_async()

        # The time stands still, and four threads read.
        with mock.patch.object(Breaker, "snapshot", read), mock.patch("shared_breaker._breaker.monotonic", lambda: 1.0):
            asyncio.run(main())
        self.assertLessEqual(len(reads), 4)

    def test_a_wait_is_that_of_the_policy_while_the_policy_cannot_be_read(self):
        gpu = self.store.breaker("gpu", max_concurrent=1, queue_timeout=0.01)
        permit = gpu.acquire()
        with mock.patch.object(Breaker, "snapshot", side_effect=StoreError("the disk is full", -106)):
            for acquire in self.ways_to_acquire(gpu):
                self.assertRaises(Busy, acquire, wait=3_600)
        permit.report()

    def test_a_signal_ends_a_wait_that_is_shorter_than_that_of_the_policy(self):
        gpu = self.patient()
        permit = gpu.acquire()

        def interrupt(*words):
            raise Resource("interrupted")

        self.addCleanup(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, interrupt))

        def send():
            eventually(lambda: gpu.snapshot()["limit"]["waiting"] == 1)
            os.kill(os.getpid(), signal.SIGUSR1)

        sender = threading.Thread(target=send)
        sender.start()
        with self.assertRaises(Resource):
            gpu.acquire(wait=3_000)
        sender.join()
        self.assertEqual(gpu.snapshot()["limit"]["waiting"], 0)
        permit.report()

    def test_a_time_to_wait_that_is_none_takes_no_permit(self):
        for acquire in self.ways_to_acquire(self.gpu):
            for wait, error in ((-1, ValueError), (float("nan"), ValueError), ("1", TypeError)):
                self.assertRaises(error, acquire, wait=wait)
        self.assertEqual(self.gpu.snapshot()["limit"]["in_use"], 0)

    def test_a_permit_takes_the_units_that_the_call_asks_for(self):
        gpu = self.store.breaker("gpu", max_concurrent=3, reserve=1)
        for acquire in self.ways_to_acquire(gpu):
            with acquire(units=2, background=True) as permit:
                self.assertEqual(gpu.snapshot()["limit"]["in_use"], 2)
                self.assertRaises(Busy, acquire, background=True)
                self.assertRaises(Busy, acquire, units=2, wait=0)
                acquire().report()
            self.assertIsNone(permit.kind)
            self.assertEqual(gpu.snapshot()["limit"]["in_use"], 0)
            self.assertRaises(ValueError, acquire, units=0)

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
                # The thread that writes the failure must not have to wait for the waiters.
                raise Resource("down")

        async def main():
            permit = await gpu.acquire_async()
            tasks = [asyncio.create_task(work()) for _ in range(30)]
            ticks = 0
            for _ in range(100):
                await asyncio.sleep(0)
                ticks += 1
            self.assertEqual((now, ticks), (0, 100))
            await permit.report_async()
            return await asyncio.gather(*tasks, return_exceptions=True)

        self.assertTrue(all(isinstance(one, Resource) for one in asyncio.run(main())))
        self.assertEqual(most, 1)

    def test_coroutines_wait_without_threads(self):
        gpu = self.patient(max_failures=1000)

        @gpu
        async def work(number):
            order.append(number)

        async def block(number):
            async with gpu:
                order.append(number)

        async def two_steps(number):
            permit = await gpu.acquire_async()
            order.append(number)
            await permit.report_async("success")

        async def main():
            async with gpu:
                # In a context of its own: this one is inside.
                tasks = []
                for number in range(300):
                    kind = (work, block, two_steps)[number % 3]
                    tasks.append(
                        asyncio.create_task(kind(number), context=contextvars.Context()))
                    while gpu.snapshot()["limit"]["waiting"] <= number:
                        await asyncio.sleep(0)
                most = threads()
            await asyncio.gather(*tasks)
            return most

        order = []
        before = threads()
        most = asyncio.run(main())
        # Four for the file, and one that waits for all.
        self.assertLessEqual(most, before + 5)
        self.assertEqual(order, list(range(300)))

    def test_coroutines_of_a_loop_wait_with_one_descriptor(self):
        gpu = self.patient()
        served = []

        async def work(number):
            async with gpu:
                served.append(number)

        async def main():
            permit = await gpu.acquire_async()
            tasks = [asyncio.create_task(work(-1))]
            while gpu.snapshot()["limit"]["waiting"] != 1:
                await asyncio.sleep(0)
            before = len(os.listdir("/proc/self/fd"))
            for number in range(200):
                tasks.append(asyncio.create_task(work(number)))
                while gpu.snapshot()["limit"]["waiting"] <= number + 1:
                    await asyncio.sleep(0)
            most = len(os.listdir("/proc/self/fd"))
            # Cancelled tasks leave the descriptor to the others.
            for task in tasks[::2]:
                task.cancel()
            await asyncio.gather(*tasks[::2], return_exceptions=True)
            await permit.report_async()
            await asyncio.gather(*tasks[1::2])
            # Nor do tasks that come at once, before the first of them waits, open more.
            permit = await gpu.acquire_async()
            tasks = [asyncio.create_task(work(number)) for number in range(200, 400)]
            while gpu.snapshot()["limit"]["waiting"] != len(tasks):
                await asyncio.sleep(0)
            most = max(most, len(os.listdir("/proc/self/fd")))
            await permit.report_async()
            await asyncio.gather(*tasks)
            return most - before

        before = len(os.listdir("/proc/self/fd"))
        # The threads for the file may be counted on, but nothing for each of the callers.
        self.assertLess(asyncio.run(main()), 20)
        self.assertEqual(served[:100], list(range(0, 200, 2)))
        self.assertEqual(sorted(served[100:]), list(range(200, 400)))
        self.assertEqual(self.in_use(gpu), 0)
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    def test_a_cancelled_coroutine_leaves_at_once(self):
        gpu = self.patient()

        async def work():
            async with gpu:
                self.fail("the work was run")

        async def main():
            permit = await gpu.acquire_async()
            for _ in range(20):
                task = asyncio.create_task(work())
                while gpu.snapshot()["limit"]["waiting"] != 1:
                    await asyncio.sleep(0)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assertEqual(gpu.snapshot()["limit"]["waiting"], 0)
            # One whose turn has come when it is cancelled gives its room back.
            task = asyncio.create_task(work())
            while gpu.snapshot()["limit"]["waiting"] != 1:
                await asyncio.sleep(0)
            await permit.report_async("success")
            eventually(lambda: self.in_use(gpu) == 1)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertEqual(self.in_use(gpu), 0)

        asyncio.run(main())

    def test_waiting_coroutines_learn_of_changes_of_the_breaker(self):
        gpu = self.patient()

        async def work():
            async with gpu:
                return 42

        async def main():
            permit = await gpu.acquire_async()
            task = asyncio.create_task(work())
            while gpu.snapshot()["limit"]["waiting"] != 1:
                await asyncio.sleep(0)
            self.run_python("from shared_breaker import breaker; breaker('gpu').trip()")
            with self.assertRaises(Rejected) as caught:
                await task
            self.assertEqual(caught.exception.cause, "open")
            gpu.reset()
            task = asyncio.create_task(work())
            while gpu.snapshot()["limit"]["waiting"] != 1:
                await asyncio.sleep(0)
            self.run_python(
                "from shared_breaker import breaker; breaker('gpu').force('observe'); "
                "breaker('gpu').force('automatic')")
            await permit.report_async("ignored")
            self.assertEqual(await task, 42)

        asyncio.run(main())

    def test_a_coroutine_that_is_cancelled_gives_its_place_up(self):
        gpu = self.patient(queue=1)

        async def work():
            async with gpu:
                self.fail("the work was run")

        async def main():
            permit = await gpu.acquire_async()
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
            await permit.report_async()
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

    def signal_until(self, is_over):
        """Send signals all the time, until something is over; return what ends that."""
        ended = threading.Event()

        def send():
            while not ended.wait(0.005) and not is_over():
                os.kill(os.getpid(), signal.SIGUSR1)

        sender = threading.Thread(target=send)
        sender.start()

        def end():
            ended.set()
            sender.join()

        self.addCleanup(end)
        return sender

    def test_a_wait_hears_every_signal_and_ends_at_its_time(self):
        heard = 0

        def hear(*_):
            nonlocal heard
            heard += 1

        before = signal.signal(signal.SIGUSR1, hear)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        # Long after a wait for the file would be over.
        hasty = SharedStore(self.path, lock_timeout=0.001)
        # A wait that began again after each of these signals would not end while they come.
        patient = SharedStore(self.path, lock_timeout=3600)
        with self.held_elsewhere():
            for store in (hasty, patient):
                self.addCleanup(store.close)
                gpu = store.breaker("gpu", max_concurrent=1, queue_timeout=0.5)
                heard = 0
                sender = self.signal_until(lambda: heard > 3_000)
                with self.assertRaises(Rejected) as caught, gpu:
                    self.fail("the work was run")
                self.assertEqual(caught.exception.cause, "busy")
                self.assertTrue(sender.is_alive(), "the wait has lasted until there were no more signals")
                heard = 10_000
                sender.join()

    def test_a_wait_hears_a_signal_after_one_whose_handler_has_returned(self):
        heard = 0

        class Last(Exception):
            pass

        def hear(*_):
            nonlocal heard
            heard += 1
            if heard == 20:
                raise Last

        before = signal.signal(signal.SIGUSR1, hear)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        hasty = SharedStore(self.path, lock_timeout=0.001)
        self.addCleanup(hasty.close)
        gpu = hasty.breaker("gpu", max_concurrent=1, queue_timeout=20)
        with self.held_elsewhere():
            self.signal_until(lambda: heard == 20)
            with self.assertRaises(Last), gpu:
                self.fail("the work was run")
        self.assertEqual(gpu.snapshot()["limit"]["waiting"], 0)

    def test_only_the_first_signal_costs_a_caller_its_place_in_the_queue(self):
        gpu = self.patient()
        order = []
        heard = threading.Semaphore(0)
        before = signal.signal(signal.SIGUSR1, lambda *_: heard.release())
        self.addCleanup(signal.signal, signal.SIGUSR1, before)

        def follow(holder):
            for waiting in range(1, 5):
                eventually(lambda: gpu.snapshot()["limit"]["waiting"] == waiting)
                os.kill(os.getpid(), signal.SIGUSR1)
                heard.acquire()
                # The caller has left the queue for a moment at most once, and is back.
                eventually(lambda: gpu.snapshot()["limit"]["waiting"] == waiting)
                if waiting < 4:
                    others[waiting - 1].start()
            holder.communicate("\n")

        def wait(name):
            with gpu:
                order.append(name)

        with self.held_elsewhere() as holder:
            others = [threading.Thread(target=wait, args=[number]) for number in range(1, 4)]
            first = threading.Thread(target=follow, args=[holder])
            first.start()
            wait(0)
            for thread in (first, *others):
                thread.join()
        self.assertEqual(order, [0, 1, 2, 3])

    def test_a_child_that_a_handler_forks_waits_for_room_itself(self):
        gpu = self.patient()
        children = []

        def split(*_):
            children.append(os.fork())

        before = signal.signal(signal.SIGUSR1, split)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        with self.held_elsewhere() as holder:
            parent = os.getpid()

            def follow():
                eventually(lambda: gpu.snapshot()["limit"]["waiting"] == 1)
                os.kill(parent, signal.SIGUSR1)
                eventually(lambda: gpu.snapshot()["limit"]["waiting"] == 2)
                holder.communicate("\n")

            thread = threading.Thread(target=follow)
            thread.start()
            try:
                with gpu:
                    in_use = self.in_use(gpu)
            finally:
                if os.getpid() != parent:
                    os._exit(in_use)
            thread.join()
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]), 1)

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

    def test_a_closed_store_sends_its_waiters_away(self):
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

    def test_a_process_that_has_closed_its_store_loses_no_calls(self):
        program = """
import os, sys
from shared_breaker import SharedStore
store = SharedStore(sys.argv[1])
permit = store.breaker("gpu").acquire()
if sys.argv[2] == "close":
    store.close()
os._exit(0)
"""
        self.store.breaker("gpu", max_concurrent=1, lost_calls="failure", max_failures=9)
        for word, lost in (("close", 0), ("leave", 1)):
            subprocess.run([sys.executable, "-c", program, self.path, word], check=True)
            self.assert_free()
            self.assertEqual(self.totals("gpu")["lost_calls"], lost, word)

    def test_killed_calls_are_failures_where_the_policy_says_so(self):
        self.store.breaker("gpu", max_concurrent=1, lost_calls="failure", max_failures=1)
        with self.held_elsewhere() as holder:
            holder.kill()
            holder.wait()
            eventually(self.is_open)
        totals = self.totals("gpu")
        self.assertEqual((totals["failures"], totals["successes"] > 0), (1, True))

    def test_heavy_calls_take_all_of_their_units(self):
        gpu = self.store.breaker("heavy", max_concurrent=4)
        heavy = gpu.claiming(units=3)

        @heavy
        def function():
            return self.in_use(gpu)

        @heavy
        def generator():
            yield self.in_use(gpu)

        @heavy
        async def coroutine():
            return self.in_use(gpu)

        async def main():
            async with heavy:
                self.assertEqual(self.in_use(gpu), 3)
            permit = await heavy.acquire_async()
            self.assertEqual(self.in_use(gpu), 3)
            await permit.report_async("success")
            return await coroutine()

        with heavy:
            self.assertEqual(self.in_use(gpu), 3)
            beside = contextvars.Context()
            with self.assertRaises(Rejected):
                beside.run(heavy.acquire)
            self.assertEqual(beside.run(gpu.call, self.in_use, gpu), 4)
        self.assertEqual(function(), 3)
        self.assertEqual(list(generator()), [3])
        self.assertEqual(heavy.call(self.in_use, gpu), 3)
        self.assertEqual(asyncio.run(main()), 3)
        permit = heavy.acquire()
        self.assertEqual((self.in_use(gpu), permit.breaker), (3, heavy))
        del permit
        # A claim of more than the limit takes all of it, and is not added to the claim of another call.
        self.assertEqual(heavy.claiming(units=2**40).call(self.in_use, gpu), 4)
        self.assertEqual(heavy.claiming(units=1).call(self.in_use, gpu), 1)
        self.assertEqual(heavy.claiming().call(self.in_use, gpu), 3)
        self.assertEqual(self.in_use(gpu), 0)

    def test_background_calls_leave_the_reserve_to_others(self):
        gpu = self.store.breaker("background", max_concurrent=2, reserve=1)
        training = gpu.claiming(background=True)
        with training:
            with self.assertRaises(Rejected):
                contextvars.Context().run(training.acquire)
            contextvars.Context().run(gpu.call, lambda: self.assertEqual(self.in_use(gpu), 2))

    def test_a_breaker_that_claims_is_the_same_breaker(self):
        gpu = self.store.breaker("same", max_failures=1, ignore=KeyError)
        heavy = gpu.claiming(2, True)
        self.assertEqual((heavy.name, heavy.store, heavy.state), ("same", self.store, "closed"))
        self.assertEqual(repr(heavy), "<Breaker 'same', 2 units, in the background>")
        self.assertEqual(repr(heavy.claiming(1, False)), "<Breaker 'same'>")
        for same in (heavy.claiming(), gpu.claiming(2).claiming(background=True)):
            self.assertEqual(repr(same), repr(heavy))
        heard = []
        heavy.listen(lambda event: heard.append((event.before, event.after)))
        with self.assertRaises(KeyError), heavy:
            raise KeyError
        self.let_fail(heavy)
        self.assertEqual((gpu.state, heard), ("open", [("closed", "open")]))
        heavy.reset()
        gpu.claiming().trip()
        self.assertEqual(heard[1:], [("open", "closed"), ("closed", "open")])

    def test_an_impossible_claim_is_refused_with_the_reason(self):
        for units in (0, -1):
            with self.assertRaisesRegex(ValueError, f"1 unit or more, not {units}"):
                self.gpu.claiming(units=units)
        for units in ("2", 1.5):
            with self.assertRaises(TypeError):
                self.gpu.claiming(units=units)

    def test_breakers_of_a_closed_store_still_claim(self):
        self.store.close()
        with self.gpu.claiming(units=2):
            pass

    def assert_nested(self):
        """Assert that this code is inside of a call, which has the only room."""
        with self.gpu:
            self.assertEqual(self.in_use(self.gpu), 1)
            with self.gpu.claiming(units=3):
                self.assertEqual(self.in_use(self.gpu), 1)
        self.gpu.acquire().report("success")
        self.assertEqual(self.in_use(self.gpu), 1)

    def test_a_call_inside_of_a_call_uses_its_room(self):
        @self.gpu
        def function():
            self.assert_nested()

        @self.gpu
        def fails():
            self.assert_nested()
            raise Resource("down")

        self.gpu.reset()
        with self.gpu:
            self.assert_nested()
            function()
            self.gpu.call(self.assert_nested)
        function()
        with self.assertRaises(Resource):
            fails()
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.gpu)
            self.assert_nested()

        @contextlib.contextmanager
        def busy():
            with self.gpu:
                yield

        with busy():
            self.assert_nested()
        # Nothing of them is left.
        self.assertEqual(self.in_use(self.gpu), 0)
        permit = self.gpu.acquire()
        self.assert_outside()
        del permit

    def test_other_breakers_may_lie_between(self):
        disk = self.store.breaker("disk", max_concurrent=1)
        with self.gpu, disk, self.gpu, disk:
            self.assert_nested()
            self.assertEqual(self.in_use(disk), 1)
        # Another object of the same name is the same breaker.
        with self.gpu, self.store.breaker("gpu"):
            self.assert_nested()

    def test_another_thread_is_not_inside(self):
        with self.gpu:
            thread = threading.Thread(target=self.assert_outside)
            thread.start()
            thread.join()

    def test_coroutines_are_inside_as_their_tasks_are(self):
        @self.gpu
        async def coroutine():
            self.assert_nested()
            await asyncio.sleep(0)
            async with self.gpu:
                self.assert_nested()
            permit = await self.gpu.acquire_async()
            await permit.report_async("success")
            await asyncio.gather(child(), asyncio.to_thread(self.assert_nested))

        async def child():
            await asyncio.sleep(0)
            self.assert_nested()

        async def outlive(ended):
            self.assert_nested()
            await ended.wait()
            async with self.gpu:
                self.assertEqual(self.in_use(self.gpu), 1)
                task = asyncio.create_task(other())
                await task

        async def other():
            self.assert_nested()

        async def beside():
            with self.assertRaises(Rejected):
                async with self.gpu:
                    self.fail("the work was run")

        async def main():
            self.assertEqual(self.in_use(self.gpu), 0)
            await coroutine()
            ended = asyncio.Event()
            rival = asyncio.create_task(asyncio.sleep(0))
            async with self.gpu:
                await child()
                late = asyncio.create_task(outlive(ended))
                await asyncio.sleep(0)
            await rival
            holder = await self.gpu.acquire_async()
            # The task that outlives its call has nothing left of it.
            task = asyncio.create_task(beside())
            await task
            await holder.report_async("success")
            ended.set()
            await late

        asyncio.run(main())
        self.assertEqual(self.in_use(self.gpu), 0)

    def test_tasks_beside_each_other_are_not_inside(self):
        gpu = self.patient()
        most = now = 0

        @gpu
        async def work():
            nonlocal most, now
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            async with gpu:
                await asyncio.sleep(0)
            now -= 1

        async def main():
            await asyncio.gather(*(work() for _ in range(10)))
            # Each of these has its permit before the next one is called, and one context calls them all.
            held = gpu.call(lambda: asyncio.sleep(0))
            with self.assertRaises(Rejected):
                self.store.breaker("gpu", max_concurrent=1).call(lambda: asyncio.sleep(0))
            await held

        asyncio.run(main())
        self.assertEqual(most, 1)

    def test_greenlets_beside_each_other_are_not_inside(self):
        try:
            from greenlet import getcurrent, greenlet
        except ImportError:
            self.skipTest("greenlet is not installed")
        here = getcurrent()

        @self.gpu
        def function():
            here.switch("inside")
            self.assert_nested()
            return "done"

        def block():
            with self.gpu:
                return function()

        for work in (function, block):
            with self.subTest(work):
                one, other = greenlet(work), greenlet(self.assert_outside)
                self.assertEqual(one.switch(), "inside")
                other.switch()
                self.assert_outside()
                self.assertEqual(one.switch(), "done")
                self.assert_free()

    def test_a_stream_is_inside_and_its_consumer_is_not(self):
        @self.gpu
        def stream():
            try:
                self.assert_nested()
                got = yield 1
                self.assertEqual(got, "sent")
                self.assert_nested()
                try:
                    yield 2
                except KeyError:
                    self.assert_nested()
                yield 3
            finally:
                self.assert_nested()
            return 4

        @self.gpu
        async def async_stream():
            try:
                self.assert_nested()
                got = yield 1
                self.assertEqual(got, "sent")
                await asyncio.sleep(0)
                self.assert_nested()
                try:
                    yield 2
                except KeyError:
                    self.assert_nested()
                yield 3
            finally:
                self.assert_nested()

        def made():
            return stream.__wrapped__()

        async def main():
            running = async_stream()
            self.assertEqual(await running.asend(None), 1)
            self.assert_outside()
            self.assertEqual(await running.asend("sent"), 2)
            self.assert_outside()
            self.assertEqual(await running.athrow(KeyError()), 3)
            self.assert_outside()
            await running.aclose()
            self.assert_free()

        for make in (stream, lambda: self.gpu.call(made)):
            running = make()
            self.assertEqual(next(running), 1)
            self.assert_outside()
            self.assertEqual(running.send("sent"), 2)
            self.assert_outside()
            self.assertEqual(running.throw(KeyError()), 3)
            self.assert_outside()
            with self.assertRaises(StopIteration) as caught:
                next(running)
            self.assertEqual(caught.exception.value, 4)
            self.assert_free()
            running = make()
            next(running)
            running.close()
            self.assert_free()
        asyncio.run(main())

    def test_an_exception_from_outside_before_a_stream_begins_gives_its_room_back(self):
        def stream():
            yield

        async def async_stream():
            yield

        def interrupt(*unused):
            # As the handler of a signal does that runs when the method begins.
            raise KeyboardInterrupt

        for made in (stream, async_stream):
            for method in ("_permit", "_watch_generator"):
                with self.subTest(method), mock.patch.object(Breaker, method, interrupt):
                    with self.assertRaises(KeyboardInterrupt):
                        self.gpu.call(made)
                    self.assertEqual(self.in_use(self.gpu), 0)

    def test_a_stream_inside_of_a_call_leaves_its_consumer_inside(self):
        @self.gpu
        def stream():
            self.assert_nested()
            yield
            self.assert_nested()

        with self.gpu:
            for _ in stream():
                self.assert_nested()
            self.assert_nested()

    def test_a_child_of_a_fork_is_not_inside(self):
        with self.gpu:
            self.assertEqual(in_child(self.is_free), 0)
            self.assert_nested()

    def test_calls_beside_each_other_run_nothing_of_python(self):
        gpu = self.store.breaker("beside", max_concurrent=3)
        called = []

        def listen(frame, event, argument):
            if event == "call":
                called.append(frame.f_code.co_name)

        def block():
            sys.setprofile(listen)
            with gpu:
                pass
            sys.setprofile(None)

        def ends_first(stack):
            with gpu:
                contextvars.Context().run(stack.enter_context, gpu)
                sys.setprofile(listen)
            sys.setprofile(None)

        self.addCleanup(sys.setprofile, None)
        with gpu:
            contextvars.Context().run(block)
        with contextlib.ExitStack() as stack:
            contextvars.Context().run(ends_first, stack)
        block()
        self.assertEqual(called, [])
        self.assertEqual(self.in_use(gpu), 0)

    def test_blocks_that_end_in_any_order_give_back_their_own_room(self):
        gpu = self.store.breaker("order", max_concurrent=3)

        def enter(stack):
            stack.enter_context(gpu)

        async def work(number, entered, ends):
            with contextlib.ExitStack() as stack:
                enter(stack)
                entered.release()
                await ends[number].wait()
                before = self.in_use(gpu)
                # Another one has ended, and this one is still under way.
                with gpu:
                    self.assertEqual(self.in_use(gpu), before)
                # A block inside has no room, and gives none back.
                enter(stack)
                stack.pop_all().close()
            return self.in_use(gpu) == before - 1

        async def main(order):
            entered = asyncio.Semaphore(0)
            ends = [asyncio.Event() for _ in order]
            tasks = [
                asyncio.create_task(work(number, entered, ends), context=contextvars.Context())
                for number in range(len(order))]
            for _ in order:
                await entered.acquire()
            self.assertEqual(self.in_use(gpu), 3)
            for number in order:
                ends[number].set()
                self.assertTrue(await tasks[number])

        for order in itertools.permutations(range(3)):
            with self.subTest(order):
                asyncio.run(main(order))
                self.assertEqual(self.in_use(gpu), 0)

    def test_a_call_finds_its_outer_one_however_others_have_ended(self):
        gpu = self.store.breaker("ends", max_concurrent=100)
        chance = random.Random(1)
        permits = []

        def drop():
            permits.pop()

        def report():
            permits.pop().report(chance.choice(["success", "ignored"]))

        def report_twice():
            permit = permits.pop()
            permit.report("success")
            self.assertEqual(permit.report("success"), "refused")

        def fail():
            with contextlib.suppress(Resource), gpu:
                raise Resource("down")

        def nest():
            with gpu:
                in_use = self.in_use(gpu)
                for _ in range(chance.randrange(3)):
                    step()
                in_use += len(permits) - before
                with gpu:
                    self.assertEqual(self.in_use(gpu), in_use)

        def step():
            work = chance.choice([drop, report, report_twice, fail, acquire, acquire])
            if permits or work in (fail, acquire):
                work()

        def acquire():
            # Beside all others, because it is asked for in a context of its own.
            permits.append(contextvars.Context().run(gpu.acquire))

        for _ in range(300):
            step()
            before = len(permits)
            nest()
        permits.clear()
        self.assertEqual(self.in_use(gpu), 0)

    def test_a_call_that_has_waited_for_its_turn_surrounds_others(self):
        gpu = self.store.breaker("turns", max_concurrent=2, queue_timeout=3600)

        async def nest():
            while self.in_use(gpu) != 1:
                await asyncio.sleep(0)
            # There is room for another call, which this one does not take.
            async with gpu:
                self.assertEqual(self.in_use(gpu), 1)

        async def block():
            async with gpu:
                await nest()

        async def main():
            for work in (block, gpu(nest)):
                permits = [await gpu.acquire_async() for _ in range(2)]
                task = asyncio.create_task(work())
                while gpu.snapshot()["limit"]["waiting"] != 1:
                    await asyncio.sleep(0)
                for permit in permits:
                    await permit.report_async("success")
                await task

        asyncio.run(main())
        self.assertEqual(self.in_use(gpu), 0)

    def test_a_child_of_a_fork_finds_its_own_outer_call(self):
        gpu = self.store.breaker("forked", max_concurrent=2)
        permits = [gpu.acquire()]

        def is_nested():
            with gpu:
                # The child's copy of its parent's permit is worth nothing, and its report has no effect.
                permits.pop().report("success")
                with gpu:
                    return self.in_use(gpu) == 2

        self.assertEqual(in_child(is_nested), True)
        self.assertEqual(self.in_use(gpu), 1)
        permits.pop().report("success")
        self.assertEqual(self.in_use(gpu), 0)

    def test_a_limit_that_is_lifted_and_comes_back_counts_again(self):
        def hold():
            return contextvars.Context().run(self.gpu.acquire)

        with self.gpu:
            self.assert_busy()
        for _ in range(3):
            self.store.breaker("gpu", max_failures=5)
            for _ in range(3):
                permits = [hold(), hold()]
                del permits
                with self.gpu:
                    self.assert_free()
            self.store.breaker("gpu", max_concurrent=1)
            for _ in range(3):
                permit = hold()
                self.assert_busy()
                permit.report("success")
                with self.gpu:
                    self.assert_nested()
        self.gpu.trip(3600)
        with self.assertRaises(Rejected) as caught, self.gpu:
            self.fail("the work was run")
        self.assertEqual(caught.exception.cause, "open")
        self.gpu.reset()
        self.assert_free()

    def test_a_call_through_another_store_of_the_file_is_inside_too(self):
        link = os.path.join(self.directory, "link")
        os.symlink(self.directory, link)
        other = SharedStore(os.path.join(link, "breakers.db"))
        gpu = other.breaker("gpu")
        with gpu:
            self.assert_nested()
        with self.gpu:
            with gpu:
                self.assert_nested()
            self.assertEqual(self.gpu.environment, gpu.environment)

            def is_free():
                with contextlib.suppress(Rejected), gpu:
                    return True
                return False

            self.assertEqual(in_child(is_free), 0)
            self.assertFalse(contextvars.Context().run(is_free))

            async def main():
                async with gpu:
                    self.assert_nested()

            asyncio.run(main())
            # Calls of the other store do not belong to this one.
            other.close()
            self.assert_nested()
        self.assertEqual(self.in_use(self.gpu), 0)

    def test_a_program_that_is_started_inside_of_a_call_uses_its_room(self):
        program = """
import sys
from shared_breaker import Rejected, SharedStore
store = SharedStore(sys.argv[1])
gpu = store.breaker("gpu")
for line in sys.stdin:
    try:
        with gpu:
            environment = gpu.environment
        print("ran", environment, flush=True)
    except Rejected as rejected:
        print(rejected.cause, flush=True)
"""
        disk = self.store.breaker("disk", max_concurrent=1)
        self.assertEqual(self.gpu.environment, {})
        with self.gpu, disk:
            # It names both calls.
            environment = disk.environment
            self.assertEqual(list(environment), ["SHARED_BREAKER_INSIDE"])
            self.assertEqual(len(environment["SHARED_BREAKER_INSIDE"].split()), 2)
            with self.gpu:
                self.assertEqual(self.gpu.environment, environment)
            inside = subprocess.Popen(
                [sys.executable, "-c", program, self.path], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})
            self.addCleanup(stop, inside)

            def ask():
                inside.stdin.write("\n")
                inside.stdin.flush()
                return inside.stdout.readline().strip()

            self.assertEqual(ask(), "ran {}")
            self.assertEqual(self.in_use(self.gpu), 1)
        self.assertEqual(self.gpu.environment, {})
        # It has outlived the call, and has nothing left of it.
        self.assertRegex(ask(), "^ran {.+}$")
        permit = self.gpu.acquire()
        self.assertEqual(ask(), "busy")
        self.assertNotEqual(permit.environment, environment)
        permit.report("success")
        self.assertEqual(permit.environment, {})
        plain = self.store.breaker("plain")
        with plain:
            self.assertEqual(plain.environment, {})

    def test_a_call_that_has_to_wait_for_the_file_knows_its_outer_call(self):
        async def main():
            async with self.gpu:
                # Another process changes the breaker, so the next call reads the file in another thread.
                self.run_python(
                    "from shared_breaker import breaker; breaker('gpu').force('observe'); "
                    "breaker('gpu').force('automatic')")
                async with self.gpu:
                    self.assertEqual(self.in_use(self.gpu), 1)
                self.run_python("from shared_breaker import breaker; breaker('gpu').reset()")
                self.assert_nested()

        asyncio.run(main())

    def in_use(self, breaker):
        return breaker.snapshot()["limit"]["in_use"]

    def is_free(self):
        with contextlib.suppress(Rejected), self.gpu:
            return True
        return False

    def is_open(self):
        with contextlib.suppress(Rejected), self.gpu:
            pass
        return self.gpu.state == "open"
