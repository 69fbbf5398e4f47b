/* The common parts of the tests of the C library: checks that say what was wrong, a store, and calls. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sharedbreaker.h"

/* Ends the test unless a condition holds. */
#define CHECK(condition)                                                                     \
  do {                                                                                       \
    if (!(condition)) fail(__FILE__, __LINE__, #condition);                                  \
  } while (0)

/* Ends the test unless a call returns a code. */
#define CHECK_CODE(expected, call) check_code(__FILE__, __LINE__, #call, expected, call)

static void fail(const char *file, int line, const char *what) {
  fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, sb_error_text());
  exit(1);
}

static void check_code(const char *file, int line, const char *call, int expected, int code) {
  if (code == expected) return;
  fprintf(stderr, "%s:%d: %s returned %d (%s: %s), not %d\n", file, line, call, code,
          sb_code_text(code), sb_error_text(), expected);
  exit(1);
}

/* Opens the store that the first argument names. */
static inline sb_store *open_store(char **arguments) {
  sb_store *store = NULL;
  CHECK(arguments[1] != NULL);
  CHECK_CODE(SB_OK, sb_open(arguments[1], SB_NUL, NULL, &store));
  CHECK(store != NULL);
  return store;
}

static inline sb_breaker *open_breaker(sb_store *store, const char *name, const char *policy) {
  sb_breaker *breaker = NULL;
  CHECK_CODE(SB_OK, sb_breaker_open(store, name, SB_NUL, policy, SB_NUL, SB_STORE_DEFAULT, &breaker));
  CHECK(breaker != NULL);
  return breaker;
}

/* Makes one call. */
static inline void call(sb_breaker *breaker, int outcome) {
  sb_permit permit = SB_PERMIT_INIT;
  CHECK_CODE(SB_OK, sb_enter(breaker, &permit, NULL, 0));
  CHECK_CODE(SB_OK, sb_leave(breaker, &permit, outcome, NULL, 0));
  CHECK(permit.kind == 0);
}

/* Makes a call that may wait, so that the first call of this second need not be another one. */
static inline void do_round(sb_store *store) {
  sb_breaker *breaker = open_breaker(store, "rounds", NULL);
  call(breaker, SB_SUCCESS);
  sb_breaker_free(breaker);
}

/* Ends the test unless a call with SB_NOWAIT returns a code. The first call of each second would have to wait. */
#define CHECK_AT_ONCE(expected, store, call)                                                      \
  do {                                                                                            \
    int rounds, code = SB_WOULD_BLOCK;                                                            \
    for (rounds = 0; rounds < 1000 && (code = call) == SB_WOULD_BLOCK; rounds++) do_round(store); \
    check_code(__FILE__, __LINE__, #call, expected, code);                                        \
  } while (0)

/* Returns whether the document of a breaker contains a text. */
static inline int says(sb_breaker *breaker, const char *text) {
  char *json;
  int found;
  CHECK_CODE(SB_OK, sb_breaker_snapshot(breaker, &json, NULL));
  found = strstr(json, text) != NULL;
  sb_free(json);
  return found;
}

#endif
