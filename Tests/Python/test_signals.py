"""Exceptions of signal handlers, which may arrive at any moment, and are for the caller."""

from __future__ import annotations

import asyncio
import dis
import functools
import os
import random
import signal
import sys
import unittest

import shared_breaker
from support import StoreTestCase

PACKAGE = os.path.dirname(shared_breaker.__file__)


class Interrupt(Exception):
    """What the handler raises, as Celery's does at the soft time limit of a task."""


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

    def test_an_exception_of_a_handler_leaves_a_block_whatever_it_interrupts(self):
        def work():
            with self.payments:
                self.begin_and_fail()

        self.check(work, "failures")

    def test_an_exception_of_a_handler_leaves_a_call_whatever_it_interrupts(self):
        self.check(lambda: self.payments.call(self.begin_and_fail), "failures")
        self.check(self.payments(self.begin_and_fail), "failures")

    def test_an_exception_of_a_handler_comes_instead_of_a_result_that_is_judged(self):
        self.check(lambda: self.payments.call(self.begin), "successes")

    def test_an_exception_of_a_handler_leaves_a_coroutine_whatever_it_interrupts(self):
        @self.payments
        async def succeed():
            self.begin()

        def work():
            try:
                succeed().send(None)
            except StopIteration:
                pass

        self.check(work, "successes")

    def test_an_exception_of_a_handler_leaves_an_asynchronous_block_whatever_it_interrupts(self):
        async def block():
            async with self.payments:
                self.begin()
                raise asyncio.CancelledError

        # What is written in another thread may be interrupted before that has begun.
        self.check(lambda: block().send(None))

    def test_an_exception_of_a_handler_leaves_blocks_that_were_entered_in_other_frames(self):
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

    def test_the_exception_of_any_function_that_handles_signals_is_passed_on(self):
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


class AnyMoment(SignalTestCase):
    def test_no_exception_of_twenty_thousand_signals_is_lost(self):
        payments = self.store.breaker("payments", max_failures=1_000_000, ignore=judging)
        chance = random.Random(20_000)
        sent = 0

        def interrupt(number, frame):
            nonlocal sent
            sent += 1
            raise Interrupt

        self.handle(interrupt)
        before = signal.signal(signal.SIGALRM, interrupt)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        caught = 0
        while sent < 20_000:
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-6, 60e-6))
                try:
                    with payments:
                        raise Words
                except Words:
                    pass
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupt:
                caught += 1
        self.assertEqual(caught, sent)


if __name__ == "__main__":
    unittest.main()
