import httpx

from shared_breaker.httpx import AsyncTransport, Transport

client = httpx.Client(transport=Transport(max_failures=5, open_for=30))
async_client = httpx.AsyncClient(transport=AsyncTransport(max_failures=5, open_for=30))
