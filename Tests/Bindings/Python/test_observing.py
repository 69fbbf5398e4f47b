"""The reports of a process on its calls: to listeners of calls, and to the log."""

from __future__ import annotations

import asyncio
import logging
import unittest

from shared_breaker import Rejected, SharedStore, pybreaker
from support import Resource, StoreTestCase, eventually, in_child


class Calls(StoreTestCase):
    def setUp(self):
        super().setUp()
        self.payments = self.store.breaker("payments", max_failures=2, ignore=KeyError)
        self.events = []
        self.end = self.store.listen(self.events.append, calls=True)

    def told(self, kind):
        return [(e.name, e.after, e.message) for e in self.events if e.kind == kind]

    def check(self, fail, reject):
        """Fail twice and be rejected once."""
        fail()
        self.assertEqual(self.told("failure"), [("payments", "counted", "Resource: down")])
        self.assertEqual(self.told("rejection"), [])
        fail()
        self.assertEqual(len(self.told("failure")), 2)
        self.assertEqual([(e.before, e.after) for e in self.events if e.kind == "state"], [("closed", "open")])
        with self.assertRaises(Rejected) as caught:
            reject()
        self.assertEqual(self.told("rejection"), [("payments", "open", str(caught.exception))])
        self.assertEqual(self.events[-1].retry_after, caught.exception.retry_after)

    def work(self):
        raise Resource("down")

    def ask(self, breaker):
        with breaker:
            pass

    def test_a_listener_of_calls_is_told_of_failures_and_rejections_of_blocks(self):
        self.check(lambda: self.let_fail(self.payments), lambda: self.ask(self.payments))

    def test_a_listener_of_calls_is_told_of_failures_and_rejections_of_functions(self):
        def fail():
            self.assertRaises(Resource, self.payments.call, self.work)

        self.check(fail, lambda: self.payments.call(int))

    def test_a_listener_of_calls_is_told_of_results_that_are_failures(self):
        orders = self.store.breaker("orders", max_failures=3, failure=lambda answer: answer == 500)
        self.assertEqual(orders.call(int, "500"), 500)
        self.assertEqual(self.told("failure"), [("orders", "counted", "a result of type int")])

    def test_a_listener_of_calls_is_told_of_failures_and_rejections_of_permits(self):
        def fail():
            self.payments.acquire().report("failure", "Resource: down")

        self.check(fail, self.payments.acquire)
        self.assertRaises(Rejected, self.payments.acquire_token)
        self.assertEqual(len(self.told("rejection")), 2)

    def test_a_listener_of_calls_is_told_in_event_loops(self):
        async def work():
            raise Resource("down")

        async def block():
            async with self.payments:
                await work()

        async def in_two_steps():
            permit = await self.payments.acquire_async()
            await permit.report_async(Resource("down"))

        for ask in (block, self.payments(work), in_two_steps):
            with self.subTest(ask=ask):
                self.events.clear()
                self.payments.reset()
                self.events.clear()

                def fail(ask=ask):
                    try:
                        asyncio.run(ask())
                    except Resource:
                        pass

                self.check(fail, lambda ask=ask: asyncio.run(ask()))

    def test_a_listener_of_calls_is_told_of_calls_through_pybreakers_interface(self):
        circuit = pybreaker.CircuitBreaker(fail_max=2, name="circuit", store=self.store)
        for error in (Resource, pybreaker.CircuitBreakerError, pybreaker.CircuitBreakerError):
            self.assertRaises(error, circuit.call, self.work)
        self.assertEqual(len(self.told("failure")), 2)
        self.assertEqual(len(self.told("rejection")), 1)

    def test_a_listener_of_calls_is_told_of_failures_while_the_store_is_lost(self):
        with SharedStore("/proc/no/such/directory/breakers.db") as store:
            self.payments = store.breaker("payments", max_failures=2)
            self.payments.call(int)
            store.listen(self.events.append, calls=True)
            self.check(lambda: self.let_fail(self.payments), lambda: self.ask(self.payments))

            async def work():
                raise Resource("down")

            orders = store.breaker("orders", max_failures=9)
            self.events.clear()
            for _ in range(3):
                self.assertRaises(Resource, asyncio.run, orders(work)())
            self.assertEqual(len(self.told("failure")), 3)

    def test_healthy_and_ignored_calls_are_not_told(self):
        for _ in range(3):
            self.payments.call(int)
            self.assertRaises(KeyError, self.payments.call, {}.__getitem__, 1)
        self.assertEqual(self.events, [])

    def test_calls_of_a_closed_store_are_not_told(self):
        self.payments.call(int)
        self.store.close()
        self.let_fail(self.payments, times=3)
        self.assertEqual((self.told("failure"), self.told("rejection")), ([], []))

    def test_only_listeners_of_calls_are_told_of_calls_until_they_end(self):
        others = []
        self.store.listen(others.append)
        self.payments.listen(others.append)
        self.let_fail(self.payments, times=2)
        self.assertRaises(Rejected, self.payments.call, int)
        self.assertEqual({event.kind for event in others}, {"state"})
        count = len(self.events)
        self.end()
        self.assertRaises(Rejected, self.payments.call, int)
        self.assertEqual(len(self.events), count)


