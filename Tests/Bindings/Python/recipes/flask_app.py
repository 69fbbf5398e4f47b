from flask import Flask

from shared_breaker import Rejected, breaker

app = Flask(__name__)
payments = breaker("payments", max_failures=3, open_for=30)


@app.errorhandler(Rejected)
def try_again_later(rejected):
    return "try again later\n", 503, {"Retry-After": rejected.retry_after_header}


@app.errorhandler(ConnectionError)
def no_answer(error):
    return "no answer\n", 502


@payments
def send_to_payments(order):
    if order == "down":
        raise ConnectionError("the payment service does not answer")
    return "charged\n"


@app.post("/orders/<order>")
def charge(order):
    return send_to_payments(order)
