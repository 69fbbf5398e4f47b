import asyncio

from shared_breaker import Rejected, breaker

payments = breaker("payments", max_failures=3, open_for=30)


@payments
async def charge(order):
    if order == "down":
        raise ConnectionError("the payment service does not answer")
    await asyncio.sleep(0)
    return "charged"


async def serve(reader, writer):
    order = (await reader.readline()).decode().strip()
    try:
        answer = await charge(order)
    except Rejected as rejected:
        answer = f"try again in {rejected.retry_after_header} s"
    except ConnectionError:
        answer = "no answer"
    writer.write(f"{answer}\n".encode())
    await writer.drain()
    writer.close()


async def main(path):
    server = await asyncio.start_unix_server(serve, path)
    async with server:
        await server.serve_forever()
