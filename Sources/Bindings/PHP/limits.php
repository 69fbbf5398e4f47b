<?php
declare(strict_types=1);

require '/srv/app/shared_breaker.php';

$gpu = SharedBreaker::get('gpu', 'max-concurrent=2 queue-timeout=2s');
$training = $gpu->claiming(2, background: true);
// A call inside of another one needs no room of its own.
assert($training->run(fn () => $gpu->run(fn () => 42)) === 42);
try {
    $gpu->run(fn () => print("rendered\n"));
} catch (BreakerRejected $rejected) {
    print($rejected->isBusy ? "too many at once\n" : "out of order\n");
}
