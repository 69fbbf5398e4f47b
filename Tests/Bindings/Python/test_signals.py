"""Signal handlers: their exceptions may come at any moment, belong to the caller, and end waits."""

from __future__ import annotations

import asyncio
import dis
import functools
import os
import random
import signal
import socket
import sys
import threading
import unittest

import shared_breaker
from support import HOLD_THE_STORE, StoreTestCase, eventually, in_child

PACKAGE = os.path.dirname(shared_breaker.__file__)


class Interrupt(Exception):
    """The exception of the handler, as Celery's raises one at the soft time limit of a task."""


class SignalTestCase(StoreTestCase):
    def handle(self, handler):
        """Let a function handle the signals of a test."""
        before = signal.signal(signal.SIGUSR1, handler)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)

    def setUp(self):
        super().setUp()

        def interrupt(number, frame):
            raise Interrupt

        self.handle(interrupt)


def judging(value):
    """A predicate that cannot judge anything: it fails for each exception and each result."""
    return value.status >= 500


def timing(value):
    raise LookupError


class Words(Exception):
    def __str__(self):
        return "".join(["do", "wn"])


# After these the interpreter looks for signals.
BREAKS = {"RESUME", "JUMP_BACKWARD", "PRECALL", "CALL", "CALL_KW", "CALL_FUNCTION_EX"}
TRACED = {judging.__code__, timing.__code__, Words.__str__.__code__}


def interrupted(work, step):
    """Do some work, and send a signal at one step of what the package and its rules do in Python.

    Return whether there was such a step.
    """
    steps = 0

    def tracer():
        before = None

        def trace_steps(frame, event, argument):
            nonlocal before, steps
            if event == "opcode":
                now = dis.opname[frame.f_code.co_code[frame.f_lasti]]
                is_break = before in BREAKS and now != "PUSH_EXC_INFO"  # the call has not raised
                before = now
                steps += is_break
                if is_break and steps == step:
                    signal.raise_signal(signal.SIGUSR1)
            return trace_steps

        return trace_steps

    def trace(frame, event, argument):
        code = frame.f_code
        if code.co_filename.startswith(PACKAGE) or code in TRACED:
            frame.f_trace_opcodes = True
            return tracer()
        return None

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)
        # Also where the work has raised, so that its exception cannot hide that there was a signal.
        work.was_interrupted = steps >= step


@unittest.skipIf(sys.version_info >= (3, 13), "tracers of 3.13 miss many steps")
class EveryStep(SignalTestCase):
    def setUp(self):
        super().setUp()
        self.payments = self.store.breaker(
            "payments", max_failures=100_000, ignore=judging, failure=judging, open_for=timing)
        self.payments.listen(lambda event: None)
        self.payments.call(int)
        self.begun = 0

    def check(self, work, outcome=None):
        """Send a signal at each step of some work, and expect every exception and every outcome.

        The work has an outcome if it was begun: the first call of a second can be interrupted before.
        """

        def tried():
            try:
                work()
            except (Words, asyncio.CancelledError):
                pass

        self.begun = 0
        before = self.totals(self.payments.name)
        signals = 0
        while True:
            try:
                interrupted(tried, signals + 1)
            except Interrupt:
                signals += 1
            else:
                self.assertFalse(tried.was_interrupted, f"the exception of step {signals + 1} is lost")
                break
        self.assertGreater(signals, 5)
        self.assertGreater(self.begun, 5)
        if outcome:
            self.assertEqual(self.totals(self.payments.name)[outcome] - before[outcome], self.begun)

    def begin(self):
        self.begun += 1

    def begin_and_fail(self):
        self.begun += 1
        raise Words

    def test_the_exception_of_a_handler_leaves_a_block_at_every_step(self):
        def work():
            with self.payments:
                self.begin_and_fail()

        self.check(work, "failures")

    def test_the_exception_of_a_handler_leaves_a_call_at_every_step(self):
        self.check(lambda: self.payments.call(self.begin_and_fail), "failures")
        self.check(self.payments(self.begin_and_fail), "failures")

    def test_the_exception_of_a_handler_replaces_a_result_that_is_being_judged(self):
        self.check(lambda: self.payments.call(self.begin), "successes")

    def test_the_exception_of_a_handler_leaves_a_coroutine_at_every_step(self):
        @self.payments
        async def succeed():
            self.begin()

        def work():
            try:
                succeed().send(None)
            except StopIteration:
                pass

        self.check(work, "successes")

    def test_the_exception_of_a_handler_leaves_an_asynchronous_block_at_every_step(self):
        async def block():
            async with self.payments:
                self.begin()
                raise asyncio.CancelledError

        # A write in another thread may be interrupted before it has begun.
        self.check(lambda: block().send(None))

    def test_the_exception_of_a_handler_leaves_blocks_that_were_entered_in_other_frames(self):
        # Blocks of such a breaker begin at different times, so it has to find the one that ends.
        self.payments = self.store.breaker(
            "slow", slow_rate=1, slow_after=3600, window=60, min_calls=1)
        self.payments.call(int)

        def enter():
            self.payments.__enter__()

        def leave():
            self.payments.__exit__(None, None, None)

        with self.payments:
            signals = 0
            while True:
                enter()
                try:
                    interrupted(leave, signals + 1)
                except Interrupt:
                    signals += 1
                else:
                    break
            self.assertFalse(leave.was_interrupted, f"the exception of step {signals + 1} is lost")
        self.assertGreater(signals, 2)

    def test_the_exception_of_the_work_is_the_context_of_the_handlers(self):
        def fail(error):
            signal.raise_signal(signal.SIGUSR1)

        payments = self.store.breaker("payments", ignore=fail)
        for work in (lambda: payments.call(self.begin_and_fail), self.block(payments)):
            with self.assertRaises(Interrupt) as caught:
                work()
            context = caught.exception.__context__
            while not isinstance(context, Words):
                context = context.__context__

    def block(self, payments):
        def work():
            with payments:
                raise Words

        return work


