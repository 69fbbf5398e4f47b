/* Limits: calls of several units, calls that can wait, and calls inside of calls. */
#include "process.h"

#include <pthread.h>

#include "check.h"

static void refuse(sb_breaker *breaker, const char *why) {
  sb_permit permit = SB_PERMIT_INIT;
  sb_rejection rejection = SB_REJECTION_INIT;
  CHECK(why != NULL);
  CHECK_CODE(SB_REJECTED, sb_enter(breaker, &permit, &rejection, 0));
  CHECK(rejection.cause == SB_CAUSE_BUSY && permit.kind == 0);
}

static sb_breaker *claiming(sb_breaker *breaker, int units, uint32_t flags) {
  sb_breaker *made = NULL;
  CHECK_CODE(SB_OK, sb_breaker_claiming(breaker, units, flags, &made));
  CHECK(made != NULL);
  return made;
}

static void heavy_calls_take_all_of_their_units(sb_store *store) {
  sb_breaker *gpu = open_breaker(store, "heavy", "max-concurrent=4");
  sb_breaker *heavy = claiming(gpu, 3, 0), *endless = claiming(heavy, 1000, 0);
  sb_permit first = SB_PERMIT_INIT, second = SB_PERMIT_INIT;
  CHECK_CODE(SB_OK, sb_enter(heavy, &first, NULL, 0));
  CHECK(says(gpu, "\"in_use\":3"));
  refuse(heavy, "three units are taken");
  CHECK_CODE(SB_OK, sb_enter(gpu, &second, NULL, 0));
  refuse(gpu, "all units are taken");
  /* Each takes the permits of the other. */
  CHECK_CODE(SB_OK, sb_leave(gpu, &first, SB_SUCCESS, NULL, 0));
  CHECK_CODE(SB_OK, sb_leave(heavy, &second, SB_SUCCESS, NULL, 0));
  CHECK(says(gpu, "\"in_use\":0"));
  /* More than the limit is all of it, and not the three of the breaker that it was made from. */
  CHECK_CODE(SB_OK, sb_enter(endless, &first, NULL, 0));
  CHECK(says(gpu, "\"in_use\":4"));
  sb_breaker_free(gpu);
  CHECK_CODE(SB_OK, sb_leave(endless, &first, SB_SUCCESS, NULL, 0));
  call(heavy, SB_SUCCESS);
  sb_breaker_free(heavy);
  sb_breaker_free(endless);
}

static void background_calls_leave_the_reserve(sb_store *store) {
  sb_breaker *gpu = open_breaker(store, "background", "max-concurrent=2 reserve=1");
  sb_breaker *training = claiming(gpu, 1, SB_BACKGROUND);
  sb_permit first = SB_PERMIT_INIT, second = SB_PERMIT_INIT;
  CHECK_CODE(SB_OK, sb_enter(training, &first, NULL, 0));
  refuse(training, "the rest is reserved");
  CHECK_CODE(SB_OK, sb_enter(gpu, &second, NULL, 0));
  refuse(gpu, "all units are taken");
  CHECK_CODE(SB_OK, sb_leave(gpu, &second, SB_SUCCESS, NULL, 0));
  CHECK_CODE(SB_OK, sb_leave(training, &first, SB_SUCCESS, NULL, 0));
  sb_breaker_free(gpu);
  sb_breaker_free(training);
}

static void without_a_limit_they_are_calls_like_others(sb_store *store) {
  sb_breaker *free_one = open_breaker(store, "unlimited", "max-failures=2 open-for=1m");
  sb_breaker *heavy = claiming(free_one, 7, SB_BACKGROUND);
  sb_permit permit = SB_PERMIT_INIT;
  call(heavy, SB_SUCCESS);
  CHECK_AT_ONCE(SB_OK, store, sb_enter(heavy, &permit, NULL, SB_NOWAIT));
  CHECK_CODE(SB_OK, sb_leave(free_one, &permit, SB_SUCCESS, NULL, SB_NOWAIT));
  call(heavy, SB_FAILURE);
  call(free_one, SB_FAILURE);
  CHECK_CODE(SB_REJECTED, sb_enter(heavy, &permit, NULL, 0));
  CHECK_CODE(SB_OK, sb_reset(heavy, NULL, 0));
  call(free_one, SB_SUCCESS);
  sb_breaker_free(free_one);
  sb_breaker_free(heavy);
}

