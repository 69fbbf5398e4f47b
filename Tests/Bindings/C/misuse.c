/* Misuse: each mistake gives its code, changes nothing, and never ends the process. */
#include "check.h"

static void stores(char **arguments) {
  sb_store *store;
  sb_options options = SB_OPTIONS_INIT;
  CHECK_CODE(SB_ERR_ARGUMENT, sb_open(arguments[1], SB_NUL, NULL, NULL));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_open(arguments[1], -2, NULL, &store));
  CHECK(store == NULL);
  CHECK_CODE(SB_ERR_ARGUMENT, sb_open(NULL, 7, NULL, &store));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_open("", 0, NULL, &store));
  CHECK_CODE(SB_ERR_TEXT, sb_open("/tmp/\xff", SB_NUL, NULL, &store));
  CHECK_CODE(SB_ERR_TEXT, sb_open("/tmp/a\0b", 8, NULL, &store));
  options.size = 7;
  CHECK_CODE(SB_ERR_SIZE, sb_open(arguments[1], SB_NUL, &options, &store));
  options.size = sizeof options;
  options.lock_timeout_ns = -1;
  CHECK_CODE(SB_ERR_ARGUMENT, sb_open(arguments[1], SB_NUL, &options, &store));
  options.lock_timeout_ns = INT64_MAX;
  CHECK_CODE(SB_ERR_ARGUMENT, sb_open(arguments[1], SB_NUL, &options, &store));
  options.lock_timeout_ns = 1000000;
  options.on_store_failure = 9;
  CHECK_CODE(SB_ERR_ARGUMENT, sb_open(arguments[1], SB_NUL, &options, &store));
  options.on_store_failure = SB_REJECT;
  options.mode = 070000;
  CHECK_CODE(SB_ERR_ARGUMENT, sb_open(arguments[1], SB_NUL, &options, &store));
  options.mode = 0600;
  options.maximum_breakers = -1;
  CHECK_CODE(SB_ERR_ARGUMENT, sb_open(arguments[1], SB_NUL, &options, &store));
  options.maximum_breakers = 10;
  options.flags = SB_NOWAIT;
  CHECK_CODE(SB_ERR_ARGUMENT, sb_open(arguments[1], SB_NUL, &options, &store));
  options.flags = SB_QUIET;
  options.program = "tester\xff";
  CHECK_CODE(SB_ERR_TEXT, sb_open(arguments[1], SB_NUL, &options, &store));
  options.program = "tester";
  CHECK_CODE(SB_OK, sb_open(arguments[1], SB_NUL, &options, &store));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_connect(store, 1u << 31));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_connect(store, SB_NOWAIT));
  CHECK_CODE(SB_OK, sb_close(store));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_connect(NULL, 0));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_health(NULL));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_flush(NULL));
  CHECK_CODE(SB_OK, sb_close(NULL));
}

