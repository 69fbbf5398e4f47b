/* Turns: waiting for room on a descriptor. */
#include "process.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "check.h"

static const char patient[] = "max-concurrent=1 queue-timeout=1h max-failures=1000";

/* How many threads this process has. */
static int threads(void) {
  DIR *tasks = opendir("/proc/self/task");
  int count = 0;
  struct dirent *task;
  CHECK(tasks != NULL);
  while ((task = readdir(tasks)) != NULL) count += task->d_name[0] != '.';
  closedir(tasks);
  return count;
}

static int is_readable(sb_turn *turn, int milliseconds) {
  struct pollfd ready;
  ready.fd = sb_turn_descriptor(turn);
  ready.events = POLLIN;
  CHECK(ready.fd >= 0);
  return poll(&ready, 1, milliseconds) == 1;
}

/* Waits for a turn as an event loop does, and returns the answer. */
static int await_turn(sb_turn *turn, sb_permit *permit, sb_rejection *rejection) {
  int code;
  do {
    CHECK(is_readable(turn, 120000));
    code = sb_turn_take(turn, permit, rejection, SB_NOWAIT);
    if (code == SB_WOULD_BLOCK) code = sb_turn_take(turn, permit, rejection, 0);
  } while (code == SB_WAITING);
  return code;
}

static sb_turn *queue(sb_breaker *breaker) {
  sb_permit permit = SB_PERMIT_INIT;
  sb_turn *turn = NULL;
  CHECK_CODE(SB_WAITING, sb_turn_open(breaker, 0, &permit, NULL, &turn, 0));
  CHECK(turn != NULL && permit.kind == 0);
  return turn;
}

static void enter(sb_breaker *breaker, sb_permit *permit) {
  CHECK_CODE(SB_OK, sb_enter(breaker, permit, NULL, 0));
}

static void leave(sb_breaker *breaker, sb_permit *permit) {
  CHECK_CODE(SB_OK, sb_leave(breaker, permit, SB_SUCCESS, NULL, 0));
}

static void a_call_with_room_has_no_turn(sb_store *store) {
  sb_breaker *gpu = open_breaker(store, "room", patient), *plain = open_breaker(store, "no-limit", NULL);
  sb_breaker *hasty = open_breaker(store, "hasty", "max-concurrent=1");
  sb_permit permit = SB_PERMIT_INIT, other = SB_PERMIT_INIT;
  sb_rejection rejection = SB_REJECTION_INIT;
  sb_turn *turn = NULL;
  uint64_t room = 0;
  CHECK_CODE(SB_WOULD_BLOCK, sb_turn_open(gpu, 0, &permit, NULL, &turn, SB_NOWAIT));
  CHECK_CODE(SB_OK, sb_turn_open(gpu, 0, &permit, NULL, &turn, 0));
  CHECK(turn == NULL && permit.kind == SB_NORMAL);
  /* Inside of a call there is room. */
  CHECK_CODE(SB_OK, sb_permit_room(&permit, &room));
  CHECK_AT_ONCE(SB_OK, store, sb_turn_open(gpu, room, &other, NULL, &turn, SB_NOWAIT));
  CHECK_CODE(SB_NOTHING, sb_permit_room(&other, &room));
  leave(gpu, &other);
  leave(gpu, &permit);
  CHECK_CODE(SB_OK, sb_turn_open(plain, 0, &permit, NULL, &turn, 0));
  leave(plain, &permit);
  enter(hasty, &other);
  CHECK_CODE(SB_REJECTED, sb_turn_open(hasty, 0, &permit, &rejection, &turn, 0));
  CHECK(turn == NULL && rejection.cause == SB_CAUSE_BUSY);
  leave(hasty, &other);
  CHECK_CODE(SB_OK, sb_trip(hasty, 0, NULL, 0));
  CHECK_AT_ONCE(SB_REJECTED, store, sb_turn_open(hasty, 0, &permit, &rejection, &turn, SB_NOWAIT));
  CHECK(turn == NULL && rejection.cause == SB_CAUSE_OPEN);
  sb_breaker_free(gpu);
  sb_breaker_free(plain);
  sb_breaker_free(hasty);
}