static void those_of_the_process_are_made_once(const char *path) {
  sb_breaker *shared, *first, *second, *third, *own;
  sb_store *store;
  CHECK_CODE(SB_OK, sb_shared_breaker(path, SB_NUL, NULL, "shared", SB_NUL, "max-concurrent=2", SB_NUL,
                                      &shared, NULL));
  first = claiming(shared, 2, 0);
  sb_breaker_free(first);
  second = claiming(first, 2, 0);
  third = claiming(shared, 2, SB_BACKGROUND);
  CHECK(first == second && first != third && first != shared);
  call(first, SB_SUCCESS);
  /* One that the caller has opened is the caller's. */
  CHECK_CODE(SB_OK, sb_shared_store(path, SB_NUL, NULL, &store, NULL));
  own = open_breaker(store, "shared", NULL);
  second = claiming(own, 2, 0);
  CHECK(second != first && second != claiming(own, 2, 0));
  sb_breaker_free(second);
  sb_breaker_free(own);
}

static void mistakes_are_told(sb_store *store) {
  sb_breaker *gpu = open_breaker(store, "mistakes", "max-concurrent=2"), *made = gpu;
  sb_error error = SB_ERROR_INIT;
  CHECK_CODE(SB_ERR_ARGUMENT, sb_breaker_claiming(gpu, 0, 0, &made));
  CHECK(made == NULL && strstr(sb_error_text(), "1 unit or more, not 0") != NULL);
  CHECK_CODE(SB_ERR_ARGUMENT, sb_breaker_claiming(gpu, -2, 0, &made));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_breaker_claiming(gpu, 1, SB_NOWAIT, &made));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_breaker_claiming(gpu, 1, 0, NULL));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_breaker_claiming(NULL, 1, 0, &made));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_breaker_claiming((sb_breaker *)(void *)store, 1, 0, &made));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_breaker_claiming(SB_BREAKER(gpu, &error), 0, 0, &made));
  CHECK(error.code == SB_ERR_ARGUMENT && error.text_length > 0);
  sb_breaker_free(gpu);
}

static uint64_t room_of(const sb_permit *permit, int code) {
  uint64_t room = 1;
  CHECK_CODE(code, sb_permit_room(permit, &room));
  return room;
}

/* Makes a call inside of the call that surrounds the caller, and ends it. */
static void nest(sb_breaker *breaker, uint64_t room) {
  sb_permit inner = SB_PERMIT_INIT;
  CHECK_CODE(SB_OK, sb_enter(breaker, &inner, NULL, SB_SURROUND));
  CHECK(room_of(&inner, SB_NOTHING) == room);
  CHECK(says(breaker, "\"in_use\":1"));
  CHECK_CODE(SB_OK, sb_leave(breaker, &inner, SB_SUCCESS, NULL, 0));
  CHECK(says(breaker, "\"in_use\":1"));
}

