"""What the package offers to the tests of programs: a clock, a store that fails, and a plugin for pytest."""

from __future__ import annotations

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

    def test_a_clock_has_eight_bytes(self):
        class Short:
            _time = bytearray(7)

        with self.assertRaises(ValueError):
            SharedStore(self.path, clock=Short())


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
        environment = {**os.environ, "SHARED_BREAKER_STORE": self.path, "DEVELOPERS": self.path}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "shared_breaker.pytest_plugin", "-q", *words],
            cwd=self.directory, env=environment, text=True, stdout=subprocess.PIPE, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("8 passed", done.stdout)
        self.assertFalse(os.path.exists(self.path))

    def test_fixtures_isolate_tests_from_each_other_and_from_the_developers_store(self):
        self.run_pytest()

    @unittest.skipUnless(importlib.util.find_spec("xdist"), "pytest-xdist is not installed")
    def test_fixtures_isolate_tests_that_run_in_parallel(self):
        self.run_pytest("-n", "3")


if __name__ == "__main__":
    unittest.main()
