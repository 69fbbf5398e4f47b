"""The interface of pybreaker, compared with pybreaker itself where it is installed."""

from __future__ import annotations

import asyncio
import threading
import time
import unittest
import warnings

from shared_breaker import InvalidName, InvalidPolicy, SharedStore, pybreaker
from support import Resource, StoreTestCase, in_child

try:
    import pybreaker as original
except ImportError:
    original = None


class Recorder:
    """Makes a listener of either module that writes down what it is told."""

    def __new__(cls, module, trace):
        class Listener(module.CircuitBreakerListener):
            def before_call(self, cb, func, *args, **kwargs):
                # Without the objects of methods, which differ.
                trace.append(("before", [a for a in args if isinstance(a, int)], kwargs))

            def failure(self, cb, exc):
                trace.append(("failure", str(exc)))

            def success(self, cb):
                trace.append(("success",))

            def state_change(self, cb, old_state, new_state):
                trace.append(("change", old_state.name, new_state.name))

        return Listener()


class Scenario:
    """One breaker of either module, and a trace of what it does."""

    def __init__(self, module, make):
        self.module = module
        self.trace = []
        self.make = make

    def breaker(self, **options):
        self.cb = self.make(listeners=[Recorder(self.module, self.trace)], **options)
        return self.cb

    def note(self, *what):
        self.trace.append(what)

    def call(self, work, *args, **kwargs):
        try:
            self.note("returned", self.cb.call(work, *args, **kwargs))
        except self.module.CircuitBreakerError as error:
            context = None if error.__suppress_context__ and not error.__cause__ else error.__context__
            self.note("circuit", str(error), type(context).__name__)
        except Exception as error:
            self.note("raised", type(error).__name__, str(error))
        self.note("state", self.cb.current_state, self.cb.fail_counter)

    def call_async(self, work):
        async def call():
            return await self.cb.call_async(work)

        try:
            self.note("returned", asyncio.run(call()))
        except self.module.CircuitBreakerError as error:
            self.note("circuit", str(error))
        except Exception as error:
            self.note("raised", type(error).__name__, str(error))
        self.note("state", self.cb.current_state, self.cb.fail_counter)

    def pass_time(self):
        time.sleep(0.06)  # longer than the reset_timeout of every scenario


def down(*args, **kwargs):
    raise Resource("down")


def up(*args, **kwargs):
    return "up"


async def up_later():
    return "up"


def scenario_opens_and_closes(s):
    s.breaker(fail_max=3, reset_timeout=0.05)
    s.call(up, 1, two=2)
    for _ in range(3):
        s.call(down)
    s.call(up)
    s.pass_time()
    s.call(up)
    s.call(up)


def scenario_a_success_clears_the_count(s):
    s.breaker(fail_max=3)
    s.call(down)
    s.call(down)
    s.call(up)
    s.call(down)


def scenario_a_failed_trial_opens_again(s):
    s.breaker(fail_max=1, reset_timeout=0.05)
    s.call(down)
    s.pass_time()
    s.call(down)
    s.call(up)


def scenario_success_threshold(s):
    cb = s.breaker(fail_max=1, reset_timeout=0.05, success_threshold=3)
    for trials in ((up, down), (up, up, up)):
        s.call(down)
        s.pass_time()
        for trial in trials:
            s.call(trial)
            s.note("successes", cb.success_counter)


def scenario_the_error_of_the_trip_can_be_the_works_own(s):
    s.breaker(fail_max=2, reset_timeout=0.05, throw_new_error_on_trip=False)
    for _ in range(3):
        s.call(down)
    s.pass_time()
    s.call(down)


def scenario_exclusions(s):
    cb = s.breaker(
        fail_max=2, exclude=[LookupError, lambda error: "fine" in str(error)])

    def lookup():
        raise KeyError("x")

    def fine():
        raise Resource("fine")

    s.call(down)
    s.call(lookup)
    s.call(down)
    s.call(fine)
    s.note(cb.is_system_error(KeyError()), cb.is_system_error(Resource("down")))
    cb.add_excluded_exceptions(Resource, ValueError)
    s.note(len(cb.excluded_exceptions))
    s.call(down)
    cb.remove_excluded_exception(Resource)
    s.call(down)


def scenario_by_hand(s):
    cb = s.breaker(fail_max=3, reset_timeout=0.05)
    s.note(cb.open())
    s.call(up)
    cb.close()
    s.call(up)
    cb.half_open()
    s.note(cb.current_state, cb.state.name)
    s.call(up)
    cb.half_open()
    s.call(down)
    cb.close()
    s.note(cb.current_state, cb.fail_counter)


