from shared_breaker import Rejected, breaker

payments = breaker("payments", max_failures=3, open_for=30)


def charge(environ):
    if "down" in environ["QUERY_STRING"]:
        raise ConnectionError("the payment service does not answer")
    return b"charged\n"


def app(environ, start_response):
    try:
        with payments:
            body = charge(environ)
    except Rejected as rejected:
        headers = [("Retry-After", rejected.retry_after_header)]
        start_response("503 Service Unavailable", headers)
        return [b"try again later\n"]
    except ConnectionError:
        start_response("502 Bad Gateway", [])
        return [b"no answer\n"]
    start_response("200 OK", [])
    return [body]
