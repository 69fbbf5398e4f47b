/* Tests what other languages need of C: error texts in the caller's own struct, and stores and breakers that
 * a process opens once. */
#include "process.h"

#include <dirent.h>
#include <pthread.h>

static void each_call_keeps_its_words(char **arguments) {
  sb_store *store = open_store(arguments);
  sb_breaker *breaker = open_breaker(store, "words", ""), *refused;
  sb_permit permit = SB_PERMIT_INIT;
  sb_error error = SB_ERROR_INIT, other = SB_ERROR_INIT, outer = SB_ERROR_INIT;
  sb_news *news;
  sb_hook *hook;
  char *json;
  int state;
  /* A call that succeeds leaves the error as it is. */
  CHECK_CODE(SB_OK, sb_enter(SB_BREAKER(breaker, &error), &permit, NULL, 0));
  CHECK(error.code == 0 && error.text_length == 0 && error.text[0] == 0);
  CHECK_CODE(SB_ERR_PERMIT_LIVE, sb_enter(SB_BREAKER(breaker, &error), &permit, NULL, 0));
  CHECK(error.code == SB_ERR_PERMIT_LIVE && strstr(error.text, "sb_leave()") != NULL);
  CHECK(error.text_length == (int64_t)strlen(error.text));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_leave(SB_BREAKER(breaker, &other), &permit, 9, NULL, 0));
  CHECK(other.code == SB_ERR_ARGUMENT && strstr(other.text, "sb_outcome") != NULL);
  CHECK(error.code == SB_ERR_PERMIT_LIVE);
  CHECK_CODE(SB_OK, sb_leave(SB_BREAKER(breaker, &error), &permit, SB_FAILURE, NULL, 0));
  CHECK(error.code == SB_ERR_PERMIT_LIVE);
  /* The calls of all kinds of handles do so. */
  CHECK_CODE(SB_ERR_POLICY, sb_breaker_open(SB_STORE(store, &error), "a", 1, "max-failure=3", SB_NUL, 0,
                                            &refused));
  CHECK(error.code == SB_ERR_POLICY && strstr(error.text, "max-failures") != NULL);
  CHECK_CODE(SB_ERR_TEXT, sb_reset(SB_BREAKER(breaker, &error), "\xff", 1));
  CHECK(error.code == SB_ERR_TEXT && strstr(error.text, "UTF-8") != NULL);
  CHECK_CODE(SB_OK, sb_breaker_state(SB_BREAKER(breaker, &error), &state));
  CHECK(state == SB_CLOSED && error.code == SB_ERR_TEXT);
  CHECK_CODE(SB_ERR_ARGUMENT, sb_snapshot(SB_STORE(store, &error), NULL, 0, &json, NULL));
  CHECK(error.code == SB_ERR_ARGUMENT);
  CHECK_CODE(SB_OK, sb_news_open(SB_STORE(store, &error), &news));
  CHECK(sb_news_descriptor(SB_NEWS(news, &error)) >= 0);
  CHECK_CODE(SB_OK, sb_hook_open(SB_STORE(store, &error), "h", 1, NULL, 0, 0, 0, &hook));
  CHECK_CODE(SB_ERR_HOOK, sb_hook_done(SB_HOOK(hook, &error), SB_HANDLED));
  CHECK(error.code == SB_ERR_HOOK && strstr(error.text, "no entry") != NULL);
  /* A place leads to a handle of the right kind, and not to another place. */
  CHECK_CODE(SB_ERR_ARGUMENT, sb_flush((sb_store *)(void *)SB_BREAKER(breaker, &error)));
  CHECK(error.code == SB_ERR_ARGUMENT && strstr(error.text, "not a store") != NULL);
  CHECK_CODE(SB_ERR_ARGUMENT, sb_enter(SB_BREAKER(NULL, &error), &permit, NULL, 0));
  CHECK_CODE(SB_ERR_ARGUMENT,
             sb_enter(SB_BREAKER((sb_breaker *)(void *)&outer, &outer), &permit, NULL, 0));
  CHECK(outer.code == SB_ERR_ARGUMENT && strstr(outer.text, "not a breaker") != NULL);
  sb_hook_free(SB_HOOK(hook, &error));
  sb_news_free(SB_NEWS(news, &error));
  CHECK_CODE(SB_OK, sb_close(SB_STORE(store, &error)));
  CHECK_CODE(SB_ERR_CLOSED, sb_enter(SB_BREAKER(breaker, &error), &permit, NULL, 0));
  CHECK(error.code == SB_ERR_CLOSED && strcmp(error.text, sb_error_text()) == 0);
  sb_breaker_free(SB_BREAKER(breaker, &error));
}

