<?php
// The requests of the test of the guide to PHP-FPM. Each one makes one of these calls, and prints how it went.
declare(strict_types=1);

$path = $_SERVER['STORE'];

/** A probe may take an hour, so a slot that is not given back stays taken. */
function probing(string $path): SharedBreaker
{
    return SharedBreaker::get('probing', 'max-failures=1 open-for=1ms jitter=0% probe-timeout=1h', $path);
}

function fail(SharedBreaker $breaker): string
{
    try {
        $breaker->run(fn () => throw new DomainException('refused'));
    } catch (DomainException $error) {
        return $error->getMessage();
    }
}

/** A call that hangs until its process is killed is a failure. */
function limited(string $path): SharedBreaker
{
    return SharedBreaker::get('limited', 'max-failures=2 open-for=1h max-concurrent=4 lost-calls=failure', $path);
}

try {
    $orders = SharedBreaker::get('orders', 'max-failures=3 open-for=1h', $path);
    echo match ($_SERVER['QUERY_STRING']) {
        'succeed' => $orders->run(fn () => 'done'),
        'fail' => fail($orders),
        'exit' => $orders->run(fn () => exit('left')),
        'die-of-memory' => $orders->run(fn () => strlen(str_repeat('x', 1 << 40))),
        'begin-probing' => fail(probing($path)),
        'leave-a-probe' => probing($path)->run(fn () => exit('left')),
        'probe' => probing($path)->run(fn () => 'done'),
        'hang' => limited($path)->run(fn () => sleep(3600)),
        'use' => implode(' ', [
            getmypid(), count(scandir('/proc/self/fd')),
            preg_match('/VmData:\s+(\d+)/', file_get_contents('/proc/self/status'), $data) ? $data[1] : '',
        ]),
    };
} catch (BreakerRejected) {
    http_response_code(503);
    echo 'rejected';
}
