// The waits of a thread: all of them end at one instant, and a function of the caller can end them
// earlier.
#pragma once
#include <stdint.h>

// The state of a wait.
enum { SB_WAIT_GOES_ON, SB_WAIT_ENDED, SB_WAIT_INTERRUPTED };

// The instant of CLOCK_MONOTONIC at which the waits of this thread end; INT64_MAX if there is none.
int64_t sb_wait_end(void);

// Lets the waits of this thread end at an instant. Returns the instant at which they ended before.
int64_t sb_set_wait_end(int64_t nanoseconds);

// Sleeps, but not beyond the end of the waits of this thread. Returns whether the caller may try
// again and sleep once more, or why not: then it has not slept.
int sb_pause(int64_t nanoseconds);

// The state of a wait of this thread that ends at an instant, or when all its waits end.
int sb_ask(int64_t nanoseconds);

// The instant until which a wait may sleep before it has to ask again.
int64_t sb_next_question(int64_t nanoseconds);

// sb_next_question with another longest sleep between two questions.
int64_t sb_next_question_within(int64_t nanoseconds, int64_t longest);

// Asks, from now on, before each sleep of this thread whether its waits are over. Without a function
// the context is an int, and they are over while that is not 0. Without either, nothing is asked.
void sb_ask_before_pauses(int (*are_over)(void *context), void *context);

// Whether the waits of this thread can be interrupted. Then it must not sleep for long at once.
int sb_is_interruptible(void);

// Whether a wait of this thread was interrupted since this was last forgotten.
int sb_was_interrupted(void);
void sb_forget_interruption(void);
