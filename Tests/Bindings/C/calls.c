/* Calls: permits, outcomes, rejections, probes, tokens, and what can be answered without waiting. */
#include <unistd.h>

#include "check.h"

static int state_of(sb_breaker *breaker) {
  int state = -1;
  CHECK_CODE(SB_OK, sb_breaker_state(breaker, &state));
  return state;
}

static void failures_open_it(sb_store *store) {
  sb_breaker *breaker = open_breaker(store, "failures", "max-failures=3 open-for=1m");
  sb_permit permit = SB_PERMIT_INIT;
  sb_rejection rejection = SB_REJECTION_INIT;
  char *text;
  int64_t length;
  call(breaker, SB_SUCCESS);
  call(breaker, SB_FAILURE);
  call(breaker, SB_IGNORED);
  call(breaker, SB_FAILURE);
  CHECK(state_of(breaker) == SB_CLOSED);
  call(breaker, SB_FAILURE);
  CHECK(state_of(breaker) == SB_OPEN);
  CHECK_CODE(SB_REJECTED, sb_enter(breaker, &permit, NULL, 0));
  CHECK_AT_ONCE(SB_REJECTED, store, sb_enter(breaker, &permit, &rejection, SB_NOWAIT));
  CHECK(rejection.state == SB_OPEN && rejection.mode == SB_AUTOMATIC);
  CHECK(rejection.retry_after_ns > 0 && rejection.retry_after_ns <= 90 * INT64_C(1000000000));
  CHECK(rejection.reason_length == 0 && rejection.reason[0] == 0);
  CHECK_CODE(SB_OK, sb_rejection_text(breaker, &rejection, &text, &length));
  CHECK(length == (int64_t)strlen(text));
  CHECK(strncmp(text, "failures is rejecting calls: it is open: try again in ", 54) == 0);
  sb_free(text);
  CHECK_CODE(SB_OK, sb_reset(breaker, "repaired", SB_NUL));
  CHECK(state_of(breaker) == SB_CLOSED);
  call(breaker, SB_PERMANENT_FAILURE);
  CHECK(state_of(breaker) == SB_OPEN);
  sb_breaker_free(breaker);
}

static void a_failure_names_its_time(sb_store *store) {
  sb_breaker *breaker = open_breaker(store, "named", "max-failures=100");
  sb_permit permit = SB_PERMIT_INIT;
  sb_rejection rejection = SB_REJECTION_INIT;
  sb_details details = SB_DETAILS_INIT;
  details.error = "429 Too Many Requests\xff and more";
  details.open_for_ns = 600 * INT64_C(1000000000);
  CHECK_CODE(SB_OK, sb_enter(breaker, &permit, NULL, 0));
  CHECK_CODE(SB_OK, sb_leave(breaker, &permit, SB_FAILURE, &details, 0));
  CHECK_CODE(SB_REJECTED, sb_enter(breaker, &permit, &rejection, 0));
  CHECK(rejection.retry_after_ns > 500 * INT64_C(1000000000));
  CHECK(says(breaker, "429 Too Many Requests"));
  sb_breaker_free(breaker);
}

