/* Processes and threads: no thread of the library's own, other processes, and forks at any moment. */
#include "process.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>

static int threads(void) {
  DIR *tasks = opendir("/proc/self/task");
  int count = 0;
  struct dirent *task;
  CHECK(tasks != NULL);
  while ((task = readdir(tasks)) != NULL) count += task->d_name[0] != '.';
  closedir(tasks);
  return count;
}

static void everything_once(sb_store *store) {
  sb_breaker *breaker = open_breaker(store, "everything", "failure-rate=50% window=1m min-calls=50");
  sb_permit permit = SB_PERMIT_INIT;
  sb_news *news;
  sb_hook *hook;
  char *text;
  int64_t last;
  int index;
  CHECK_CODE(SB_OK, sb_news_open(store, &news));
  CHECK_CODE(SB_OK, sb_hook_open(store, "once", SB_NUL, NULL, 0, 0, 0, &hook));
  for (index = 0; index < 20; index++) {
    CHECK_CODE(SB_OK, sb_enter(breaker, &permit, NULL, 0));
    CHECK_CODE(SB_OK, sb_leave(breaker, &permit, index % 4, NULL, 0));
    if (index % 4 == SB_PERMANENT_FAILURE) CHECK_CODE(SB_OK, sb_reset(breaker, NULL, 0));
  }
  CHECK_CODE(SB_OK, sb_list(store, NULL, 0, &text, NULL));
  sb_free(text);
  CHECK_CODE(SB_OK, sb_history(store, NULL, 0, 0, 10, &text, NULL, &last));
  sb_free(text);
  CHECK(sb_news_take(news) >= 0);
  if (sb_hook_take(hook, &text, NULL, NULL) == SB_OK) {
    sb_free(text);
    CHECK_CODE(SB_OK, sb_hook_done(hook, SB_HANDLED));
  }
  sb_hook_free(hook);
  sb_news_free(news);
  sb_breaker_free(breaker);
}

/* A child of a fork shares what was open, and owns none of its parent's permits. */
static void fork_shares(sb_store *store) {
  sb_breaker *breaker = open_breaker(store, "forked", "max-failures=2 open-for=1m");
  sb_permit parents = SB_PERMIT_INIT, permit = SB_PERMIT_INIT;
  sb_news *news;
  pid_t child;
  CHECK_CODE(SB_OK, sb_news_open(store, &news));
  CHECK_CODE(SB_OK, sb_enter(breaker, &parents, NULL, 0));
  CHECK_CODE(SB_OK, sb_leave(breaker, &parents, SB_FAILURE, NULL, 0));
  CHECK_CODE(SB_OK, sb_enter(breaker, &parents, NULL, 0));
  child = fork();
  if (child == 0) {
    CHECK_CODE(SB_REFUSED, sb_leave(breaker, &parents, SB_FAILURE, NULL, 0));
    CHECK(sb_news_descriptor(news) == -1);
    CHECK_CODE(SB_ERR_FORKED, sb_news_take(news));
    sb_news_free(news);
    CHECK_CODE(SB_OK, sb_enter(breaker, &permit, NULL, 0));
    CHECK_CODE(SB_OK, sb_leave(breaker, &permit, SB_FAILURE, NULL, 0));
    CHECK_CODE(SB_REJECTED, sb_enter(breaker, &permit, NULL, 0));
    _exit(0);
  }
  await(child);
  CHECK_CODE(SB_REJECTED, sb_enter(breaker, &permit, NULL, 0));
  CHECK_CODE(SB_OUTDATED, sb_leave(breaker, &parents, SB_SUCCESS, NULL, 0));
  sb_news_free(news);
  sb_breaker_free(breaker);
}

/* However many forks further down a process is, it does not own the permits of the first one. */
static void fork_far(sb_store *store, int depth) {
  sb_breaker *breaker = open_breaker(store, "far", "max-failures=2 open-for=1m");
  sb_permit permit = SB_PERMIT_INIT;
  pid_t child = 0;
  int generation;
  call(breaker, SB_SUCCESS);
  CHECK_CODE(SB_OK, sb_enter(breaker, &permit, NULL, 0));
  for (generation = 0; generation < depth && child == 0; generation++) child = fork();
  if (child == 0) {
    CHECK_CODE(SB_REFUSED, sb_leave(breaker, &permit, SB_SUCCESS, NULL, 0));
    _exit(0);
  }
  await(child);
  if (generation > 1) _exit(0);
  CHECK_CODE(SB_OK, sb_leave(breaker, &permit, SB_SUCCESS, NULL, 0));
  sb_breaker_free(breaker);
}