class AnyHandler(SignalTestCase):
    """A predicate that fails is skipped; one that is interrupted is not."""

    def check(self, handler):
        self.handle(handler)

        def judge(error):
            signal.raise_signal(signal.SIGUSR1)

        for rules in ({"ignore": judge}, {"permanent": judge}, {"open_for": judge}):
            payments = self.store.breaker("payments", max_failures=1_000, **rules)
            with self.assertRaises(Interrupt):
                self.let_fail(payments)
            failures = self.totals("payments")["failures"]
            with self.assertRaises(Interrupt), payments.acquire():
                raise ConnectionError
            self.assertEqual(self.totals("payments")["failures"], failures + 1)

    def test_the_exceptions_of_all_kinds_of_handlers_are_passed_on(self):
        class Handler:
            def __call__(self, number, frame):
                raise Interrupt

            def handle(self, number, frame):
                raise Interrupt

        def taking_all(*arguments):
            raise Interrupt

        def with_more(more, number, frame):
            raise Interrupt

        def walking(number, frame):
            while frame:
                frame = frame.f_back
            raise Interrupt

        def calling(number, frame):
            taking_all()

        for handler in (
            Handler(), Handler().handle, taking_all, functools.partial(with_more, 1), walking, calling,
            lambda number, frame: taking_all(frame)):
            self.check(handler)

    def test_a_predicate_that_fails_is_skipped_whatever_it_calls(self):
        def deeper(number, frame):
            raise LookupError

        payments = self.store.breaker(
            "payments", max_failures=1_000, ignore=lambda error: deeper(1, None),
            failure=lambda error: error.status)
        self.let_fail(payments, times=10)
        self.assertEqual(payments.call(int), 0)
        totals = self.totals("payments")
        self.assertEqual((totals["failures"], totals["successes"]), (10, 1))


