// Package sharedbreaker has circuit breakers that all processes of the host share.
package sharedbreaker

/*
#cgo pkg-config: sharedbreaker
#include <sharedbreaker.h>
#include <stdlib.h>
#include <string.h>

// Each of these is one call from Go, so it stays in one thread, where the words of its error are.

static int words_of(int code, char **words) {
  if (code < 0) *words = strdup(sb_error_text());
  return code;
}

static int breaker_of(const char *path, const char *name, const char *policy, sb_breaker **breaker, char **words) {
  return words_of(sb_shared_breaker(path, SB_NUL, NULL, name, SB_NUL, policy, SB_NUL, breaker, NULL), words);
}

static int claiming_of(sb_breaker *breaker, int units, uint32_t flags, sb_breaker **claiming, char **words) {
  return words_of(sb_breaker_claiming(breaker, units, flags, claiming), words);
}

static int enter(sb_breaker *breaker, sb_permit *permit, int64_t *retry_after_ns, int *cause, char **words) {
  sb_rejection rejection = SB_REJECTION_INIT;
  int code = sb_enter(breaker, permit, &rejection, 0);
  if (code == SB_REJECTED) {
    *retry_after_ns = rejection.retry_after_ns;
    *cause = rejection.cause;
  }
  return words_of(code, words);
}

static int leave(sb_breaker *breaker, sb_permit *permit, int outcome, const char *error, int64_t hold_for_ns,
                 char **words) {
  sb_details details = SB_DETAILS_INIT;
  details.error = error;
  details.hold_for_ns = hold_for_ns;
  return words_of(sb_leave(breaker, permit, outcome, error || hold_for_ns ? &details : NULL, 0), words);
}

static int hold(sb_breaker *breaker, int64_t for_ns, const char *reason, char **words) {
  return words_of(sb_hold(breaker, for_ns, reason, SB_NUL), words);
}

static int end_hold(sb_breaker *breaker, const char *reason, char **words) {
  return words_of(sb_hold_end(breaker, reason, SB_NUL), words);
}
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unsafe"
)

// Rejected is the error of a call that was not made, because its breaker rejects calls.
type Rejected struct {
	Name string
	// RetryAfter says how long to wait; it is negative if only an operator knows.
	RetryAfter time.Duration
	// Busy says that the breaker permits calls, but has no room for another one.
	Busy bool
	// Held says that the resource works, and has asked to be left alone until then.
	Held bool
	// Ramping says that the resource has just come back, so that few calls go at once.
	Ramping bool
	// TooFast says that as many calls have begun in the last interval as the rate of the breaker permits.
	TooFast bool
}

func (r *Rejected) Error() string {
	if r.Busy {
		return r.Name + " has no room for another call"
	}
	if r.Held {
		return fmt.Sprintf("%s is held, because it has asked for that: try again in %v", r.Name, r.RetryAfter)
	}
	if r.Ramping {
		return fmt.Sprintf("%s lets few calls through at a time: try again in %v at the latest", r.Name, r.RetryAfter)
	}
	if r.TooFast {
		return fmt.Sprintf("%s has begun as many calls as its rate permits: try again in %v", r.Name, r.RetryAfter)
	}
	if r.RetryAfter < 0 {
		return r.Name + " is rejecting calls until an operator changes that"
	}
	return fmt.Sprintf("%s is rejecting calls: try again in %v", r.Name, r.RetryAfter)
}

// Hold is an error by which work says that the resource works and asks to be left alone, such as an answer 429. The
// calls of all processes are then held for that time, or for as long as the policy says if it is 0. It is no failure.
type Hold struct {
	For time.Duration
	Err error
}

func (h *Hold) Error() string {
	if h.Err == nil {
		return "the resource asks to be left alone"
	}
	return h.Err.Error()
}

func (h *Hold) Unwrap() error { return h.Err }

// Breaker is the breaker of a name. The process keeps it until it ends; there is nothing to free.
type Breaker struct {
	name   string
	handle *C.sb_breaker
}

// Get returns the breaker of a name in the usual store, and declares its policy, such as
// "max-failures=3 open-for=30s", unless that is "".
func Get(name, policy string) (*Breaker, error) { return GetIn("", name, policy) }

// GetIn returns the breaker of a name in the store at a path; "" is the usual one.
func GetIn(path, name, policy string) (*Breaker, error) {
	var texts [3]*C.char
	for i, text := range []string{path, name, policy} {
		if text == "" && i != 1 {
			continue // NULL is no text.
		}
		if strings.IndexByte(text, 0) >= 0 {
			return nil, fmt.Errorf("%q has a zero byte in it", text) // C would end there.
		}
		texts[i] = C.CString(text)
		defer C.free(unsafe.Pointer(texts[i]))
	}
	breaker := &Breaker{name: name}
	var words *C.char
	code := C.breaker_of(texts[0], texts[1], texts[2], &breaker.handle, &words)
	if err := failure(code, words); err != nil {
		return nil, err
	}
	return breaker, nil
}

// Claiming returns the same breaker for calls that take several units of its limit, or that wait in the
// background, behind all others.
func (b *Breaker) Claiming(units int, background bool) (*Breaker, error) {
	var flags C.uint32_t
	if background {
		flags = C.SB_BACKGROUND
	}
	claiming := &Breaker{name: b.name}
	var words *C.char
	code := C.claiming_of(b.handle, C.int(units), flags, &claiming.handle, &words)
	if err := failure(code, words); err != nil {
		return nil, err
	}
	return claiming, nil
}

// Do runs work if the breaker permits it, and reports how it went. A nil error is a success. An error is
// a failure, unless it is a Hold, or context.Canceled: then the caller has gone, which says nothing about the resource.
// A panic is a failure too, and goes on; runtime.Goexit counts as nothing.
func (b *Breaker) Do(work func() error) (err error) {
	var permit C.sb_permit
	permit.size = C.sizeof_sb_permit
	var retryAfter C.int64_t
	var cause C.int
	var words *C.char
	code := C.enter(b.handle, &permit, &retryAfter, &cause, &words)
	if code == C.SB_REJECTED {
		return &Rejected{b.name, time.Duration(retryAfter), cause == C.SB_CAUSE_BUSY, cause == C.SB_CAUSE_HELD,
			cause == C.SB_CAUSE_RAMPING, cause == C.SB_CAUSE_RATE}
	}
	if err := failure(code, words); err != nil {
		return err
	}
	hasReturned := false
	defer func() {
		if hasReturned {
			return
		}
		if cause := recover(); cause != nil {
			b.leave(&permit, C.SB_FAILURE, fmt.Sprint("panic: ", cause), 0)
			panic(cause)
		}
		b.leave(&permit, C.SB_IGNORED, "", 0) // runtime.Goexit
	}()
	err = work()
	var hold *Hold
	switch {
	case err == nil:
		b.leave(&permit, C.SB_SUCCESS, "", 0)
	case errors.As(err, &hold):
		b.leave(&permit, C.SB_HOLD, err.Error(), hold.For)
	case errors.Is(err, context.Canceled):
		b.leave(&permit, C.SB_IGNORED, "", 0)
	default:
		b.leave(&permit, C.SB_FAILURE, err.Error(), 0)
	}
	// After that, because an error may panic when it is asked for its words.
	hasReturned = true
	return err
}

// Call is Do for work that returns a value.
func Call[Value any](b *Breaker, work func() (Value, error)) (Value, error) {
	var value Value
	err := b.Do(func() (err error) {
		value, err = work()
		return err
	})
	return value, err
}

// Hold holds the calls of all processes for a time, as a Hold that work returns does. A hold that ends later stays.
func (b *Breaker) Hold(duration time.Duration, reason string) error {
	text := C.CString(reason)
	defer C.free(unsafe.Pointer(text))
	var words *C.char
	return failure(C.hold(b.handle, C.int64_t(duration), text, &words), words)
}

// EndHold ends a hold, so that all calls may go; without one, nothing changes.
func (b *Breaker) EndHold(reason string) error {
	text := C.CString(reason)
	defer C.free(unsafe.Pointer(text))
	var words *C.char
	return failure(C.end_hold(b.handle, text, &words), words)
}

// leave reports how a call went. An error of the store never takes the place of what the work
// returned: the library prints it, once, and goes on without the store.
func (b *Breaker) leave(permit *C.sb_permit, outcome C.int, text string, hold time.Duration) {
	var words, reason *C.char
	if text != "" {
		reason = C.CString(text)
		defer C.free(unsafe.Pointer(reason))
	}
	C.leave(b.handle, permit, outcome, reason, C.int64_t(hold), &words)
	C.free(unsafe.Pointer(words))
}

func failure(code C.int, words *C.char) error {
	if code >= 0 {
		return nil
	}
	defer C.free(unsafe.Pointer(words))
	return errors.New(C.GoString(words))
}
