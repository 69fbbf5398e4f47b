// Replacements for the C library's system calls that SharedBreaker itself makes.
//
// Every other library in the process calls these too, so they fail only for the store.
#define _GNU_SOURCE
#include "faultshim.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// The directory of the stores, as the caller named it, and with its links resolved.
static char named_place[PATH_MAX];
static char real_place[PATH_MAX];

void fault_set_place(const char *directory) {
  snprintf(named_place, sizeof named_place, "%s", directory);
  if (!realpath(directory, real_place)) real_place[0] = 0;
}

static int is_in(const char *path, const char *place) {
  size_t length = strlen(place);
  return length > 0 && strncmp(path, place, length) == 0
      && (path[length] == 0 || path[length] == '/');
}

static int is_in_place(const char *path) {
  return is_in(path, named_place) || is_in(path, real_place);
}

// Whether a path is that of another thread. libdispatch reads the states of its threads there, and
// traps if it cannot.
static int is_of_other_thread(const char *path) {
  int number = 0;
  char thread[64];
  if (sscanf(path, "/proc/%d/", &number) != 1 || number == getpid()) return 0;
  snprintf(thread, sizeof thread, "/proc/self/task/%d", number);
  return access(thread, F_OK) == 0;
}

// Whether the library asks the kernel something: about processes, the boot, locks or mounts.
static int is_asked_of_kernel(const char *path) {
  return strncmp(path, "/proc/", 6) == 0 && !is_of_other_thread(path);
}

static int concerns_path(const char *path) { return is_in_place(path) || is_asked_of_kernel(path); }

int fault_concerns_path(const char *path) { return is_in_place(path); }

int fault_concerns_descriptor(int descriptor) {
  char link[64];
  char path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return is_in_place(path);
}

// Call this last, because it counts: only operations that concern the store are steps.
static int strikes(fault_kind kind) {
  if (!fault_strikes_now(kind)) return 0;
  fault_manner manner = fault_armed_manner();
  errno = manner == fault_disk_full ? ENOSPC : manner == fault_busy ? EWOULDBLOCK : EIO;
  return 1;
}

static int fails(fault_kind kind, int descriptor) {
  return !fault_inside && fault_concerns_descriptor(descriptor) && strikes(kind);
}

int open(const char *path, int flags, ...) {
  mode_t mode = 0;
  if (flags & (O_CREAT | O_TMPFILE)) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  if (!fault_inside && concerns_path(path) && strikes(fault_call_open)) return -1;
  stop_if_due(is_in_place(path));
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static int sync_by(long call, int descriptor) {
  if (fails(fault_call_sync, descriptor)) return -1;
  stop_if_due(fault_concerns_descriptor(descriptor));
  // While faults are installed nothing is synced, because power is cut only in traces.
  if (!fault_is_installed()) return (int)syscall(call, descriptor);
  trace_note_sync(descriptor);
  return 0;
}

int fdatasync(int descriptor) { return sync_by(SYS_fdatasync, descriptor); }

int fsync(int descriptor) { return sync_by(SYS_fsync, descriptor); }

int fallocate(int descriptor, int mode, off_t offset, off_t length) {
  if (fails(fault_call_reserve, descriptor)) return -1;
  stop_if_due(fault_concerns_descriptor(descriptor));
  return (int)syscall(SYS_fallocate, descriptor, mode, offset, length);
}

int flock(int descriptor, int operation) {
  if (!(operation & LOCK_UN) && fails(fault_call_lock, descriptor)) return -1;
  stop_if_due(fault_concerns_descriptor(descriptor));
  return (int)syscall(SYS_flock, descriptor, operation);
}

// A file of the store gets another name, or loses one.
static void names(const char *from, const char *to) {
  if (!fault_inside && is_in_place(from)) fault_strikes_now(fault_call_name);
  stop_if_due(is_in_place(to));
}

int rename(const char *from, const char *to) {
  names(from, to);
  return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

// Making a directory and giving rights are steps, by name and by descriptor.
int mkdir(const char *path, mode_t mode) {
  stop_if_due(is_in_place(path));
  return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int mkdirat(int directory, const char *name, mode_t mode) {
  stop_if_due(fault_concerns_descriptor(directory));
  return (int)syscall(SYS_mkdirat, directory, name, mode);
}

int openat(int directory, const char *name, int flags, ...) {
  mode_t mode = 0;
  if (flags & (O_CREAT | O_TMPFILE)) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  stop_if_due(fault_concerns_descriptor(directory));
  return (int)syscall(SYS_openat, directory, name, flags, mode);
}

int chown(const char *path, uid_t user, gid_t group) {
  stop_if_due(is_in_place(path));
  return (int)syscall(SYS_fchownat, AT_FDCWD, path, user, group, 0);
}

int chmod(const char *path, mode_t mode) {
  stop_if_due(is_in_place(path));
  return (int)syscall(SYS_fchmodat, AT_FDCWD, path, mode);
}

int fchownat(int directory, const char *name, uid_t user, gid_t group, int flags) {
  stop_if_due(fault_concerns_descriptor(directory));
  return (int)syscall(SYS_fchownat, directory, name, user, group, flags);
}

int renameat2(int directory, const char *from, int to_directory, const char *to, unsigned flags) {
  stop_if_due(fault_concerns_descriptor(directory) || is_in_place(to));
  return (int)syscall(SYS_renameat2, directory, from, to_directory, to, flags);
}

int fchown(int descriptor, uid_t user, gid_t group) {
  stop_if_due(fault_concerns_descriptor(descriptor));
  return (int)syscall(SYS_fchown, descriptor, user, group);
}

int fchmod(int descriptor, mode_t mode) {
  stop_if_due(fault_concerns_descriptor(descriptor));
  return (int)syscall(SYS_fchmod, descriptor, mode);
}

int link(const char *from, const char *to) {
  names(from, to);
  return (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlink(const char *path) {
  names(path, path);
  return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}