static void an_answer_of_http_is_judged(void) {
  static const char *const limits = "HTTP/2 429\r\nx-ratelimit-remaining-requests: 0\r\n"
                                    "X-RateLimit-Reset-Requests: 1m2.5s\r\n\r\n";
  const int64_t second = INT64_C(1000000000);
  sb_details details = SB_DETAILS_INIT;
  details.error = "kept";
  CHECK(sb_judge_http(429, "Retry-After: 12\r\n", SB_NUL, &details) == SB_HOLD);
  CHECK(details.hold_for_ns == 12 * second && details.open_for_ns == 0);
  CHECK(!strcmp(details.error, "kept"));
  CHECK(sb_judge_http(429, limits, SB_NUL, &details) == SB_HOLD);
  CHECK(details.hold_for_ns == 62 * second + second / 2);
  CHECK(sb_judge_http(429, NULL, 0, &details) == SB_HOLD && details.hold_for_ns == 0);
  CHECK(sb_judge_http(403, NULL, 0, NULL) == SB_SUCCESS);
  CHECK(sb_judge_http(403, "retry-after-ms:1500\n", SB_NUL, &details) == SB_HOLD);
  CHECK(details.hold_for_ns == second + second / 2);
  CHECK(sb_judge_http(503, "retry-after: 7 \nother: 1", SB_NUL, &details) == SB_FAILURE);
  CHECK(details.open_for_ns == 7 * second && details.hold_for_ns == 0);
  CHECK(sb_judge_http(503, "retry-after: 7 \n", 13, &details) == SB_FAILURE && details.open_for_ns == 0);
  CHECK(sb_judge_http(408, "\xff\xfe: \xff\n:\n\n", SB_NUL, NULL) == SB_FAILURE);
  CHECK(sb_judge_http(0, NULL, 0, NULL) == SB_FAILURE);
  CHECK(sb_judge_http(200, "Retry-After: 5\n", SB_NUL, &details) == SB_SUCCESS && details.open_for_ns == 0);
  CHECK(sb_judge_http(501, NULL, 0, NULL) == SB_SUCCESS && sb_judge_http(404, NULL, 0, NULL) == SB_SUCCESS);
  CHECK_CODE(SB_ERR_ARGUMENT, sb_judge_http(429, NULL, 5, &details));
  details.size = 1;
  CHECK_CODE(SB_ERR_SIZE, sb_judge_http(429, NULL, 0, &details));
}

static void a_hold_is_no_failure(sb_store *store) {
  sb_breaker *breaker = open_breaker(store, "held", "max-failures=1");
  sb_permit permit = SB_PERMIT_INIT;
  sb_rejection rejection = SB_REJECTION_INIT;
  sb_details details = SB_DETAILS_INIT;
  details.error = "HTTP 429";
  details.hold_for_ns = 600 * INT64_C(1000000000);
  CHECK_CODE(SB_OK, sb_enter(breaker, &permit, NULL, 0));
  CHECK_CODE(SB_OK, sb_leave(breaker, &permit, SB_HOLD, &details, 0));
  CHECK(state_of(breaker) == SB_CLOSED);
  CHECK_CODE(SB_REJECTED, sb_enter(breaker, &permit, &rejection, 0));
  CHECK(rejection.cause == SB_CAUSE_HELD && rejection.state == SB_CLOSED);
  CHECK(rejection.retry_after_ns > 500 * INT64_C(1000000000));
  CHECK(says(breaker, "HTTP 429"));
  CHECK_CODE(SB_OK, sb_hold_end(breaker, NULL, 0));
  CHECK_CODE(SB_OK, sb_hold_end(breaker, NULL, 0));
  call(breaker, SB_SUCCESS);
  CHECK_CODE(SB_ERR_ARGUMENT, sb_hold(breaker, 0, NULL, 0));
  CHECK_CODE(SB_OK, sb_hold(breaker, 60 * INT64_C(1000000000), "quota", 5));
  CHECK_CODE(SB_REJECTED, sb_enter(breaker, &permit, &rejection, 0));
  CHECK(rejection.cause == SB_CAUSE_HELD && !strcmp(rejection.reason, "quota"));
  CHECK_CODE(SB_OK, sb_reset(breaker, NULL, 0));
  call(breaker, SB_SUCCESS);
  sb_breaker_free(breaker);
}

static void slow_calls_open_it(sb_store *store) {
  sb_breaker *breaker =
      open_breaker(store, "slow", "slow-rate=50% slow-after=10s window=1m min-calls=2 max-failures=5");
  sb_permit permit = SB_PERMIT_INIT;
  sb_details details = SB_DETAILS_INIT;
  int index;
  details.elapsed_ns = 11 * INT64_C(1000000000);
  for (index = 0; index < 2; index++) {
    CHECK_CODE(SB_OK, sb_enter(breaker, &permit, NULL, 0));
    CHECK_CODE(SB_OK, sb_leave(breaker, &permit, SB_SUCCESS, &details, 0));
  }
  CHECK(state_of(breaker) == SB_OPEN);
  sb_breaker_free(breaker);
}

