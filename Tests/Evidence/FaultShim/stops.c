// Stopping this process at a step, and counting how long it sleeps.
//
// A step is a system call on a file of the store, by SQLite or by the library. These functions take
// the place of the C library's.
#define _GNU_SOURCE
#include "faultshim.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static int stops_before;
static atomic_int steps;
static atomic_llong slept;

void stop_before_step(int step) {
  steps = 0;
  stops_before = step;
}

int stop_steps(void) { return steps; }

int64_t stop_nanoseconds_slept(void) { return slept; }

void stop_if_due(int concerns) {
  if (stops_before && concerns && ++steps == stops_before) raise(SIGSTOP);
}

static int concerns(int descriptor) {
  return stops_before && fault_concerns_descriptor(descriptor);
}

int open64(const char *path, int flags, ...) {
  mode_t mode = 0;
  if (flags & (O_CREAT | O_TMPFILE)) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  stop_if_due(stops_before && fault_concerns_path(path));
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

// Record locks, for the most part; their argument is a pointer, and that of all others fits into one.
int fcntl64(int descriptor, int command, ...) {
  va_list rest;
  va_start(rest, command);
  void *argument = va_arg(rest, void *);
  va_end(rest);
  stop_if_due((command == F_SETLK || command == F_OFD_SETLK) && concerns(descriptor));
  return (int)syscall(SYS_fcntl, descriptor, command, argument);
}

int ftruncate64(int descriptor, off64_t length) {
  stop_if_due(concerns(descriptor));
  return (int)syscall(SYS_ftruncate, descriptor, length);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off64_t offset) {
  stop_if_due(concerns(descriptor));
  return syscall(SYS_pwrite64, descriptor, bytes, count, offset);
}

int nanosleep(const struct timespec *time, struct timespec *left) {
  slept += (long long)time->tv_sec * 1000000000 + time->tv_nsec;
  return (int)syscall(SYS_nanosleep, time, left);
}

// SQLite sleeps with it where nothing else is installed.
int usleep(useconds_t microseconds) {
  struct timespec time = {microseconds / 1000000, microseconds % 1000000 * 1000L};
  return nanosleep(&time, 0);
}
