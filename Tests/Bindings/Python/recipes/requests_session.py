import requests

from shared_breaker.requests import Adapter

adapter = Adapter(max_failures=5, open_for=30)
session = requests.Session()
session.mount("http://", adapter)
session.mount("https://", adapter)
