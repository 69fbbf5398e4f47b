from tenacity import retry, retry_if_not_exception_type, stop_after_attempt, wait_random_exponential

from shared_breaker import Rejected, breaker

payments = breaker("payments", max_failures=3, open_for=30)


# Each attempt passes the breaker. A rejection ends the retries, which could not help.
@retry(
    retry=retry_if_not_exception_type(Rejected), stop=stop_after_attempt(5),
    wait=wait_random_exponential(multiplier=0.01, max=2), reraise=True)
@payments
def charge(order):
    if order == "down":
        raise ConnectionError("the payment service does not answer")
    return "charged"