static void calls_of_a_thread_are_inside_of_the_one_that_surrounds_them(sb_store *store) {
  sb_breaker *gpu = open_breaker(store, "nested", "max-concurrent=1"), *heavy = claiming(gpu, 5, 0);
  sb_breaker *disk = open_breaker(store, "nested-disk", "max-concurrent=1");
  sb_permit outer = SB_PERMIT_INIT, middle = SB_PERMIT_INIT, other = SB_PERMIT_INIT;
  uint64_t room;
  CHECK_CODE(SB_OK, sb_enter(gpu, &outer, NULL, 0));
  CHECK(room_of(&outer, SB_OK) != 0);
  refuse(gpu, "the calls are beside each other");
  CHECK_CODE(SB_OK, sb_leave(gpu, &outer, SB_SUCCESS, NULL, 0));
  CHECK_CODE(SB_ERR_PERMIT_USED, sb_permit_room(&outer, &room));
  CHECK(room == 0);

  CHECK_CODE(SB_OK, sb_enter(gpu, &outer, NULL, SB_SURROUND));
  room = room_of(&outer, SB_OK);
  nest(gpu, room);
  nest(heavy, room);
  CHECK_AT_ONCE(SB_OK, store, sb_enter(disk, &middle, NULL, SB_SURROUND | SB_NOWAIT));
  CHECK(room_of(&middle, SB_OK) != room);
  nest(gpu, room);
  nest(disk, room_of(&middle, SB_OK));
  CHECK_CODE(SB_OK, sb_leave(disk, &middle, SB_SUCCESS, NULL, 0));
  nest(gpu, room);
  CHECK_CODE(SB_OK, sb_leave(gpu, &outer, SB_FAILURE, NULL, 0));
  CHECK(says(gpu, "\"in_use\":0"));

  /* A call that has ended surrounds nothing, even if its slot is taken again. */
  CHECK_CODE(SB_OK, sb_enter(gpu, &other, NULL, 0));
  refuse(gpu, "the outer call has ended");
  CHECK_CODE(SB_REJECTED, sb_enter_inside(gpu, room, &middle, NULL, 0));
  CHECK_CODE(SB_OK, sb_leave(gpu, &other, SB_SUCCESS, NULL, 0));
  sb_breaker_free(gpu);
  sb_breaker_free(heavy);
  sb_breaker_free(disk);
}

typedef struct other_thread {
  sb_store *store;
  sb_breaker *breaker;
  sb_permit *outer;
  uint64_t room;
} other_thread;

static void *in_another_thread(void *context) {
  other_thread *its = (other_thread *)context;
  sb_permit inner = SB_PERMIT_INIT;
  refuse(its->breaker, "this thread is not inside");
  CHECK_AT_ONCE(SB_OK, its->store, sb_enter_inside(its->breaker, its->room, &inner, NULL, SB_NOWAIT));
  CHECK(room_of(&inner, SB_NOTHING) == its->room);
  CHECK_CODE(SB_OK, sb_leave(its->breaker, &inner, SB_SUCCESS, NULL, 0));
  CHECK_CODE(SB_OK, sb_leave(its->breaker, its->outer, SB_SUCCESS, NULL, 0));
  return NULL;
}

static void calls_elsewhere_are_inside_if_they_say_so(sb_store *store) {
  sb_breaker *gpu = open_breaker(store, "elsewhere", "max-concurrent=1");
  sb_permit outer = SB_PERMIT_INIT, inner = SB_PERMIT_INIT;
  other_thread its;
  pthread_t thread;
  int round;
  for (round = 0; round < 3; round++) {
    CHECK_CODE(SB_OK, sb_enter(gpu, &outer, NULL, SB_SURROUND));
    its.store = store;
    its.breaker = gpu;
    its.outer = &outer;
    its.room = room_of(&outer, SB_OK);
    CHECK(pthread_create(&thread, NULL, in_another_thread, &its) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    /* The other thread has ended the call that this one was inside of. */
    CHECK_CODE(SB_OK, sb_enter(gpu, &outer, NULL, 0));
    refuse(gpu, "nothing surrounds this thread any more");
    CHECK_CODE(SB_OK, sb_leave(gpu, &outer, SB_SUCCESS, NULL, 0));
  }
  /* A number without a call is no room. */
  CHECK_CODE(SB_OK, sb_enter(gpu, &outer, NULL, 0));
  CHECK_CODE(SB_REJECTED, sb_enter_inside(gpu, 12345, &inner, NULL, 0));
  CHECK_CODE(SB_REJECTED, sb_enter_inside(gpu, UINT64_MAX, &inner, NULL, 0));
  CHECK_CODE(SB_REJECTED, sb_enter_inside(gpu, room_of(&outer, SB_OK) ^ 4, &inner, NULL, 0));
  CHECK_CODE(SB_LIMITED, sb_enter(gpu, &inner, NULL, SB_UNLIMITED));
  CHECK_CODE(SB_LIMITED, sb_enter(gpu, &inner, NULL, SB_UNLIMITED | SB_NOWAIT | SB_SURROUND));
  CHECK_CODE(SB_OK, sb_leave(gpu, &outer, SB_SUCCESS, NULL, 0));
  sb_breaker_free(gpu);
}

static void calls_without_a_limit_nest_as_they_like(sb_store *store) {
  sb_breaker *plain = open_breaker(store, "plain", NULL);
  sb_permit outer = SB_PERMIT_INIT, inner = SB_PERMIT_INIT;
  call(plain, SB_SUCCESS);
  CHECK_CODE(SB_OK, sb_enter(plain, &outer, NULL, SB_SURROUND | SB_UNLIMITED));
  CHECK(room_of(&outer, SB_NOTHING) == 0);
  CHECK_CODE(SB_OK, sb_enter_inside(plain, 7, &inner, NULL, 0));
  CHECK(room_of(&inner, SB_NOTHING) == 0);
  CHECK_CODE(SB_OK, sb_leave(plain, &inner, SB_SUCCESS, NULL, 0));
  CHECK_CODE(SB_OK, sb_leave(plain, &outer, SB_SUCCESS, NULL, 0));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_permit_room(NULL, NULL));
  sb_breaker_free(plain);
}