static int descriptors(void) {
  DIR *list = opendir("/proc/self/fd");
  int count = 0;
  CHECK(list != NULL);
  while (readdir(list) != NULL) count++;
  closedir(list);
  return count;
}

static sb_breaker *shared(const char *path, const char *name, const char *policy) {
  sb_breaker *breaker = NULL;
  sb_error error = SB_ERROR_INIT;
  int code = sb_shared_breaker(path, SB_NUL, NULL, name, SB_NUL, policy, SB_NUL, &breaker, &error);
  if (code != SB_OK) fprintf(stderr, "%s\n", error.text);
  CHECK(code == SB_OK && breaker != NULL && error.code == 0);
  return breaker;
}

static void a_process_opens_once(const char *path) {
  sb_breaker *breaker = shared(path, "once", "max-failures=3");
  sb_store *store, *same;
  int index, before;
  call(breaker, SB_SUCCESS);
  CHECK_CODE(SB_OK, sb_shared_store(path, SB_NUL, NULL, &store, NULL));
  CHECK_CODE(SB_OK, sb_health(store));
  before = descriptors();
  for (index = 0; index < 1000; index++) {
    CHECK(shared(path, "once", "max-failures=3") == breaker);
    call(breaker, SB_SUCCESS);
    sb_breaker_free(breaker);
  }
  CHECK(descriptors() == before);
  CHECK(shared(path, "another", NULL) != breaker);
  CHECK_CODE(SB_OK, sb_shared_store(path, SB_NUL, NULL, &same, NULL));
  CHECK(same == store);
  /* No guest can take it from the others. */
  CHECK_CODE(SB_ERR_ARGUMENT, sb_close(store));
  call(breaker, SB_SUCCESS);
}

static void one_file_is_one_store(const char *path) {
  char directory[4096];
  sb_store *absolute, *relative, *usual;
  char *last;
  snprintf(directory, sizeof directory, "%s", path);
  last = strrchr(directory, '/');
  CHECK(last != NULL);
  *last = 0;
  CHECK_CODE(SB_OK, sb_shared_store(path, SB_NUL, NULL, &absolute, NULL));
  CHECK(chdir(directory) == 0);
  CHECK_CODE(SB_OK, sb_shared_store(last + 1, SB_NUL, NULL, &relative, NULL));
  CHECK(setenv("SHARED_BREAKER_STORE", path, 1) == 0);
  CHECK_CODE(SB_OK, sb_shared_store(NULL, 0, NULL, &usual, NULL));
  CHECK(relative == absolute && usual == absolute);
  CHECK(setenv("SHARED_BREAKER_STORE", "/proc/another", 1) == 0);
  CHECK_CODE(SB_OK, sb_shared_store(NULL, 0, NULL, &usual, NULL));
  CHECK(usual != absolute);
}

static void a_policy_is_declared_once(const char *path) {
  sb_breaker *breaker = shared(path, "policy", "max-failures=7");
  sb_store *elsewhere;
  sb_breaker *others;
  CHECK(says(breaker, "\"max-failures\":7,"));
  /* The later policy of another program holds, though requests repeat the policy of this one. */
  CHECK_CODE(SB_OK, sb_open(path, SB_NUL, NULL, &elsewhere));
  others = open_breaker(elsewhere, "policy", "max-failures=8");
  CHECK(shared(path, "policy", "max-failures=7") == breaker);
  CHECK(shared(path, "policy", NULL) == breaker);
  CHECK(says(breaker, "\"max-failures\":8,"));
  CHECK(shared(path, "policy", "max-failures=9") == breaker);
  CHECK(says(breaker, "\"max-failures\":9,"));
  sb_breaker_free(others);
  CHECK_CODE(SB_OK, sb_close(elsewhere));
}

