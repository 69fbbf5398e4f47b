import random

from celery import Celery

from shared_breaker import Rejected, breaker

app = Celery("shop")
payments = breaker("payments", max_failures=3, open_for=30)


# At the soft limit Celery raises SoftTimeLimitExceeded in the task, which is a failure. At the hard
# one it ends the process, which is a failure only with max_concurrent and lost_calls="failure". So set both.
@app.task(bind=True, max_retries=None, soft_time_limit=20, time_limit=30)
def charge(self, order):
    try:
        with payments:
            return send_to_payments(order)
    except Rejected as rejected:
        # Put the task back until the breaker may permit it, without using up its own retries.
        # The random part keeps all these tasks from coming back at once.
        wait = (rejected.retry_after or 10) + random.uniform(0, 1)
        raise self.retry(exc=rejected, countdown=wait)


def send_to_payments(order):
    if order == "down":
        raise ConnectionError("the payment service does not answer")
    return "charged"
