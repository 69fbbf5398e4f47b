/* A process that makes calls under a limit, from threads, with the C library. It takes the words of
 * LimitWorker.swift: either `worker WITNESS STORE NAME SEED HABIT...`, or
 * `caller WITNESS STORE CALL PRIORITY thread|task`. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sharedbreaker.h"

enum { ALL = 1000, NAME = 256 };

static char **words;
static const char *witness, *path;
static char life[NAME];
static sb_store *store;
static sb_breaker *claimants[4][2];
static atomic_int calls;

static void die(const char *what) {
  fprintf(stderr, "torture: client.c: %s: %s\n", what, sb_error_text());
  exit(2);
}

static int has(const char *habit) {
  for (int index = 6; words[index]; index++)
    if (!strcmp(words[index], habit)) return 1;
  return 0;
}

/* Returns a number from 0 to `most`. */
static int number(uint64_t *random, int most) {
  *random ^= *random << 13;
  *random ^= *random >> 7;
  *random ^= *random << 17;
  return (int)((*random >> 11) % ((uint64_t)most + 1));
}

/*
 * The witness.
 */

typedef struct testimony {
  int descriptor;
  char name[NAME];
  int has_begun;
} testimony;

static int speak_of(testimony *its, const char *name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s", witness);
  snprintf(its->name, NAME, "%s", name);
  its->has_begun = 0;
  its->descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (its->descriptor < 0) return 0;
  while (connect(its->descriptor, (struct sockaddr *)&address, sizeof address) != 0) {
    if (errno == EINTR) continue;
    close(its->descriptor);
    return 0;
  }
  return 1;
}

/* Speaks of the next call of a life. */
static int speak_of_next(testimony *its, const char *name) {
  char call[NAME];
  snprintf(call, sizeof call, "%.200s.%d", name, ++calls);
  return speak_of(its, call);
}

/* Tells the witness a line, and waits until it was heard. Returns 0 if all is over. */
static int tell(testimony *its, const char *line) {
  char answer = 0;
  ssize_t length = (ssize_t)strlen(line), count;
  if (send(its->descriptor, line, (size_t)length, MSG_NOSIGNAL) != length) return 0;
  do count = recv(its->descriptor, &answer, 1, 0);
  while (count < 0 && errno == EINTR);
  return count == 1 && answer == '+';
}

static int tell_of(testimony *its, const char *verb, const char *rest) {
  char line[3 * NAME];
  snprintf(line, sizeof line, "%s %s%s%s\n", verb, its->name, *rest ? " " : "", rest);
  return tell(its, line);
}

static int want(testimony *its, int units, int in_background, int is_retry) {
  char rest[NAME];
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  snprintf(rest, sizeof rest, "%d %s %lld%s", units, in_background ? "background" : "ordinary",
           now.tv_sec * 1000000000LL + now.tv_nsec, is_retry ? " retry" : "");
  return tell_of(its, "want", rest);
}

static void hold(testimony *its) {
  its->has_begun = 1;
  tell_of(its, "hold", "");
}

/* A call that has begun has run, whatever it was told. */
static void end(testimony *its, const char *answer) {
  char text[NAME];
  snprintf(text, sizeof text, "%s", its->has_begun ? "ran" : answer);
  for (char *byte = text; *byte; byte++)
    if (*byte == ' ') *byte = '_';
  tell_of(its, "ended", text);
  close(its->descriptor);
}

static void complain(testimony *its, const char *what) {
  char line[2 * NAME];
  snprintf(line, sizeof line, "odd %s: %s: %.200s\n", its->name, what, sb_error_text());
  tell(its, line);
}

/*
 * Calls.
 */

/* Waits for a turn as an event loop does, or gives it up after `patience` milliseconds, if that is not negative. */
static int enter_by_turn(sb_breaker *claimant, sb_permit *permit, sb_rejection *rejection, int patience, int flags) {
  sb_turn *turn;
  int code = sb_turn_open(claimant, flags, permit, rejection, &turn, 0);
  if (code != SB_WAITING) return code;
  do {
    struct pollfd ready = {sb_turn_descriptor(turn), POLLIN, 0};
    if (poll(&ready, 1, patience) == 0) {
      code = SB_INTERRUPTED;
      break;
    }
    code = sb_turn_take(turn, permit, rejection, SB_NOWAIT);
    if (code == SB_WOULD_BLOCK) code = sb_turn_take(turn, permit, rejection, 0);
  } while (code == SB_WAITING);
  sb_turn_free(turn);
  return code;
}

