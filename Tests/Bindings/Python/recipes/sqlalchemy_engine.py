from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, TimeoutError

from shared_breaker import breaker


def is_statement_error(error):
    """Whether the database has answered: a constraint, a type, a syntax."""
    return isinstance(error, DBAPIError) and not (
        error.connection_invalidated or type(error).__name__ in ("OperationalError", "InterfaceError"))


database = breaker(
    "database", max_failures=3, open_for=10, failure=(DBAPIError, TimeoutError),
    ignore=is_statement_error)


@contextmanager
def transaction(engine):
    """A transaction behind the breaker. Other errors than the database's are ignored."""
    with database, engine.begin() as connection:
        yield connection
