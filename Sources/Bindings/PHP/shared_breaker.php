<?php
declare(strict_types=1);

/** A breaker that all processes of the host share. */
final class SharedBreaker
{
    /** Below /usr/local if scripts/install has installed the library. */
    private const HEADER = '/usr/share/sharedbreaker/ffi-1.h';

    private static ?FFI $c = null;

    /** The calls of this request that are under way. */
    private static array $calls = [];

    private function __construct(private readonly FFI\CData $breaker)
    {
    }

    /** The breaker of a name; this process opens its store once, for all requests. */
    public static function get(string $name, ?string $policy = null, ?string $path = null): self
    {
        $c = self::c();
        $breaker = $c->new('sb_breaker *');
        self::check($c->sb_shared_breaker(
            $path, strlen($path ?? ''), null, $name, strlen($name), $policy, strlen($policy ?? ''),
            FFI::addr($breaker), null));
        return new self($breaker);
    }

    /** This breaker, for calls that take several units of its limit, or that wait behind all others. */
    public function claiming(int $units, bool $background = false): self
    {
        $c = self::c();
        $claiming = $c->new('sb_breaker *');
        $flags = $background ? $c->SB_BACKGROUND : 0;
        self::check($c->sb_breaker_claiming($this->breaker, $units, $flags, FFI::addr($claiming)));
        return new self($claiming);
    }

    /** Holds the calls of all processes for some seconds, as a BreakerHold that a function throws does. */
    public function hold(float $seconds, string $reason = ''): void
    {
        self::check(self::c()->sb_hold($this->breaker, (int) round($seconds * 1e9), $reason, strlen($reason)));
    }

    /** Ends a hold, so that all calls may go; without one, nothing changes. */
    public function endHold(string $reason = ''): void
    {
        self::check(self::c()->sb_hold_end($this->breaker, $reason, strlen($reason)));
    }

    /** Runs a function if the breaker permits it. An exception of the function is a failure, but not a BreakerHold. */
    public function run(callable $work): mixed
    {
        $c = self::c();
        $permit = $c->new('sb_permit');
        $permit->size = FFI::sizeof($permit);
        $rejection = $c->new('sb_rejection');
        $rejection->size = FFI::sizeof($rejection);
        // From before the first moment at which the handler of a signal may throw.
        $call = spl_object_id($permit);
        self::$calls[$call] = [$this, $permit];
        try {
            // Calls of the function are inside of this call, and need no room of their own under a limit.
            $code = $c->sb_enter($this->breaker, FFI::addr($permit), FFI::addr($rejection), $c->SB_SURROUND);
            if ($code === $c->SB_REJECTED) {
                throw new BreakerRejected(
                    $rejection->retry_after_ns, $rejection->cause === $c->SB_CAUSE_BUSY,
                    $rejection->cause === $c->SB_CAUSE_HELD, $rejection->cause === $c->SB_CAUSE_RAMPING,
                    $rejection->cause === $c->SB_CAUSE_RATE);
            }
            self::check($code);
            $hasBegun = true;
            $result = $work();
            $this->leave($permit, $c->SB_SUCCESS);
            return $result;
        } catch (BreakerHold $hold) {
            $this->leave($permit, $c->SB_HOLD, $hold->getMessage(), $hold->seconds);
            throw $hold;
        } catch (Throwable $error) {
            $outcome = isset($hasBegun) ? $c->SB_FAILURE : $c->SB_IGNORED;
            $this->leave($permit, $outcome, $error::class . ': ' . $error->getMessage());
            throw $error;
        } finally {
            unset(self::$calls[$call]);
        }
    }

    private function leave(FFI\CData $permit, int $outcome, string $text = '', float $holdFor = 0): void
    {
        if ($permit->kind === 0) { // there is none, or it was used
            return;
        }
        $c = self::c();
        $details = $c->new('sb_details');
        $details->size = FFI::sizeof($details);
        $details->hold_for_ns = (int) round(min(max($holdFor, 0), 31_536_000) * 1e9);
        if ($text !== '') {
            $bytes = $c->new('char[' . strlen($text) . ']');
            FFI::memcpy($bytes, $text, strlen($text));
            $details->error = $c->cast('char *', FFI::addr($bytes));
            $details->error_length = strlen($text);
        }
        self::check($c->sb_leave($this->breaker, FFI::addr($permit), $outcome, FFI::addr($details), 0));
    }

    /** Ends the calls that a fatal error has ended, such as a time limit: those failed. exit() says nothing. */
    private static function leaveAll(): void
    {
        $error = error_get_last();
        $isFatal = $error !== null && ($error['type'] & (E_ERROR | E_CORE_ERROR | E_COMPILE_ERROR)) !== 0;
        foreach (self::$calls as [$breaker, $permit]) {
            if ($isFatal) {
                $breaker->leave($permit, self::c()->SB_FAILURE, $error['message']);
            } else {
                $breaker->leave($permit, self::c()->SB_IGNORED);
            }
        }
        self::$calls = [];
    }

    /** The library: as it was preloaded, or else loaded now, which only the command line may do. */
    private static function c(): FFI
    {
        if (self::$c === null) {
            try {
                self::$c = FFI::scope('sharedbreaker');
            } catch (FFI\Exception) {
                self::$c = FFI::load(self::HEADER);
            }
            register_shutdown_function(self::leaveAll(...));
        }
        return self::$c;
    }

    private static function check(int $code): void
    {
        if ($code < 0) {
            throw new RuntimeException(self::c()->sb_error_text());
        }
    }
}

final class BreakerRejected extends RuntimeException
{
    /**
     * With $isBusy, the breaker permits calls, but has no room for another one. With $isHeld, the resource works, and
     * has asked to be left alone until then. With $isRamping, it has just come back, so that few calls go at once. With
     * $isTooFast, as many calls have begun in the last interval as the rate of the breaker permits.
     */
    public function __construct(
        public readonly int $retryAfterNanoseconds,
        public readonly bool $isBusy = false,
        public readonly bool $isHeld = false,
        public readonly bool $isRamping = false,
        public readonly bool $isTooFast = false,
    ) {
        parent::__construct(match (true) {
            $isBusy => 'there is no room for another call',
            $isHeld => 'the resource has asked to be left alone',
            $isTooFast => 'as many calls have begun as the rate permits',
            $isRamping => 'the breaker lets few calls through at a time after a pause',
            default => 'the breaker rejects calls',
        });
    }
}

/**
 * Throw it in a function to say that the resource works and asks to be left alone, such as by an answer 429. The calls of
 * all processes are then held for that time, or for as long as the policy says. It is no failure.
 */
final class BreakerHold extends RuntimeException
{
    public function __construct(
        public readonly float $seconds = 0,
        string $message = 'the resource asks to be left alone',
        ?Throwable $previous = null,
    ) {
        parent::__construct($message, 0, $previous);
    }
}
