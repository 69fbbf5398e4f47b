#define _GNU_SOURCE
#include "testshim.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <linux/futex.h>
#include <malloc.h>
#include <signal.h>
#include <spawn.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int ts_fork(void) { return fork(); }

void ts_leave_thread(void) {
  for (;;) syscall(SYS_exit, 0);
}

static ts_statement_observer observe;

static int traced(unsigned event, void *context, void *statement, void *detail) {
  (void)context;
  (void)detail;
  const char *sql = sqlite3_sql((sqlite3_stmt *)statement);
  if (sql) observe(sql, event == SQLITE_TRACE_PROFILE);
  return 0;
}

static int committing(void *context) {
  (void)context;
  observe("commit", 0);
  return 0;
}

static int opened(sqlite3 *db, char **message, const void *routines) {
  (void)message;
  (void)routines;
  sqlite3_trace_v2(db, SQLITE_TRACE_STMT | SQLITE_TRACE_PROFILE, traced, 0);
  sqlite3_commit_hook(db, committing, 0);
  return SQLITE_OK;
}

void ts_watch_statements(ts_statement_observer observer) {
  observe = observer;
  // SQLite declares the argument as a function without parameters, but calls it with these.
  sqlite3_auto_extension((void (*)(void))opened);
}

int ts_become(unsigned user, unsigned group) {
  if (setgroups(0, 0) != 0 || setgid(group) != 0 || setuid(user) != 0) return errno;
  return 0;
}

void ts_limit(unsigned seconds) {
  // A child inherits the signal mask of the thread that starts it, and threads of a pool block
  // signals.
  sigset_t alarms;
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  sigprocmask(SIG_UNBLOCK, &alarms, NULL);
  signal(SIGALRM, SIG_DFL);
  alarm(seconds);
}

int ts_pipe(int ends[2]) { return pipe2(ends, O_CLOEXEC) == 0 ? 0 : errno; }

int ts_inherit_nothing(void *actions) {
  return posix_spawn_file_actions_addclosefrom_np(actions, 3);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where) {
  (void)status;
  (void)kind;
  (void)where;
  return remove(path);
}

void ts_remove_all(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

int ts_keeps_robust_locks(void) {
  struct robust_list_head *head = NULL;
  size_t length = 0;
  if (syscall(SYS_get_robust_list, 0, &head, &length) != 0 || !head) return 0;
  return head->list.next != &head->list || head->list_op_pending;
}

size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

int ts_is_watched(void) { return __sanitizer_get_current_allocated_bytes != 0; }

void __tsan_init(void) __attribute__((weak));

int ts_threads_are_watched(void) { return __tsan_init != 0; }

size_t ts_allocated_bytes(void) {
  if (__sanitizer_get_current_allocated_bytes) return __sanitizer_get_current_allocated_bytes();
  struct mallinfo2 information = mallinfo2();
  return information.uordblks + information.hblkhd;
}