def scenario_generators(s):
    cb = s.breaker(fail_max=2)

    def rows(count):
        for number in range(count):
            got = yield number
            if got:
                s.note("got", got)
        if count == 3:
            raise Resource("down")

    s.note(list(cb.call(rows, 2)))
    values = cb.call(rows, 2)
    next(values)
    s.note(values.send("sent"))
    s.note(list(values))
    for _ in range(2):
        try:
            s.note(list(cb.call(rows, 3)))
        except s.module.CircuitBreakerError as error:
            s.note("circuit", str(error))
        except Resource as error:
            s.note("raised", str(error))
    s.note(cb.current_state)


def scenario_calling(s):
    cb = s.breaker(fail_max=2)
    with cb.calling():
        s.note("inside")
    for _ in range(3):
        try:
            with cb.calling():
                s.note("inside")
                raise Resource("down")
        except s.module.CircuitBreakerError as error:
            s.note("circuit", str(error))
        except Resource as error:
            s.note("raised", str(error))
    s.note(cb.current_state)


def scenario_asynchronous_calls(s):
    cb = s.breaker(fail_max=3)

    async def down_later():
        raise Resource("down later")

    s.call_async(up_later)
    s.call_async(down_later)
    # It raises before there is anything to await.
    s.call_async(down)
    s.call_async(down)
    s.call_async(up_later)
    cb.half_open()
    s.call_async(down)


def scenario_decorators(s):
    cb = s.breaker(fail_max=2)

    @cb
    def plain(number):
        """Return a number."""
        return number

    @cb()
    def with_parentheses(number):
        return number

    class Client:
        @cb
        def method(self, number):
            return number

    s.note(plain(1), with_parentheses(2), Client().method(3), plain.__name__, plain.__doc__)


def scenario_properties(s):
    cb = s.breaker(fail_max=2, reset_timeout=7, success_threshold=4)
    s.note(cb.fail_max, cb.reset_timeout, cb.success_threshold, cb.fail_counter)
    cb.fail_max = 1
    cb.reset_timeout = 0.05
    cb.success_threshold = 1
    s.note(cb.fail_max, cb.reset_timeout, cb.success_threshold)
    s.call(down)
    s.pass_time()
    s.call(up)
    listener = cb.listeners[0]
    cb.remove_listener(listener)
    s.note(len(cb.listeners))
    s.call(up)
    cb.add_listeners(listener, listener)
    s.call(up)
    try:
        cb.state = "ajar"
    except ValueError as error:
        s.note("ajar" in str(error))


SCENARIOS = {
    name.removeprefix("scenario_"): function
    for name, function in list(globals().items()) if name.startswith("scenario_")}


class Behaviour(StoreTestCase):
    def make(self, **options):
        self.count = getattr(self, "count", 0) + 1
        return pybreaker.CircuitBreaker(name=f"{self.id()}-{self.count}", store=self.store, **options)

    def test_every_scenario_runs(self):
        for name, scenario in SCENARIOS.items():
            with self.subTest(name):
                scenario(Scenario(pybreaker, self.make))

    @unittest.skipUnless(original, "pybreaker is not installed")
    def test_every_scenario_does_what_it_does_with_pybreaker(self):
        for name, scenario in SCENARIOS.items():
            with self.subTest(name):
                if name == "asynchronous_calls" and not original.HAS_TORNADO_SUPPORT:
                    self.skipTest("tornado is not installed, which pybreaker needs for them")
                theirs = Scenario(original, original.CircuitBreaker)
                scenario(theirs)
                ours = Scenario(pybreaker, self.make)
                scenario(ours)
                self.assertEqual(ours.trace, theirs.trace)

    @unittest.skipUnless(original, "pybreaker is not installed")
    def test_everything_that_programs_import_from_pybreaker_exists(self):
        self.assertEqual(set(original.__all__) - set(pybreaker.__all__), set())
        for name in pybreaker.__all__:
            self.assertTrue(hasattr(pybreaker, name), name)
        missing = {
            name for name in dir(original.CircuitBreaker) if not name.startswith("_")
        } - set(dir(pybreaker.CircuitBreaker))
        self.assertEqual(missing, set())