static void a_probe_closes_it(sb_store *store) {
  sb_breaker *breaker = open_breaker(
      store, "probe", "max-failures=1 open-for=1ms jitter=0% successes-to-close=2");
  sb_permit probe = SB_PERMIT_INIT, other = SB_PERMIT_INIT;
  sb_rejection rejection = SB_REJECTION_INIT;
  int code;
  call(breaker, SB_FAILURE);
  while ((code = sb_enter(breaker, &probe, NULL, 0)) == SB_REJECTED) {
  }
  CHECK(code == SB_OK && probe.kind == SB_PROBE);
  CHECK_CODE(SB_REJECTED, sb_enter(breaker, &other, &rejection, 0));
  CHECK(rejection.state == SB_HALF_OPEN);
  CHECK(says(breaker, "\"probe_successes\":0,\"probe_failures\":0,"));
  CHECK_CODE(SB_OK, sb_renew(breaker, &probe, 60 * INT64_C(1000000000)));
  CHECK_CODE(SB_WOULD_BLOCK, sb_leave(breaker, &probe, SB_SUCCESS, NULL, SB_NOWAIT));
  CHECK(probe.kind == SB_PROBE);
  CHECK_CODE(SB_OK, sb_leave(breaker, &probe, SB_SUCCESS, NULL, 0));
  CHECK(state_of(breaker) == SB_HALF_OPEN);
  CHECK(says(breaker, "\"probe_successes\":1,\"probe_failures\":0,"));
  call(breaker, SB_SUCCESS);
  CHECK(state_of(breaker) == SB_CLOSED);
  sb_breaker_free(breaker);
}

static void modes_override_it(sb_store *store) {
  sb_breaker *breaker = open_breaker(store, "forced", NULL);
  sb_permit permit = SB_PERMIT_INIT;
  sb_rejection rejection = SB_REJECTION_INIT;
  char reason[600];
  memset(reason, 'x', sizeof reason);
  CHECK_CODE(SB_OK, sb_force(breaker, SB_FORCED_OPEN, 0, "maintenance", SB_NUL));
  CHECK_CODE(SB_REJECTED, sb_enter(breaker, &permit, &rejection, 0));
  CHECK(rejection.mode == SB_FORCED_OPEN && rejection.retry_after_ns == SB_UNKNOWN);
  CHECK(strcmp(rejection.reason, "maintenance") == 0 && rejection.reason_length == 11);
  CHECK_CODE(SB_OK, sb_force(breaker, SB_FORCED_OPEN, 0, reason, sizeof reason));
  CHECK_CODE(SB_REJECTED, sb_enter(breaker, &permit, &rejection, 0));
  CHECK(rejection.reason_length == 247 && strlen(rejection.reason) == 247);
  CHECK_CODE(SB_OK, sb_trip(breaker, 0, NULL, 0));
  CHECK_CODE(SB_OK, sb_force(breaker, SB_FORCED_CLOSED, 60 * INT64_C(1000000000), NULL, 0));
  CHECK_CODE(SB_OK, sb_enter(breaker, &permit, &rejection, 0));
  CHECK_CODE(SB_OUTDATED, sb_leave(breaker, &permit, SB_SUCCESS, NULL, 0));
  CHECK_CODE(SB_OK, sb_force(breaker, SB_AUTOMATIC, 0, NULL, 0));
  CHECK_CODE(SB_REJECTED, sb_enter(breaker, &permit, &rejection, 0));
  sb_breaker_free(breaker);
}

