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
if ($code !== 0) {
    exit($code);
}
// No report is lost over its time, and no room with it.
foreach ([-0.003, 1e300] as $seconds) {
    try {
        $breaker->run(fn () => throw new BreakerHold($seconds));
    } catch (BreakerHold) {
        $breaker->endHold();
    }
}
// Nor to the handler of a signal that throws as soon as the permit is there.
if (function_exists('pcntl_async_signals')) {
    pcntl_async_signals(true);
    pcntl_signal(SIGUSR1, fn () => throw new LogicException('late'));
    posix_kill(getmypid(), SIGUSR1);
    try {
        $breaker->run(fn () => 1);
    } catch (LogicException) {
        // thrown
    }
}
exit($breaker->run(fn () => 0));
