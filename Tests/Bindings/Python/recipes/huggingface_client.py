import httpx2  # which huggingface_hub uses since its version 2
import huggingface_hub

from shared_breaker.httpx2 import Transport


def new_client():
    """Make the client of all requests: one breaker for each host, which 429 holds for every process."""
    return httpx2.Client(
        transport=Transport(max_failures=5, open_for=30, max_concurrent=8, queue_timeout=60),
        follow_redirects=True,
        timeout=httpx2.Timeout(30, pool=None))


huggingface_hub.set_client_factory(new_client)
