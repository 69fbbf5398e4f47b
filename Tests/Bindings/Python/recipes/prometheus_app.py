# PROMETHEUS_MULTIPROC_DIR=/run/shop/metrics gunicorn --workers 4 prometheus_app:app
from prometheus_client import CollectorRegistry, Counter, make_wsgi_app, multiprocess

from shared_breaker.prometheus import BreakerCollector

requests = Counter("shop_requests", "Requests that were answered.")

# The counters of all workers, and the breakers of the host: any worker can answer for all of them.
registry = CollectorRegistry()
multiprocess.MultiProcessCollector(registry)
registry.register(BreakerCollector())
metrics = make_wsgi_app(registry)


def app(environ, start_response):
    if environ["PATH_INFO"] == "/metrics":
        return metrics(environ, start_response)
    requests.inc()
    start_response("200 OK", [])
    return [b"welcome\n"]