class Logging(StoreTestCase):
    def setUp(self):
        super().setUp()
        self.payments = self.store.breaker(
            "payments", max_failures=1, open_for=0.001, jitter=0, probe_timeout=3600)

    def lines(self, logs):
        return [(record.levelname, record.getMessage()) for record in logs.records]

    def recover(self):
        def succeeds():
            try:
                return self.payments.call(int) == 0
            except Rejected:
                return False

        eventually(succeeds)

    def test_each_change_of_state_is_one_line(self):
        with self.assertLogs("shared_breaker", "INFO") as logs:
            self.let_fail(self.payments)
            self.recover()
        self.assertEqual(self.lines(logs), [
            ("WARNING", "payments: closed -> open: 1 consecutive failure"),
            ("INFO", "payments: open -> half_open: the open time is over"),
            ("INFO", "payments: half_open -> closed: the probe succeeded")])

    def test_a_failed_probe_is_no_second_warning(self):
        with self.assertLogs("shared_breaker", "INFO") as logs:
            self.let_fail(self.payments)
            eventually(lambda: self.store.snapshot("payments")["probe_due"])
            self.let_fail(self.payments)
        self.assertEqual(
            [record.levelname for record in logs.records], ["WARNING", "INFO", "INFO"])

    def test_an_opening_after_others_have_closed_the_breaker_is_a_line_at_once(self):
        with self.assertLogs("shared_breaker", "INFO") as logs:
            self.let_fail(self.payments)
            self.run_python(
                "import sys; from shared_breaker import SharedStore; "
                "SharedStore(sys.argv[1]).breaker('payments').reset()", self.store.path)
            self.let_fail(self.payments)
        self.assertEqual(
            self.lines(logs), [("WARNING", "payments: closed -> open: 1 consecutive failure")] * 2)

    def test_a_change_by_an_operator_of_this_process_is_a_line(self):
        with self.assertLogs("shared_breaker", "INFO") as logs:
            self.payments.trip(60, reason="maintenance\n")
            self.payments.trip(60, reason="again")
            self.payments.reset("done")
            self.payments.reset()
            self.payments.call(int)
        self.assertEqual(self.lines(logs), [
            ("WARNING", r"payments: closed -> open: maintenance\n"),
            ("INFO", "payments: open -> closed: done")])

    def test_a_change_in_an_event_loop_is_in_the_log(self):
        async def main():
            async with self.payments:
                raise Resource("down")

        with self.assertLogs("shared_breaker", "INFO") as logs:
            self.assertRaises(Resource, asyncio.run, main())
        self.assertEqual(
            self.lines(logs), [("WARNING", "payments: closed -> open: 1 consecutive failure")])

    def test_a_change_by_a_permit_is_in_the_log(self):
        with self.assertLogs("shared_breaker", "INFO") as logs:
            self.payments.acquire().report("failure")
            eventually(lambda: self.store.snapshot("payments")["probe_due"])
            self.payments.acquire().report()
        self.assertEqual(
            [line.rpartition(": ")[0] for _, line in self.lines(logs)],
            ["payments: closed -> open", "payments: open -> half_open",
             "payments: half_open -> closed"])

    def test_a_change_by_a_token_or_a_slow_success_is_in_the_log_with_the_next_change(self):
        slow = self.store.breaker("slow", slow_rate=0.1, slow_after=1, last=1, min_calls=1)
        with self.assertLogs("shared_breaker", "INFO") as logs:
            self.store.report(self.payments.acquire_token(), "failure")
            slow.acquire().report(elapsed=2)
            self.assertEqual(slow.state, "open")
            self.payments.reset()
            slow.reset()
        self.assertEqual(
            [line.split(": ")[:2] for _, line in self.lines(logs)],
            [["payments", "closed -> open"], ["payments", "open -> closed"],
             ["slow", "closed -> open"], ["slow", "open -> closed"]])

    def test_a_change_by_another_process_is_in_its_log_alone(self):
        self.payments.call(int)
        other = """
import logging, sys
from shared_breaker import breaker
logging.basicConfig(stream=sys.stdout, level="INFO", format="%(message)s")
breaker("payments").trip(0.001, reason="elsewhere")
"""
        said = self.run_python(other)
        self.assertEqual(said, "payments: closed -> open: elsewhere\n")
        with self.assertLogs("shared_breaker", "INFO") as logs:
            self.recover()
        self.assertEqual(
            [line.rpartition(": ")[0] for _, line in self.lines(logs)],
            ["payments: open -> half_open", "payments: half_open -> closed"])

    def test_a_child_of_a_fork_writes_what_it_has_changed_itself(self):
        with self.assertLogs("shared_breaker", "INFO"):
            self.let_fail(self.payments)

        def work():
            with self.assertLogs("shared_breaker", "INFO") as logs:
                self.payments.reset()
            self.assertEqual(self.lines(logs), [("INFO", "payments: open -> closed")])

        self.assertEqual(in_child(work), 0)
        with self.assertNoLogs("shared_breaker", "INFO"):
            self.payments.call(int)

    def test_a_change_is_one_line_though_there_are_many_objects_of_a_breaker(self):
        others = [self.store.breaker("payments") for _ in range(3)]
        with self.assertLogs("shared_breaker", "INFO") as logs:
            self.payments.trip(3600)
            self.payments.reset()
            for other in others:
                other.call(int)
                self.let_fail(other)
                other.reset()
        self.assertEqual(len(logs.records), 8)

    def test_the_changes_in_a_store_that_takes_the_place_of_another_are_in_the_log(self):
        with self.assertLogs("shared_breaker", "INFO"):
            for _ in range(3):
                self.payments.trip(60)
                self.payments.reset()
        with SharedStore(f"{self.path}.other") as store:
            self.payments = store.breaker("payments", max_failures=1)
            with self.assertLogs("shared_breaker", "INFO") as logs:
                self.let_fail(self.payments)
        self.assertEqual(len(logs.records), 1)

    def test_a_change_while_the_store_is_lost_is_a_line_too(self):
        with SharedStore("/proc/no/such/directory/breakers.db") as store:
            payments = store.breaker("payments", max_failures=1)
            with self.assertLogs("shared_breaker", "INFO") as logs:
                payments.call(int)
                self.let_fail(payments)
                self.assertRaises(Rejected, payments.call, int)
        self.assertEqual(self.lines(logs)[1:], [
            ("WARNING", "payments: open, in this process alone")])

    def test_healthy_and_rejected_calls_write_nothing(self):
        with self.assertNoLogs("shared_breaker", "INFO"):
            for _ in range(3):
                self.payments.call(int)
            self.run_python("from shared_breaker import breaker; breaker('payments').trip(60)")
            for _ in range(3):
                self.assertRaises(Rejected, self.payments.call, int)

    def test_a_log_that_fails_leaves_calls_alone(self):
        def fail(record):
            raise Resource("the disk of the log is full")

        log = logging.getLogger("shared_breaker")
        log.addFilter(fail)
        self.addCleanup(log.removeFilter, fail)
        self.payments.trip(60)
        self.assertRaises(Rejected, self.payments.call, int)
        self.payments.reset()
        self.let_fail(self.payments)
        self.assertEqual(self.store.snapshot("payments")["trips"], 2)


if __name__ == "__main__":
    unittest.main()