static void the_child_of_a_fork_is_not_inside(sb_store *store) {
  sb_breaker *gpu = open_breaker(store, "forked", "max-concurrent=1");
  sb_permit outer = SB_PERMIT_INIT;
  pid_t child;
  CHECK_CODE(SB_OK, sb_enter(gpu, &outer, NULL, SB_SURROUND));
  child = fork();
  if (child == 0) {
    refuse(gpu, "the call is the parent's");
    _exit(0);
  }
  await(child);
  CHECK_CODE(SB_OK, sb_leave(gpu, &outer, SB_SUCCESS, NULL, 0));
  sb_breaker_free(gpu);
}

static void calls_through_another_store_of_the_file_are_inside_too(sb_store *store, const char *path) {
  sb_store *second = NULL;
  sb_breaker *gpu = open_breaker(store, "two-stores", "max-concurrent=1"), *other;
  sb_permit outer = SB_PERMIT_INIT, inner = SB_PERMIT_INIT;
  uint64_t room;
  pid_t child;
  CHECK_CODE(SB_OK, sb_open(path, SB_NUL, NULL, &second));
  other = open_breaker(second, "two-stores", NULL);
  CHECK_CODE(SB_OK, sb_enter(other, &outer, NULL, SB_SURROUND));
  room = room_of(&outer, SB_OK);
  nest(gpu, room);
  nest(other, room);
  child = fork();
  if (child == 0) {
    refuse(gpu, "the call is the parent's");
    refuse(other, "the call is the parent's");
    _exit(0);
  }
  await(child);
  CHECK_CODE(SB_OK, sb_leave(other, &outer, SB_SUCCESS, NULL, 0));
  CHECK_CODE(SB_OK, sb_enter(gpu, &outer, NULL, 0));
  refuse(other, "they are beside each other");
  CHECK_CODE(SB_REJECTED, sb_enter_inside(other, room, &inner, NULL, 0));
  CHECK_CODE(SB_OK, sb_enter_inside(other, room_of(&outer, SB_OK), &inner, NULL, 0));
  CHECK_CODE(SB_OK, sb_leave(other, &inner, SB_SUCCESS, NULL, 0));
  CHECK_CODE(SB_ERR_PERMIT_OTHER, sb_leave(other, &outer, SB_SUCCESS, NULL, 0));
  sb_breaker_free(other);
  CHECK_CODE(SB_OK, sb_close(second));
  /* Calls of the other store do not belong to this one. */
  CHECK(says(gpu, "\"in_use\":1"));
  CHECK_CODE(SB_OK, sb_leave(gpu, &outer, SB_SUCCESS, NULL, 0));
  CHECK(says(gpu, "\"in_use\":0"));
  sb_breaker_free(gpu);
}

