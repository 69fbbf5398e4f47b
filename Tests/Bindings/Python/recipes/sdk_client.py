import openai

from shared_breaker.httpx2 import Transport, account_of  # httpx2 is what this SDK uses since its version 3

client = openai.OpenAI(
    # A client that retries by itself would ask again in spite of a hold.
    max_retries=0,
    http_client=openai.DefaultHttpxClient(
        # Every process that uses the key shares a breaker. An answer 429 holds the calls of all of them.
        transport=Transport(name=account_of, max_concurrent=8, queue_timeout=30)))


def ask(prompt):
    return client.responses.create(model="gpt-5-mini", input=prompt).output_text
