// The system calls that the library makes itself, in place of the ones of the C library.
#define _GNU_SOURCE
#include "faultshim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fails(fault_kind kind) {
  if (fault_inside || !fault_strikes_now(kind)) return 0;
  fault_manner manner = fault_armed_manner();
  errno = manner == fault_disk_full ? ENOSPC : manner == fault_busy ? EWOULDBLOCK : EIO;
  return 1;
}

int open(const char *path, int flags, ...) {
  mode_t mode = 0;
  if (flags & (O_CREAT | O_TMPFILE)) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  if (fails(fault_call_open)) return -1;
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static int sync_by(long call, int descriptor) {
  if (fails(fault_call_sync)) return -1;
  // Where the disk is made to fail nothing is written through: the power is only cut in the trace.
  if (!fault_is_installed()) return (int)syscall(call, descriptor);
  trace_note_sync(descriptor);
  return 0;
}

int fdatasync(int descriptor) { return sync_by(SYS_fdatasync, descriptor); }

int fsync(int descriptor) { return sync_by(SYS_fsync, descriptor); }

int fallocate(int descriptor, int mode, off_t offset, off_t length) {
  if (fails(fault_call_reserve)) return -1;
  return (int)syscall(SYS_fallocate, descriptor, mode, offset, length);
}

int flock(int descriptor, int operation) {
  if (!(operation & LOCK_UN) && fails(fault_call_lock)) return -1;
  return (int)syscall(SYS_flock, descriptor, operation);
}
