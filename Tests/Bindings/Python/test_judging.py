"""The meaning of exceptions and results for the resource."""

from __future__ import annotations

import asyncio
import concurrent.futures
import email.utils
import http.client
import time
import types
import unittest
import unittest.mock
from datetime import timedelta
from pathlib import Path

from shared_breaker import Rejected, retry_after, too_many_requests
from support import Resource, StoreTestCase


def answer(status, **headers):
    """Return what HTTP clients return."""
    return types.SimpleNamespace(status_code=status, headers=headers)


class HTTPError(Exception):
    def __init__(self, response):
        super().__init__(f"status {response.status_code}")
        self.response = response


def raising(error):
    raise error


class Exceptions(StoreTestCase):
    def outcome(self, breaker, error):
        """Return how an exception was counted."""
        before = breaker.snapshot()["totals"]
        with self.assertRaises(type(error)):
            breaker.call(raising, error)
        after = breaker.snapshot()["totals"]
        changed = [key for key in ("successes", "failures", "ignored") if after[key] != before[key]]
        self.assertEqual(len(changed), 1, changed)
        return changed[0]

    def test_every_exception_is_a_failure_unless_it_is_a_cancellation(self):
        payments = self.store.breaker("payments", max_failures=100)
        self.assertEqual(self.outcome(payments, Resource("down")), "failures")
        self.assertEqual(self.outcome(payments, TimeoutError()), "failures")
        for error in (
            asyncio.CancelledError(), GeneratorExit(), KeyboardInterrupt(), SystemExit(1)):
            self.assertEqual(self.outcome(payments, error), "ignored", error)

    def test_a_cancellation_is_a_failure_where_a_rule_names_its_type(self):
        cancellations = (
            asyncio.CancelledError, concurrent.futures.CancelledError, GeneratorExit,
            KeyboardInterrupt, SystemExit)
        for number, kind in enumerate(cancellations):
            named = self.store.breaker(f"failure {number}", max_failures=100, failure=(Exception, kind))
            self.assertEqual(self.outcome(named, kind()), "failures", kind)
            self.assertEqual(self.outcome(named, Resource("down")), "failures", kind)
            other = cancellations[number - 1]
            self.assertEqual(self.outcome(named, other()), "ignored", other)
            permanent = self.store.breaker(f"permanent {number}", permanent=kind)
            self.assertEqual(self.outcome(permanent, kind()), "failures", kind)
            self.assertEqual(permanent.state, "open", kind)

        class Stop(SystemExit):
            pass

        stopping = self.store.breaker("stopping", failure=Stop)
        self.assertEqual(self.outcome(stopping, Stop()), "failures")
        self.assertEqual(self.outcome(stopping, SystemExit()), "ignored")

    def test_neither_a_wider_type_nor_a_predicate_makes_a_cancellation_a_failure(self):
        for number, rule in enumerate((BaseException, lambda error: True)):
            payments = self.store.breaker(f"payments {number}", failure=rule, permanent=rule)
            for error in (
                asyncio.CancelledError(), concurrent.futures.CancelledError(), KeyboardInterrupt()):
                self.assertEqual(self.outcome(payments, error), "ignored", error)

    def test_a_cancelled_task_is_a_failure_where_a_rule_names_it(self):
        payments = self.store.breaker("payments", max_failures=100, failure=asyncio.CancelledError)
        begun = asyncio.Event()

        @payments
        async def wait():
            begun.set()
            await asyncio.sleep(3600)

        async def block():
            async with payments:
                begun.set()
                await asyncio.sleep(3600)

        async def main():
            for work in (wait, block):
                begun.clear()
                task = asyncio.ensure_future(work())
                await begun.wait()
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task

        asyncio.run(main())
        self.assertEqual(self.totals("payments")["failures"], 2)

    def test_closing_work_early_is_a_failure_where_a_rule_names_it(self):
        payments = self.store.breaker("payments", max_failures=100, failure=GeneratorExit)

        @types.coroutine
        def forever():
            while True:
                yield

        @payments
        async def coroutine():
            await forever()

        @payments
        def generator():
            yield

        for function in (coroutine, generator):
            work = function()
            work.send(None)
            work.close()
        payments.call(coroutine.__wrapped__).close()  # which never began
        totals = self.totals("payments")
        self.assertEqual((totals["failures"], totals["ignored"]), (2, 1))

    def test_ignored_exceptions_are_named_by_type_or_by_predicate(self):
        payments = self.store.breaker(
            "payments", max_failures=100,
            ignore=[KeyError, lambda error: "not found" in str(error)])
        self.assertEqual(self.outcome(payments, KeyError("x")), "ignored")
        self.assertEqual(self.outcome(payments, Resource("not found")), "ignored")
        self.assertEqual(self.outcome(payments, Resource("down")), "failures")

    def test_if_failures_are_named_by_type_other_exceptions_are_ignored(self):
        payments = self.store.breaker(
            "payments", max_failures=100, failure=(ConnectionError, TimeoutError))
        self.assertEqual(self.outcome(payments, ConnectionResetError()), "failures")
        self.assertEqual(self.outcome(payments, ValueError()), "ignored")

    def test_a_rule_can_make_a_failure_of_a_base_exception(self):
        class GreenletTimeout(BaseException):
            pass

        payments = self.store.breaker("payments", max_failures=100)
        self.assertEqual(self.outcome(payments, GreenletTimeout()), "ignored")
        payments = self.store.breaker("other", failure=(Exception, GreenletTimeout))
        self.assertEqual(self.outcome(payments, GreenletTimeout()), "failures")
        self.assertEqual(self.outcome(payments, Resource("down")), "failures")

    def test_a_permanent_failure_opens_the_breaker_at_once(self):
        payments = self.store.breaker("payments", permanent=PermissionError)
        self.assertEqual(self.outcome(payments, PermissionError("no such key")), "failures")
        self.assertEqual(payments.state, "open")

    def test_a_predicate_that_raises_is_skipped(self):
        payments = self.store.breaker(
            "payments", max_failures=100, ignore=lambda error: error.missing,
            failure=lambda value: value.status_code >= 500)
        self.assertEqual(self.outcome(payments, Resource("down")), "failures")
        self.assertEqual(payments.call(int), 0)
        self.assertEqual(self.totals("payments")["successes"], 1)

    def test_the_snapshot_shows_the_text_of_an_exception_whatever_it_is(self):
        payments = self.store.breaker("payments", max_failures=100)

        class Wordless(Exception):
            def __str__(self):
                raise RuntimeError

        self.outcome(payments, Resource("the disk is \ud800 gone"))
        self.assertIn("Resource: the disk is", payments.snapshot()["last_error"])
        self.outcome(payments, Wordless())
        self.assertIn("Wordless", payments.snapshot()["last_error"])
        self.outcome(payments, Resource("x" * 100_000))

    def test_a_rule_that_is_neither_a_type_nor_a_predicate_is_refused(self):
        for rule in (int, "KeyError", [KeyError, 3], 5, b"KeyError", object()):
            for word in ("ignore", "permanent", "failure"):
                with self.assertRaisesRegex(TypeError, "neither an exception type nor a predicate"):
                    self.store.breaker("payments", **{word: rule})


