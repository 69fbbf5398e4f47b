"""The package's helpers for tests of programs: a clock, a store that fails, and a plugin for pytest."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
import unittest

from shared_breaker import Rejected, SharedStore, StoreError
from shared_breaker.testing import Clock, Host
from support import StoreTestCase, in_child


class Hosts(StoreTestCase):
    def setUp(self):
        super().setUp()
        self.host = Host(os.path.join(self.directory, "."))
        self.addCleanup(self.host.close)
        self.payments = self.host.store.breaker("payments", max_failures=1, open_for=30, jitter=0)

    def test_time_passes_only_when_the_test_moves_it(self):
        self.let_fail(self.payments)
        self.host.clock.advance(29.999)
        with self.assertRaises(Rejected) as caught:
            self.payments.call(int)
        self.assertAlmostEqual(caught.exception.retry_after, 0.001)
        self.host.clock.advance(0.001)
        self.assertEqual(self.payments.call(int), 0)
        self.assertEqual(self.payments.state, "closed")

    def test_a_hold_ends_when_the_test_moves_the_time(self):
        self.payments.hold(60, "HTTP 429")
        with self.host.open() as other, self.assertRaises(Rejected) as caught:
            other.breaker("payments").call(int)
        self.assertEqual((caught.exception.cause, caught.exception.retry_after), ("held", 60))
        self.host.clock.advance(60)
        self.assertEqual(self.payments.call(int), 0)
        self.assertIsNone(self.payments.snapshot()["hold"])

    def test_a_ramp_lets_calls_through_as_others_succeed(self):
        api = self.host.store.breaker("api", ramp_up=10)
        api.hold(60)
        self.host.clock.advance(60)
        self.assertEqual(api.call(int), 0)
        with api.acquire(), api.acquire(), self.assertRaises(Rejected) as caught:
            api.call(int)
        self.assertEqual((caught.exception.cause, caught.exception.retry_after), ("ramping", 10))
        self.assertIn("few calls", str(caught.exception))
        self.assertEqual(api.snapshot()["totals"]["ramping"], 1)
        self.host.clock.advance(10)
        self.assertEqual([permit.report("success") for permit in [api.acquire() for _ in range(9)]], ["counted"] * 9)
        self.assertIsNone(api.snapshot()["ramp"])

    def test_calls_that_are_sent_again_keep_to_the_budget(self):
        for limit in (None, 4):
            with self.subTest(limit=limit):
                search = self.host.store.breaker(
                    f"search {limit}", max_failures=1000, max_concurrent=limit, retry_budget=0.2)
                again = search.claiming(retry=True)
                for _ in range(100):
                    self.let_fail(search)
                sent = 0
                with self.assertRaises(Rejected) as caught:
                    while True:
                        with again:
                            sent += 1
                self.assertEqual((sent, caught.exception.cause), (20, "retry_budget"))
                self.assertTrue(0 < caught.exception.retry_after <= 1)
                self.assertIn("sent again", str(caught.exception))
                with self.assertRaises(Rejected):
                    search.acquire(retry=True)
                with self.assertRaises(Rejected):
                    asyncio.run(search.acquire_async(retry=True))
                self.assertEqual(again.claiming(retry=False).call(int), 0)
                self.host.clock.advance(1)
                self.assertEqual(again.call(int), 0)
                snapshot = search.snapshot()
                self.assertEqual((snapshot["totals"]["retries"], snapshot["totals"]["over_budget"]), (21, 3))
                self.assertEqual(snapshot["retries"], {"first_attempts": 101, "sent": 21, "permitted": True})

    def test_all_stores_and_processes_of_a_host_have_the_same_time(self):
        self.let_fail(self.payments)
        begun = self.host.clock.now()

        def child():
            Clock(os.path.join(self.directory, "breakers.clock")).advance(30)
            with Host(self.directory) as host:
                return host.store.breaker("payments").call(int)

        self.assertEqual(in_child(child), 0)
        self.assertEqual(self.host.clock.now(), begun + 30)
        with self.host.open() as other:
            self.assertEqual(other.breaker("payments").call(int), 0)
            self.assertEqual(other.breaker("payments").state, "closed")

    def test_the_store_fails_in_a_block_and_works_afterwards(self):
        strict = self.host.store.breaker("strict", on_store_failure="raise")
        for existed in (False, True):
            with self.subTest(existed=existed):
                with self.assertLogs("shared_breaker", "WARNING"), self.host.failure():
                    with self.assertRaises(StoreError):
                        strict.call(int)
                    self.assertEqual(self.payments.call(int), 0)
                self.assertEqual(strict.call(int), 0)
                self.assertEqual(self.host.store.health, "available")

    def test_a_store_of_the_program_leads_to_the_host_with_all_its_breakers_until_the_host_is_closed(self):
        mine = self.store.breaker("payments", max_failures=1, on_store_failure="raise")
        charge = mine(lambda fail: 1 // (not fail))
        self.let_fail(mine)
        with open(os.devnull, "w") as nothing:
            print(mine.state, file=nothing)
        for number in range(3):
            directory = os.path.join(self.directory, f"{number}")
            os.mkdir(directory)
            with Host(directory, store=self.store) as host:
                self.assertIs(host.store, self.store)
                self.assertEqual(self.store.path, host.path)
                late = self.store.breaker("late", max_failures=1)
                self.assertEqual((mine.state, charge(False), late.call(int)), ("closed", 1, 0))
                self.assertRaises(ZeroDivisionError, charge, True)
                self.assertRaises(Rejected, charge, False)
                host.clock.advance(60)
                self.assertEqual((charge(False), mine.state), (1, "closed"))
                self.let_fail(late)
                with self.assertLogs("shared_breaker", "WARNING"), host.failure():
                    self.assertRaises(StoreError, mine.call, int)
            self.assertEqual(self.store.path, self.path)
            self.assertEqual(mine.state, "open")
            self.assertRaises(Rejected, charge, False)
            # It was got meanwhile, and goes on with the program's store too.
            self.assertEqual((late.state, late.call(int)), ("closed", 0))
        self.assertEqual(self.totals("late")["successes"], 3)

    def test_listeners_of_a_store_hear_what_happens_on_the_host(self):
        heard = []
        mine = self.store.breaker("payments", max_failures=1)
        self.let_fail(mine)
        self.addCleanup(self.store.listen(lambda event: heard.append((event.before, event.after))))
        directory = os.path.join(self.directory, "host")
        os.mkdir(directory)
        with self.assertLogs("shared_breaker") as log, Host(directory, store=self.store):
            self.let_fail(mine)
        self.assertEqual(heard, [("closed", "open")])
        self.assertEqual(len(log.records), 1, log.output)
        mine.reset()
        self.assertEqual(heard, [("closed", "open"), ("open", "closed")])

    def test_a_store_that_the_test_closes_is_open_again_afterwards(self):
        mine = self.store.breaker("payments", max_failures=1)
        self.let_fail(mine)
        directory = os.path.join(self.directory, "host")
        os.mkdir(directory)
        with Host(directory, store=self.store):
            self.store.close()
            self.assertEqual(mine.call(int), 0)
        self.assertRaises(Rejected, mine.call, int)

    def test_only_a_store_can_lead_to_a_host(self):
        with self.assertRaisesRegex(TypeError, "is not a SharedStore"):
            Host(self.directory, store=self.path)

    def test_a_clock_has_eight_bytes(self):
        class Short:
            _time = bytearray(7)

        with self.assertRaises(ValueError):
            SharedStore(self.path, clock=Short())


MODULE = """
import shared_breaker