class Ends(SignalTestCase):
    """Handlers that end the process, as supervisors let them before they kill a worker that takes too long."""

    def calls(self, breaker, code):
        """Let each kind of call be ended by a handler that exits with a code."""
        self.handle(lambda number, frame: sys.exit(code))

        def work():
            signal.raise_signal(signal.SIGUSR1)

        async def async_work():
            work()

        def block():
            with breaker:
                work()

        for call in (block, lambda: breaker.call(work), breaker(work), breaker(async_work)().send):
            with self.assertRaises(SystemExit):
                call(*() if call.__name__ != "send" else (None,))

    def test_a_handler_that_exits_fails_its_call_where_lost_calls_are_failures(self):
        breaker = self.store.breaker(
            "payments", max_concurrent=8, max_failures=100, lost_calls="failure", failure=KeyError)
        breaker.call(int)
        for code in (1, -241, "timeout"):
            self.calls(breaker, code)
        self.assertEqual((self.totals("payments")["failures"], self.totals("payments")["ignored"]), (12, 0))
        self.assertEqual(
            self.store.snapshot("payments")["last_error"],
            "SystemExit: timeout, raised by the handler of a signal")

    def test_the_end_of_a_program_is_no_failure(self):
        breaker = self.store.breaker(
            "payments", max_concurrent=8, max_failures=100, lost_calls="failure")
        breaker.call(int)
        for code in (0, None):
            self.calls(breaker, code)
        # The work has exited itself, or the caller has a rule for it.
        with self.assertRaises(SystemExit), breaker:
            sys.exit(1)
        self.calls(self.store.breaker("payments", ignore=SystemExit), 1)
        self.calls(self.store.breaker("plain"), 1)
        self.assertEqual((self.totals("payments")["failures"], self.totals("payments")["ignored"]), (0, 13))
        self.assertEqual(self.totals("plain")["failures"], 0)

    def test_the_policy_that_is_in_force_says_whether_lost_calls_are_failures(self):
        breaker = self.store.breaker("payments")
        self.store.breaker("payments", max_concurrent=8, max_failures=100, lost_calls="failure")
        self.calls(breaker, 1)
        self.assertEqual(self.totals("payments")["failures"], 4)


class AnyMoment(SignalTestCase):
    def test_nothing_of_python_runs_when_a_breaker_ends(self):
        ran = []
        gpu = self.store.breaker("gpu", max_concurrent=8)
        for make in (lambda: gpu.claiming(2), lambda: self.store.breaker("gpu")):
            breaker = make()
            sys.setprofile(lambda frame, event, argument: ran.append(frame.f_code.co_name))
            try:
                del breaker
            finally:
                sys.setprofile(None)
        self.assertEqual(set(ran) - {"test_nothing_of_python_runs_when_a_breaker_ends"}, set())

    def interrupt_at_random(self, work, signals):
        """Interrupt a work again and again, and expect that the exception of each signal arrives."""
        chance = random.Random(signals)
        raised = 0
        is_running = False

        def interrupt(number, frame):
            nonlocal raised, is_running
            # The interpreter may run a handler late, when the work has ended.
            if is_running:
                is_running = False
                raised += 1
                raise Interrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        while raised < signals:
            before, caught = raised, False
            try:
                is_running = True
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-6, 60e-6))
                work()
                signal.setitimer(signal.ITIMER_REAL, 0)
                is_running = False
            except Interrupt:
                caught = True
            self.assertEqual(caught, raised > before)

    def test_no_exception_of_a_signal_is_lost_while_breakers_come_and_go(self):
        gpu = self.store.breaker("gpu", max_concurrent=8, max_failures=1_000_000)
        gpu.call(int)

        def claim():
            with gpu.claiming(units=2):
                pass

        def get():
            with self.store.breaker("gpu"):
                pass

        for work in (claim, get):
            self.interrupt_at_random(work, signals=1_000)

    def test_no_exception_of_twenty_thousand_signals_is_lost(self):
        payments = self.store.breaker("payments", max_failures=1_000_000, ignore=judging)

        def fail():
            try:
                with payments:
                    raise Words
            except Words:
                pass

        self.interrupt_at_random(fail, signals=20_000)


