import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionError, HTTPClientError

from shared_breaker import breaker


def is_outage(error):
    """Whether the service gave no answer, or has failed itself."""
    if isinstance(error, ClientError):
        return error.response["ResponseMetadata"]["HTTPStatusCode"] >= 500
    return isinstance(error, (ConnectionError, HTTPClientError))


def asks_for_fewer(error):
    """Return 0, which names no time, if the service asks for fewer requests: it is well, so that is no failure."""
    if isinstance(error, ClientError):
        is_throttled = error.response["Error"]["Code"] in ("SlowDown", "Throttling", "ThrottlingException")
        if is_throttled or error.response["ResponseMetadata"]["HTTPStatusCode"] == 429:
            return 0
    return None


storage = breaker("s3", max_failures=3, open_for=30, failure=is_outage, hold=asks_for_fewer)
# A client that retries by itself would ask again in spite of a hold.
s3 = boto3.client("s3", config=Config(
    connect_timeout=2, read_timeout=10, retries={"total_max_attempts": 1}))


@storage
def read(bucket, key):
    """Read an object: its body, too, is read behind the breaker."""
    return s3.get_object(Bucket=bucket, Key=key)["Body"].read()