class Results(StoreTestCase):
    def test_a_predicate_can_count_results_as_failures_and_the_caller_still_gets_them(self):
        payments = self.store.breaker(
            "payments", max_failures=2, failure=lambda value: value.status_code >= 500)
        self.assertEqual(payments.call(answer, 200).status_code, 200)
        guarded = payments(answer)
        for _ in range(2):
            self.assertEqual(guarded(503).status_code, 503)
        self.assertEqual(payments.state, "open")

    def test_the_history_says_the_status_and_the_host_of_an_answer_that_failed(self):
        payments = self.store.breaker(
            "payments", max_failures=100, failure=lambda answer: answer.status_code >= 500)

        class Lazy:
            status_code = 504

            @property
            def url(self):
                raise RuntimeError("the answer has no request")

        url = "https://user:secret@api.example.com:8443/charge?token=secret"
        for result, words in (
            (types.SimpleNamespace(status_code=503, url=url), "HTTP 503 from api.example.com"),
            (types.SimpleNamespace(status_code=502), "HTTP 502"),
            (types.SimpleNamespace(status_code=502, url="http://[bad"), "HTTP 502"),
            (types.SimpleNamespace(status_code=5_000), "a result of type SimpleNamespace"),
            (Lazy(), "HTTP 504")):
            payments.call(lambda result=result: result)
            self.assertEqual(payments.snapshot()["last_error"], words)
        by_status = self.store.breaker("payments", failure=lambda answer: answer.status == 500)
        by_status.call(lambda: types.SimpleNamespace(status=500, url=url))
        self.assertEqual(payments.snapshot()["last_error"], "HTTP 500 from api.example.com")

    def test_a_rule_can_name_the_failure(self):
        payments = self.store.breaker(
            "payments", max_failures=100,
            failure=lambda found: found == "no" and "the bank says no" or isinstance(found, Resource) and "down",
            permanent=lambda error: isinstance(error, PermissionError) and f"key {error} is revoked \ud800")
        payments.call(str, "no")
        self.assertEqual(payments.snapshot()["last_error"], "the bank says no")
        with self.assertRaises(Resource):
            payments.call(raising, Resource("long story"))
        self.assertEqual(payments.snapshot()["last_error"], "down")
        with self.assertRaises(PermissionError):
            payments.call(raising, PermissionError("k7"))
        self.assertEqual(payments.snapshot()["last_error"], "key k7 is revoked ?")
        self.assertEqual(payments.state, "open")

    def test_results_of_coroutines_are_judged_too(self):
        payments = self.store.breaker(
            "payments", max_failures=2, failure=lambda value: value.status_code >= 500)

        @payments
        async def fetch(status):
            return answer(status)

        async def main():
            self.assertEqual((await fetch(200)).status_code, 200)
            for _ in range(2):
                self.assertEqual((await fetch(503)).status_code, 503)

        asyncio.run(main())
        self.assertEqual(payments.state, "open")


