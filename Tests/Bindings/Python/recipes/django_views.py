from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpResponse

from shared_breaker import Rejected, breaker

payments = breaker("payments", max_failures=3, open_for=30, ignore=Http404)
# Only these two say that the database itself has failed. Requests that do not use it are successes,
# so the failures need not come in a row.
database = breaker(
    "database", failures=3, within=10, open_for=10, failure=(OperationalError, InterfaceError))


@payments
def charge(request, order):
    """A view. An exception is a failure, except that there is no such order."""
    if order == "unknown":
        raise Http404
    if order == "down":
        raise ConnectionError("the payment service does not answer")
    return HttpResponse("charged")


def try_again_later(rejected):
    headers = {"Retry-After": rejected.retry_after_header}
    return HttpResponse("try again later", status=503, headers=headers)


class RejectedMiddleware:
    """Answers 503 with a Retry-After where a breaker rejects a call."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        return self.get_response(request)

    def process_exception(self, request, exception):
        # With ATOMIC_REQUESTS, Django has rolled back what the view had written.
        return try_again_later(exception) if isinstance(exception, Rejected) else None


class DatabaseMiddleware:
    """Puts requests behind the breaker of the database, also the BEGIN and COMMIT of ATOMIC_REQUESTS.

    These two happen outside of the view, so a decorator of the view would not see them fail.
    """

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        try:
            permit = database.acquire()
        except Rejected as rejected:
            return try_again_later(rejected)
        request.error = None
        response = self.get_response(request)
        permit.report(request.error or "success")
        return response

    def process_exception(self, request, exception):
        request.error = exception
