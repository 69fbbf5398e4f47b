/* Ending waits early: from a signal handler, from another thread, and by a function that is asked.
 *
 * The lock timeout is an hour, so a wait ends only if the test ends it. */
#include "process.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

static volatile sig_atomic_t is_over;

static void *word(void) { return (void *)&is_over; }

static void end_waits(int signal) {
  (void)signal;
  is_over = 1;
}

/* Lets a signal come in a moment, be it before the wait or in it. */
static void alarm_soon(void) {
  struct itimerval timer;
  memset(&timer, 0, sizeof timer);
  timer.it_value.tv_usec = 20000;
  CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

static sb_store *patient_store(const char *path) {
  sb_store *store;
  sb_options options = SB_OPTIONS_INIT;
  options.lock_timeout_ns = INT64_C(3600000000000);
  CHECK_CODE(SB_OK, sb_open(path, SB_NUL, &options, &store));
  CHECK_CODE(SB_OK, sb_connect(store, 0));
  return store;
}

static void a_signal_handler_ends_a_wait(const char *path) {
  sb_store *store = patient_store(path);
  sb_breaker *breaker = open_breaker(store, "signal", "max-failures=9");
  sb_permit permit = SB_PERMIT_INIT;
  holder other;
  CHECK_CODE(SB_OK, sb_enter(breaker, &permit, NULL, 0));
  other = hold(path);
  sb_interruptible(NULL, word());
  alarm_soon();
  CHECK_CODE(SB_INTERRUPTED, sb_leave(breaker, &permit, SB_FAILURE, NULL, 0));
  /* Nothing has changed, and it is still over. */
  CHECK(permit.kind == SB_NORMAL);
  CHECK_CODE(SB_OK, sb_health(store));
  CHECK_CODE(SB_INTERRUPTED, sb_leave(breaker, &permit, SB_FAILURE, NULL, 0));
  CHECK_CODE(SB_INTERRUPTED, sb_trip(breaker, 0, NULL, 0));
  CHECK(strstr(sb_error_text(), "interrupted") != NULL);
  let_go(other);
  is_over = 0;
  CHECK_CODE(SB_OK, sb_leave(breaker, &permit, SB_FAILURE, NULL, 0));
  CHECK(says(breaker, "\"failures\":1,"));
  sb_interruptible(NULL, NULL);
  sb_breaker_free(breaker);
  CHECK_CODE(SB_OK, sb_close(store));
}

static void a_word_that_is_set_too_early_does_no_harm(const char *path) {
  sb_store *store = patient_store(path);
  sb_breaker *breaker = open_breaker(store, "early", "max-failures=1 open-for=1ms jitter=0%");
  sb_permit permit = SB_PERMIT_INIT;
  sb_rejection rejection = SB_REJECTION_INIT;
  holder other;
  int code;
  sb_interruptible(NULL, word());
  is_over = 1;
  CHECK_CODE(SB_OK, sb_enter(breaker, &permit, NULL, 0));
  CHECK_CODE(SB_OK, sb_leave(breaker, &permit, SB_FAILURE, NULL, 0));
  /* A probe's slot has to be taken in the file. */
  other = hold(path);
  while ((code = sb_enter(breaker, &permit, &rejection, 0)) == SB_REJECTED) usleep(1000);
  CHECK(code == SB_INTERRUPTED && permit.kind == 0);
  let_go(other);
  is_over = 0;
  CHECK_CODE(SB_OK, sb_enter(breaker, &permit, NULL, 0));
  CHECK(permit.kind == SB_PROBE);
  CHECK_CODE(SB_OK, sb_leave(breaker, &permit, SB_SUCCESS, NULL, 0));
  sb_interruptible(NULL, NULL);
  sb_breaker_free(breaker);
  CHECK_CODE(SB_OK, sb_close(store));
}

static void wait_until_readable(sb_turn *turn) {
  struct pollfd ready = {-1, POLLIN, 0};
  ready.fd = sb_turn_descriptor(turn);
  CHECK(ready.fd >= 0 && poll(&ready, 1, 120000) == 1);
}

/* With room that it has got already, or without. */
static void a_turn_is_what_it_was(const char *path, int has_room) {
  sb_store *store = patient_store(path);
  sb_breaker *breaker = open_breaker(store, has_room ? "room" : "no-room",
                                     "max-concurrent=1 queue-timeout=1h open-for=1ms jitter=0%");
  sb_permit permit = SB_PERMIT_INIT, next = SB_PERMIT_INIT, probe = SB_PERMIT_INIT;
  sb_turn *turn;
  holder other;
  int code, i;
  CHECK_CODE(SB_OK, sb_enter(breaker, &permit, NULL, 0));
  CHECK_CODE(SB_WAITING, sb_turn_open(breaker, 0, &next, NULL, &turn, 0));
  if (has_room) {
    CHECK_CODE(SB_OK, sb_leave(breaker, &permit, SB_SUCCESS, NULL, 0));
    wait_until_readable(turn);
  }
  CHECK_CODE(SB_OK, sb_trip(breaker, 0, NULL, 0));
  wait_until_readable(turn);
  if (!has_room) CHECK(sb_leave(breaker, &permit, SB_SUCCESS, NULL, 0) >= 0);
  sb_interruptible(NULL, word());
  is_over = 1;
  other = hold(path);
  while ((code = sb_enter(breaker, &probe, NULL, 0)) == SB_REJECTED) usleep(1000);
  CHECK_CODE(SB_INTERRUPTED, code);
  for (i = 0; i < 2; i++) {
    CHECK_CODE(SB_INTERRUPTED, sb_turn_take(turn, &next, NULL, 0));
    CHECK(next.kind == 0 && says(breaker, has_room ? "\"in_use\":1" : "\"in_use\":0"));
    wait_until_readable(turn);
  }
  let_go(other);
  is_over = 0;
  CHECK_CODE(SB_OK, sb_turn_take(turn, &next, NULL, 0));
  CHECK(next.kind == SB_PROBE && says(breaker, "\"in_use\":1"));
  CHECK_CODE(SB_OK, sb_leave(breaker, &next, SB_SUCCESS, NULL, 0));
  CHECK(says(breaker, "\"in_use\":0"));
  sb_interruptible(NULL, NULL);
  sb_turn_free(turn);
  sb_breaker_free(breaker);
  CHECK_CODE(SB_OK, sb_close(store));
}

static int asked;

static int give_up_the_third_time(void *context) {
  CHECK(context == NULL);
  return ++asked >= 3;
}

static void a_function_is_asked(const char *path) {
  sb_store *store = patient_store(path);
  sb_breaker *breaker = open_breaker(store, "asked", NULL);
  holder other = hold(path);
  sb_interruptible(give_up_the_third_time, NULL);
  CHECK_CODE(SB_INTERRUPTED, sb_trip(breaker, 0, NULL, 0));
  CHECK(asked >= 3);
  let_go(other);
  CHECK_CODE(SB_OK, sb_trip(breaker, 0, NULL, 0));
  sb_interruptible(NULL, NULL);
  sb_breaker_free(breaker);
  CHECK_CODE(SB_OK, sb_close(store));
}

/* The result of an entry is only noted, so the hook need not wait to report it. */
static void a_hook_says_what_it_has_done_while_another_process_writes(const char *path) {
  sb_store *store = patient_store(path);
  sb_breaker *breaker = open_breaker(store, "hooked", NULL);
  sb_hook *hook;
  char *entry;
  holder other;
  CHECK_CODE(SB_OK, sb_hook_open(store, "hook", SB_NUL, "hooked", SB_NUL, 0, 0, &hook));
  CHECK_CODE(SB_NOTHING, sb_hook_take(hook, &entry, NULL, NULL));
  CHECK_CODE(SB_OK, sb_trip(breaker, 0, NULL, 0));
  CHECK_CODE(SB_OK, sb_hook_take(hook, &entry, NULL, NULL));
  sb_free(entry);
  other = hold(path);
  sb_interruptible(NULL, word());
  is_over = 1;
  CHECK_CODE(SB_OK, sb_hook_done(hook, SB_HANDLED));
  CHECK_CODE(SB_INTERRUPTED, sb_hook_take(hook, &entry, NULL, NULL));
  let_go(other);
  is_over = 0;
  CHECK_CODE(SB_NOTHING, sb_hook_take(hook, &entry, NULL, NULL));
  sb_interruptible(NULL, NULL);
  sb_hook_free(hook);
  sb_breaker_free(breaker);
  CHECK_CODE(SB_OK, sb_close(store));
}

static void *trip_patiently(void *breaker) {
  CHECK_CODE(SB_OK, sb_trip((sb_breaker *)breaker, 0, NULL, 0));
  return NULL;
}

static void *trip_until_told(void *breaker) {
  sb_interruptible(NULL, word());
  CHECK_CODE(SB_INTERRUPTED, sb_trip((sb_breaker *)breaker, 0, NULL, 0));
  return NULL;
}

/* It does not matter which of the threads has to write, and which one waits for it. */
static void another_thread_ends_the_wait_of_one_thread(const char *path) {
  sb_store *store = patient_store(path);
  sb_breaker *breaker = open_breaker(store, "threads", NULL);
  pthread_t patient, other[4];
  int i;
  holder its = hold(path);
  CHECK(pthread_create(&patient, NULL, trip_patiently, breaker) == 0);
  for (i = 0; i < 4; i++) CHECK(pthread_create(&other[i], NULL, trip_until_told, breaker) == 0);
  is_over = 1;
  for (i = 0; i < 4; i++) CHECK(pthread_join(other[i], NULL) == 0);
  let_go(its);
  is_over = 0;
  CHECK(pthread_join(patient, NULL) == 0);
  CHECK(says(breaker, "\"state\":\"open\""));
  sb_breaker_free(breaker);
  CHECK_CODE(SB_OK, sb_close(store));
}

int main(int count, char **arguments) {
  struct sigaction action;
  sb_store *store;
  CHECK(count > 1);
  /* The files are there before another process holds them. */
  store = open_store(arguments);
  CHECK_CODE(SB_OK, sb_connect(store, 0));
  CHECK_CODE(SB_OK, sb_close(store));
  memset(&action, 0, sizeof action);
  action.sa_handler = end_waits;
  CHECK(sigaction(SIGALRM, &action, NULL) == 0);
  a_signal_handler_ends_a_wait(arguments[1]);
  a_word_that_is_set_too_early_does_no_harm(arguments[1]);
  a_turn_is_what_it_was(arguments[1], 0);
  a_turn_is_what_it_was(arguments[1], 1);
  a_function_is_asked(arguments[1]);
  a_hook_says_what_it_has_done_while_another_process_writes(arguments[1]);
  another_thread_ends_the_wait_of_one_thread(arguments[1]);
  return 0;
}
