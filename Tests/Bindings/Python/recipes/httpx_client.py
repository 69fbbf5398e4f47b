import functools

import httpx

from shared_breaker import breaker, retry_after, too_many_requests


@functools.cache
def breaker_of(host):
    return breaker(
        # As long as the Retry-After header says, but never longer than ten minutes.
        f"http/{host}", max_failures=5, open_for=retry_after, open_max=600,
        failure=lambda answer: answer.status_code >= 500,
        # An answer 429 is no failure: it holds the calls of all processes for as long as it says.
        hold=too_many_requests)


class BreakerTransport(httpx.HTTPTransport):
    def handle_request(self, request):
        return breaker_of(request.url.host).call(super().handle_request, request)


class AsyncBreakerTransport(httpx.AsyncHTTPTransport):
    async def handle_async_request(self, request):
        return await breaker_of(request.url.host).call(super().handle_async_request, request)


client = httpx.Client(transport=BreakerTransport())
async_client = httpx.AsyncClient(transport=AsyncBreakerTransport())