static void breakers(sb_store *store) {
  sb_breaker *breaker;
  char name[300];
  int index;
  memset(name, 'n', sizeof name);
  CHECK_CODE(SB_ERR_ARGUMENT, sb_breaker_open(NULL, "a", 1, NULL, 0, 0, &breaker));
  CHECK(breaker == NULL);
  CHECK_CODE(SB_ERR_ARGUMENT, sb_breaker_open(store, "a", 1, NULL, 0, 0, NULL));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_breaker_open(store, NULL, 0, NULL, 0, 0, &breaker));
  CHECK_CODE(SB_ERR_NAME, sb_breaker_open(store, "", 0, NULL, 0, 0, &breaker));
  CHECK_CODE(SB_ERR_NAME, sb_breaker_open(store, name, 256, NULL, 0, 0, &breaker));
  CHECK_CODE(SB_ERR_NAME, sb_breaker_open(store, "a\0b", 3, NULL, 0, 0, &breaker));
  CHECK_CODE(SB_ERR_TEXT, sb_breaker_open(store, "\xc3", 1, NULL, 0, 0, &breaker));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_breaker_open(store, "a", -9, NULL, 0, 0, &breaker));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_breaker_open(store, "a", 1, NULL, 0, 5, &breaker));
  CHECK_CODE(SB_ERR_POLICY, sb_breaker_open(store, "a", 1, "max-failure=3", SB_NUL, 0, &breaker));
  CHECK(strstr(sb_error_text(), "max-failures") != NULL);
  CHECK_CODE(SB_ERR_POLICY, sb_breaker_open(store, "a", 1, "max-failures=0", SB_NUL, 0, &breaker));
  CHECK_CODE(SB_ERR_TEXT, sb_breaker_open(store, "a", 1, "\xff", 1, 0, &breaker));
  CHECK_CODE(SB_ERR_POLICY, sb_breaker_open(store, "a", 1, "\0", 1, 0, &breaker));
  for (index = -40; index < 40; index++) CHECK(strlen(sb_code_text(index)) > 3);
  sb_breaker_free(NULL);
  /* Neither is the other. */
  CHECK_CODE(SB_ERR_ARGUMENT, sb_breaker_health((sb_breaker *)(void *)store));
  breaker = open_breaker(store, "kind", NULL);
  CHECK_CODE(SB_ERR_ARGUMENT, sb_flush((sb_store *)(void *)breaker));
  sb_breaker_free(breaker);
}

static void permits(sb_store *store) {
  sb_breaker *first = open_breaker(store, "first", ""), *second = open_breaker(store, "second", "");
  sb_permit permit = SB_PERMIT_INIT, copy;
  sb_rejection rejection = SB_REJECTION_INIT;
  sb_details details = SB_DETAILS_INIT;
  int round;
  CHECK_CODE(SB_ERR_PERMIT_USED, sb_leave(first, &permit, SB_SUCCESS, NULL, 0));
  for (round = 0; round < 3; round++) {
    CHECK_CODE(SB_ERR_ARGUMENT, sb_enter(NULL, &permit, NULL, 0));
    CHECK_CODE(SB_ERR_ARGUMENT, sb_enter(first, NULL, NULL, 0));
    CHECK_CODE(SB_ERR_ARGUMENT, sb_enter(first, &permit, NULL, SB_EXISTING));
    permit.size = 12;
    CHECK_CODE(SB_ERR_SIZE, sb_enter(first, &permit, NULL, 0));
    permit.size = sizeof permit;
    /* A mistake that only an outage would show is found at the first call of a healthy breaker. */
    rejection.size = 0;
    CHECK_CODE(SB_ERR_SIZE, sb_enter(first, &permit, &rejection, 0));
    rejection.size = sizeof rejection;
    CHECK_CODE(SB_OK, sb_enter(first, &permit, &rejection, 0));
    CHECK_CODE(SB_ERR_PERMIT_LIVE, sb_enter(first, &permit, NULL, 0));
    CHECK_CODE(SB_ERR_PERMIT_OTHER, sb_leave(second, &permit, SB_SUCCESS, NULL, 0));
    CHECK_CODE(SB_ERR_PERMIT_OTHER, sb_leave(second, &permit, SB_FAILURE, NULL, 0));
    CHECK_CODE(SB_ERR_PERMIT_OTHER, sb_renew(second, &permit, 0));
    CHECK_CODE(SB_ERR_ARGUMENT, sb_leave(first, &permit, 5, NULL, 0));
    CHECK_CODE(SB_ERR_ARGUMENT, sb_leave(first, &permit, -1, NULL, 0));
    CHECK_CODE(SB_ERR_ARGUMENT, sb_leave(first, &permit, SB_SUCCESS, NULL, 8));
    CHECK_CODE(SB_ERR_ARGUMENT, sb_leave(NULL, &permit, SB_SUCCESS, NULL, 0));
    CHECK_CODE(SB_ERR_ARGUMENT, sb_leave(first, NULL, SB_SUCCESS, NULL, 0));
    details.size = 0;
    CHECK_CODE(SB_ERR_SIZE, sb_leave(first, &permit, SB_FAILURE, &details, 0));
    details.size = sizeof details;
    details.elapsed_ns = -5;
    CHECK_CODE(SB_ERR_ARGUMENT, sb_leave(first, &permit, SB_SUCCESS, &details, 0));
    details.elapsed_ns = 0;
    sb_error none = SB_ERROR_INIT;
    sb_permit unused = SB_PERMIT_INIT;
    CHECK_CODE(SB_ERR_ARGUMENT, sb_enter(SB_BREAKER(NULL, &none), &unused, NULL, 0));
    CHECK_CODE(SB_ERR_ARGUMENT, sb_leave(SB_BREAKER(NULL, &none), &unused, SB_SUCCESS, NULL, 0));
    details.error = "x";
    details.error_length = INT64_MIN;
    CHECK_CODE(SB_ERR_ARGUMENT, sb_leave(first, &permit, SB_FAILURE, &details, 0));
    details.error_length = SB_NUL;
    copy = permit;
    copy.size = 0;
    CHECK_CODE(SB_ERR_SIZE, sb_leave(first, &copy, SB_SUCCESS, NULL, 0));
    CHECK_CODE(SB_OK, sb_renew(first, &permit, 0));
    CHECK_CODE(SB_OK, sb_leave(first, &permit, SB_SUCCESS, NULL, 0));
    CHECK_CODE(SB_ERR_PERMIT_USED, sb_leave(first, &permit, SB_SUCCESS, NULL, 0));
    CHECK_CODE(SB_ERR_PERMIT_USED, sb_leave(first, &permit, SB_FAILURE, &details, 0));
    CHECK_CODE(SB_ERR_PERMIT_USED, sb_renew(first, &permit, 0));
  }
  CHECK_CODE(SB_OK, sb_trip(first, 0, NULL, 0));
  rejection.size = 3;
  CHECK_CODE(SB_ERR_SIZE, sb_enter(first, &permit, &rejection, 0));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_trip(first, -1, NULL, 0));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_trip(first, INT64_MAX, NULL, 0));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_force(first, 4, 0, NULL, 0));
  CHECK_CODE(SB_ERR_TEXT, sb_reset(first, "\xff\xfe", 2));
  /* Bytes that were never a permit. */
  memset(&permit, 0xff, sizeof permit);
  CHECK_CODE(SB_ERR_SIZE, sb_leave(first, &permit, SB_SUCCESS, NULL, 0));
  permit.size = sizeof permit;
  CHECK_CODE(SB_ERR_PERMIT_OTHER, sb_leave(first, &permit, SB_SUCCESS, NULL, 0));
  sb_breaker_free(first);
  sb_breaker_free(second);
}