class Differences(StoreTestCase):
    """The differences that the guide names."""

    def breaker(self, **options):
        return pybreaker.CircuitBreaker(**{"name": "db", "store": self.store, **options})

    def test_settings_that_could_never_work_and_invalid_names_are_refused(self):
        for options in ({"fail_max": 0}, {"fail_max": 10**6 + 1}, {"success_threshold": 0}):
            self.assertRaises(InvalidPolicy, self.breaker, **options)
        self.assertRaises(TypeError, self.breaker, fail_max=2.5)
        for name in ("x" * 256, "a\nb"):
            self.assertRaises(InvalidName, self.breaker, name=name)

    def test_another_name_is_another_breaker(self):
        cb = self.breaker()
        cb.open()
        cb.name = "other"
        self.assertEqual((cb.name, cb.current_state), ("other", "closed"))

    def test_a_new_reset_timeout_holds_from_the_next_opening_on(self):
        cb = self.breaker(reset_timeout=60)
        cb.open()
        cb.reset_timeout = 0.001
        time.sleep(0.002)
        self.assertRaises(pybreaker.CircuitBreakerError, cb.call, up)
        cb.close()
        cb.open()
        time.sleep(0.002)
        self.assertEqual(cb.call(up), "up")

    def test_a_generator_that_is_closed_early_is_ignored_and_what_it_returns_is_kept(self):
        cb = self.breaker(fail_max=1)

        def rows():
            try:
                yield 1
            except KeyError:
                yield "thrown"
            return "done"

        values = cb.call(rows)
        next(values)
        values.close()
        self.assertEqual(cb.current_state, "closed")
        values = cb.call(rows)
        next(values)
        self.assertEqual(values.throw(KeyError()), "thrown")
        with self.assertRaises(StopIteration) as ended:
            next(values)
        self.assertEqual(ended.exception.value, "done")

    def test_listeners_are_told_of_changes_only_and_cannot_prevent_them(self):
        trace = []

        class Listener(pybreaker.CircuitBreakerListener):
            def failure(self, cb, exc):
                trace.append(cb.current_state)
                raise KeyError

            def state_change(self, cb, old_state, new_state):
                trace.append(new_state.name)
                raise KeyError

        cb = self.breaker(fail_max=1, listeners=[Listener()])
        cb.close()
        self.assertRaises(KeyError, cb.call, down)
        self.assertEqual((trace, cb.current_state), (["open"], "open"))
        self.assertRaises(KeyError, lambda: cb.state)
        cb.open()
        self.assertEqual(trace, ["open", "open"])

    def test_setting_the_state_sets_it_in_every_process(self):
        self.breaker().state = "open"
        self.assertEqual(self.breaker().current_state, "open")

    def test_a_failed_trial_ends_a_half_open_circuit_in_every_process(self):
        cb = self.breaker(fail_max=3, name="database")
        other = self.breaker(fail_max=3, name="database")
        for fail in (cb, other):
            cb.half_open()
            self.assertEqual(cb.current_state, "half-open")
            self.assertEqual(cb.state.name, "half-open")
            with self.assertRaises(pybreaker.CircuitBreakerError):
                fail.call(self.fail_once)
            self.assertEqual((cb.current_state, cb.state.name), ("open", "open"))
            self.assertEqual(other.current_state, "open")

    def fail_once(self):
        raise Resource("down")

    def test_an_awaitable_is_counted_when_it_ends(self):
        cb = self.breaker(fail_max=1)
        calling = cb.call_async(down)
        self.assertEqual(cb.fail_counter, 0)
        self.assertRaises(pybreaker.CircuitBreakerError, asyncio.run, calling)
        cb.close()

        async def down_later():
            down()

        self.assertRaises(pybreaker.CircuitBreakerError, asyncio.run, cb.call(down_later))


