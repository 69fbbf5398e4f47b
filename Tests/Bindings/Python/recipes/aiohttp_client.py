import aiohttp

from shared_breaker.aiohttp import Middleware

breakers = Middleware(max_failures=5, open_for=30)


def new_session():
    """Make a session, in a running event loop."""
    return aiohttp.ClientSession(middlewares=[breakers], timeout=aiohttp.ClientTimeout(sock_connect=2, sock_read=10))
