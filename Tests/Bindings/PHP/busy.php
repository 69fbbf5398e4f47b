<?php
declare(strict_types=1);
// Tests the class of the PHP guide: the calls of all processes count, and a rejection says that there is no room.
//
//   php Tests/Bindings/PHP/busy.php CLASS STORE

require $argv[1];

$breaker = SharedBreaker::get('busy', 'max-concurrent=1', $argv[2]);
if (isset($argv[3])) {
    try {
        $breaker->run(fn () => exit(1));
    } catch (BreakerRejected $rejected) {
        exit($rejected->isBusy && $rejected->retryAfterNanoseconds < 0 ? 0 : 2);
    }
}
$another = implode(' ', array_map('escapeshellarg', [PHP_BINARY, ...$argv, 'another']));
$code = $breaker->run(function () use ($another): int {
    passthru($another, $code);
    return $code;
});
exit($code);