class OpenTimes(StoreTestCase):
    def wait_after(self, error=None, result=None, **rules):
        """Return how long the breaker stays open after a call."""
        payments = self.store.breaker("payments", open_for=retry_after, **rules)
        payments.reset()
        try:
            payments.call(raising, error) if error else payments.call(lambda: result)
        except Exception as raised:
            self.assertIs(raised, error)
        try:
            payments.call(int)
            return None
        except Rejected as rejected:
            return rejected.retry_after

    def test_a_retry_after_of_an_exception_is_the_open_time(self):
        error = HTTPError(answer(429, **{"Retry-After": "120"}))
        self.assertAlmostEqual(self.wait_after(error), 120, delta=2)

    def test_a_retry_after_can_be_a_date(self):
        date = email.utils.formatdate(time.time() + 120, usegmt=True)
        self.assertAlmostEqual(
            self.wait_after(HTTPError(answer(503, **{"Retry-After": date}))), 120, delta=3)

    def test_a_retry_after_of_a_result_is_the_open_time(self):
        busy = answer(429, **{"Retry-After": "60"})
        wait = self.wait_after(result=busy, failure=lambda value: value.status_code == 429)
        self.assertAlmostEqual(wait, 60, delta=2)

    def test_a_retry_after_that_is_not_a_real_date_is_skipped(self):
        for year in ("99999", "9" * 30):
            text = f"Wed, 21 Oct {year} 07:28:00 GMT"
            self.assertIsNone(retry_after(answer(503, **{"Retry-After": text})), text)

    def test_a_failure_without_a_time_is_an_ordinary_one(self):
        for text in ("soon", "", "0", "-5"):
            error = HTTPError(answer(429, **{"Retry-After": text}))
            self.assertIsNone(self.wait_after(error), text)
        self.assertIsNone(self.wait_after(Resource("down")))

    def test_any_function_can_name_the_time_as_seconds_or_as_a_timedelta(self):
        for time_of, seconds in ((lambda e: timedelta(minutes=1), 60), (lambda e: 1.5e1, 15)):
            payments = self.store.breaker("payments", open_for=time_of)
            payments.reset()
            self.let_fail(payments)
            with self.assertRaises(Rejected) as caught:
                payments.call(int)
            self.assertAlmostEqual(caught.exception.retry_after, seconds, delta=2)

    def test_a_function_for_the_open_time_that_raises_is_skipped(self):
        payments = self.store.breaker("payments", open_for=lambda error: error.missing)
        self.let_fail(payments)
        self.assertEqual(payments.state, "closed")


CASES = Path(__file__).parents[2] / "Support/http-answers.tsv"


