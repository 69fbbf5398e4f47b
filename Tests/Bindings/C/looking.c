/* Looking: documents, the history, news, and hooks. */
#include <poll.h>
#include <unistd.h>

#include "check.h"

static int is_readable(sb_news *news, int milliseconds) {
  struct pollfd ready;
  ready.fd = sb_news_descriptor(news);
  ready.events = POLLIN;
  ready.revents = 0;
  return poll(&ready, 1, milliseconds);
}

static void documents(sb_store *store) {
  char *json;
  int64_t length;
  CHECK_CODE(SB_OK, sb_list(store, NULL, 0, &json, &length));
  CHECK(strcmp(json, "{\"breakers\":[]}") == 0 && length == 15);
  sb_free(json);
  sb_breaker_free(open_breaker(store, "eu.a", ""));
  sb_breaker_free(open_breaker(store, "eu.b", ""));
  sb_breaker_free(open_breaker(store, "us.a", ""));
  CHECK_CODE(SB_OK, sb_list(store, "eu.", SB_NUL, &json, &length));
  CHECK(length == (int64_t)strlen(json) && json[length - 1] == '}');
  CHECK(strstr(json, "{\"breakers\":[{\"name\":\"eu.a\"") == json);
  CHECK(strstr(json, "\"name\":\"eu.b\"") && !strstr(json, "us.a"));
  sb_free(json);
  CHECK_CODE(SB_OK, sb_snapshot(store, "us.a", SB_NUL, &json, NULL));
  CHECK(strstr(json, "{\"name\":\"us.a\",\"state\":\"closed\",\"mode\":\"automatic\"") == json);
  sb_free(json);
  CHECK_CODE(SB_OK, sb_path(store, &json, &length));
  CHECK(length > 0 && json[0] == '/');
  sb_free(json);
}

static void history_and_news(sb_store *store) {
  sb_breaker *breaker = open_breaker(store, "changing", "");
  sb_news *news;
  char *json;
  int64_t length, last, next;
  CHECK_CODE(SB_OK, sb_history(store, NULL, 0, SB_NEWEST, 1, &json, &length, &last));
  CHECK(strcmp(json, "[]") == 0);
  sb_free(json);
  CHECK_CODE(SB_OK, sb_news_open(store, &news));
  CHECK_CODE(SB_OK, sb_trip(breaker, 0, "first", SB_NUL));
  CHECK_CODE(SB_OK, sb_reset(breaker, "second", SB_NUL));
  CHECK(is_readable(news, 60000) == 1);
  CHECK_CODE(SB_OK, sb_news_take(news));
  CHECK(is_readable(news, 0) == 0);
  CHECK_CODE(SB_OK, sb_history(store, "changing", SB_NUL, last, 1, &json, &length, &next));
  CHECK(strstr(json, "[{\"id\":") == json && strstr(json, "first") && !strstr(json, "second"));
  CHECK(next > last);
  sb_free(json);
  CHECK_CODE(SB_OK, sb_history(store, NULL, 0, next, 100, &json, &length, &next));
  CHECK(strstr(json, "second") && strstr(json, "\"kind\":\"reset\""));
  sb_free(json);
  CHECK_CODE(SB_OK, sb_history(store, NULL, 0, next, 100, &json, &length, &last));
  CHECK(strcmp(json, "[]") == 0 && last == next);
  sb_free(json);
  CHECK_CODE(SB_OK, sb_history(store, NULL, 0, next + 1000, 1, &json, &length, &last));
  CHECK(strcmp(json, "[]") != 0 && last < next);
  sb_free(json);
  sb_news_free(news);
  sb_breaker_free(breaker);
}

