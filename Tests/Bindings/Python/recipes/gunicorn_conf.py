# gunicorn --config gunicorn_conf.py wsgi_app:app
timeout = 30


class WorkerTimeout(Exception):
    """A request has taken longer than `timeout`."""


def worker_abort(worker):
    """Raise in the request, so that its breaker counts a failure, and that it is answered with 500.

    Without this, gunicorn raises SystemExit, which tells a breaker nothing about the resource.
    """
    raise WorkerTimeout("the request took longer than a worker may take")