static void other_texts(sb_store *store) {
  char *json = (char *)store;
  int64_t length = 9, last = 0;
  sb_hook *hook;
  sb_news *news;
  sb_rejection rejection = SB_REJECTION_INIT;
  sb_breaker *breaker = open_breaker(store, "texts", NULL);
  CHECK_CODE(SB_ERR_ARGUMENT, sb_snapshot(NULL, "a", 1, &json, &length));
  CHECK(json == NULL && length == 0);
  CHECK_CODE(SB_ERR_ARGUMENT, sb_snapshot(store, "a", 1, NULL, &length));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_snapshot(store, NULL, 0, &json, &length));
  CHECK_CODE(SB_NOT_FOUND, sb_snapshot(store, "nobody", SB_NUL, &json, &length));
  CHECK(json == NULL);
  CHECK_CODE(SB_ERR_ARGUMENT, sb_history(store, NULL, 0, -1, 5, &json, &length, &last));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_history(store, NULL, 0, 0, 0, &json, &length, &last));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_history(store, NULL, 0, 0, 5, &json, &length, NULL));
  CHECK_CODE(SB_ERR_TEXT, sb_list(store, "\xff", 1, &json, &length));
  CHECK_CODE(SB_ERR_TOKEN, sb_token_report(store, "cb1.x", SB_NUL, SB_SUCCESS, NULL));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_token_report(store, NULL, 0, SB_SUCCESS, NULL));
  rejection.state = 17;
  CHECK_CODE(SB_ERR_ARGUMENT, sb_rejection_text(breaker, &rejection, &json, &length));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_news_open(NULL, &news));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_news_take(NULL));
  CHECK(sb_news_descriptor(NULL) == -1);
  sb_news_free(NULL);
  CHECK_CODE(SB_ERR_ARGUMENT, sb_hook_open(store, "", 0, NULL, 0, 0, 0, &hook));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_hook_open(store, "h", 1, NULL, 0, -1, 0, &hook));
  CHECK_CODE(SB_ERR_NAME, sb_hook_open(store, "h", 1, "no\nname", SB_NUL, 0, 0, &hook));
  CHECK_CODE(SB_OK, sb_hook_open(store, "h", 1, NULL, 0, 0, 0, &hook));
  CHECK_CODE(SB_ERR_HOOK, sb_hook_done(hook, SB_HANDLED));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_hook_done(hook, 3));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_hook_take(NULL, &json, &length, NULL));
  sb_hook_free(hook);
  sb_hook_free(NULL);
  sb_free(NULL);
  sb_breaker_free(breaker);
}

