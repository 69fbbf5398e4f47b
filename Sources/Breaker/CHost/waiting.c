#define _GNU_SOURCE
#include "waiting.h"

#include <time.h>

static __thread struct {
  // 0 for none, so that every thread begins without one.
  int64_t end;
  int (*are_over)(void *context);
  void *context;
  int was_interrupted;
} waits;

// The longest sleep between two questions.
enum { interruptible_for = 2000000 };

int64_t sb_wait_end(void) { return waits.end ? waits.end : INT64_MAX; }

int64_t sb_set_wait_end(int64_t nanoseconds) {
  int64_t before = sb_wait_end();
  waits.end = nanoseconds == INT64_MAX ? 0 : nanoseconds;
  return before;
}

void sb_ask_before_pauses(int (*are_over)(void *context), void *context) {
  waits.are_over = are_over;
  waits.context = context;
}

int sb_is_interruptible(void) { return waits.are_over || waits.context; }

int sb_was_interrupted(void) { return waits.was_interrupted; }

void sb_forget_interruption(void) { waits.was_interrupted = 0; }

static int are_over(void) {
  if (waits.are_over) return waits.are_over(waits.context);
  return waits.context && __atomic_load_n((int *)waits.context, __ATOMIC_ACQUIRE);
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int sb_ask(int64_t nanoseconds) {
  if (are_over()) {
    waits.was_interrupted = 1;
    return SB_WAIT_INTERRUPTED;
  }
  int64_t end = sb_wait_end();
  return now() < (nanoseconds < end ? nanoseconds : end) ? SB_WAIT_GOES_ON : SB_WAIT_ENDED;
}

int64_t sb_next_question(int64_t nanoseconds) {
  return sb_next_question_within(nanoseconds, interruptible_for);
}

int64_t sb_next_question_within(int64_t nanoseconds, int64_t longest) {
  int64_t end = sb_wait_end();
  int64_t next = nanoseconds < end ? nanoseconds : end;
  int64_t soon = sb_is_interruptible() ? now() + longest : next;
  return next < soon ? next : soon;
}

int sb_pause(int64_t nanoseconds) {
  for (int64_t left = nanoseconds; left > 0;) {
    int answer = sb_ask(INT64_MAX);
    if (answer == SB_WAIT_INTERRUPTED || (answer == SB_WAIT_ENDED && left == nanoseconds))
      return answer;
    int64_t most = sb_wait_end() - now();
    if (most <= 0) return SB_WAIT_GOES_ON;
    int64_t part = left < most ? left : most;
    if (part > interruptible_for && sb_is_interruptible()) part = interruptible_for;
    struct timespec time = {part / 1000000000, part % 1000000000};
    nanosleep(&time, 0);
    left -= part;
  }
  return SB_WAIT_GOES_ON;
}
