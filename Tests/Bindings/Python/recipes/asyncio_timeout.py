import asyncio

from shared_breaker import breaker

payments = breaker("payments", max_failures=3, open_for=30)


async def charge(send, order):
    # The timeout is inside, so the breaker sees its TimeoutError. Outside of the breaker, as in
    # wait_for(charge(...)), it cancels the call, and a call that was cancelled is ignored.
    async with payments:
        async with asyncio.timeout(5):
            return await send(order)


@payments
async def charge_by_wait_for(send, order):
    return await asyncio.wait_for(send(order), 5)
