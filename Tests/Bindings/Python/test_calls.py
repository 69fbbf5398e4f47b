"""Calls: blocks, decorators, generators, permits and tokens."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import gc
import inspect
import os
import pickle
import threading
import unittest
import weakref

from shared_breaker import (
    BreakerError,
    Busy,
    InvalidName,
    InvalidPolicy,
    Rejected,
    SharedStore,
    breaker,
)
from support import Resource, StoreTestCase, eventually


class ShopError(Exception):
    """An error class of an application, with arguments of its own."""

    def __init__(self, order):
        super().__init__(f"order {order}")


class ShopRejected(Rejected, ShopError):
    def __init__(self, *args):
        self.args = args


class ShopBusy(ShopRejected, Busy):
    pass


def module_function(number):
    return number + 1


class Blocks(StoreTestCase):
    def test_a_block_that_ends_well_counts_as_a_success(self):
        payments = self.store.breaker("payments")
        with payments as nothing:
            self.assertIsNone(nothing)
        payments.acquire().report()
        self.assertEqual(self.totals("payments")["successes"], 2)

    def test_an_exception_is_a_failure_and_is_passed_on_as_it_is(self):
        payments = self.store.breaker("payments")
        error = Resource("down")
        with self.assertRaises(Resource) as caught:
            with payments:
                raise error
        self.assertIs(caught.exception, error)
        self.assertEqual(self.totals("payments")["failures"], 1)

    def test_failures_in_a_row_open_the_breaker_and_it_rejects_calls(self):
        payments = self.store.breaker("payments", max_failures=3, open_for=30)
        self.let_fail(payments, times=3)
        self.assertEqual(payments.state, "open")
        with self.assertRaises(Rejected) as caught:
            with payments:
                self.fail("the work was run")
        rejected = caught.exception
        self.assertIsInstance(rejected, BreakerError)
        self.assertEqual((rejected.name, rejected.state, rejected.mode), ("payments", "open", "automatic"))
        self.assertIsNone(rejected.reason)
        self.assertTrue(29 < rejected.retry_after <= 30, rejected.retry_after)
        self.assertEqual(rejected.retry_after_header, "30")
        self.assertEqual(str(rejected), "payments is rejecting calls: it is open: try again in 30s")

    def test_a_caller_of_a_breaker_that_an_operator_holds_open_comes_back_in_a_minute(self):
        payments = self.store.breaker("payments")
        for time, header in ((None, "60"), (5, "5")):
            payments.force("forced_open", time)
            with self.assertRaises(Rejected) as caught, payments:
                self.fail("the work was run")
            self.assertEqual(caught.exception.retry_after_header, header)
        self.assertEqual(Rejected("x", "closed", "automatic", None, None, "busy").retry_after_header, "1")

    def test_a_rejection_says_times_as_cbctl_does(self):
        for seconds, words in (
            (0.0004, "1ms"), (0.999, "999ms"), (1, "1s"), (1.973, "2s"), (59.5, "1m"), (60, "1m"),
            (90, "1m 30s"), (600, "10m"), (3_601, "1h 1m"), (7_199.5, "2h"), (86_399, "1d"), (90_000, "1d 1h"),
        ):
            rejected = Rejected("payments", "open", "automatic", seconds, None)
            self.assertTrue(str(rejected).endswith(f": try again in {words}"), f"{seconds}: {rejected}")

    def test_a_rejection_survives_pickling(self):
        rejected = Rejected("payments", "half_open", "automatic", 0.25, None)
        again = pickle.loads(pickle.dumps(rejected))
        self.assertEqual(str(again), str(rejected))
        self.assertIn("250ms at the latest", str(again))

    def test_a_lack_of_room_is_a_class_of_its_own_that_survives_pickling_and_copying(self):
        gpu = self.store.breaker("gpu", max_concurrent=1)
        permit = gpu.acquire()
        for ask in (gpu.acquire, lambda: gpu.call(self.fail), lambda: asyncio.run(gpu.acquire_async())):
            with self.assertRaises(Busy) as caught:
                ask()
        self.assertIsInstance(caught.exception, Rejected)
        self.assertEqual(caught.exception.cause, "busy")
        for again in (pickle.loads(pickle.dumps(caught.exception)), copy.copy(caught.exception)):
            self.assertIs(type(again), Busy)
            self.assertEqual((again.args, str(again)), (caught.exception.args, str(caught.exception)))
        permit.report()
        gpu.trip()
        with self.assertRaises(Rejected) as caught:
            gpu.acquire()
        self.assertIs(type(caught.exception), Rejected)

    def test_a_rejection_becomes_an_error_of_the_callers_own(self):
        for rejected, cause in ((Rejected, "open"), (Busy, "busy")):
            error = rejected("payments", "closed", "automatic", 2.0, None, cause).into(ShopRejected, ShopBusy)
            self.assertIs(type(error), ShopBusy if rejected is Busy else ShopRejected)
            self.assertIsInstance(error, ShopError)
            self.assertIsInstance(error, rejected)
            self.assertEqual((error.name, error.retry_after, error.cause), ("payments", 2.0, cause))
            self.assertIn("payments is rejecting calls", str(error))
            again = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(again), again.args), (type(error), error.args))
            # One that has become another error can become a third one.
            self.assertIsInstance(error.into(Rejected, Busy), rejected)

    def test_an_operators_reason_is_told_and_cannot_steer_a_terminal(self):
        payments = self.store.breaker("payments")
        payments.force("forced_open", reason="down\x1b[2J for repairs")
        with self.assertRaises(Rejected) as caught:
            payments.call(int)
        self.assertEqual(caught.exception.mode, "forced_open")
        self.assertIn("repairs", caught.exception.reason)
        self.assertNotIn("\x1b", str(caught.exception))
        payments.force("automatic")
        self.assertEqual(payments.call(int), 0)
        payments.trip(60, reason="disks are replaced")
        with self.assertRaises(Rejected) as caught:
            payments.call(int)
        self.assertEqual((caught.exception.mode, caught.exception.reason), ("automatic", "disks are replaced"))
        self.assertIn("disks are replaced: try again in 1m", str(caught.exception))

    def test_nested_blocks_of_one_breaker_each_report_their_own_outcome(self):
        payments = self.store.breaker("payments")
        with payments:
            with payments:
                self.let_fail(payments)
        totals = self.totals("payments")
        self.assertEqual((totals["successes"], totals["failures"]), (2, 1))

    def test_a_block_that_began_before_the_breaker_opened_decides_nothing(self):
        payments = self.store.breaker("payments", max_failures=1, open_for=0.001)
        outer = contextlib.ExitStack()
        outer.enter_context(payments)
        self.let_fail(payments)
        probe = eventually(lambda: self.acquire(payments))
        self.assertEqual(probe.kind, "probe")
        outer.close()  # a success of the time before
        self.assertEqual(payments.state, "half_open")
        probe.report()
        self.assertEqual(payments.state, "closed")

    def test_a_suspended_generator_keeps_its_own_permit(self):
        for is_asynchronous in (False, True):
            payments = self.store.breaker(f"payments {is_asynchronous}", max_failures=1, open_for=0.001)

            @payments
            def stream():
                yield 1
                yield 2

            @payments
            async def asynchronous_stream():
                yield 1
                yield 2

            def step(work):
                try:
                    work.send(None)
                except StopIteration as end:
                    return end.value

            def begin():
                if not is_asynchronous:
                    values = stream()
                    return values, next(values)
                values = asynchronous_stream()
                return values, step(values.__anext__())

            def end(values):
                if not is_asynchronous:
                    return list(values)
                for _ in range(2):
                    with contextlib.suppress(StopAsyncIteration):
                        step(values.__anext__())

            def begin_probe():
                with contextlib.suppress(Rejected):
                    return begin()

            old, _ = begin()
            self.let_fail(payments)
            probe, _ = eventually(begin_probe)
            end(old)  # a success of the time before
            self.assertEqual(payments.state, "half_open")
            with self.assertRaises(ConnectionError):
                probe.throw(ConnectionError()) if not is_asynchronous else step(probe.athrow(ConnectionError()))
            self.assertEqual(payments.state, "open")

    def acquire(self, payments):
        try:
            return payments.acquire()
        except Rejected:
            return None

    def test_a_probe_in_a_block_is_told_from_the_blocks_around_it(self):
        payments = self.store.breaker("payments", max_failures=1, open_for=0.001)

        def probe():
            with payments:
                self.assertEqual(payments.state, "half_open")

        with payments:
            self.let_fail(payments)
            eventually(lambda: self.succeeds(probe))
            self.assertEqual(payments.state, "closed")

    def succeeds(self, work):
        try:
            work()
            return True
        except Rejected:
            return False

    def test_an_exit_stack_reports_a_probe_beside_blocks_of_other_threads(self):
        payments = self.store.breaker("payments", max_failures=1, open_for=0.001)
        inside, leave = threading.Event(), threading.Event()

        def other():
            with payments:
                inside.set()
                leave.wait(30)

        thread = threading.Thread(target=other)
        thread.start()
        inside.wait(30)
        self.let_fail(payments)
        stack = contextlib.ExitStack()
        eventually(lambda: self.succeeds(lambda: stack.enter_context(payments)))
        self.assertEqual(payments.state, "half_open")
        leave.set()
        thread.join()
        self.assertEqual(payments.state, "half_open")
        stack.close()
        self.assertEqual(payments.state, "closed")

    def test_threads_with_slow_rates_each_measure_their_own_block(self):
        slow = self.store.breaker("slow", slow_rate=1, slow_after=3600, window=60, min_calls=1)
        barrier = threading.Barrier(4)

        def work():
            for _ in range(50):
                with slow:
                    barrier.wait(30)

        workers = [threading.Thread(target=work) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.assertEqual(slow.snapshot()["totals"]["successes"], 200)
        self.assertEqual(slow.state, "closed")

    def test_a_block_in_a_generator_that_is_dropped_is_ignored(self):
        payments = self.store.breaker("payments")

        def generator():
            with payments:
                yield 1

        values = generator()
        next(values)
        del values
        gc.collect()
        self.assertEqual(self.totals("payments")["ignored"], 1)

    def test_leaving_a_block_that_was_never_entered_does_nothing(self):
        payments = self.store.breaker("payments")
        self.assertFalse(payments.__exit__(None, None, None))

    def test_work_goes_on_after_the_store_was_closed(self):
        payments = self.store.breaker("payments")
        with payments:
            self.store.close()
        with payments:
            pass
        self.assertEqual(payments.call(module_function, 1), 2)


class Functions(StoreTestCase):
    def setUp(self):
        super().setUp()
        self.payments = self.store.breaker("payments", max_failures=2)

    def test_a_decorated_function_keeps_its_name_its_signature_and_its_attributes(self):
        def charge(order: int, *, twice: bool = False) -> int:
            """Charge an order."""
            return order * 2 if twice else order

        charge.tag = "kept"
        guarded = self.payments(charge)
        self.assertEqual(guarded(3, twice=True), 6)
        self.assertEqual(guarded.__name__, "charge")
        self.assertEqual(guarded.__doc__, "Charge an order.")
        self.assertEqual(guarded.tag, "kept")
        self.assertIs(guarded.__wrapped__, charge)
        self.assertIs(guarded.breaker, self.payments)
        self.assertEqual(inspect.signature(guarded), inspect.signature(charge))
        self.assertIn("payments", repr(guarded))

    def test_only_functions_can_be_decorated(self):
        for thing in (None, 5, "charge", classmethod(int)):
            with self.assertRaisesRegex(TypeError, "is not a function"):
                self.payments(thing)

    def test_methods_class_methods_and_static_methods_can_be_decorated(self):
        payments = self.payments

        class Client:
            @payments
            def bound(self, number):
                return self, number

            @classmethod
            @payments
            def of_class(cls, number):
                return cls, number

            @staticmethod
            @payments
            def of_nobody(number):
                return number

        client = Client()
        self.assertEqual(client.bound(1), (client, 1))
        self.assertEqual(Client.bound(client, 2), (client, 2))
        self.assertEqual(Client.of_class(3), (Client, 3))
        self.assertEqual(client.of_nobody(4), 4)
        self.assertEqual(functools.partial(client.bound, 5)(), (client, 5))

    def test_call_passes_arguments_results_and_errors_on(self):
        self.assertEqual(self.payments.call(divmod, 7, 2), (3, 1))
        self.assertEqual(self.payments.call(dict, a=1, b=2), {"a": 1, "b": 2})
        with self.assertRaises(ZeroDivisionError):
            self.payments.call(divmod, 1, 0)
        with self.assertRaises(TypeError):
            self.payments.call()
        self.assertEqual(self.totals("payments")["failures"], 1)

    def test_the_traceback_of_an_error_leads_to_the_work(self):
        @self.payments
        def charge():
            raise Resource("down")

        try:
            charge()
        except Resource as error:
            frames = []
            trace = error.__traceback__
            while trace:
                frames.append(trace.tb_frame.f_code.co_name)
                trace = trace.tb_next
        self.assertEqual(frames[-1], "charge")

    def test_a_function_is_pickled_by_its_name_and_a_breaker_is_not(self):
        import test_calls

        guarded = self.payments(module_function)
        original = test_calls.module_function
        test_calls.module_function = guarded
        try:
            self.assertIs(pickle.loads(pickle.dumps(guarded)), guarded)
        finally:
            test_calls.module_function = original
        self.assertIs(copy.deepcopy(self.payments), self.payments)
        with self.assertRaisesRegex(TypeError, "by its name"):
            pickle.dumps(self.payments)
        with self.assertRaisesRegex(TypeError, "by its path"):
            pickle.dumps(self.store)

    def test_breakers_and_what_they_guard_can_be_referred_to_weakly_and_are_freed(self):
        guarded = self.payments(lambda: None)
        references = [weakref.ref(guarded), weakref.ref(self.payments)]
        self.payments = guarded = None
        gc.collect()
        self.assertEqual([reference() for reference in references], [None, None])

    def test_the_call_of_a_generator_function_lasts_to_its_end(self):
        @self.payments
        def rows():
            got = yield 1
            yield got
            return "end"

        self.assertTrue(inspect.isgeneratorfunction(rows))
        values = rows()
        self.assertEqual(next(values), 1)
        self.assertEqual(values.send("sent"), "sent")
        with self.assertRaises(StopIteration) as stop:
            next(values)
        self.assertEqual(stop.exception.value, "end")

        @self.payments
        def broken():
            yield 1
            raise Resource("down")

        for _ in range(2):
            with self.assertRaises(Resource):
                list(broken())
        self.assertEqual(self.payments.state, "open")
        values = rows()
        with self.assertRaises(Rejected):
            next(values)

    def test_an_exception_of_a_generator_is_a_failure_even_if_it_is_false(self):
        class Empty(Exception):
            def __len__(self):
                return 0

        def rows():
            yield 1
            raise Empty

        with self.assertRaises(Empty):
            list(self.payments.call(rows))
        self.assertEqual(self.totals("payments")["failures"], 1)

    def test_call_of_a_generator_function_lasts_to_its_end_too(self):
        def broken():
            yield 1
            raise Resource("down")

        for _ in range(2):
            with self.assertRaises(Resource):
                list(self.payments.call(broken))
        self.assertEqual(self.payments.state, "open")

    def test_the_same_breaker_is_shared_by_all_objects_with_its_name(self):
        other = self.store.breaker("payments")
        self.let_fail(other, times=2)
        self.assertEqual(self.payments.state, "open")


class Permits(StoreTestCase):
    def setUp(self):
        super().setUp()
        self.payments = self.store.breaker("payments", max_failures=2)

    def test_a_permit_judges_a_result_by_the_rules_of_its_breaker(self):
        judging = self.store.breaker(
            "judging", max_failures=1, failure=lambda answer: answer == "down" and "the bank is closed",
            hold=lambda answer: 60 if answer == "later" else None)
        self.assertEqual(judging.acquire().report(result="up"), "counted")
        self.assertEqual(judging.claiming(2).acquire().report(result=None), "counted")
        self.assertEqual(self.totals("judging")["successes"], 2)
        self.assertEqual(judging.acquire().report(result="down"), "counted")
        self.assertEqual(judging.snapshot()["last_error"], "the bank is closed")
        judging.reset()
        self.assertEqual(judging.acquire().report(result="later"), "counted")
        with self.assertRaises(Rejected) as caught:
            judging.acquire()
        self.assertEqual(caught.exception.cause, "held")
        plain = self.store.breaker("plain")
        self.assertEqual(plain.acquire().report(result=OSError("returned, not raised")), "counted")
        self.assertEqual(self.totals("plain")["successes"], 1)
        with self.assertRaisesRegex(ValueError, "an outcome or a result"):
            plain.acquire().report("failure", result=1)
        with self.assertRaisesRegex(ValueError, "an error or a result"):
            plain.acquire().report(error="HTTP 500", result=1)

    def test_a_permit_can_be_a_block(self):
        payments = self.store.breaker("payments", max_failures=1)
        with payments.acquire() as call:
            self.assertEqual(call.kind, "normal")
        with self.assertRaises(KeyError), self.store.breaker("other", ignore=KeyError).acquire():
            raise KeyError("the caller's own")
        self.assertEqual(self.totals("other")["ignored"], 1)
        with payments.acquire() as call:
            call.report("ignored")
        with payments.acquire() as call:
            self.assertEqual(call.hold(60), "counted")
        with self.assertRaises(Rejected) as caught:
            payments.acquire()
        self.assertEqual(caught.exception.cause, "held")
        payments.end_hold()
        with self.assertRaises(Resource), payments.acquire():
            raise Resource("down")
        self.assertEqual(payments.state, "open")
        totals = self.totals("payments")
        self.assertEqual((totals["successes"], totals["failures"], totals["ignored"]), (1, 1, 2))

    def test_a_permit_is_reported_once(self):
        permit = self.payments.acquire()
        self.assertEqual(permit.kind, "normal")
        self.assertIs(permit.breaker, self.payments)
        self.assertEqual(permit.report("failure", "it was down"), "counted")
        self.assertIsNone(permit.kind)
        self.assertEqual(permit.report("failure"), "refused")
        self.assertEqual(self.totals("payments")["failures"], 1)

    def test_a_report_without_an_outcome_is_a_success_or_with_an_error_a_failure(self):
        self.assertEqual(self.payments.acquire().report(), "counted")
        self.assertEqual(self.payments.acquire().report(error="HTTP 500"), "counted")
        self.assertEqual(self.payments.acquire().report("success", "it took three attempts"), "counted")
        self.assertEqual(self.store.report(self.payments.acquire_token(), error="HTTP 502"), "counted")
        self.assertEqual(self.store.report(self.payments.acquire_token()), "counted")
        totals = self.totals("payments")
        self.assertEqual((totals["successes"], totals["failures"]), (3, 2))
        self.assertEqual(self.payments.snapshot()["last_error"], "HTTP 502")

    def test_a_permit_that_is_dropped_is_ignored_and_frees_the_slot_of_a_probe(self):
        self.payments.trip(0.001)
        permit = eventually(lambda: self.probe())
        with self.assertRaises(Rejected) as caught:
            self.payments.acquire()
        self.assertEqual(caught.exception.state, "half_open")
        self.assertIsNotNone(caught.exception.retry_after)
        del permit
        self.assertEqual(self.payments.acquire().kind, "probe")

    def probe(self):
        try:
            return self.payments.acquire()
        except Rejected:
            return None

    def test_a_probe_that_makes_progress_can_be_renewed(self):
        self.payments.trip(0.001)
        permit = eventually(lambda: self.probe())
        self.assertTrue(permit.renew(60))
        self.assertEqual(permit.report(), "counted")
        self.assertEqual(self.payments.state, "closed")

    def test_a_permit_judges_an_exception_by_the_rules_of_its_breaker(self):
        self.payments = self.store.breaker("payments", max_failures=2, ignore=KeyError)
        self.payments.acquire().report(KeyError("not the resource"))
        self.payments.acquire().report(Resource("down"))
        totals = self.totals("payments")
        self.assertEqual((totals["ignored"], totals["failures"]), (1, 1))

    def test_an_unknown_outcome_is_refused_with_a_list_of_the_known_ones(self):
        with self.assertRaisesRegex(ValueError, "permanent_failure"):
            self.payments.acquire().report("failed")

    def test_a_late_report_is_outdated(self):
        permit = self.payments.acquire()
        self.payments.trip()
        self.assertEqual(permit.report(), "outdated")

    def test_a_token_is_reported_by_another_process(self):
        token = self.payments.acquire_token()
        program = """