static const char *answer(int code, const sb_rejection *rejection) {
  // A queue that is full is held too, and in a ramp.
  if (code == SB_REJECTED && rejection->cause != SB_CAUSE_OPEN) return "busy";
  return code == SB_INTERRUPTED ? "cancelled" : code == SB_REJECTED ? "rejected" : sb_error_text();
}

/* Makes a call inside of one of this thread, for which there is always room. */
static void nest(testimony *its, uint64_t *random) {
  sb_breaker *inner = claimants[number(random, 2) + 1][number(random, 1)];
  sb_permit permit = SB_PERMIT_INIT;
  if (sb_enter(inner, &permit, NULL, 0) != SB_OK) complain(its, "an inner call");
  else if (sb_leave(inner, &permit, SB_SUCCESS, NULL, 0) < 0) complain(its, "the end of an inner call");
}

static int call(uint64_t *random, const char *its_life, int is_child);

/* Forks a child that makes some calls of its own, in the midst of a call. Returns its pid. */
static pid_t fork_child(uint64_t *random) {
  char name[NAME];
  snprintf(name, sizeof name, "%.200s/%d", life, ++calls);
  uint64_t seed = *random * 2 + 1;
  pid_t child = fork();
  if (child != 0) return child;
  alarm(600);
  for (int rest = number(&seed, 5); rest >= 0 && call(&seed, name, 1); rest--) {}
  _exit(0);
}

static void await_child(pid_t child, testimony *its) {
  int status = 0;
  if (child < 0) return;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  if (status != 0) complain(its, "the child of a fork has failed");
}

/* Runs this program again in the same process, in the midst of its calls. */
static void become_another(testimony *its) {
  char line[2 * NAME], next[NAME], seed[32];
  const char *mark = strchr(life, 'x');
  int length = mark ? (int)(mark - life) : (int)strlen(life);
  snprintf(line, sizeof line, "replaced %s\n", life);
  if (!tell(its, line)) return;
  snprintf(next, sizeof next, "%.*sx%d", length, life, (mark ? atoi(mark + 1) : 0) + 1);
  snprintf(seed, sizeof seed, "%llu", strtoull(words[5], NULL, 10) + 1000);
  words[4] = next;
  words[5] = seed;
  execv("/proc/self/exe", words);
  complain(its, "execv");
  _exit(1);
}

/* Makes a call; returns 0 if all is over. The child of a fork has one thread, and neither forks nor executes. */
static int call(uint64_t *random, const char *its_life, int is_child) {
  static const int weights[] = {1, 1, 1, 2, 2, 3}, outcomes[] = {SB_SUCCESS, SB_FAILURE, SB_IGNORED};
  int units = weights[number(random, 5)], in_background = number(random, 3) == 0;
  int time = number(random, number(random, 39) == 0 ? 60000 : 5000), way = number(random, 3);
  int outcome = outcomes[number(random, 2)], code;
  int patience = has("cancel") && number(random, 2) == 0 ? number(random, 40) : -1;
  int forks = !is_child && has("fork") && number(random, 19) == 0;
  int is_retry = has("retry") && number(random, 1) == 0, flags = is_retry ? SB_RETRY : 0;
  int executes = !is_child && has("exec") && number(random, 59) == 0;
  sb_breaker *claimant = claimants[units][in_background];
  sb_permit permit = SB_PERMIT_INIT;
  sb_rejection rejection = SB_REJECTION_INIT;
  testimony its;
  pid_t child = -1;
  if (!speak_of_next(&its, its_life)) return 0;
  if (!want(&its, units, in_background, is_retry)) {
    close(its.descriptor);
    return 0;
  }
  code = way == 0   ? enter_by_turn(claimant, &permit, &rejection, patience, flags)
         : way == 1 ? sb_enter(claimant, &permit, &rejection, SB_SURROUND | flags)
                    : sb_enter(claimant, &permit, &rejection, flags);
  if (code == SB_OK) {
    hold(&its);
    if (executes) become_another(&its);
    if (forks) child = fork_child(random);
    if (way == 1 && has("nest")) nest(&its, random);
    usleep((useconds_t)time);
    tell_of(&its, "left", "");
    code = sb_leave(claimant, &permit, outcome, NULL, 0);
    if (code < 0) complain(&its, "the end of a call");
  }
  await_child(child, &its);
  end(&its, answer(code, &rejection));
  return 1;
}