static void turns_come_in_the_order_of_arrival(sb_store *store) {
  enum { MANY = 40 };
  sb_breaker *gpu = open_breaker(store, "order", patient);
  sb_permit permit = SB_PERMIT_INIT, next = SB_PERMIT_INIT;
  sb_turn *turns[MANY];
  int index, before;
  enter(gpu, &permit);
  before = threads();
  for (index = 0; index < MANY; index++) turns[index] = queue(gpu);
  CHECK(threads() <= before + 1);
  for (index = 0; index < MANY; index++) {
    CHECK(!is_readable(turns[index], 0));
    CHECK_CODE(SB_WAITING, sb_turn_take(turns[index], &next, NULL, SB_NOWAIT));
    leave(gpu, &permit);
    CHECK_CODE(SB_OK, await_turn(turns[index], &permit, NULL));
    CHECK(permit.kind == SB_NORMAL && says(gpu, "\"in_use\":1"));
    CHECK_CODE(SB_ERR_PERMIT_USED, sb_turn_take(turns[index], &next, NULL, 0));
    sb_turn_free(turns[index]);
  }
  leave(gpu, &permit);
  /* The thread ends with the last of them. */
  while (threads() > before) usleep(1000);
  sb_breaker_free(gpu);
}

/* How many descriptors this process has. */
static int descriptors(void) {
  DIR *all = opendir("/proc/self/fd");
  int count = 0;
  CHECK(all != NULL);
  while (readdir(all) != NULL) count++;
  closedir(all);
  return count;
}

static void many_turns_share_a_descriptor_of_the_caller(sb_store *store) {
  enum { MANY = 40 };
  sb_breaker *gpu = open_breaker(store, "shared", patient);
  sb_permit permit = SB_PERMIT_INIT, next = SB_PERMIT_INIT;
  sb_turn *turns[MANY];
  struct pollfd bell = {-1, POLLIN, 0};
  eventfd_t rings;
  int index, other, before;
  bell.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  CHECK(bell.fd >= 0);
  enter(gpu, &permit);
  /* The first wait opens the descriptors that all waits share. */
  turns[0] = queue(gpu);
  sb_turn_free(turns[0]);
  before = descriptors();
  for (index = 0; index < MANY; index++) {
    CHECK_CODE(SB_WAITING, sb_turn_open_on(gpu, bell.fd, 0, 0, &next, NULL, turns + index, 0));
    CHECK(sb_turn_descriptor(turns[index]) == bell.fd);
    CHECK_CODE(SB_NOTHING, sb_turn_is_ready(turns[index]));
  }
  CHECK(descriptors() == before);
  for (index = 0; index < MANY; index++) {
    leave(gpu, &permit);
    CHECK(poll(&bell, 1, 120000) == 1 && eventfd_read(bell.fd, &rings) == 0);
    for (other = index; other < MANY; other++)
      CHECK_CODE(other == index ? SB_OK : SB_NOTHING, sb_turn_is_ready(turns[other]));
    /* A turn that is taken leaves the caller's descriptor as it is. */
    CHECK(eventfd_write(bell.fd, 1) == 0);
    CHECK_CODE(SB_OK, sb_turn_take(turns[index], &permit, NULL, 0));
    CHECK(poll(&bell, 1, 0) == 1 && eventfd_read(bell.fd, &rings) == 0);
    CHECK_CODE(SB_OK, sb_turn_is_ready(turns[index]));
    CHECK_CODE(SB_ERR_PERMIT_USED, sb_turn_take(turns[index], &next, NULL, 0));
    sb_turn_free(turns[index]);
  }
  /* A turn that is freed never rings, and its end leaves the descriptor open. */
  CHECK_CODE(SB_WAITING, sb_turn_open_on(gpu, bell.fd, 0, 0, &next, NULL, turns, 0));
  sb_turn_free(turns[0]);
  leave(gpu, &permit);
  CHECK(poll(&bell, 1, 0) == 0 && close(bell.fd) == 0);
  CHECK_CODE(SB_ERR_ARGUMENT, sb_turn_open_on(gpu, -1, -1, 0, &next, NULL, turns, 0));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_turn_is_ready(NULL));
  sb_breaker_free(gpu);
}

