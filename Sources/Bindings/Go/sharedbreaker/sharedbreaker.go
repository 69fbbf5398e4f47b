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

static int leave(sb_breaker *breaker, sb_permit *permit, int outcome, const char *error, char **words) {
  sb_details details = SB_DETAILS_INIT;
  details.error = error;
  return words_of(sb_leave(breaker, permit, outcome, error ? &details : NULL, 0), words);
}
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
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
}

func (r *Rejected) Error() string {
	if r.Busy {
		return r.Name + " has no room for another call"
	}
	if r.RetryAfter < 0 {
		return r.Name + " is rejecting calls until an operator changes that"
	}
	return fmt.Sprintf("%s is rejecting calls: try again in %v", r.Name, r.RetryAfter)
}

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
// a failure, unless it is context.Canceled: then the caller has gone, which says nothing about the resource.
// A panic is a failure too, and goes on; runtime.Goexit counts as nothing.
func (b *Breaker) Do(work func() error) (err error) {
	var permit C.sb_permit
	permit.size = C.sizeof_sb_permit
	var retryAfter C.int64_t
	var cause C.int
	var words *C.char
	code := C.enter(b.handle, &permit, &retryAfter, &cause, &words)
	if code == C.SB_REJECTED {
		return &Rejected{b.name, time.Duration(retryAfter), cause == C.SB_CAUSE_BUSY}
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
			b.leave(&permit, C.SB_FAILURE, fmt.Sprint("panic: ", cause))
			panic(cause)
		}
		b.leave(&permit, C.SB_IGNORED, "") // runtime.Goexit
	}()
	err = work()
	hasReturned = true
	switch {
	case err == nil:
		b.leave(&permit, C.SB_SUCCESS, "")
	case errors.Is(err, context.Canceled):
		b.leave(&permit, C.SB_IGNORED, "")
	default:
		b.leave(&permit, C.SB_FAILURE, err.Error())
	}
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

// leave reports how a call went. An error of the store never takes the place of what the work
// returned: the library prints it, once, and goes on without the store.
func (b *Breaker) leave(permit *C.sb_permit, outcome C.int, text string) {
	var words, reason *C.char
	if text != "" {
		reason = C.CString(text)
		defer C.free(unsafe.Pointer(reason))
	}
	C.leave(b.handle, permit, outcome, reason, &words)
	C.free(unsafe.Pointer(words))
}

func failure(code C.int, words *C.char) error {
	if code >= 0 {
		return nil
	}
	defer C.free(unsafe.Pointer(words))
	return errors.New(C.GoString(words))
}
