import openai

from shared_breaker import breaker, too_many_requests


def is_outage(value):
    """Whether the service gave no answer, or has failed itself. A request that it refuses tells nothing."""
    if isinstance(value, openai.APIStatusError):
        return value.status_code >= 500
    return isinstance(value, openai.APIConnectionError)


# Every process that uses the key shares this breaker. An answer 429 holds the calls of all of them.
llm = breaker("openai/prod-key", max_concurrent=8, queue_timeout=30, failure=is_outage, hold=too_many_requests)
# A client that retries by itself would ask again in spite of the hold.
client = openai.OpenAI(max_retries=0, timeout=60)


@llm
def ask(prompt):
    return client.responses.create(model="gpt-5-mini", input=prompt).output_text
