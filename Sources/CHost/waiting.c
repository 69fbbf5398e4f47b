#define _GNU_SOURCE
#include "waiting.h"

#include <pthread.h>
#include <sched.h>
#include <sqlite3.h>
#include <stddef.h>
#include <time.h>

static __thread struct {
  // 0 for none, so that every thread begins without one.
  int64_t end;
  int (*are_over)(void *context);
  void *context;
  int was_interrupted;
} waits;

// The longest sleep between two questions.
enum { interruptible_for = 2000000 };

int64_t sb_wait_end(void) { return waits.end ? waits.end : INT64_MAX; }

int64_t sb_set_wait_end(int64_t nanoseconds) {
  int64_t before = sb_wait_end();
  waits.end = nanoseconds == INT64_MAX ? 0 : nanoseconds;
  return before;
}

void sb_ask_before_pauses(int (*are_over)(void *context), void *context) {
  waits.are_over = are_over;
  waits.context = context;
}

int sb_is_interruptible(void) { return waits.are_over || waits.context; }

int sb_was_interrupted(void) { return waits.was_interrupted; }

void sb_forget_interruption(void) { waits.was_interrupted = 0; }

static int are_over(void) {
  if (waits.are_over) return waits.are_over(waits.context);
  return waits.context && __atomic_load_n((int *)waits.context, __ATOMIC_ACQUIRE);
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int sb_ask(int64_t nanoseconds) {
  if (are_over()) {
    waits.was_interrupted = 1;
    return SB_WAIT_INTERRUPTED;
  }
  int64_t end = sb_wait_end();
  return now() < (nanoseconds < end ? nanoseconds : end) ? SB_WAIT_GOES_ON : SB_WAIT_ENDED;
}

int64_t sb_next_question(int64_t nanoseconds) {
  return sb_next_question_within(nanoseconds, interruptible_for);
}

int64_t sb_next_question_within(int64_t nanoseconds, int64_t longest) {
  int64_t end = sb_wait_end();
  int64_t next = nanoseconds < end ? nanoseconds : end;
  int64_t soon = sb_is_interruptible() ? now() + longest : next;
  return next < soon ? next : soon;
}

int sb_pause(int64_t nanoseconds) {
  for (int64_t left = nanoseconds; left > 0;) {
    int answer = sb_ask(INT64_MAX);
    if (answer == SB_WAIT_INTERRUPTED || (answer == SB_WAIT_ENDED && left == nanoseconds))
      return answer;
    int64_t most = sb_wait_end() - now();
    if (most <= 0) return SB_WAIT_GOES_ON;
    int64_t part = left < most ? left : most;
    if (part > interruptible_for && sb_is_interruptible()) part = interruptible_for;
    struct timespec time = {part / 1000000000, part % 1000000000};
    nanosleep(&time, 0);
    left -= part;
  }
  return SB_WAIT_GOES_ON;
}

// SQLite sleeps here while the index of the log is being made or recovered: up to a hundred times
// in one attempt to read, for a third of a second towards the end and for ten seconds in all. It
// knows no other bound, so no sleep is long, and none begins when the waits of the thread are over.
// The attempts that are left then take no time, and SQLite gives up by itself.
static int sleep_patiently(sqlite3_vfs *vfs, int microseconds) {
  (void)vfs;
  enum { longest = 5000 };
  int64_t part = microseconds < longest ? microseconds : longest;
  if (sb_pause(part * 1000) != SB_WAIT_GOES_ON) sched_yield();
  return microseconds;
}

static sqlite3_vfs *usual;

static int open_usually(
    sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags, int *flags_out) {
  (void)vfs;
  return usual->xOpen(usual, name, file, flags, flags_out);
}

static int delete_usually(sqlite3_vfs *vfs, const char *name, int syncs_directory) {
  (void)vfs;
  return usual->xDelete(usual, name, syncs_directory);
}

static int access_usually(sqlite3_vfs *vfs, const char *name, int flags, int *result) {
  (void)vfs;
  return usual->xAccess(usual, name, flags, result);
}

static int full_path_usually(sqlite3_vfs *vfs, const char *name, int size, char *out) {
  (void)vfs;
  return usual->xFullPathname(usual, name, size, out);
}

static int randomness_usually(sqlite3_vfs *vfs, int size, char *out) {
  (void)vfs;
  return usual->xRandomness(usual, size, out);
}

static int last_error_usually(sqlite3_vfs *vfs, int size, char *out) {
  (void)vfs;
  return usual->xGetLastError(usual, size, out);
}

static int time_usually(sqlite3_vfs *vfs, double *days) {
  (void)vfs;
  return usual->xCurrentTime(usual, days);
}

static pthread_once_t register_once = PTHREAD_ONCE_INIT;
static sqlite3_vfs patient;

// It does everything as the usual VFS does, except for the sleeping. It is not the default, so other
// users of SQLite in this process do not get it. The usual one is asked under its own address, behind
// which there may be more than SQLite knows of.
static void register_patient(void) {
  usual = sqlite3_vfs_find(NULL);
  if (!usual) return;
  patient = (sqlite3_vfs){
      .iVersion = 1,
      .szOsFile = usual->szOsFile,
      .mxPathname = usual->mxPathname,
      .zName = "shared-breaker",
      .xOpen = open_usually,
      .xDelete = delete_usually,
      .xAccess = access_usually,
      .xFullPathname = full_path_usually,
      .xRandomness = randomness_usually,
      .xSleep = sleep_patiently,
      .xCurrentTime = time_usually,
      .xGetLastError = last_error_usually,
  };
  if (sqlite3_vfs_register(&patient, 0) != SQLITE_OK) patient.zName = NULL;
}

const char *sb_patient_vfs(void) {
  pthread_once(&register_once, register_patient);
  return patient.zName;
}