static void the_first_call_knows_of_the_limit(sb_store *store, const char *path) {
  sb_store *second = NULL;
  sb_breaker *gpu = open_breaker(store, "first-call", "max-concurrent=1"), *other;
  sb_permit permit = SB_PERMIT_INIT;
  /* No call was made before, so the store does not have the policy yet. */
  CHECK_CODE(SB_LIMITED, sb_enter(gpu, &permit, NULL, SB_UNLIMITED));
  CHECK(says(gpu, "\"in_use\":0"));
  CHECK_CODE(SB_OK, sb_open(path, SB_NUL, NULL, &second));
  other = open_breaker(second, "first-call", NULL);
  CHECK_CODE(SB_LIMITED, sb_enter(other, &permit, NULL, SB_UNLIMITED));
  CHECK_CODE(SB_OK, sb_enter(gpu, &permit, NULL, 0));
  CHECK_CODE(SB_OK, sb_leave(gpu, &permit, SB_SUCCESS, NULL, 0));
  CHECK_CODE(SB_OK, sb_trip(gpu, 1, NULL, 0));
  /* The lease of the probe is given back. */
  CHECK_CODE(SB_LIMITED, sb_enter(other, &permit, NULL, SB_UNLIMITED));
  CHECK_CODE(SB_OK, sb_enter(gpu, &permit, NULL, 0));
  CHECK(permit.kind == SB_PROBE);
  CHECK_CODE(SB_OK, sb_leave(gpu, &permit, SB_SUCCESS, NULL, 0));
  sb_breaker_free(other);
  CHECK_CODE(SB_OK, sb_close(second));
  sb_breaker_free(gpu);
}

/* Runs as the program that is started inside of a call: it makes a call for each byte that it reads, and answers
 * whether it could. */
static int be_inside(sb_store *store) {
  sb_breaker *gpu = open_breaker(store, "started", NULL);
  char byte;
  while (read(0, &byte, 1) == 1) {
    sb_permit permit = SB_PERMIT_INIT;
    byte = sb_enter(gpu, &permit, NULL, 0) == SB_OK ? 'y' : 'n';
    if (permit.kind) CHECK_CODE(SB_OK, sb_leave(gpu, &permit, SB_SUCCESS, NULL, 0));
    CHECK(write(1, &byte, 1) == 1);
  }
  return 0;
}

static char ask(const int *to, const int *from) {
  char byte = '?';
  CHECK(write(to[1], "?", 1) == 1);
  CHECK(read(from[0], &byte, 1) == 1);
  return byte;
}

static void a_program_that_is_started_inside_of_a_call_uses_its_room(sb_store *store, const char *path) {
  sb_breaker *gpu = open_breaker(store, "started", "max-concurrent=1");
  sb_permit outer = SB_PERMIT_INIT, other = SB_PERMIT_INIT;
  uint64_t room;
  char *entry, *again;
  int64_t length;
  int to[2], from[2];
  pid_t child;
  CHECK_CODE(SB_OK, sb_enter(gpu, &outer, NULL, 0));
  CHECK_CODE(SB_NOTHING, sb_environment(store, NULL, 0, &entry, &length));
  CHECK(entry == NULL && length == 0);
  room = room_of(&outer, SB_OK);
  CHECK_CODE(SB_OK, sb_environment(store, &room, 1, &entry, &length));
  CHECK(strncmp(entry, "SHARED_BREAKER_INSIDE=", 22) == 0 && length == (int64_t)strlen(entry));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_environment(store, NULL, 1, &again, NULL));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_environment(store, &room, -1, &again, NULL));

  CHECK(pipe(to) == 0 && pipe(from) == 0);
  child = fork();
  if (child == 0) {
    char *words[4];
    words[0] = (char *)"limits";
    words[1] = (char *)path;
    words[2] = (char *)"inside";
    words[3] = NULL;
    CHECK(putenv(entry) == 0);
    dup2(to[0], 0);
    dup2(from[1], 1);
    close(to[1]);
    close(from[0]);
    execv("/proc/self/exe", words);
    _exit(9);
  }
  CHECK(ask(to, from) == 'y');
  CHECK(says(gpu, "\"in_use\":1"));
  refuse(gpu, "only the child is inside");
  CHECK_CODE(SB_OK, sb_leave(gpu, &outer, SB_SUCCESS, NULL, 0));
  /* It outlives the call, and has nothing left of it. */
  CHECK(ask(to, from) == 'y');
  CHECK_CODE(SB_OK, sb_enter(gpu, &other, NULL, SB_SURROUND));
  CHECK(ask(to, from) == 'n');
  /* The name is now that of the call that surrounds this thread, and not of the one that has ended. */
  CHECK_CODE(SB_OK, sb_environment(store, &room, 1, &again, NULL));
  CHECK(strcmp(again, entry) != 0 && strchr(again, ' ') == NULL);
  sb_free(again);
  CHECK_CODE(SB_OK, sb_leave(gpu, &other, SB_SUCCESS, NULL, 0));
  CHECK_CODE(SB_NOTHING, sb_environment(store, &room, 1, &again, NULL));
  CHECK(ask(to, from) == 'y');
  close(to[1]);
  await(child);
  close(to[0]);
  close(from[0]);
  close(from[1]);
  sb_free(entry);
  sb_breaker_free(gpu);
}