static void mistakes_have_words(const char *path) {
  sb_breaker *breaker;
  sb_store *store;
  sb_error error = SB_ERROR_INIT;
  sb_options options = SB_OPTIONS_INIT;
  CHECK_CODE(SB_ERR_POLICY, sb_shared_breaker(path, SB_NUL, NULL, "bad", 3, "max-failure=3", SB_NUL,
                                              &breaker, &error));
  CHECK(breaker == NULL && error.code == SB_ERR_POLICY && strstr(error.text, "max-failures") != NULL);
  CHECK_CODE(SB_ERR_NAME, sb_shared_breaker(path, SB_NUL, NULL, "", 0, NULL, 0, &breaker, &error));
  CHECK(error.code == SB_ERR_NAME);
  CHECK_CODE(SB_ERR_ARGUMENT, sb_shared_breaker("", 0, NULL, "a", 1, NULL, 0, &breaker, &error));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_shared_breaker(path, SB_NUL, NULL, "a", 1, NULL, 0, NULL, &error));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_shared_store(path, SB_NUL, NULL, NULL, &error));
  CHECK_CODE(SB_ERR_TEXT, sb_shared_store("/a\0b", 4, NULL, &store, &error));
  CHECK(store == NULL && strstr(error.text, "zero byte") != NULL);
  options.size = 5;
  CHECK_CODE(SB_ERR_SIZE, sb_shared_store(path, SB_NUL, &options, &store, &error));
  error.size = 5;
  CHECK_CODE(SB_ERR_SIZE, sb_shared_store(path, SB_NUL, NULL, &store, &error));
}

static void *get(void *path) {
  int index;
  for (index = 0; index < 200; index++) {
    char name[16];
    snprintf(name, sizeof name, "thread-%d", index);
    CHECK(shared((const char *)path, name, "max-failures=4") == shared((const char *)path, name, NULL));
  }
  return shared((const char *)path, "threads", NULL);
}

static void threads_and_children_share(char *path) {
  pthread_t threads[4];
  void *breaker, *other;
  int index, before;
  pid_t child;
  for (index = 0; index < 4; index++) CHECK(pthread_create(&threads[index], NULL, get, path) == 0);
  child = fork();
  if (child == 0) {
    alarm(60);
    call((sb_breaker *)get(path), SB_SUCCESS);
    _exit(0);
  }
  await(child);
  CHECK(pthread_join(threads[0], &breaker) == 0);
  for (index = 1; index < 4; index++) {
    CHECK(pthread_join(threads[index], &other) == 0);
    CHECK(other == breaker);
  }
  call((sb_breaker *)breaker, SB_SUCCESS);
  before = descriptors();
  child = fork();
  if (child == 0) {
    int own;
    CHECK(shared(path, "threads", NULL) == breaker);
    call((sb_breaker *)breaker, SB_SUCCESS);
    own = descriptors(); /* at most the parent's, because each process opens what it reads with when it needs it */
    CHECK(own <= before);
    for (index = 1; index < 100; index++) call(shared(path, "threads", NULL), SB_SUCCESS);
    CHECK(descriptors() == own);
    _exit(0);
  }
  await(child);
  CHECK(says((sb_breaker *)breaker, "\"successes\":102,"));
}

int main(int count, char **arguments) {
  char path[4096];
  (void)count;
  each_call_keeps_its_words(arguments);
  snprintf(path, sizeof path, "%s-shared", arguments[1]);
  a_process_opens_once(path);
  a_policy_is_declared_once(path);
  mistakes_have_words(path);
  threads_and_children_share(path);
  one_file_is_one_store(path);
  return 0;
}
