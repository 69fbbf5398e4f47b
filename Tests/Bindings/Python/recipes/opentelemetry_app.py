from opentelemetry import trace

from shared_breaker import breaker
from shared_breaker.opentelemetry import instrument

payments = breaker("payments", max_failures=3, open_for=30)
tracer = trace.get_tracer("shop")

# Metrics of the host, and events on the spans of this process. It uses the providers that your SDK
# sets, before or after this. Where several workers export, pass with_metrics=False in all but one.
instrument()


def charge(send, order):
    with tracer.start_as_current_span("charge"), payments:
        return send(order)