static void a_turn_ends_with_the_patience_of_the_policy(sb_store *store) {
  sb_breaker *gpu = open_breaker(store, "timeout", "max-concurrent=1 queue-timeout=20ms");
  sb_permit permit = SB_PERMIT_INIT, other = SB_PERMIT_INIT;
  sb_rejection rejection = SB_REJECTION_INIT;
  sb_turn *turn;
  int code;
  enter(gpu, &permit);
  code = sb_turn_open(gpu, 0, &other, &rejection, &turn, 0);
  /* On a busy machine, the time can be over before the function returns. */
  if (code == SB_WAITING) code = await_turn(turn, &other, &rejection);
  CHECK_CODE(SB_REJECTED, code);
  CHECK(rejection.cause == SB_CAUSE_BUSY && says(gpu, "\"waiting\":0"));
  sb_turn_free(turn);
  leave(gpu, &permit);
  sb_breaker_free(gpu);
}

static void a_turn_of_a_call_that_has_waited_ends_sooner(sb_store *store) {
  sb_breaker *gpu = open_breaker(store, "waited", patient);
  sb_permit permit = SB_PERMIT_INIT, other = SB_PERMIT_INIT;
  sb_rejection rejection = SB_REJECTION_INIT;
  const int64_t hour = (int64_t)3600 * 1000000000;
  sb_turn *turn;
  int code;
  enter(gpu, &permit);
  code = sb_turn_open_on(gpu, -1, hour + 1, 0, &other, &rejection, &turn, 0);
  if (code == SB_WAITING) code = await_turn(turn, &other, &rejection);
  CHECK_CODE(SB_REJECTED, code);
  CHECK(rejection.cause == SB_CAUSE_BUSY);
  sb_turn_free(turn);
  code = sb_turn_open_on(gpu, -1, hour - 20000000, 0, &other, &rejection, &turn, 0);
  if (code == SB_WAITING) code = await_turn(turn, &other, &rejection);
  CHECK_CODE(SB_REJECTED, code);
  sb_turn_free(turn);
  leave(gpu, &permit);
  sb_breaker_free(gpu);
}

static void a_turn_that_is_freed_gives_up_what_it_has(sb_store *store) {
  sb_breaker *gpu = open_breaker(store, "freed", patient);
  sb_permit permit = SB_PERMIT_INIT;
  sb_turn *first, *second;
  enter(gpu, &permit);
  first = queue(gpu);
  second = queue(gpu);
  sb_turn_free(first);
  leave(gpu, &permit);
  CHECK_CODE(SB_OK, await_turn(second, &permit, NULL));
  sb_turn_free(second);
  first = queue(gpu);
  leave(gpu, &permit);
  /* Its turn has come, and it is not taken. */
  CHECK(is_readable(first, 120000));
  CHECK(says(gpu, "\"in_use\":1"));
  sb_turn_free(first);
  CHECK(says(gpu, "\"in_use\":0"));
  enter(gpu, &permit);
  leave(gpu, &permit);
  sb_turn_free(NULL);
  sb_breaker_free(gpu);
}

static void what_changes_meanwhile_counts(sb_store *store) {
  sb_breaker *gpu = open_breaker(store, "changed", patient);
  sb_permit permit = SB_PERMIT_INIT, other = SB_PERMIT_INIT;
  sb_rejection rejection = SB_REJECTION_INIT;
  sb_turn *turn;
  pid_t child;
  enter(gpu, &permit);
  turn = queue(gpu);
  CHECK_CODE(SB_OK, sb_trip(gpu, 0, "no more", SB_NUL));
  CHECK_CODE(SB_REJECTED, await_turn(turn, &other, &rejection));
  CHECK(rejection.cause == SB_CAUSE_OPEN);
  sb_turn_free(turn);
  CHECK_CODE(SB_OK, sb_reset(gpu, NULL, 0));
  turn = queue(gpu);
  /* Another process changes it and lets it be as it was, which only the file tells. */
  child = fork();
  if (child == 0) {
    CHECK_CODE(SB_OK, sb_force(gpu, SB_OBSERVE, 0, NULL, 0));
    CHECK_CODE(SB_OK, sb_force(gpu, SB_AUTOMATIC, 0, NULL, 0));
    _exit(0);
  }
  await(child);
  CHECK(sb_leave(gpu, &permit, SB_SUCCESS, NULL, 0) >= 0);
  CHECK_CODE(SB_OK, await_turn(turn, &other, NULL));
  CHECK(says(gpu, "\"in_use\":1"));
  leave(gpu, &other);
  sb_turn_free(turn);
  sb_breaker_free(gpu);
}