import sys
from shared_breaker import default_store
print(default_store().report(sys.argv[1], "failure", "the worker saw it", open_for=60))
"""
        self.assertEqual(self.run_python(program, token), "counted\n")
        self.assertEqual(self.payments.state, "open")
        with self.assertRaisesRegex(ValueError, r"acquire_token\(\) returned"):
            self.store.report("no token", "success")

    def test_a_token_needs_an_owner_that_is_running(self):
        with self.assertRaises(ProcessLookupError):
            self.payments.acquire_token(owner_pid=2**22 + 1)

    def test_a_number_that_no_process_can_have_is_refused_as_an_owner(self):
        for number in (-1, 2**31, 2**32 + os.getpid(), 2**40, 2**80):
            with self.assertRaisesRegex(ValueError, str(number)):
                self.payments.acquire_token(owner_pid=number)
        with self.assertRaises(TypeError):
            self.payments.acquire_token(owner_pid="1")


class Policies(StoreTestCase):
    def test_a_policy_is_given_as_keywords_words_or_both(self):
        from datetime import timedelta

        both = self.store.breaker(
            "both", "max-failures=9 open-for=1m", max_failures=4, jitter=0.125,
            probe_timeout=timedelta(seconds=2.5))
        policy = both.snapshot()["policy"]
        self.assertEqual(policy["max-failures"], 4)
        self.assertEqual(policy["open-for"], "1m")
        self.assertEqual(policy["jitter"], "12.5%")
        self.assertEqual(policy["probe-timeout"], "2500ms")

    def test_a_policy_that_cannot_work_is_refused_with_the_reason(self):
        with self.assertRaises(InvalidPolicy) as caught:
            self.store.breaker("payments", max_failures=None, failures=3)
        self.assertIsInstance(caught.exception, ValueError)
        with self.assertRaises(InvalidPolicy):
            self.store.breaker("payments", "open-for=soon")
        with self.assertRaises(InvalidName):
            self.store.breaker("")
        with self.assertRaisesRegex(TypeError, "max_failures"):
            self.store.breaker("payments", max_failure=3)
        with self.assertRaisesRegex(TypeError, "whole number"):
            self.store.breaker("payments", max_failures=2.5)
        with self.assertRaisesRegex(ValueError, "continue_locally"):
            self.store.breaker("payments", on_store_failure="panic")

    def test_a_keyword_takes_neither_several_values_nor_those_of_another_type(self):
        self.store.breaker("payments", max_failures=4, open_for="1m", max_concurrent=3)
        for text in ("3s max-failures=1", " 3s", ""):
            with self.assertRaisesRegex(InvalidPolicy, "open_for"):
                self.store.breaker("payments", open_for=text)
        for value in ("3", 2.0, True, [], b"3"):
            for words in (
                {"max_failures": value}, {"max_concurrent": value}, {"queue": value}, {"window": [value]},
                {"jitter": str(value)}, {"fleet_quorum": str(value)}, {"open_for": bool(value)}):
                name = next(iter(words))
                with self.assertRaisesRegex(TypeError, f"{name} has to be a .*, and not "):
                    self.store.breaker("payments", **words)
            with self.assertRaisesRegex(TypeError, "units has to be a whole number, and not "):
                self.store.breaker("payments").claiming(units=value)
        self.assertEqual(self.store.breaker("payments").snapshot()["policy"]["max-failures"], 4)

    def test_arguments_that_are_not_times_policies_or_stores_are_refused_in_terms_of_python(self):
        payments = self.store.breaker("payments")
        for time in ("5", None, [3]):
            with self.assertRaisesRegex(TypeError, "is not a time: give seconds or a timedelta"):
                SharedStore(self.path, lock_timeout=time)
        for use in (
            lambda: payments.trip(-3), lambda: payments.force("forced_open", -3),
            lambda: SharedStore(self.path, lock_timeout=-3),
            lambda: self.store.breaker("payments", open_for=-3),
            lambda: payments.acquire().report("failure", open_for=-3)):
            with self.assertRaisesRegex(ValueError, "-3 is negative"):
                use()
        with self.assertRaisesRegex(TypeError, "and not 5"):
            self.store.breaker("payments", 5)
        with self.assertRaisesRegex(TypeError, "not a SharedStore"):
            breaker("payments", store="/tmp/breakers.db")
        with self.assertRaisesRegex(ValueError, "leave it out"):
            SharedStore("")

    def test_text_that_has_no_utf_8_is_refused_with_an_error_of_the_package(self):
        payments = self.store.breaker("payments")
        for call in (
            lambda: self.store.breaker("a\ud800"),
            lambda: breaker("a\ud800", store=self.store),
            lambda: self.store.snapshot("a\ud800"),
            lambda: self.store.snapshots("a\ud800"),
            lambda: self.store.history("a\ud800"),
            lambda: self.store.follow("a\ud800"),
            lambda: self.store.handle("a\ud800", print),
            lambda: self.store.handle("pager", print, "a\ud800")):
            with self.assertRaisesRegex(InvalidName, "surrogate"):
                call()
        with self.assertRaisesRegex(InvalidPolicy, "surrogate"):
            self.store.breaker("payments", "max-failures=\ud800")
        with self.assertRaisesRegex(InvalidPolicy, "surrogate"):
            self.store.breaker("payments", open_for="\ud800")
        with self.assertRaisesRegex(ValueError, "token.*surrogate"):
            self.store.report("\ud800")
        with self.assertRaisesRegex(ValueError, "group.*surrogate"):
            SharedStore(self.path, group="\ud800")
        # Text for people is kept, without the characters that cannot be written.
        payments.trip(reason="down \ud800 for repairs")
        self.assertIn("for repairs", str(self.store.history("payments")[-1]))
        SharedStore(self.path, program="shop \udcff").close()

    def test_arguments_that_are_not_text_or_not_callable_are_refused_with_an_error_of_the_package(self):
        payments = self.store.breaker("payments")
        for call in (
            lambda: self.store.breaker(5),
            lambda: self.store.breaker(b"payments"),
            lambda: self.store.snapshot(5),
            lambda: self.store.history(5),
            lambda: self.store.handle(5, print),
            lambda: payments.reset(5),
            lambda: payments.trip(reason=5),
            lambda: self.store.report(5)):
            with self.assertRaisesRegex(TypeError, "is text, and not"):
                call()
        for call in (
            lambda: payments.listen("x"), lambda: self.store.listen(None),
            lambda: self.store.handle("pager", "x")):
            with self.assertRaisesRegex(TypeError, "cannot be called"):
                call()
        for call in (
            lambda: SharedStore(self.path, on_store_failure=[]), lambda: payments.force([]),
            lambda: payments.acquire().report([])):
            with self.assertRaisesRegex(ValueError, "there is no"):
                call()
        self.let_fail(payments)  # a listener that cannot be called is never called

    def test_a_call_with_a_negative_duration_is_reported_anyway(self):
        payments = self.store.breaker("payments", slow_after=1, slow_rate=0.5, last=10)
        self.assertEqual(payments.acquire().report("success", elapsed=-3), "counted")
        token = payments.acquire_token()
        self.assertEqual(self.store.report(token, "success", elapsed=-3), "counted")

    def test_a_breaker_without_a_policy_uses_the_declared_one(self):
        self.store.breaker("payments", max_failures=7).call(int)
        self.assertEqual(self.store.breaker("payments").snapshot()["policy"]["max-failures"], 7)

    def test_breaker_uses_the_default_store(self):
        program = """
from shared_breaker import breaker, default_store
breaker("payments", max_failures=1).trip()
print(default_store().path, breaker("payments").state)
"""
        self.assertEqual(self.run_python(program).split(), [self.path, "open"])
        self.assertEqual(self.store.snapshot("payments")["state"], "open")
        self.assertEqual(breaker("payments", store=self.store).state, "open")


if __name__ == "__main__":
    unittest.main()