class Sharing(StoreTestCase):
    def breaker(self, **options):
        return pybreaker.CircuitBreaker(name="db", store=self.store, **options)

    def test_processes_share_one_threshold(self):
        cb = self.breaker(fail_max=3)

        def child():
            try:
                cb.call(down)
            except Resource:
                return 0
            except pybreaker.CircuitBreakerError:
                return 7

        self.assertEqual([in_child(child) for _ in range(3)], [0, 0, 7])
        self.assertEqual(cb.current_state, "open")
        with self.assertRaises(pybreaker.CircuitBreakerError) as caught:
            cb.call(up)
        self.assertTrue(59 < caught.exception.retry_after <= 60)

    def test_a_cancellation_is_not_a_failure(self):
        cb = self.breaker(fail_max=1)

        def interrupted():
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            cb.call(interrupted)
        self.assertEqual(cb.current_state, "closed")

    def test_coroutine_functions_are_awaited_behind_the_breaker(self):
        cb = self.breaker(fail_max=2)

        @cb
        async def fetch(fails):
            await asyncio.sleep(0)
            return down() if fails else "up"

        async def main():
            self.assertEqual(await fetch(False), "up")
            self.assertEqual(await cb.call_async(up_async), "up")
            self.assertEqual(await cb.call(up_async), "up")
            with self.assertRaises(Resource):
                await fetch(True)
            with self.assertRaises(pybreaker.CircuitBreakerError):
                await fetch(True)
            with self.assertRaises(pybreaker.CircuitBreakerError):
                await cb.call_async(up_async)

        async def up_async():
            return "up"

        asyncio.run(main())
        self.assertEqual(cb.current_state, "open")

    def test_a_call_that_fails_before_there_is_anything_to_await_is_a_failure(self):
        cb = self.breaker(fail_max=2)
        with self.assertRaises(Resource):
            asyncio.run(cb.call_async(down))
        self.assertEqual(cb.fail_counter, 1)

    def test_the_success_counter_counts_the_trials_of_a_half_open_circuit(self):
        breaker = self.breaker(fail_max=1, reset_timeout=0.05, success_threshold=2)
        self.assertRaises(pybreaker.CircuitBreakerError, breaker.call, down)
        time.sleep(0.06)
        counts = []
        for _ in range(2):
            breaker.call(up)
            counts.append(breaker.success_counter)
        self.assertEqual(counts, [1, 0])

    def test_a_call_keeps_its_result_and_its_error_after_the_store_was_closed(self):
        trace = []
        store = SharedStore(self.path)
        breakers = [
            pybreaker.CircuitBreaker(name="db", store=store, listeners=listeners)
            for listeners in ([], [Recorder(pybreaker, trace)])]
        store.close()
        for cb in breakers:
            self.assertEqual(cb.call(up), "up")
            self.assertEqual(asyncio.run(cb.call_async(up_later)), "up")
            self.assertRaises(Resource, cb.call, down)
            self.assertRaises(Resource, asyncio.run, cb.call_async(down))
            with cb.calling():
                pass
            self.assertEqual(cb.state.name, "closed")
        told = [what[0] for what in trace]
        self.assertEqual(
            told, ["before", "success"] * 2 + ["before", "failure"] * 2 + ["before", "success"])

    def test_listeners_hear_of_a_change_once_if_several_threads_find_it(self):
        class Overtaken(pybreaker.CircuitBreaker):
            """A breaker that other threads change while this thread reads its state."""

            meanwhile = []

            @property
            def current_state(self):
                state = super().current_state
                if Overtaken.meanwhile:
                    thread = threading.Thread(target=Overtaken.meanwhile.pop())
                    thread.start()
                    thread.join()
                return state

        trace = []
        cb = Overtaken(name="db", store=self.store, listeners=[Recorder(pybreaker, trace)])
        Overtaken.meanwhile.append(cb.open)
        self.assertEqual(cb.state.name, "open")
        self.store.breaker("db").reset()
        Overtaken.meanwhile.append(lambda: cb.state)
        self.assertEqual(cb.state.name, "closed")
        self.assertEqual(trace, [("change", "closed", "open"), ("change", "open", "closed")])

    def test_a_storage_is_refused_with_what_to_do_instead(self):
        with self.assertRaisesRegex(TypeError, "leave state_storage out"):
            self.breaker(state_storage=object())
        for storage in (
            pybreaker.CircuitMemoryStorage, pybreaker.CircuitRedisStorage,
            pybreaker.CircuitBreakerStorage):
            with self.assertRaisesRegex(TypeError, "leave state_storage out"):
                storage("open", None, namespace="db")

    def test_a_breaker_without_a_name_belongs_to_its_process_and_says_so(self):
        with self.assertWarnsRegex(UserWarning, "without a name"):
            cb = pybreaker.CircuitBreaker(fail_max=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            other = pybreaker.CircuitBreaker(fail_max=1)
        with self.assertRaises(pybreaker.CircuitBreakerError):
            cb.call(down)
        self.assertEqual((cb.current_state, other.current_state), ("open", "closed"))
        self.assertIsNone(cb.name)

    def test_breakers_with_one_name_are_one_breaker(self):
        self.breaker(fail_max=5).open()
        self.assertEqual(self.breaker(fail_max=5).current_state, "open")
        with SharedStore(self.path) as store:
            self.assertEqual(store.breaker("db").state, "open")


if __name__ == "__main__":
    unittest.main()
