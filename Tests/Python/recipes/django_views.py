from django.http import Http404, HttpResponse

from shared_breaker import Rejected, breaker

payments = breaker("payments", max_failures=3, open_for=30, ignore=Http404)


@payments
def charge(request, order):
    """A view. What it raises is a failure, except that there is no such order."""
    if order == "unknown":
        raise Http404
    if order == "down":
        raise ConnectionError("the payment service does not answer")
    return HttpResponse("charged")


class RejectedMiddleware:
    """Answers 503 with a Retry-After where a breaker rejects a call."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        return self.get_response(request)

    def process_exception(self, request, exception):
        if isinstance(exception, Rejected):
            headers = {"Retry-After": exception.retry_after_header}
            return HttpResponse("try again later", status=503, headers=headers)
        return None