static void tokens_report_for_others(sb_store *store) {
  sb_breaker *breaker = open_breaker(store, "token", "max-failures=1");
  sb_rejection rejection = SB_REJECTION_INIT;
  char *token;
  int64_t length;
  CHECK_CODE(SB_ERR_PROCESS, sb_token_acquire(breaker, 0x7fffffff, &token, &length, NULL));
  CHECK(token == NULL && length == 0);
  CHECK_CODE(SB_OK, sb_token_acquire(breaker, (int32_t)getpid(), &token, &length, &rejection));
  CHECK_CODE(SB_OK, sb_token_renew(store, token, length, 0));
  CHECK_CODE(SB_OK, sb_token_report(store, token, length, SB_FAILURE, NULL));
  CHECK_CODE(SB_OUTDATED, sb_token_report(store, token, SB_NUL, SB_SUCCESS, NULL));
  CHECK_CODE(SB_ERR_TOKEN, sb_token_report(store, token, length - 8, SB_SUCCESS, NULL));
  sb_free(token);
  CHECK_CODE(SB_REJECTED, sb_token_acquire(breaker, 0, &token, &length, &rejection));
  CHECK(token == NULL && rejection.state == SB_OPEN);
  sb_breaker_free(breaker);
}

static void nothing_waits_unasked(sb_store *store) {
  sb_breaker *breaker = open_breaker(store, "nowait", "max-failures=2");
  sb_permit permit = SB_PERMIT_INIT;
  /* The first call learns what the store holds, and does what is due each second. */
  call(breaker, SB_SUCCESS);
  for (;;) {
    int code = sb_enter(breaker, &permit, NULL, SB_NOWAIT);
    if (code == SB_OK) break;
    CHECK(code == SB_WOULD_BLOCK && permit.kind == 0);
    call(breaker, SB_SUCCESS);
  }
  CHECK_CODE(SB_WOULD_BLOCK, sb_leave(breaker, &permit, SB_FAILURE, NULL, SB_NOWAIT));
  CHECK_CODE(SB_OK, sb_leave(breaker, &permit, SB_FAILURE, NULL, 0));
  CHECK_CODE(SB_ERR_PERMIT_USED, sb_leave(breaker, &permit, SB_FAILURE, NULL, SB_NOWAIT));
  sb_breaker_free(breaker);
}

static void declaring_makes_no_file(const char *path) {
  char late[4096];
  sb_store *store;
  sb_breaker *declared;
  sb_permit permit = SB_PERMIT_INIT;
  CHECK(snprintf(late, sizeof late, "%s.late", path) < (int)sizeof late);
  CHECK_CODE(SB_OK, sb_open(late, SB_NUL, NULL, &store));
  declared = open_breaker(store, "declared", "max-failures=1");
  CHECK_CODE(SB_UNTRIED, sb_health(store));
  sb_breaker_free(declared);
  CHECK_CODE(SB_OK, sb_close(store));
  CHECK(access(late, F_OK) != 0);
  CHECK_CODE(SB_OK, sb_open(late, SB_NUL, NULL, &store));
  declared = open_breaker(store, "declared", "max-failures=1");
  CHECK(access(late, F_OK) != 0);
  call(declared, SB_FAILURE);
  CHECK(access(late, F_OK) == 0);
  CHECK_CODE(SB_REJECTED, sb_enter(declared, &permit, NULL, 0));
  sb_breaker_free(declared);
  CHECK_CODE(SB_OK, sb_close(store));
}

