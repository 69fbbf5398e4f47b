"""Ten thousand calls of each kind keep no memory and no reference."""

from __future__ import annotations

import asyncio
import gc
import sys
import tracemalloc
import unittest

from shared_breaker import Rejected
from support import Resource, StoreTestCase

TIMES = 10_000


class Leaks(StoreTestCase):
    def check(self, work, times=TIMES):
        """Check that work keeps nothing, however often it is done."""
        for _ in range(200):
            work()
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            blocks = sys.getallocatedblocks()
            for _ in range(times):
                work()
            gc.collect()
            kept = tracemalloc.get_traced_memory()[0] - before
            kept_blocks = sys.getallocatedblocks() - blocks
        finally:
            tracemalloc.stop()
        # A reference that is lost in each call would be thousands of blocks, of 16 bytes at least.
        self.assertLess(kept, 16_384)
        self.assertLess(kept_blocks, 100)

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

        self.check(work, 2_000)

    def test_rejections_keep_nothing(self):
        self.payments.trip(3600)

        def work():
            try:
                self.payments.call(int)
            except Rejected:
                pass

        self.check(work)

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

        self.check(work, 3_000)

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

        self.check(work, 2_000)

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

            for _ in range(300):
                await work()
            gc.collect()
            blocks = sys.getallocatedblocks()
            for _ in range(2_000):
                await work()
            gc.collect()
            return sys.getallocatedblocks() - blocks

        self.assertLess(asyncio.run(main()), 200)

    def test_breakers_and_stores_keep_nothing(self):
        def work():
            self.store.breaker("payments")
            self.store.snapshot("payments")
            self.store.history("payments", limit=1)

        self.check(work, 1_000)


if __name__ == "__main__":
    unittest.main()