static void hooks(sb_store *store) {
  sb_breaker *breaker = open_breaker(store, "hooked", "");
  sb_hook *first, *second;
  char *entry;
  int64_t length, wait_ns;
  CHECK_CODE(SB_OK, sb_hook_open(store, "pager", SB_NUL, "hooked", SB_NUL, 0, 2, &first));
  CHECK_CODE(SB_OK, sb_hook_open(store, "pager", SB_NUL, "hooked", SB_NUL, 0, 2, &second));
  CHECK_CODE(SB_NOTHING, sb_hook_take(first, &entry, &length, &wait_ns));
  CHECK(entry == NULL && wait_ns == SB_UNKNOWN);
  CHECK_CODE(SB_OK, sb_trip(breaker, 0, "page me", SB_NUL));
  CHECK_CODE(SB_OK, sb_hook_take(first, &entry, &length, &wait_ns));
  CHECK(strstr(entry, "page me") && length == (int64_t)strlen(entry));
  sb_free(entry);
  CHECK_CODE(SB_ERR_HOOK, sb_hook_take(first, &entry, &length, &wait_ns));
  CHECK_CODE(SB_NOTHING, sb_hook_take(second, &entry, &length, &wait_ns));
  CHECK(wait_ns > 0);
  CHECK_CODE(SB_OK, sb_hook_done(first, SB_RELEASED));
  CHECK_CODE(SB_ERR_HOOK, sb_hook_done(first, SB_RELEASED));
  CHECK_CODE(SB_NOTHING, sb_hook_take(second, &entry, &length, &wait_ns));
  CHECK_CODE(SB_OK, sb_flush(store));
  CHECK_CODE(SB_OK, sb_hook_take(second, &entry, &length, &wait_ns));
  sb_free(entry);
  CHECK_CODE(SB_OK, sb_hook_done(second, SB_HANDLED));
  CHECK_CODE(SB_NOTHING, sb_hook_take(second, &entry, &length, &wait_ns));
  CHECK(wait_ns == SB_UNKNOWN);
  CHECK_CODE(SB_OK, sb_reset(breaker, NULL, 0));
  CHECK_CODE(SB_OK, sb_hook_take(first, &entry, &length, &wait_ns));
  sb_free(entry);
  /* Given back, so that the other one can have it at once. */
  sb_hook_free(first);
  CHECK_CODE(SB_OK, sb_hook_take(second, &entry, &length, &wait_ns));
  sb_free(entry);
  CHECK_CODE(SB_OK, sb_hook_done(second, SB_HANDLED));
  sb_hook_free(second);
  sb_breaker_free(breaker);
}

static void page(sb_store *store, int attempts, sb_hook **hook) {
  CHECK_CODE(SB_OK, sb_hook_open(store, "last", SB_NUL, "last", SB_NUL, 0, attempts, hook));
}

/* Takes the entry of a change that is made now. */
static void take_another(sb_breaker *breaker, sb_hook *hook) {
  char *entry;
  CHECK_CODE(SB_OK, sb_trip(breaker, 0, NULL, 0));
  CHECK_CODE(SB_OK, sb_hook_take(hook, &entry, NULL, NULL));
  sb_free(entry);
}

static void what_is_said_of_an_entry_is_written_before_a_hook_or_its_store_ends(const char *path) {
  sb_store *store = NULL, *other = NULL;
  sb_breaker *breaker;
  sb_hook *hook, *others;
  char *entry;
  int64_t wait_ns;
  CHECK_CODE(SB_OK, sb_open(path, SB_NUL, NULL, &store));
  CHECK_CODE(SB_OK, sb_open(path, SB_NUL, NULL, &other));
  breaker = open_breaker(store, "last", "");
  page(store, 1, &hook);
  page(other, 1, &others);
  CHECK_CODE(SB_NOTHING, sb_hook_take(hook, &entry, NULL, NULL));
  CHECK_CODE(SB_NOTHING, sb_hook_take(others, &entry, NULL, NULL));
  take_another(breaker, hook);
  CHECK_CODE(SB_OK, sb_hook_done(hook, SB_HANDLED));
  sb_hook_free(hook);
  CHECK_CODE(SB_NOTHING, sb_hook_take(others, &entry, NULL, &wait_ns));
  CHECK(wait_ns == SB_UNKNOWN);
  page(store, 1, &hook);
  CHECK_CODE(SB_OK, sb_reset(breaker, NULL, 0));
  CHECK_CODE(SB_OK, sb_hook_take(hook, &entry, NULL, NULL));
  sb_free(entry);
  /* The last attempt has failed, which the next call says. */
  CHECK_CODE(SB_OK, sb_hook_done(hook, SB_FAILED));
  CHECK_CODE(SB_SKIPPED, sb_hook_take(hook, &entry, NULL, NULL));
  CHECK_CODE(SB_NOTHING, sb_hook_take(hook, &entry, NULL, NULL));
  take_another(breaker, hook);
  CHECK_CODE(SB_OK, sb_hook_done(hook, SB_HANDLED));
  sb_breaker_free(breaker);
  CHECK_CODE(SB_OK, sb_close(store));
  CHECK_CODE(SB_NOTHING, sb_hook_take(others, &entry, NULL, &wait_ns));
  CHECK(wait_ns == SB_UNKNOWN);
  sb_hook_free(hook);
  sb_hook_free(others);
  CHECK_CODE(SB_OK, sb_close(other));
}

int main(int count, char **arguments) {
  sb_store *store = open_store(arguments);
  (void)count;
  documents(store);
  history_and_news(store);
  hooks(store);
  what_is_said_of_an_entry_is_written_before_a_hook_or_its_store_ends(arguments[1]);
  CHECK_CODE(SB_OK, sb_close(store));
  return 0;
}
