import grpc

from shared_breaker import breaker

FAILURES = {
    grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN}

payments = breaker("payments", max_failures=3, open_for=30)


def outcome(code):
    if code == grpc.StatusCode.CANCELLED:
        return "ignored"
    return "failure" if code in FAILURES else "success"


class BreakerInterceptor(grpc.UnaryUnaryClientInterceptor):
    def intercept_unary_unary(self, continuation, details, request):
        permit = payments.acquire()
        call = continuation(details, request)
        call.add_done_callback(lambda call: permit.report(outcome(call.code()), call.details()))
        return call


class AsyncBreakerInterceptor(grpc.aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(self, continuation, details, request):
        permit = await payments.acquire_async()
        call = await continuation(details, request)
        await permit.report_async(outcome(await call.code()), await call.details())
        return call


# Give each call a timeout: without one, it waits for as long as the server does.
def new_channel(address):
    return grpc.intercept_channel(grpc.insecure_channel(address), BreakerInterceptor())


def new_async_channel(address):
    return grpc.aio.insecure_channel(address, interceptors=[AsyncBreakerInterceptor()])
