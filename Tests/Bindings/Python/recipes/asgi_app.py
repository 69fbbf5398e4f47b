import asyncio

from shared_breaker import Rejected, breaker

payments = breaker("payments", max_failures=3, open_for=30)


@payments
async def charge(scope):
    if b"down" in scope["query_string"]:
        raise ConnectionError("the payment service does not answer")
    await asyncio.sleep(0)
    return b"charged\n"


async def app(scope, receive, send):
    assert scope["type"] == "http"
    status, headers = 200, []
    try:
        body = await charge(scope)
    except Rejected as rejected:
        status, body = 503, b"try again later\n"
        headers = [(b"retry-after", rejected.retry_after_header.encode())]
    except ConnectionError:
        status, body = 502, b"no answer\n"
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