static void a_fork_leaves_the_turns_to_the_parent(sb_store *store) {
  sb_breaker *gpu = open_breaker(store, "forked", patient);
  sb_permit permit = SB_PERMIT_INIT;
  sb_turn *turn, *own;
  pid_t child;
  enter(gpu, &permit);
  turn = queue(gpu);
  child = fork();
  if (child == 0) {
    CHECK(sb_turn_descriptor(turn) == -1);
    permit.kind = 0;
    permit.opaque[0] = 0;
    CHECK_CODE(SB_ERR_FORKED, sb_turn_is_ready(turn));
    CHECK_CODE(SB_ERR_FORKED, sb_turn_take(turn, &permit, NULL, 0));
    sb_turn_free(turn);
    /* It has a queue of its own, behind the parent. */
    own = queue(gpu);
    CHECK_CODE(SB_OK, await_turn(own, &permit, NULL));
    leave(gpu, &permit);
    sb_turn_free(own);
    _exit(0);
  }
  while (!says(gpu, "\"waiting\":2")) usleep(1000);
  leave(gpu, &permit);
  CHECK_CODE(SB_OK, await_turn(turn, &permit, NULL));
  sb_turn_free(turn);
  leave(gpu, &permit);
  await(child);
  sb_breaker_free(gpu);
}

static volatile int is_over;

static void *queue_again_and_again(void *context) {
  sb_breaker *gpu = (sb_breaker *)context;
  sb_permit permit = SB_PERMIT_INIT;
  sb_turn *turn;
  while (!is_over) {
    int code = sb_turn_open(gpu, 0, &permit, NULL, &turn, 0);
    if (code == SB_WAITING) {
      code = await_turn(turn, &permit, NULL);
      sb_turn_free(turn);
    }
    CHECK_CODE(SB_OK, code);
    leave(gpu, &permit);
  }
  return NULL;
}

static void a_process_forks_while_its_turns_come(sb_store *store) {
  sb_breaker *gpu = open_breaker(store, "forks", patient);
  pthread_t threads[3];
  size_t index;
  int round;
  call(gpu, SB_SUCCESS);
  for (index = 0; index < 3; index++) CHECK(pthread_create(threads + index, NULL, queue_again_and_again, gpu) == 0);
  for (round = 0; round < 30; round++) {
    pid_t child = fork();
    if (child == 0) {
      sb_permit permit = SB_PERMIT_INIT;
      sb_turn *turn = NULL;
      int code = sb_turn_open(gpu, 0, &permit, NULL, &turn, 0);
      if (code == SB_WAITING) code = await_turn(turn, &permit, NULL);
      CHECK_CODE(SB_OK, code);
      leave(gpu, &permit);
      _exit(0);
    }
    await(child);
  }
  is_over = 1;
  for (index = 0; index < 3; index++) CHECK(pthread_join(threads[index], NULL) == 0);
  sb_breaker_free(gpu);
}

static void *enter_and_leave(void *context) {
  sb_permit permit = SB_PERMIT_INIT;
  enter((sb_breaker *)context, &permit);
  leave((sb_breaker *)context, &permit);
  return NULL;
}

