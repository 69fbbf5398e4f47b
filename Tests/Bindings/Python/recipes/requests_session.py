import functools
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter

from shared_breaker import breaker, retry_after, too_many_requests


@functools.cache
def breaker_of(host):
    return breaker(
        # As long as the Retry-After header says, but never longer than ten minutes.
        f"http/{host}", max_failures=5, open_for=retry_after, open_max=600,
        failure=lambda answer: answer.status_code >= 500,
        # An answer 429 is no failure: it holds the calls of all processes for as long as it says.
        hold=too_many_requests)


class BreakerAdapter(HTTPAdapter):
    """Gives each host a breaker. An answer that is a failure is returned all the same."""

    def send(self, request, **options):
        return breaker_of(urlsplit(request.url).netloc).call(super().send, request, **options)


session = requests.Session()
session.mount("http://", BreakerAdapter())
session.mount("https://", BreakerAdapter())
