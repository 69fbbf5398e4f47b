import functools

import aiohttp

from shared_breaker import breaker, retry_after, too_many_requests


@functools.cache
def breaker_of(host):
    return breaker(
        # As long as the Retry-After header says, but never longer than ten minutes.
        f"http/{host}", max_failures=5, open_for=retry_after, open_max=600,
        failure=lambda answer: answer.status >= 500,
        # An answer 429 is no failure: it holds the calls of all processes for as long as it says.
        hold=too_many_requests)


async def through_breaker(request, handler):
    """A middleware that gives each host a breaker. It is passed for each redirection, too."""
    return await breaker_of(request.url.host).call(handler, request)


def new_session():
    """Make a session, in a running event loop. Its timeouts end within the breaker."""
    return aiohttp.ClientSession(
        middlewares=[through_breaker], timeout=aiohttp.ClientTimeout(sock_connect=2, sock_read=10))