/* Both sides of a fork write what they have counted themselves. */
static void both_sides_flush(char **arguments) {
  char path[4096], counters[4200];
  sb_store *store, *other;
  sb_breaker *breaker;
  char *json;
  int index;
  pid_t child;
  snprintf(path, sizeof path, "%s.flushed", arguments[1]);
  snprintf(counters, sizeof counters, "%s-counters", path);
  /* In the place of the file of the counters, so that each process counts for itself. */
  CHECK(mkdir(counters, 0700) == 0);
  CHECK_CODE(SB_OK, sb_open(path, SB_NUL, NULL, &store));
  CHECK_CODE(SB_OK, sb_flush(store));
  breaker = open_breaker(store, "flushed", "");
  for (index = 0; index < 3; index++) call(breaker, SB_SUCCESS);
  child = fork();
  if (child == 0) {
    for (index = 0; index < 4; index++) call(breaker, SB_SUCCESS);
    CHECK_CODE(SB_OK, sb_flush(store));
    _exit(0);
  }
  await(child);
  CHECK_CODE(SB_OK, sb_flush(store));
  /* Another handle knows only what was written. */
  CHECK_CODE(SB_OK, sb_open(path, SB_NUL, NULL, &other));
  CHECK_CODE(SB_OK, sb_snapshot(other, "flushed", SB_NUL, &json, NULL));
  CHECK(strstr(json, "\"totals\":{\"successes\":7,") != NULL);
  sb_free(json);
  call(breaker, SB_SUCCESS);
  CHECK_CODE(SB_OK, sb_flush(store));
  CHECK_CODE(SB_OK, sb_close(other));
  sb_breaker_free(breaker);
  CHECK_CODE(SB_OK, sb_close(store));
}

/* A process that shares nothing with this one but the path. */
static void another_process(sb_store *store, char **arguments) {
  sb_breaker *breaker = open_breaker(store, "another", "max-failures=1 open-for=1m");
  sb_permit permit = SB_PERMIT_INIT;
  pid_t child;
  CHECK_CODE(SB_OK, sb_enter(breaker, &permit, NULL, 0));
  CHECK_CODE(SB_OK, sb_leave(breaker, &permit, SB_SUCCESS, NULL, 0));
  child = fork();
  if (child == 0) {
    execl(arguments[0], arguments[0], arguments[1], "fail", (char *)NULL);
    _exit(9);
  }
  await(child);
  CHECK_CODE(SB_REJECTED, sb_enter(breaker, &permit, NULL, 0));
  sb_breaker_free(breaker);
}

static void fail_once(sb_store *store) {
  sb_breaker *breaker = open_breaker(store, "another", NULL);
  sb_permit permit = SB_PERMIT_INIT;
  CHECK_CODE(SB_OK, sb_enter(breaker, &permit, NULL, 0));
  CHECK_CODE(SB_OK, sb_leave(breaker, &permit, SB_FAILURE, NULL, 0));
  sb_breaker_free(breaker);
}

/* Makes a call inside of a call. Of all that do this at the same time, each has room. */
static void call_inside(sb_breaker *gpu) {
  sb_permit outer = SB_PERMIT_INIT;
  CHECK_CODE(SB_OK, sb_enter(gpu, &outer, NULL, SB_SURROUND));
  call(gpu, SB_SUCCESS);
  CHECK_CODE(SB_OK, sb_leave(gpu, &outer, SB_SUCCESS, NULL, 0));
}

enum { BUSY_THREADS = 3 };
static int is_over;

/* Does a bit of everything until the test is over. */
static void *keep_busy(void *store) {
  sb_breaker *breaker = open_breaker((sb_store *)store, "busy", "max-failures=1000000");
  sb_breaker *gpu = open_breaker((sb_store *)store, "gpu", "max-concurrent=4"), *refused;
  sb_permit permit = SB_PERMIT_INIT;
  char *json;
  int round = 0;
  while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) {
    int code = sb_enter(breaker, &permit, NULL, 0);
    if (code == SB_OK) code = sb_leave(breaker, &permit, ++round % 8 ? SB_SUCCESS : SB_FAILURE, NULL, 0);
    CHECK(code >= 0);
    call_inside(gpu);
    if (round % 16 == 0) {
      CHECK_CODE(SB_OK, sb_breaker_snapshot(breaker, &json, NULL));
      sb_free(json);
    }
    CHECK_CODE(SB_ERR_POLICY, sb_breaker_open((sb_store *)store, "x", 1, "y", 1, 0, &refused));
    CHECK(strstr(sb_error_text(), "y") != NULL);
  }
  sb_breaker_free(gpu);
  sb_breaker_free(breaker);
  return NULL;
}