static void *work(void *seed) {
  uint64_t random = (uint64_t)(uintptr_t)seed * 0x9e3779b97f4a7c15 + 1;
  while (call(&random, life, 0)) {}
  return NULL;
}

static void work_in_threads(void) {
  uint64_t seed = strtoull(words[5], NULL, 10), random = seed | 1;
  pthread_t threads[4];
  int count = number(&random, 3) + 1;
  for (int index = 0; index < count; index++)
    if (pthread_create(&threads[index], NULL, work, (void *)(uintptr_t)(seed + (uint64_t)index)) != 0)
      die("pthread_create");
  for (int index = 0; index < count; index++) pthread_join(threads[index], NULL);
}

/* Tells the witness that what this process ran before is gone. */
static void tell_of_last(void) {
  const char *mark = strchr(life, 'x');
  char line[2 * NAME];
  testimony its;
  if (!mark || !speak_of_next(&its, life)) return;
  if (atoi(mark + 1) == 1)
    snprintf(line, sizeof line, "dead %.*s\n", (int)(mark - life), life);
  else
    snprintf(line, sizeof line, "dead %.*sx%d\n", (int)(mark - life), life, atoi(mark + 1) - 1);
  tell(&its, line);
  close(its.descriptor);
}

/* Makes one call, which takes all that it may. */
static void wait_in_line(sb_breaker *breaker) {
  sb_breaker *claimant;
  sb_permit permit = SB_PERMIT_INIT;
  sb_rejection rejection = SB_REJECTION_INIT;
  testimony its;
  uint32_t flags = strcmp(words[5], "background") ? 0 : SB_BACKGROUND;
  if (!speak_of(&its, words[4])) exit(2);
  if (sb_breaker_claiming(breaker, ALL, flags, &claimant) != SB_OK) die("sb_breaker_claiming");
  int code = strcmp(words[6], "task") ? sb_enter(claimant, &permit, &rejection, 0)
                                      : enter_by_turn(claimant, &permit, &rejection, -1, 0);
  if (code != SB_OK) die("a call that waits in line");
  hold(&its);
  tell_of(&its, "left", "");
  if (sb_leave(claimant, &permit, SB_SUCCESS, NULL, 0) != SB_OK) die("sb_leave");
  end(&its, "nothing");
  sb_breaker_free(claimant);
}

int main(int count, char **all) {
  /* A process that cannot use the store keeps to the limit alone, so a worker never gives up on it. */
  sb_options options = SB_OPTIONS_INIT;
  sb_breaker *breaker;
  options.on_store_failure = SB_FAIL;
  options.lock_timeout_ns = 600 * 1000000000LL;
  if (count < 6) die("too few words");
  words = all;
  witness = words[2];
  path = words[3];
  snprintf(life, sizeof life, "%s", words[4]);
  if (sb_open(path, SB_NUL, &options, &store) != SB_OK) die("sb_open");
  if (sb_breaker_open(store, "api", SB_NUL, NULL, SB_NUL, SB_STORE_DEFAULT, &breaker) != SB_OK)
    die("sb_breaker_open");
  if (!strcmp(words[1], "limit-caller")) {
    wait_in_line(breaker);
  } else {
    for (int units = 1; units <= 3; units++)
      for (int way = 0; way < 2; way++)
        if (sb_breaker_claiming(breaker, units, way ? SB_BACKGROUND : 0, &claimants[units][way]) != SB_OK)
          die("sb_breaker_claiming");
    tell_of_last();
    work_in_threads();
    for (int units = 1; units <= 3; units++)
      for (int way = 0; way < 2; way++) sb_breaker_free(claimants[units][way]);
  }
  sb_breaker_free(breaker);
  sb_close(store);
  return 0;
}