class Waits(SignalTestCase):
    """Calls that have to wait for a store that another process holds for longer than any call waits."""

    def setUp(self):
        super().setUp()
        self.patient = shared_breaker.SharedStore(self.path, lock_timeout=30)
        self.addCleanup(self.patient.close)
        self.payments = self.patient.breaker(
            "payments", max_failures=1, open_for=0.001, jitter=0, probe_timeout=3600)
        self.payments.call(int)

    def hold(self):
        """Let another process hold the store, and return a function that ends that."""
        holder = self.start_python(HOLD_THE_STORE, self.path)
        self.assertEqual(holder.stdout.readline(), "held\n")

        def let_go():
            holder.communicate("\n")

        return let_go

    def signal_soon(self):
        """Send a signal a moment after the main thread has begun to wait, or a little before."""
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        self.addCleanup(timer.join)

    def check(self, work):
        """Expect that the handler ends the wait, and that the store does not count as failed."""
        self.signal_soon()
        with self.assertRaises(Interrupt):
            work()
        self.assertEqual(self.patient.health, "available")

    def open_until_a_probe_is_due(self):
        self.let_fail(self.payments)
        eventually(lambda: self.patient.snapshot("payments")["probe_due"])

    def test_a_handler_that_raises_ends_the_wait_of_a_call_that_has_not_begun(self):
        self.open_until_a_probe_is_due()
        let_go = self.hold()
        self.check(lambda: self.payments.call(int))
        self.check(self.payments.acquire)
        self.check(self.payments.acquire_token)
        let_go()
        # The probe's slot is free.
        self.assertEqual(self.payments.acquire().kind, "probe")

    def test_a_handler_that_raises_ends_the_wait_of_a_report_which_another_thread_makes(self):
        self.open_until_a_probe_is_due()
        permit = self.payments.acquire()
        self.assertEqual(permit.kind, "probe")
        let_go = self.hold()
        self.check(permit.report)
        let_go()
        eventually(lambda: self.store.snapshot("payments")["state"] == "closed")
        let_go = self.hold()
        self.check(lambda: self.let_fail(self.payments))
        let_go()
        eventually(lambda: self.store.snapshot("payments")["state"] == "open")
        self.assertEqual(self.totals("payments")["failures"], 2)

    def test_a_handler_that_raises_ends_the_wait_of_a_change(self):
        let_go = self.hold()
        for change in (
            self.payments.trip, self.payments.reset, lambda: self.payments.force("observe")):
            self.check(change)
        let_go()
        after = self.store.snapshot("payments")
        self.assertEqual((after["state"], after["mode"]), ("closed", "automatic"))

    def test_a_handler_that_raises_ends_the_wait_of_a_hook(self):
        self.patient.handle("pager", print, stop=Once())
        self.payments.trip()
        let_go = self.hold()
        self.check(lambda: self.patient.handle("pager", print))
        let_go()

    def test_a_wait_goes_on_after_a_handler_that_returns(self):
        let_go = self.hold()
        self.handle(lambda number, frame: let_go())
        self.signal_soon()
        self.payments.trip()
        self.assertEqual(self.store.snapshot("payments")["state"], "open")

    def test_a_handler_may_close_the_store_and_fork(self):
        self.hold()

        def end(number, frame):
            self.assertEqual(in_child(int), 0)
            self.patient.close()

        self.handle(end)
        self.signal_soon()
        with self.assertRaises(shared_breaker.StoreError) as caught:
            self.payments.trip()
        self.assertEqual(caught.exception.code, "closed")

    def test_the_interpreters_wake_up_descriptor_is_told_of_signals_as_before(self):
        reader, writer = socket.socketpair()
        with reader, writer:
            writer.setblocking(False)
            before = signal.set_wakeup_fd(writer.fileno())
            try:
                self.hold()
                self.check(self.payments.trip)
            finally:
                self.assertEqual(signal.set_wakeup_fd(before), writer.fileno())
            self.assertEqual(reader.recv(16), bytes([signal.SIGUSR1]))

    def test_only_the_main_thread_is_interrupted(self):
        let_go = self.hold()
        # Python 3.11 takes a thread for ended if `join` was interrupted.
        is_done = threading.Event()

        def trip():
            self.payments.trip()
            is_done.set()

        thread = threading.Thread(target=trip)
        thread.start()
        self.signal_soon()
        with self.assertRaises(Interrupt):
            is_done.wait()
        let_go()
        is_done.wait()
        thread.join()
        self.assertEqual(self.store.snapshot("payments")["state"], "open")

    def test_control_c_ends_a_program_that_waits(self):
        let_go = self.hold()
        program = self.start_python("""
import shared_breaker, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
store = shared_breaker.SharedStore(lock_timeout=30)
try:
    print("ready", flush=True)
    store.breaker("payments").trip()
except KeyboardInterrupt:
    print(store.health, flush=True)
""")
        self.assertEqual(program.stdout.readline(), "ready\n")
        program.send_signal(signal.SIGINT)
        self.assertIn(program.stdout.readline(), ("available\n", "untried\n"))
        let_go()


class Once:
    """An event that is set after a hook has looked once."""

    def __init__(self):
        self.looks = 0

    def is_set(self):
        self.looks += 1
        return self.looks > 1


if __name__ == "__main__":
    unittest.main()