/* Whatever the other threads are at, both sides of a fork go on. */
static void fork_beside_threads(sb_store *store, int rounds) {
  sb_breaker *gpu = open_breaker(store, "gpu", "max-concurrent=4");
  pthread_t busy[BUSY_THREADS];
  int index;
  for (index = 0; index < BUSY_THREADS; index++) CHECK(pthread_create(&busy[index], NULL, keep_busy, store) == 0);
  for (index = 0; index < rounds; index++) {
    pid_t child = fork();
    if (child == 0) {
      /* A child that hangs ends by this. */
      alarm(60);
      everything_once(store);
      for (index = 0; index < 20; index++) call_inside(gpu);
      _exit(0);
    }
    CHECK(child > 0);
    await(child);
  }
  __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
  for (index = 0; index < BUSY_THREADS; index++) CHECK(pthread_join(busy[index], NULL) == 0);
  CHECK(says(gpu, "\"in_use\":0"));
  sb_breaker_free(gpu);
}

/* How many calls the threads of a test have made. */
static int calls_made;

/* Calls in each way until the store is closed; then every call says so. */
static void *call_until_closed(void *given) {
  sb_breaker *breaker = (sb_breaker *)given;
  sb_permit permit = SB_PERMIT_INIT;
  char *json;
  int round, code = SB_OK;
  for (round = 0; code != SB_ERR_CLOSED; round++) {
    CHECK(code >= 0);
    __atomic_add_fetch(&calls_made, 1, __ATOMIC_RELAXED);
    if (permit.kind == 0) {
      code = sb_enter(breaker, &permit, NULL, round % 2 ? SB_NOWAIT : 0);
    } else {
      code = sb_leave(breaker, &permit, round % 3 ? SB_FAILURE : SB_SUCCESS, NULL, 0);
    }
    if (code != SB_ERR_CLOSED && round % 8 == 0) {
      code = sb_breaker_snapshot(breaker, &json, NULL);
      sb_free(json);
    }
  }
  CHECK_CODE(SB_ERR_CLOSED, sb_enter(breaker, &permit, NULL, 0));
  CHECK_CODE(SB_ERR_CLOSED, sb_enter(breaker, &permit, NULL, SB_NOWAIT));
  CHECK_CODE(SB_ERR_CLOSED, sb_breaker_snapshot(breaker, &json, NULL));
  return NULL;
}

/* Whether this process has a file open whose path begins with a text. */
static int has_open(const char *path) {
  DIR *descriptors = opendir("/proc/self/fd");
  struct dirent *entry;
  char link[64], target[4096];
  int found = 0;
  CHECK(descriptors != NULL);
  while ((entry = readdir(descriptors)) != NULL) {
    ssize_t length;
    snprintf(link, sizeof link, "/proc/self/fd/%.20s", entry->d_name);
    length = readlink(link, target, sizeof target);
    found |= length >= (ssize_t)strlen(path) && strncmp(target, path, strlen(path)) == 0;
  }
  closedir(descriptors);
  return found;
}

/* Whatever the other threads are at, a store that was closed stays closed. */
static void close_beside_threads(char **arguments, int rounds) {
  char path[4096], resolved[4096];
  int round, index;
  snprintf(path, sizeof path, "%s.closing", arguments[1]);
  for (round = 0; round < rounds; round++) {
    sb_store *store;
    sb_breaker *breakers[3];
    pthread_t threads[3];
    int before = __atomic_load_n(&calls_made, __ATOMIC_RELAXED);
    CHECK_CODE(SB_OK, sb_open(path, SB_NUL, NULL, &store));
    CHECK_CODE(SB_OK, sb_connect(store, 0));
    CHECK(realpath(path, resolved) != NULL && has_open(resolved));
    for (index = 0; index < 3; index++) {
      breakers[index] = round % 2 ? open_breaker(store, "closing", "max-failures=1000000")
                                  : open_breaker(store, "limited", "max-failures=1000000 max-concurrent=3");
      CHECK(pthread_create(&threads[index], NULL, call_until_closed, breakers[index]) == 0);
    }
    while (__atomic_load_n(&calls_made, __ATOMIC_RELAXED) < before + 20 + round) sched_yield();
    CHECK_CODE(SB_OK, sb_close(store));
    CHECK(!has_open(resolved));
    for (index = 0; index < 3; index++) CHECK(pthread_join(threads[index], NULL) == 0);
    CHECK(!has_open(resolved));
    for (index = 0; index < 3; index++) sb_breaker_free(breakers[index]);
    CHECK(!has_open(resolved));
  }
}

int main(int count, char **arguments) {
  int before = threads();
  sb_store *store = open_store(arguments);
  if (count > 2 && strcmp(arguments[2], "fail") == 0) {
    fail_once(store);
    CHECK_CODE(SB_OK, sb_close(store));
    return 0;
  }
  everything_once(store);
  CHECK(threads() == before);
  fork_shares(store);
  fork_far(store, 64);
  fork_far(store, 128);
  both_sides_flush(arguments);
  another_process(store, arguments);
  CHECK(threads() == before);
  fork_beside_threads(store, count > 2 ? atoi(arguments[2]) : 20);
  close_beside_threads(arguments, count > 2 ? atoi(arguments[2]) : 20);
  CHECK(threads() == before);
  CHECK_CODE(SB_OK, sb_close(store));
  return 0;
}
