"""Breakers in event loops, which they must not block."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import functools
import gc
import inspect
import sys
import threading
import types
import unittest
import warnings

from shared_breaker import Rejected, SharedStore
from support import HOLD_THE_STORE, Resource, StoreTestCase, eventually

class Coroutines(StoreTestCase):
    def setUp(self):
        super().setUp()
        self.payments = self.store.breaker("payments", max_failures=2, open_for=30)

    def run_loop(self, main):
        return asyncio.run(main)

    def test_a_block_reports_like_one_without_async(self):
        async def main():
            async with self.payments as nothing:
                self.assertIsNone(nothing)
                await asyncio.sleep(0)
            for _ in range(2):
                with self.assertRaises(Resource):
                    async with self.payments:
                        raise Resource("down")
            with self.assertRaises(Rejected):
                async with self.payments:
                    self.fail("the work was run")

        self.run_loop(main())
        totals = self.totals("payments")
        self.assertEqual((totals["successes"], totals["failures"]), (1, 2))

    def test_calls_wait_for_the_end_of_a_hold_and_come_back_one_by_one(self):
        api = self.store.breaker("api", queue_timeout=3600, ramp_up=3600)
        api.hold(0.1)
        under_way = []

        async def call():
            async with api:
                under_way.append(asyncio.get_running_loop().create_future())
                await under_way[-1]

        async def main():
            calls = asyncio.gather(*(call() for _ in range(20)))
            for wave in (1, 2, 4, 8, 5):
                while len(under_way) < wave or api.snapshot()["limit"]["in_use"] != wave:
                    await asyncio.sleep(0.001)
                self.assertEqual(len(under_way), wave)
                released, under_way[:] = under_way[:], []
                for future in released:
                    future.set_result(None)
            await calls

        self.run_loop(main())
        totals = self.totals("api")
        self.assertEqual((totals["successes"], totals["held"], totals["ramping"], totals["busy"]), (20, 0, 0, 0))

    def test_a_decorated_coroutine_function_remains_one(self):
        @self.payments
        async def charge(order, *, twice=False):
            """Charge an order."""
            await asyncio.sleep(0)
            return order * 2 if twice else order

        self.assertTrue(inspect.iscoroutinefunction(charge))
        self.assertEqual(charge.__doc__, "Charge an order.")

        async def main():
            self.assertEqual(await charge(3, twice=True), 6)
            self.assertEqual(await asyncio.create_task(charge(4)), 4)
            self.assertEqual(await asyncio.gather(*(charge(n) for n in range(50))), list(range(50)))
            self.assertEqual(await asyncio.wait_for(self.payments.call(charge.__wrapped__, 5), 9), 5)
            self.assertEqual(
                await asyncio.create_task(self.payments.call(charge.__wrapped__, 6)), 6)

        self.run_loop(main())
        self.payments.acquire().report()
        self.assertEqual(self.totals("payments")["successes"], 55)

    def test_an_error_of_a_coroutine_is_a_failure_and_leads_to_the_work(self):
        @self.payments
        async def charge():
            await asyncio.sleep(0)
            raise Resource("down")

        async def main():
            for _ in range(2):
                try:
                    await charge()
                except Resource as error:
                    trace = error.__traceback__
            return trace

        frames = []
        trace = self.run_loop(main())
        while trace:
            frames.append(trace.tb_frame.f_code.co_filename)
            trace = trace.tb_next
        self.assertEqual(frames[-1], __file__)
        self.assertEqual(self.payments.state, "open")

    def test_a_function_that_returns_something_else_to_await_can_be_decorated(self):
        class Ready:
            def __await__(self):
                yield from asyncio.sleep(0).__await__()
                return 7

        async def main():
            self.assertEqual(await self.payments._guard(Ready, True)(), 7)
            self.assertEqual(await self.payments.call(asyncio.sleep, 0, 8), 8)

        self.run_loop(main())

    def test_an_awaitable_that_a_function_returns_is_counted_when_the_awaiting_ends(self):
        class Work:
            def __init__(self, error=None):
                self.error = error
                self.name = "work"

            def __await__(self):
                yield from asyncio.sleep(0).__await__()
                if self.error:
                    raise self.error
                return 7

        @types.coroutine
        def generator():
            yield from asyncio.sleep(0).__await__()
            return 9

        def failing_future():
            future = asyncio.get_running_loop().create_future()
            future.set_exception(Resource("down"))
            return future

        def future():
            future = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(
                lambda: future.cancelled() or future.set_result(8))
            return future

        async def main():
            self.assertEqual(await self.payments.call(Work), 7)
            self.assertEqual(await self.payments(future)(), 8)
            self.assertEqual(await self.payments(generator)(), 9)
            self.assertEqual(await self.payments.call(generator), 9)
            self.assertEqual(
                await asyncio.gather(self.payments.call(future), self.payments.call(Work)), [8, 7])
            waiting = self.payments.call(future)
            self.assertFalse(waiting.done())
            self.assertTrue(waiting.cancel())
            with self.assertRaises(asyncio.CancelledError):
                await waiting
            self.assertEqual(self.payments.call(Work).name, "work")
            with self.assertRaises(AttributeError):
                self.payments.call(Work).nothing
            for _ in range(2):
                with self.assertRaises(Resource):
                    await self.payments.call(failing_future)
            with self.assertRaises(Rejected):
                self.payments.call(future)

        self.run_loop(main())
        totals = self.totals("payments")
        self.assertEqual((totals["successes"], totals["failures"], totals["ignored"]), (6, 2, 3))

    def test_an_awaitable_that_is_entered_instead_is_counted_when_entering_ends(self):
        class Request:
            def __init__(self, error=None):
                self.error = error
                self.events = []

            async def answer(self):
                await asyncio.sleep(0)
                if self.error:
                    raise self.error
                return self

            def __await__(self):
                return self.answer().__await__()

            async def __aenter__(self):
                return await self.answer()

            async def __aexit__(self, *exception):
                self.events.append(exception[0])

        get = self.payments(Request)

        async def main():
            async with get() as answer:
                pass
            self.assertEqual(answer.events, [None])
            self.assertIsInstance(await get(), Request)
            for _ in range(2):
                with self.assertRaises(Resource):
                    async with get(Resource("down")):
                        self.fail("it was not entered")
            with self.assertRaises(AttributeError):
                async with self.payments.call(asyncio.sleep, 0):
                    pass

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with self.assertRaises(Rejected):
                self.run_loop(main())
        totals = self.totals("payments")
        self.assertEqual((totals["successes"], totals["failures"]), (2, 2))

    def test_any_maker_of_coroutines_can_be_decorated(self):
        async def charge(order, twice=False):
            return order * 2 if twice else order

        class Shop:
            @self.payments
            async def charge(self, order):
                return self, order

            async def __call__(self, order):
                return order

        shop = Shop()
        again = self.payments(self.payments(charge))
        partial = self.payments(functools.partial(charge, twice=True))
        called = self.payments(shop)
        for function in (again, partial, called, Shop.charge, shop.charge):
            self.assertTrue(inspect.iscoroutinefunction(function), function)
        self.assertEqual(str(inspect.signature(again)), "(order, twice=False)")

        async def main():
            self.assertEqual(await again(1), 1)
            self.assertEqual(await partial(2), 4)
            self.assertEqual(await called(3), 3)
            self.assertEqual(await shop.charge(4), (shop, 4))

        self.run_loop(main())
        self.payments.acquire().report()
        self.assertEqual(self.totals("payments")["successes"], 6)

    def test_a_call_that_is_never_awaited_is_not_counted_and_python_warns(self):
        @self.payments
        async def charge():
            pass

        self.payments.trip(0.001)  # so that a call would take the slot of the probe
        with self.assertWarnsRegex(RuntimeWarning, "charge' was never awaited"):
            charge()
        charge().close()
        with self.assertRaises(KeyError):
            charge().throw(KeyError("x"))
        permit = eventually(self.probe)
        permit.report()
        totals = self.totals("payments")
        self.assertEqual((totals["successes"], totals["failures"], totals["ignored"]), (1, 0, 0))

    def test_a_call_that_ends_before_it_begins_gives_its_permit_back(self):
        async def charge():
            pass

        def call_as_probe():
            try:
                return self.payments.call(lambda: charge())  # which takes the permit at once
            except Rejected:
                return None

        for end in (lambda call: call.throw(KeyError("x")), lambda call: call.close()):
            self.payments.trip(0.001)
            self.assertEqual(eventually(self.probe).report("ignored"), "counted")
            call = eventually(call_as_probe)
            self.assertIsNone(self.probe())
            with contextlib.suppress(KeyError):
                end(call)
            self.assertIsNotNone(self.probe())  # though the call is still here
            self.payments.reset()

    def test_tools_see_how_far_a_call_has_progressed(self):
        states = []

        @self.payments
        async def charge():
            states.append(inspect.getcoroutinestate(call))
            await asyncio.sleep(0)

        with self.payments:
            pass
        call = charge()
        self.assertEqual(inspect.getcoroutinestate(call), inspect.CORO_CREATED)
        call.send(None)
        self.assertEqual(states, [inspect.CORO_RUNNING])
        self.assertEqual(inspect.getcoroutinestate(call), inspect.CORO_SUSPENDED)
        with self.assertRaises(StopIteration):
            call.send(None)
        self.assertEqual(inspect.getcoroutinestate(call), inspect.CORO_CLOSED)

    def test_tools_see_that_a_call_waits_for_the_store(self):
        @self.store.breaker("new")
        async def charge():
            pass

        async def main():
            task = asyncio.ensure_future(charge())
            await asyncio.sleep(0)
            # Another thread reads the file before the work begins.
            self.assertEqual(inspect.getcoroutinestate(task.get_coro()), inspect.CORO_SUSPENDED)
            await task

        self.run_loop(main())

    def test_a_rejected_call_causes_no_warning(self):
        @self.payments
        async def charge():
            self.fail("the work was run")

        async def main():
            for _ in range(2):
                with self.assertRaises(Rejected):
                    await charge()

        SharedStore(self.path).breaker("payments").trip()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.run_loop(main())  # the first call has to read the file, the second knows
            gc.collect()

    def test_a_call_is_awaited_once(self):
        @self.payments
        async def charge():
            for act in (call.__await__().__next__, call.close, lambda: call.throw(KeyError)):
                with self.assertRaisesRegex(ValueError, "already executing"):
                    act()
            return 1

        async def main():
            self.assertEqual(await call, 1)
            with self.assertRaisesRegex(RuntimeError, "already awaited"):
                await call
            call.close()

        call = charge()
        self.run_loop(main())

    def test_a_rule_that_judges_a_call_cannot_go_on_with_it(self):
        errors = []

        def judge(result):
            for act in (lambda: call.send(None), call.close):
                try:
                    act()
                except ValueError as error:
                    errors.append(str(error))

        judged = self.store.breaker("judged", failure=judge)

        @judged
        async def charge():
            return 1

        async def main():
            return await call

        call = charge()
        self.assertEqual(self.run_loop(main()), 1)
        self.assertEqual(errors, ["coroutine already executing"] * 2)

    def test_a_task_of_a_call_shows_what_it_does(self):
        @self.payments
        async def charge():
            await asyncio.sleep(3600)

        async def main():
            task = asyncio.create_task(charge())
            await asyncio.sleep(0)
            self.assertRegex(repr(task), r"coro=<.*charge\(\) running at .*test_async.py")
            self.assertEqual(task.get_stack()[0].f_code.co_name, "charge")
            task.cancel()
            await asyncio.wait([task])
            self.assertRegex(repr(task), r"coro=<.*charge\(\) done")

        self.run_loop(main())

    def test_a_cancelled_call_is_ignored_and_the_cancellation_is_passed_on(self):
        @self.payments
        async def hang(inside):
            inside.set()
            await asyncio.sleep(3600)

        async def block(inside):
            async with self.payments:
                inside.set()
                await asyncio.sleep(3600)

        async def main():
            for work in (hang, block):
                inside = asyncio.Event()
                task = asyncio.create_task(work(inside))
                await inside.wait()
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task

        self.run_loop(main())
        self.payments.acquire().report()
        totals = self.totals("payments")
        self.assertEqual((totals["ignored"], totals["failures"]), (2, 0))

    def test_a_probe_that_is_cancelled_frees_its_slot(self):
        @self.payments
        async def hang():
            inside.set()
            await asyncio.sleep(3600)

        async def main():
            nonlocal inside
            inside = asyncio.Event()
            while not inside.is_set():
                task = asyncio.create_task(hang())
                await asyncio.wait([task, waiting := asyncio.create_task(inside.wait())],
                                   return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if not inside.is_set():
                    self.assertIsInstance(task.exception(), Rejected)
            self.assertEqual(self.payments.state, "half_open")
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            async with self.payments:
                pass

        inside = None
        self.payments.trip(0.001)
        self.run_loop(main())
        self.assertEqual(self.payments.state, "closed")

    def test_a_coroutine_that_is_dropped_midway_is_ignored(self):
        @self.payments
        async def hang():
            await asyncio.sleep(0)
            await asyncio.sleep(0)

        self.payments.acquire().report()
        coroutine = hang()
        coroutine.send(None)
        coroutine.close()
        coroutine = hang()
        coroutine.send(None)
        del coroutine
        gc.collect()
        self.payments.acquire().report()
        self.assertEqual(self.totals("payments")["ignored"], 2)

    def test_the_call_of_an_asynchronous_generator_lasts_to_its_end(self):
        @self.payments
        async def rows():
            got = yield 1
            try:
                yield got
            except KeyError:
                yield "caught"

        @self.payments
        async def broken():
            yield 1
            raise Resource("down")

        self.assertTrue(inspect.isasyncgenfunction(rows))

        async def main():
            values = rows()
            self.assertEqual(await values.__anext__(), 1)
            self.assertEqual(await values.asend("sent"), "sent")
            self.assertEqual(await values.athrow(KeyError("x")), "caught")
            self.assertEqual([value async for value in values], [])
            async with contextlib.aclosing(rows()) as values:
                async for value in values:
                    break
            for function in (broken, lambda: self.payments.call(broken.__wrapped__)):
                with self.assertRaises(Resource):
                    async for value in function():
                        pass
            with self.assertRaises(Rejected):
                async for value in rows():
                    self.fail("the work was run")

        self.run_loop(main())
        totals = self.totals("payments")
        self.assertEqual((totals["successes"], totals["ignored"], totals["failures"]), (1, 1, 2))

    def test_permits_can_be_acquired_and_reported_in_a_loop(self):
        async def main():
            permit = await self.payments.acquire_async()
            self.assertEqual(await permit.report_async("failure"), "counted")
            permit = await self.payments.acquire_async()
            self.assertEqual(await permit.report_async(Resource("down")), "counted")
            with self.assertRaises(Rejected):
                await self.payments.acquire_async()

        self.run_loop(main())

    def test_a_permit_can_be_a_block_in_a_loop(self):
        async def main():
            async with await self.payments.acquire_async():
                await asyncio.sleep(0)
            with self.assertRaises(Resource):
                async with await self.payments.acquire_async():
                    raise Resource("down")
            async with await self.payments.acquire_async() as call:
                await call.report_async("hold", hold_for=60)
            with self.assertRaises(Rejected) as caught:
                await self.payments.acquire_async()
            return caught.exception.cause

        self.assertEqual(self.run_loop(main()), "held")
        totals = self.totals("payments")
        self.assertEqual((totals["successes"], totals["failures"], totals["ignored"]), (1, 1, 1))

    def test_a_permit_of_either_way_to_ask_can_be_a_block_of_either_kind(self):
        async def main():
            for words in ({}, {"wait": 0}, {"units": 2, "background": True}):
                with self.payments.acquire(**words) as call:
                    self.assertEqual(call.kind, "normal")
                async with self.payments.acquire(**words) as call:
                    self.assertEqual(call.kind, "normal")
                with await self.payments.acquire_async(**words) as call:
                    self.assertEqual(call.kind, "normal")
                async with await self.payments.acquire_async(**words) as call:
                    self.assertEqual(call.kind, "normal")
                self.assertIsNone(call.kind)

        self.run_loop(main())
        self.assertEqual(self.totals("payments")["successes"], 12)

    def test_the_block_of_a_probe_closes_the_breaker(self):
        async def main():
            for wait in (None, 5):
                await self.payments.trip_async(open_for=1e-9)
                async with await self.payments.acquire_async(wait=wait) as call:
                    self.assertEqual(call.kind, "probe")
                self.assertEqual(self.payments.state, "closed")

        self.run_loop(main())

    def test_the_block_of_a_permit_that_is_cancelled_or_closed_tells_nothing(self):
        async def stream():
            async with await self.payments.acquire_async():
                yield 1

        async def main():
            with self.assertRaises(asyncio.CancelledError):
                async with await self.payments.acquire_async():
                    raise asyncio.CancelledError
            parts = stream()
            await parts.__anext__()
            await parts.aclose()

        self.run_loop(main())
        totals = self.totals("payments")
        self.assertEqual((totals["successes"], totals["failures"], totals["ignored"]), (0, 0, 2))

    def test_a_loop_can_trip_and_hold(self):
        async def main():
            await self.payments.hold_async(60, "over quota")
            with self.assertRaises(Rejected) as caught:
                await self.payments.acquire_async()
            await self.payments.trip_async(30, "deploy")
            return caught.exception.reason, self.payments.state

        self.assertEqual(self.run_loop(main()), ("over quota", "open"))

    def test_it_works_under_a_tracer(self):
        @self.payments
        async def charge():
            await asyncio.sleep(0)
            return 1

        sys.settrace(lambda *event: None)
        try:
            self.assertEqual(self.run_loop(charge()), 1)
        finally:
            sys.settrace(None)

    def test_a_permit_that_comes_after_its_caller_was_cancelled_is_given_back(self):
        self.payments.trip(0.001)
        holder = self.start_python(HOLD_THE_STORE, self.path)

        async def main():
            # The holder has the store, so the permit of the probe takes its time.
            self.assertEqual(holder.stdout.readline(), "held\n")
            task = asyncio.create_task(self.payments.acquire_async())
            await asyncio.sleep(0.05)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Rejected):
                await task
            holder.stdin.write("\n")
            holder.stdin.flush()
            holder.wait()

        self.run_loop(main())
        eventually(self.probe)

    def probe(self):
        """Return the permit of a probe; None if there is none now."""
        try:
            permit = self.payments.acquire()
        except Rejected:
            return None
        self.assertEqual(permit.kind, "probe")
        return permit


class WithoutBlocking(StoreTestCase):
    def test_a_loop_goes_on_while_another_process_holds_the_store(self):
        # Longer than any test: a loop that waits for the store would wait until the report is given up.
        store = SharedStore(self.path, lock_timeout=600)
        self.addCleanup(store.close)
        payments = store.breaker("payments", max_failures=100_000)
        probed = store.breaker("probed", max_failures=1)
        payments.call(int)
        probed.trip(1e-9)

        @payments
        async def fail():
            raise Resource("down")

        async def block():
            async with payments:
                raise Resource("down")

        async def call():
            await payments.call(fail.__wrapped__)

        async def two_steps():
            permit = await payments.acquire_async()
            self.assertEqual(await permit.report_async("failure"), "counted")

        async def probe():
            async with probed:
                pass

        async def main(holder):
            for work in (fail, block, call, two_steps, probe):
                tasks = [asyncio.ensure_future(work()) for _ in range(8)]
                for _ in range(1_000):
                    await asyncio.sleep(0)
                # The loop has made a thousand turns while all of them wait for the store.
                self.assertEqual([task for task in tasks if task.done()], [], work)
                waiting.extend(tasks)
            holder.stdin.close()
            return await asyncio.gather(*waiting, return_exceptions=True)

        waiting = []
        holder = self.start_python(HOLD_THE_STORE, self.path)
        self.assertEqual(holder.stdout.readline(), "held\n")
        kinds = collections.Counter(type(answer) for answer in asyncio.run(main(holder)))
        # One of eight probes is permitted; which others are depends on when it ends.
        self.assertEqual(kinds.pop(Resource), 24)
        self.assertGreaterEqual(kinds.pop(type(None)), 8 + 1)
        self.assertLessEqual(set(kinds), {Rejected})
        self.assertEqual(self.totals("payments")["failures"], 32)

    def test_outcomes_are_written_although_their_loop_ends(self):
        payments = self.store.breaker("payments", max_failures=100_000)
        payments.call(int)

        calls = []

        async def fail():
            async with payments:
                calls.append(1)
                raise Resource("down")

        async def main():
            for _ in range(50):
                asyncio.create_task(fail())
            await asyncio.sleep(0)

        # It cancels calls that still wait for their report, and calls that have to read the file first
        # because another report was written in between.
        asyncio.run(main())
        self.assertTrue(calls)
        eventually(lambda: self.totals("payments")["failures"] == len(calls))

    def test_a_loop_other_than_asyncios_works_too(self):
        payments = self.store.breaker("payments", max_failures=1)

        async def main():
            async with payments:
                raise Resource("down")

        with self.assertRaises(Resource):
            main().send(None)
        self.assertEqual(payments.state, "open")

    def test_healthy_calls_start_no_thread(self):
        payments = self.store.breaker("payments")
        payments.call(int)

        async def main():
            for _ in range(100):
                async with payments:
                    pass

        names = {thread.name for thread in threading.enumerate()}
        asyncio.run(main())
        new = {thread.name for thread in threading.enumerate()} - names
        self.assertLessEqual(len(new), 1, new)  # once a second a look at the file may be due


if __name__ == "__main__":
    unittest.main()
