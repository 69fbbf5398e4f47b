from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import JSONResponse

from shared_breaker import Rejected, breaker

app = FastAPI()
# An HTTPException is the handler's own answer, which says nothing about the payment service.
payments = breaker("payments", max_failures=3, open_for=30, ignore=HTTPException)


@app.exception_handler(Rejected)
async def try_again_later(request, rejected):
    headers = {"Retry-After": rejected.retry_after_header}
    return JSONResponse({"detail": "try again later"}, 503, headers)


@app.exception_handler(ConnectionError)
async def no_answer(request, error):
    return JSONResponse({"detail": "no answer"}, 502)


class PaymentService:
    async def charge(self, order):
        if order == "down":
            raise ConnectionError("the payment service does not answer")
        return "charged"


async def payment_service():
    """A dependency: what uses it is behind the breaker, from here to its end."""
    async with payments:
        yield PaymentService()


@app.post("/orders/{order}")
async def charge(order: str, service: Annotated[PaymentService, Depends(payment_service)]):
    if order == "unknown":
        raise HTTPException(404)
    return await service.charge(order)