static void a_closed_store(char **arguments) {
  sb_store *store = open_store(arguments);
  sb_breaker *breaker = open_breaker(store, "closed", "");
  sb_permit permit = SB_PERMIT_INIT, other = SB_PERMIT_INIT;
  sb_rejection rejection = SB_REJECTION_INIT;
  sb_news *news;
  sb_hook *hook;
  char *json;
  int64_t length;
  int state;
  CHECK_CODE(SB_OK, sb_news_open(store, &news));
  CHECK_CODE(SB_OK, sb_hook_open(store, "h", 1, NULL, 0, 0, 0, &hook));
  CHECK_CODE(SB_OK, sb_enter(breaker, &permit, NULL, 0));
  CHECK_CODE(SB_OK, sb_flush(store));
  CHECK_CODE(SB_OK, sb_close(store));
  CHECK_CODE(SB_ERR_CLOSED, sb_leave(breaker, &permit, SB_SUCCESS, NULL, 0));
  CHECK_CODE(SB_ERR_CLOSED, sb_leave(breaker, &permit, SB_FAILURE, NULL, 0));
  CHECK_CODE(SB_ERR_CLOSED, sb_enter(breaker, &other, NULL, 0));
  CHECK_CODE(SB_ERR_CLOSED, sb_enter(breaker, &other, NULL, SB_NOWAIT));
  CHECK_CODE(SB_ERR_CLOSED, sb_reset(breaker, NULL, 0));
  CHECK_CODE(SB_ERR_CLOSED, sb_breaker_state(breaker, &state));
  CHECK_CODE(SB_ERR_CLOSED, sb_breaker_health(breaker));
  CHECK_CODE(SB_ERR_CLOSED, sb_breaker_snapshot(breaker, &json, &length));
  CHECK_CODE(SB_ERR_CLOSED, sb_rejection_text(breaker, &rejection, &json, &length));
  CHECK_CODE(SB_ERR_CLOSED, sb_token_acquire(breaker, 0, &json, &length, NULL));
  CHECK_CODE(SB_ERR_CLOSED, sb_renew(breaker, &permit, 0));
  CHECK_CODE(SB_ERR_CLOSED, sb_news_take(news));
  CHECK_CODE(SB_ERR_CLOSED, sb_hook_take(hook, &json, &length, NULL));
  sb_news_free(news);
  sb_hook_free(hook);
  sb_breaker_free(breaker);
}

int main(int count, char **arguments) {
  sb_store *store;
  (void)count;
  CHECK(strcmp(sb_error_text(), "") == 0);
  CHECK(sb_abi_version() == SB_ABI_VERSION && strlen(sb_version()) > 4);
  CHECK(sb_sqlite_version()[0] == '3');
  stores(arguments);
  store = open_store(arguments);
  breakers(store);
  permits(store);
  other_texts(store);
  CHECK_CODE(SB_OK, sb_close(store));
  a_closed_store(arguments);
  return 0;
}