static void retries_keep_to_the_budget(sb_store *store) {
  const char *policies[] = {"max-failures=1000 retry-budget=20%", "max-concurrent=4 max-failures=1000 retry-budget=20%"};
  const uint32_t ways[] = {SB_RETRY, SB_RETRY | SB_NOWAIT, SB_RETRY | SB_UNLIMITED};
  for (int limited = 0; limited < 2; limited++) {
    sb_breaker *search = open_breaker(store, limited ? "search under a limit" : "search", policies[limited]);
    sb_permit permit = SB_PERMIT_INIT;
    sb_rejection rejection = SB_REJECTION_INIT;
    sb_turn *turn = NULL;
    int code, sent = 0;
    for (int number = 0; number < 100; number++) call(search, SB_FAILURE);
    for (;; sent++) {
      code = sb_enter(search, &permit, &rejection, ways[limited ? sent % 2 : sent % 3]);
      if (code != SB_OK) break;
      CHECK_CODE(SB_OK, sb_leave(search, &permit, SB_SUCCESS, NULL, 0));
    }
    CHECK_CODE(SB_REJECTED, code);
    CHECK(rejection.cause == SB_CAUSE_RETRY_BUDGET && sent >= 20);
    CHECK(rejection.retry_after_ns > 0 && rejection.retry_after_ns <= 1000000000);
    /* The rest of the second may be over meanwhile. */
    do {
      code = sb_turn_open(search, 0, &permit, &rejection, &turn, SB_RETRY);
      if (code == SB_OK) CHECK_CODE(SB_OK, sb_leave(search, &permit, SB_SUCCESS, NULL, 0));
    } while (code == SB_OK);
    CHECK_CODE(SB_REJECTED, code);
    CHECK(turn == NULL && rejection.cause == SB_CAUSE_RETRY_BUDGET);
    call(search, SB_SUCCESS);
    if (limited) CHECK(says(search, "\"in_use\":0"));
    sb_breaker_free(search);
  }
}

int main(int count, char **arguments) {
  sb_store *store = open_store(arguments);
  sb_breaker *late = open_breaker(store, "late", "max-concurrent=2"), *heavy;
  sb_permit permit = SB_PERMIT_INIT;
  char path[4096];
  if (count == 3) return be_inside(store);
  heavy_calls_take_all_of_their_units(store);
  background_calls_leave_the_reserve(store);
  without_a_limit_they_are_calls_like_others(store);
  mistakes_are_told(store);
  retries_keep_to_the_budget(store);
  calls_of_a_thread_are_inside_of_the_one_that_surrounds_them(store);
  calls_elsewhere_are_inside_if_they_say_so(store);
  calls_without_a_limit_nest_as_they_like(store);
  the_child_of_a_fork_is_not_inside(store);
  calls_through_another_store_of_the_file_are_inside_too(store, arguments[1]);
  the_first_call_knows_of_the_limit(store, arguments[1]);
  a_program_that_is_started_inside_of_a_call_uses_its_room(store, arguments[1]);
  snprintf(path, sizeof path, "%s-shared", arguments[1]);
  those_of_the_process_are_made_once(path);
  CHECK_CODE(SB_OK, sb_close(store));
  heavy = claiming(late, 2, 0);
  CHECK_CODE(SB_ERR_CLOSED, sb_enter(heavy, &permit, NULL, 0));
  sb_breaker_free(late);
  sb_breaker_free(heavy);
  return 0;
}
