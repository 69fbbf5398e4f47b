"""Nothing keeps memory or references, however often it is done."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import os
import pickle
import sys
import tracemalloc
import unittest

from shared_breaker import Busy, Rejected, SharedStore, pybreaker
from support import Resource, StoreTestCase

TIMES = 2_000


class HeapInfo(ctypes.Structure):
    """The result of mallinfo2(3) of glibc 2.33 and later."""

    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost")]


def heap():
    """Return the bytes that everything in this process has from malloc(); 0 if it is unknown."""
    try:
        mallinfo = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return 0
    mallinfo.restype = HeapInfo
    info = mallinfo()
    return info.uordblks + info.hblkhd


def kept(work, times):
    """Do something often; return the bytes, blocks, references and bytes of the heap that are kept."""
    total_references = getattr(sys, "gettotalrefcount", int)  # of an interpreter for debugging
    gc.collect()
    tracemalloc.start()
    try:
        traced = tracemalloc.get_traced_memory()[0]
        blocks, references = sys.getallocatedblocks(), total_references()
        for _ in range(times):
            work()
        gc.collect()
        references = total_references() - references
        blocks = sys.getallocatedblocks() - blocks
        traced = tracemalloc.get_traced_memory()[0] - traced
    finally:
        tracemalloc.stop()
    # Without the trace, which is memory too: what the library has.
    before = heap()
    for _ in range(times):
        work()
    gc.collect()
    return traced, blocks, references, heap() - before


# Under AddressSanitizer no name gets the memory of an earlier one, so the interpreter's caches of names grow.
@unittest.skipIf(os.environ.get("PYTHONMALLOC"), "memory is measured as interpreters use it")
class Leaks(StoreTestCase):
    def check(self, work, times=TIMES):
        """Check that work keeps nothing, however often it is done."""
        for _ in range(min(times, 300)):
            work()
        # Memory that is kept once, such as a larger table, is kept in one round. A leak in each call is a
        # block of 16 bytes at least, in each round.
        traced, blocks, references, heap_bytes = map(min, zip(*(kept(work, times) for _ in range(3))))
        self.assertLess(traced, 8 * times + 4_096)  # the interpreter's caches of names grow, too
        self.assertLess(blocks, times // 2)
        self.assertLess(references, times // 2)
        self.assertLess(heap_bytes, 8 * times + 16_384)  # the library's caches grow for a while

    def setUp(self):
        super().setUp()
        self.payments = self.store.breaker("payments", max_failures=1_000_000)
        self.payments.call(int)

    def test_healthy_calls_keep_nothing(self):
        guarded = self.payments(lambda *args, **kwargs: args)

        def work():
            with self.payments:
                pass
            guarded(1, two=2)
            self.payments.call(dict, a=1)
            self.payments.acquire().report()

        references = [sys.getrefcount(one) for one in (None, self.payments, guarded)]
        self.check(work)
        after = [sys.getrefcount(one) for one in (None, self.payments, guarded)]
        for before, now in zip(references, after):
            self.assertLess(abs(now - before), 50)

    def test_failures_keep_nothing(self):
        error = Resource("down")

        def work():
            try:
                with self.payments:
                    raise error.with_traceback(None)
            except Resource:
                pass

        self.check(work, 1_000)

    def test_rejections_keep_nothing(self):
        self.payments.trip(3600)

        def work():
            try:
                self.payments.call(int)
            except Rejected:
                pass

        self.check(work)

    def test_calls_that_find_no_room_keep_nothing(self):
        self.check_without_room(self.store.breaker("gpu", max_concurrent=2))

    def test_calls_that_leave_the_queue_keep_nothing(self):
        self.check_without_room(self.store.breaker("gpu", max_concurrent=2, queue_timeout=3600), 300)

    def check_without_room(self, gpu, *times):
        permit = gpu.acquire(units=2)

        def work():
            for words in ({}, {"units": 2}, {"background": True}):
                try:
                    gpu.acquire(wait=0, **words)
                except Busy as busy:
                    busy.into(Rejected, Busy)

        self.check(work, *times)
        permit.report()

    def test_coroutines_and_generators_keep_nothing(self):
        @self.payments
        async def coroutine():
            pass

        @self.payments
        def generator():
            yield 1

        def work():
            for step in (coroutine(), self.block()):
                try:
                    step.send(None)
                except StopIteration:
                    pass
            list(generator())
            list(self.payments.call(generator.__wrapped__))

        self.check(work, 1_000)

    async def block(self):
        async with self.payments:
            pass

    def test_blocks_whose_permits_differ_keep_nothing(self):
        slow = self.store.breaker("slow", slow_rate=1, slow_after=3600, window=60, min_calls=1)

        def work():
            with slow:
                with slow:
                    with slow:
                        pass

        self.check(work, 1_000)

    def test_calls_that_go_through_threads_keep_nothing(self):
        @self.payments
        async def fail():
            raise Resource("down")

        async def main():
            async def work():
                try:
                    await fail()
                except Resource:
                    pass

            async def kept(count):
                gc.collect()
                blocks = sys.getallocatedblocks()
                for _ in range(count):
                    await work()
                gc.collect()
                return sys.getallocatedblocks() - blocks

            await kept(300)
            # Threads begin when they are first needed, each with some memory of its own. A leak is in every round.
            return min([await kept(1_000) for _ in range(3)])

        self.assertLess(asyncio.run(main()), 200)

    def test_every_other_operation_keeps_nothing(self):
        payments, store = self.payments, self.store
        other = store.breaker("other", max_failures=1_000_000)
        judged = store.breaker("judged", failure=lambda result: result, open_for=lambda value: None)
        drop = contextlib.suppress

        async def answer():
            return 1

        async def hang():
            await asyncio.sleep(3600)

        async def rows():
            yield 1

        def permit():
            with drop(TypeError):
                payments.acquire().report("failure", "down", open_for="x")
            probe = payments.acquire()
            probe.renew()
            probe.report(Resource("down"), elapsed=1)
            probe.report()

        def token():
            text = payments.acquire_token()
            store.renew(text, 1)
            store.report(text, "failure", "down", open_for=None, elapsed=0.001)

        def steer():
            other.trip(60, "maintenance")
            other.force("forced_open", 60, "maintenance")
            with drop(Rejected):
                other.call(int)
            other.force("automatic")
            other.reset()

        def look():
            payments.snapshot(), store.snapshot("none"), store.snapshots("pay")
            store.history("payments", limit=2), payments.state, payments.health
            store.health, store.path, repr(payments), repr(store), repr(payments._guard(int, False))

        def refuse():
            for act in (
                lambda: store.breaker("payments", "max-failures=many"), lambda: store.breaker(""),
                lambda: store.breaker("x", ignore=3), lambda: payments.force("ajar"),
                lambda: store.report("no token"), lambda: payments.acquire_token(2**31 - 1),
                lambda: SharedStore(on_store_failure="x"), lambda: pickle.dumps(payments),
                lambda: payments.call(), lambda: payments.call(int, base=3)):
                with drop(Exception):
                    act()

        def listen():
            ends = [store.listen(print), payments.listen(print)]
            payments.call(int)
            for end in ends:
                end()

        def follow():
            store.follow("payments").close()
            with store.follow(after=0) as follower:
                next(follower)

        def new_store():
            with SharedStore(self.path) as mine:
                mine.breaker("payments").call(int)
                mine.flush()

        def judge():
            judged.call(lambda: 0), judged.call(lambda: 1)

        def awaited(coroutine):
            with drop(StopIteration, StopAsyncIteration, Rejected, Resource):
                while True:
                    coroutine.send(None)

        def coroutines():
            guarded = payments(hang)
            for coroutine in (guarded(), payments.call(hang), payments.call(answer)):
                with drop(RuntimeError, StopIteration):
                    coroutine.send(None)  # there is no loop to sleep in
                coroutine.close()
            guarded().close()
            with drop(KeyError):
                guarded().throw(KeyError("x"))
            awaited(payments(answer)())

        def generators():
            async def consume(generator):
                async for _ in generator:
                    break
                await generator.aclose()

            awaited(consume(payments(rows)()))
            awaited(consume(payments.call(rows)))
            generator = payments.call(lambda: (n for n in range(3)))
            next(generator)
            generator.close()

        def original():
            database = pybreaker.CircuitBreaker(name="database", store=store)
            database.call(int)
            with drop(Resource), database.calling():
                raise Resource("down")
            database.success_counter, database.close()

        operations = (
            permit, token, steer, look, refuse, listen, follow, new_store, judge, coroutines,
            generators, original)
        for operation in operations:
            with self.subTest(operation.__name__):
                self.check(operation, 40 if operation in (steer, follow) else 200)

    def test_hooks_keep_nothing(self):
        from shared_breaker._extension import Hook

        hook = Hook(self.store, "pager", "payments", 0, 0)

        def work():
            self.payments.trip()
            self.payments.reset()
            hook.done(0) if hook.take()[0] else None
            Hook(self.store, "pager", "payments", 0, 0)

        self.check(work, 40)


if __name__ == "__main__":
    unittest.main()