static void it_goes_on_without_the_store(void) {
  sb_store *store;
  sb_breaker *alone, *strict;
  sb_permit permit = SB_PERMIT_INIT;
  char *json;
  CHECK_CODE(SB_OK, sb_open("/proc/no/store/here", SB_NUL, NULL, &store));
  CHECK_CODE(SB_UNTRIED, sb_health(store));
  CHECK(SB_IS_STORE_ERROR(sb_connect(store, 0)));
  alone = open_breaker(store, "alone", "max-failures=2 open-for=1m");
  CHECK_CODE(SB_OK, sb_breaker_open(store, "strict", SB_NUL, NULL, 0, SB_FAIL, &strict));
  call(alone, SB_FAILURE);
  CHECK(SB_IS_STORE_ERROR(sb_health(store)) && strlen(sb_error_text()) > 0);
  CHECK(SB_IS_STORE_ERROR(sb_breaker_health(alone)));
  CHECK(SB_IS_STORE_ERROR(sb_enter(strict, &permit, NULL, 0)) && permit.kind == 0);
  CHECK(SB_IS_STORE_ERROR(sb_list(store, NULL, 0, &json, NULL)) && json == NULL);
  CHECK(SB_IS_STORE_ERROR(sb_reset(alone, NULL, 0)));
  /* The policy of a breaker could not be declared, so there is something to write. */
  CHECK(SB_IS_STORE_ERROR(sb_flush(store)));
  /* Between two attempts to use the store, a breaker of this process alone never waits. */
  for (;;) {
    int code = sb_enter(alone, &permit, NULL, SB_NOWAIT);
    if (code == SB_OK) code = sb_leave(alone, &permit, SB_FAILURE, NULL, SB_NOWAIT);
    if (code == SB_OK) break;
    CHECK(code == SB_WOULD_BLOCK);
    if (permit.kind != 0) {
      CHECK_CODE(SB_OK, sb_leave(alone, &permit, SB_FAILURE, NULL, 0));
      break;
    }
    CHECK_CODE(SB_OK, sb_enter(alone, &permit, NULL, 0));
    CHECK_CODE(SB_OK, sb_leave(alone, &permit, SB_IGNORED, NULL, 0));
  }
  CHECK_CODE(SB_REJECTED, sb_enter(alone, &permit, NULL, 0));
  sb_breaker_free(alone);
  sb_breaker_free(strict);
  CHECK_CODE(SB_OK, sb_close(store));
}

static void a_test_moves_the_time(const char *path) {
  char other[4096];
  int64_t now = INT64_C(1900000000000000000);
  sb_permit permit = SB_PERMIT_INIT;
  sb_rejection rejection = SB_REJECTION_INIT;
  sb_breaker *breaker;
  sb_store *store;
  snprintf(other, sizeof other, "%s.test", path);
  CHECK_CODE(SB_ERR_ARGUMENT, sb_test_open(other, SB_NUL, NULL, NULL, &store));
  CHECK(store == NULL);
  CHECK_CODE(SB_OK, sb_test_open(other, SB_NUL, NULL, &now, &store));
  breaker = open_breaker(store, "timed", "max-failures=1 open-for=30s jitter=0%");
  call(breaker, SB_FAILURE);
  now += 29 * INT64_C(1000000000);
  CHECK_CODE(SB_REJECTED, sb_enter(breaker, &permit, &rejection, 0));
  CHECK(rejection.retry_after_ns == INT64_C(1000000000));
  now += INT64_C(1000000000);
  call(breaker, SB_SUCCESS);
  CHECK(state_of(breaker) == SB_CLOSED);
  sb_breaker_free(breaker);
  CHECK_CODE(SB_OK, sb_close(store));
}

int main(int count, char **arguments) {
  sb_store *store = open_store(arguments);
  (void)count;
  CHECK_CODE(SB_ERR_MISSING, sb_connect(store, SB_EXISTING));
  CHECK_CODE(SB_OK, sb_connect(store, 0));
  CHECK_CODE(SB_OK, sb_health(store));
  CHECK_CODE(SB_OK, sb_flush(store));
  failures_open_it(store);
  a_failure_names_its_time(store);
  an_answer_of_http_is_judged();
  a_hold_is_no_failure(store);
  slow_calls_open_it(store);
  a_probe_closes_it(store);
  modes_override_it(store);
  tokens_report_for_others(store);
  nothing_waits_unasked(store);
  CHECK_CODE(SB_OK, sb_close(store));
  declaring_makes_no_file(arguments[1]);
  a_test_moves_the_time(arguments[1]);
  it_goes_on_without_the_store();
  return 0;
}
