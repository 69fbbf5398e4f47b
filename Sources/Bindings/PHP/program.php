<?php
declare(strict_types=1);

require '/srv/app/shared_breaker.php';

$payments = SharedBreaker::get('payments', 'max-failures=2 open-for=30s');
assert($payments->run(fn () => 42) === 42);
for ($attempt = 0; $attempt < 2; $attempt++) {
    try {
        $payments->run(fn () => throw new DomainException('refused'));
    } catch (DomainException) {
    }
}
try {
    $payments->run(fn () => exit("an open breaker runs nothing\n"));
} catch (BreakerRejected $rejected) {
    printf("try again in %d s\n", round($rejected->retryAfterNanoseconds / 1e9));
}

// An answer 429 with Retry-After: 60 holds the calls of all processes, and is no failure.
$model = SharedBreaker::get('model');
try {
    $model->run(fn () => throw new BreakerHold(60, 'HTTP 429'));
} catch (BreakerHold) {
}
try {
    $model->run(fn () => exit("what is held runs nothing\n"));
} catch (BreakerRejected $rejected) {
    assert($rejected->isHeld);
}
