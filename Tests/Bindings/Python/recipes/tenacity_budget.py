from tenacity import Retrying, retry_if_not_exception_type, stop_after_attempt, wait_random_exponential

from shared_breaker import Rejected, breaker

search = breaker("search", max_failures=50, open_for=30, retry_budget=0.2)
again = search.claiming(retry=True)


def find(words):
    for attempt in Retrying(
        retry=retry_if_not_exception_type(Rejected), stop=stop_after_attempt(5),
        wait=wait_random_exponential(multiplier=0.01, max=2), reraise=True,
    ):
        # A retry beyond the budget is a rejection, which ends the loop.
        with attempt, again if attempt.retry_state.attempt_number > 1 else search:
            return ask(words)


def ask(words):
    if words == "down":
        raise ConnectionError("the search service does not answer")
    return [words]