/* A store that cannot be used: the process keeps to the limit alone. */
static void a_process_without_the_store_waits_and_forks_too(void) {
  sb_store *store = NULL;
  sb_options options = SB_OPTIONS_INIT;
  sb_breaker *gpu;
  sb_permit permit = SB_PERMIT_INIT, other = SB_PERMIT_INIT;
  sb_turn *turn;
  pthread_t thread;
  pid_t child;
  options.flags = SB_QUIET;
  CHECK_CODE(SB_OK, sb_open("/dev/null/breakers.db", SB_NUL, &options, &store));
  gpu = open_breaker(store, "alone", patient);
  enter(gpu, &permit);
  CHECK(pthread_create(&thread, NULL, enter_and_leave, gpu) == 0);
  while (!says(gpu, "\"waiting\":1")) usleep(1000);
  turn = queue(gpu);
  while (!says(gpu, "\"waiting\":2")) usleep(1000);
  /* The fork does not wait for the waiters. */
  child = fork();
  if (child == 0) _exit(sb_turn_descriptor(turn) == -1 ? 0 : 1);
  await(child);
  leave(gpu, &permit);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK_CODE(SB_OK, await_turn(turn, &other, NULL));
  leave(gpu, &other);
  sb_turn_free(turn);
  sb_breaker_free(gpu);
  sb_close(store);
}

static void mistakes_are_told(sb_store *store) {
  sb_breaker *gpu = open_breaker(store, "mistakes", patient);
  sb_permit permit = SB_PERMIT_INIT, other = SB_PERMIT_INIT;
  sb_error error = SB_ERROR_INIT;
  sb_turn *turn = NULL;
  CHECK_CODE(SB_ERR_ARGUMENT, sb_turn_open(gpu, 0, &permit, NULL, NULL, 0));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_turn_open(NULL, 0, &permit, NULL, &turn, 0));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_turn_open(gpu, 0, NULL, NULL, &turn, 0));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_turn_open(gpu, 0, &permit, NULL, &turn, SB_UNLIMITED));
  CHECK_CODE(SB_ERR_ARGUMENT, sb_turn_take((sb_turn *)(void *)store, &permit, NULL, 0));
  CHECK(sb_turn_descriptor(NULL) == -1);
  enter(gpu, &permit);
  CHECK_CODE(SB_ERR_PERMIT_LIVE, sb_turn_open(gpu, 0, &permit, NULL, &turn, 0));
  CHECK_CODE(SB_WAITING, sb_turn_open(SB_BREAKER(gpu, &error), 0, &other, NULL, &turn, 0));
  CHECK_CODE(SB_ERR_PERMIT_LIVE, sb_turn_take(SB_TURN(turn, &error), &permit, NULL, 0));
  CHECK(error.code == SB_ERR_PERMIT_LIVE && error.text_length > 0);
  CHECK_CODE(SB_WAITING, sb_turn_take(SB_TURN(turn, &error), &other, NULL, 0));
  leave(gpu, &permit);
  CHECK_CODE(SB_OK, await_turn(turn, &other, NULL));
  leave(gpu, &other);
  CHECK(sb_turn_descriptor(turn) >= 0);
  sb_turn_free(turn);
  sb_breaker_free(gpu);
}

int main(int count, char **arguments) {
  sb_store *store = open_store(arguments);
  sb_breaker *gpu;
  sb_permit permit = SB_PERMIT_INIT;
  sb_turn *turn;
  (void)count;
  a_call_with_room_has_no_turn(store);
  turns_come_in_the_order_of_arrival(store);
  many_turns_share_a_descriptor_of_the_caller(store);
  a_turn_ends_with_the_patience_of_the_policy(store);
  a_turn_of_a_call_that_has_waited_ends_sooner(store);
  a_turn_that_is_freed_gives_up_what_it_has(store);
  what_changes_meanwhile_counts(store);
  a_fork_leaves_the_turns_to_the_parent(store);
  a_process_forks_while_its_turns_come(store);
  a_process_without_the_store_waits_and_forks_too();
  mistakes_are_told(store);
  /* A store that is closed sends its waiters away. */
  gpu = open_breaker(store, "closed", patient);
  enter(gpu, &permit);
  turn = queue(gpu);
  CHECK_CODE(SB_OK, sb_close(store));
  CHECK(is_readable(turn, 120000));
  permit.kind = 0;
  permit.opaque[0] = 0;
  CHECK_CODE(SB_ERR_CLOSED, sb_turn_take(turn, &permit, NULL, 0));
  sb_turn_free(turn);
  sb_breaker_free(gpu);
  return 0;
}