class Holds(StoreTestCase):
    def held(self, name):
        """Return for how long calls are held, and why."""
        with self.assertRaises(Rejected) as caught:
            self.store.breaker(name).call(int)
        self.assertEqual(caught.exception.cause, "held")
        return caught.exception.retry_after, self.store.snapshot(name)["hold"]["reason"]

    def test_answers_are_judged_by_status_and_headers_as_the_shared_cases_have_it(self):
        rows = [line.split("\t") for line in CASES.read_text().splitlines() if not line.startswith("#")]
        self.assertGreater(len(rows), 60)
        for status, outcome, *lines in rows:
            headers = http.client.HTTPMessage()
            for line in lines:
                name, _, value = line.partition(":")
                headers.add_header(name, value.strip())
            given = types.SimpleNamespace(status=int(status), headers=headers)
            kind, _, time_named = outcome.partition(" ")
            # 2026-11-22T10:00:00Z
            with self.subTest(" | ".join([status, *lines])), unittest.mock.patch("time.time", lambda: 1_795_341_600.0):
                held = too_many_requests(given)
                self.assertEqual(held is not None, kind == "hold")
                if held is not None:
                    self.assertAlmostEqual(held, float(time_named or 0), places=6)
                    self.assertEqual(too_many_requests(HTTPErrorOfAnswer(given)), held)
                    self.assertEqual(too_many_requests(HTTPErrorOfAnswer(given, status_code=given.status)), held)
                if kind == "failure":
                    self.assertAlmostEqual(retry_after(given) or 0, float(time_named or 0), places=6)

    def test_an_answer_or_its_exception_holds_the_calls_of_all_and_is_no_failure(self):
        busy = answer(429, **{"Retry-After": "60"})
        rules = {"hold": too_many_requests, "failure": lambda value: value.status_code >= 400, "max_failures": 1}
        self.store.breaker("result", **rules).call(lambda: busy)
        with self.assertRaises(HTTPError), self.store.breaker("error", permanent=HTTPError, **rules):
            raise HTTPError(busy)
        self.store.breaker("permit", **rules).acquire().report(HTTPError(busy))

        @self.store.breaker("coroutine", **rules)
        async def fetch():
            return busy

        self.assertIs(asyncio.run(fetch()), busy)
        for name, reason in (
            ("result", "HTTP 429"), ("error", "HTTPError: status 429"), ("permit", "HTTPError: status 429"),
            ("coroutine", "HTTP 429")):
            wait, why = self.held(name)
            self.assertAlmostEqual(wait, 60, delta=2)
            self.assertEqual(why, reason)
            totals = self.store.snapshot(name)["totals"]
            self.assertEqual((totals["holds"], totals["failures"]), (1, 0))

    def test_the_first_two_answers_in_a_row_without_a_time_hold_nothing(self):
        payments = self.store.breaker("payments", hold=lambda value: 0, hold_for=30)
        for _ in range(3):
            payments.call(int)
        self.assertAlmostEqual(self.held("payments")[0], 30, delta=2)

    def test_a_predicate_says_that_an_answer_asks_and_names_no_time(self):
        payments = self.store.breaker("payments", hold=lambda value: value == 429, hold_for=30)
        for _ in range(5):
            payments.call(lambda: 200)
        for _ in range(3):
            payments.call(lambda: 429)
        self.assertAlmostEqual(self.held("payments")[0], 30, delta=2)
        self.assertEqual(payments.snapshot()["totals"]["successes"], 5)

    def test_objects_that_only_resemble_answers_name_no_time(self):
        class Failing:
            status_code = 429

            @property
            def response(self):
                raise RuntimeError

        for value in (
            unittest.mock.Mock(status_code=429), types.SimpleNamespace(status=429, headers=dict),
            types.SimpleNamespace(http_status=429), Failing()):
            self.assertEqual(too_many_requests(value), 0)
            self.assertIsNone(retry_after(value))

    def test_an_instant_that_has_passed_is_no_failure(self):
        payments = self.store.breaker("payments", max_failures=1, hold=lambda value: -0.003)
        with self.assertRaises(Resource):
            payments.call(raising, Resource("HTTP 429"))
        self.assertEqual(payments.acquire().report("hold", hold_for=-0.003), "counted")
        totals = payments.snapshot()["totals"]
        self.assertEqual((totals["holds"], totals["failures"]), (2, 0))
        with self.assertRaisesRegex(ValueError, "not a time"):
            payments.acquire().report("hold", hold_for=float("nan"))

    def test_a_function_that_names_no_time_or_raises_holds_nothing(self):
        for number, judge in enumerate((lambda value: None, lambda value: value.missing, lambda value: "soon")):
            payments = self.store.breaker(f"payments {number}", hold=judge)
            for _ in range(5):
                payments.call(int)
            self.assertEqual(payments.snapshot()["totals"]["successes"], 5)

    def test_a_cancellation_and_what_is_ignored_hold_nothing(self):
        payments = self.store.breaker("payments", hold=lambda value: 60, ignore=Resource)
        for error in (Resource("down"), KeyboardInterrupt()):
            with self.assertRaises(type(error)):
                payments.call(raising, error)
        self.assertEqual(payments.snapshot()["totals"]["ignored"], 2)
        self.assertEqual(payments.call(str), "")  # judged to hold, and returned

    def test_a_time_is_no_function(self):
        with self.assertRaisesRegex(TypeError, "hold_for is a time"):
            self.store.breaker("payments", hold=60)


class HTTPErrorOfAnswer(Exception):
    """An exception that has its answer, as those of requests do, and perhaps its status too, as those of SDKs do."""

    def __init__(self, response, **attributes):
        super().__init__("an answer that is an error")
        self.response = response
        self.__dict__.update(attributes)


if __name__ == "__main__":
    unittest.main()