payments = shared_breaker.breaker("payments", max_failures=1, open_for=30)

@payments
def charge(order):
    return 1 // order
"""

PROGRAM = """
import os
import pytest
import shared_breaker
from shared_breaker import Rejected, breaker, default_store

mine = breaker("module", max_failures=1)  # as in a module of the program

def fail():
    raise LookupError

def test_a_breaker_of_a_module_touches_nothing_of_the_developers():
    assert default_store().path != os.environ["DEVELOPERS"]
    assert not os.path.exists(mine.store.path)
    with pytest.raises(LookupError):
        mine.call(fail)

@pytest.mark.parametrize("number", range(6))
def test_each_test_has_a_store_of_its_own(breaker_clock, breaker_store, number):
    payments = breaker("payments", max_failures=1, open_for=30, jitter=0)
    assert payments.store is breaker_store
    assert payments.state == "closed"
    with pytest.raises(LookupError):
        payments.call(fail)
    with pytest.raises(Rejected):
        payments.call(int)
    breaker_clock.advance(30)
    assert payments.call(int) == 0

@pytest.mark.parametrize("number", range(3))
def test_breakers_of_modules_are_those_of_the_test(breaker_clock, breaker_store, number):
    import shop  # the first time, or not
    assert (shop.payments.store is breaker_store, mine.store is breaker_store) == (True, True)
    assert (shop.payments.state, mine.state) == ("closed", "closed")
    with pytest.raises(ZeroDivisionError):
        shop.charge(0)
    with pytest.raises(Rejected):
        shop.charge(1)
    breaker_clock.advance(30)
    assert shop.charge(1) == 1
    with pytest.raises(LookupError):
        mine.call(fail)

def test_without_a_fixture_they_are_those_of_the_run():
    import shop
    assert shop.payments.store.path != os.environ["DEVELOPERS"]
    assert shop.charge(1) == 1
    assert shop.payments.snapshot()["totals"]["failures"] == 0

def test_the_store_fails(breaker_host):
    with breaker_host.failure():
        assert breaker("payments").call(int) == 0
        assert breaker_host.store.health not in ("available", "untried")
"""


@unittest.skipUnless(importlib.util.find_spec("pytest"), "pytest is not installed")
class Plugin(StoreTestCase):
    def run_pytest(self, *words):
        with open(os.path.join(self.directory, "test_program.py"), "w") as file:
            file.write(PROGRAM)
        with open(os.path.join(self.directory, "shop.py"), "w") as file:
            file.write(MODULE)
        environment = {**os.environ, "SHARED_BREAKER_STORE": self.path, "DEVELOPERS": self.path}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "shared_breaker.pytest_plugin", "-q", *words],
            cwd=self.directory, env=environment, text=True, stdout=subprocess.PIPE, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("12 passed", done.stdout)
        self.assertFalse(os.path.exists(self.path))

    def test_fixtures_isolate_tests_from_each_other_and_from_the_developers_store(self):
        self.run_pytest()

    @unittest.skipUnless(importlib.util.find_spec("xdist"), "pytest-xdist is not installed")
    def test_fixtures_isolate_tests_that_run_in_parallel(self):
        self.run_pytest("-n", "3")


if __name__ == "__main__":
    unittest.main()
