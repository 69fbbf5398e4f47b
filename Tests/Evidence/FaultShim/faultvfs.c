#include "faultshim.h"

#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>

__thread int fault_inside;

static struct {
  fault_kind kind;
  fault_manner manner;
  int first;
  int is_lasting;
} armed;

static atomic_int is_armed;
static atomic_int operations;
static atomic_int strikes;

// The system error that SQLite gets for the operation that failed last.
static atomic_int system_error;

void fault_arm(fault_kind kind, fault_manner manner, int first, int is_lasting) {
  armed.kind = kind;
  armed.manner = manner;
  armed.first = first;
  armed.is_lasting = is_lasting;
  operations = 0;
  strikes = 0;
  is_armed = 1;
}

int fault_disarm(void) {
  is_armed = 0;
  system_error = 0;
  return strikes;
}

int fault_strikes(void) { return strikes; }

fault_manner fault_armed_manner(void) { return armed.manner; }

// Whether an operation changes what other processes find.
static int is_seen_by_others(fault_kind kind) {
  return kind == fault_write || kind == fault_truncate || kind == fault_sync
      || kind == fault_delete || kind == fault_call_open || kind == fault_call_sync
      || kind == fault_call_reserve || kind == fault_call_name;
}

int fault_strikes_now(fault_kind kind) {
  int is_meant = armed.kind == kind
      || (armed.kind == fault_any
          && (armed.manner == fault_killed ? is_seen_by_others(kind) : kind < fault_kinds));
  if (!is_armed || !is_meant) return 0;
  int number = ++operations;
  if (armed.is_lasting ? number < armed.first : number != armed.first) return 0;
  ++strikes;
  if (armed.manner == fault_killed) raise(SIGKILL);
  system_error = armed.manner == fault_disk_full ? ENOSPC : EIO;
  return 1;
}

typedef struct fault_file {
  sqlite3_file base;
  sqlite3_file *real;
  int traced;
  int has_index;
} fault_file;

static sqlite3_vfs *usual;

static sqlite3_file *real_of(sqlite3_file *file) { return ((fault_file *)file)->real; }

// Evaluates an expression of the usual VFS.
#define INSIDE(expression) \
  ({ \
    fault_inside++; \
    int inside_code = (expression); \
    fault_inside--; \
    inside_code; \
  })

static int file_close(sqlite3_file *file) {
  return INSIDE(real_of(file)->pMethods->xClose(real_of(file)));
}

static int file_read(sqlite3_file *file, void *bytes, int length, sqlite3_int64 offset) {
  sqlite3_file *real = real_of(file);
  // A short read is not a fault: the system returns less only at the end of the file.
  if (fault_strikes_now(fault_read)) return SQLITE_IOERR_READ;
  return INSIDE(real->pMethods->xRead(real, bytes, length, offset));
}

static int write_through(sqlite3_file *file, const void *bytes, int length, sqlite3_int64 offset) {
  sqlite3_file *real = real_of(file);
  int code = INSIDE(real->pMethods->xWrite(real, bytes, length, offset));
  if (code == SQLITE_OK) trace_note_write(((fault_file *)file)->traced, bytes, length, offset);
  return code;
}

static int file_write(sqlite3_file *file, const void *bytes, int length, sqlite3_int64 offset) {
  if (!fault_strikes_now(fault_write)) return write_through(file, bytes, length, offset);
  if (armed.manner == fault_short) write_through(file, bytes, length / 2, offset);
  return armed.manner == fault_input_output ? SQLITE_IOERR_WRITE : SQLITE_FULL;
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 length) {
  sqlite3_file *real = real_of(file);
  if (fault_strikes_now(fault_truncate)) return SQLITE_IOERR_TRUNCATE;
  int code = INSIDE(real->pMethods->xTruncate(real, length));
  if (code == SQLITE_OK) trace_note_truncate(((fault_file *)file)->traced, length);
  return code;
}

static int file_sync(sqlite3_file *file, int flags) {
  sqlite3_file *real = real_of(file);
  if (fault_strikes_now(fault_sync)) return SQLITE_IOERR_FSYNC;
  return INSIDE(real->pMethods->xSync(real, flags));
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size) {
  sqlite3_file *real = real_of(file);
  if (fault_strikes_now(fault_size)) return SQLITE_IOERR_FSTAT;
  return INSIDE(real->pMethods->xFileSize(real, size));
}

static int file_lock(sqlite3_file *file, int level) {
  sqlite3_file *real = real_of(file);
  if (fault_strikes_now(fault_lock))
    return armed.manner == fault_busy ? SQLITE_BUSY : SQLITE_IOERR_LOCK;
  return INSIDE(real->pMethods->xLock(real, level));
}

static int file_unlock(sqlite3_file *file, int level) {
  sqlite3_file *real = real_of(file);
  // The lock is released even where the fault reports that it could not be.
  int code = INSIDE(real->pMethods->xUnlock(real, level));
  return fault_strikes_now(fault_unlock) ? SQLITE_IOERR_UNLOCK : code;
}

static int file_check_reserved(sqlite3_file *file, int *is_reserved) {
  sqlite3_file *real = real_of(file);
  if (fault_strikes_now(fault_lock)) return SQLITE_IOERR_CHECKRESERVEDLOCK;
  return INSIDE(real->pMethods->xCheckReservedLock(real, is_reserved));
}

static int file_control(sqlite3_file *file, int operation, void *argument) {
  sqlite3_file *real = real_of(file);
  return INSIDE(real->pMethods->xFileControl(real, operation, argument));
}

static int file_sector_size(sqlite3_file *file) {
  return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int file_characteristics(sqlite3_file *file) {
  return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int index_map(
    sqlite3_file *file, int region, int size, int may_extend, void volatile **mapping) {
  sqlite3_file *real = real_of(file);
  if (fault_strikes_now(fault_index_map)) {
    *mapping = 0;
    return armed.manner == fault_disk_full ? SQLITE_IOERR_SHMSIZE : SQLITE_IOERR_SHMMAP;
  }
  int code = INSIDE(real->pMethods->xShmMap(real, region, size, may_extend, mapping));
  if (*mapping) ((fault_file *)file)->has_index = 1;
  return code;
}

// The slots of the index with which writers, checkpoints and recoveries exclude each other. The
// other slots are those of readers, which exclude each other only briefly. A process that holds one
// of these for long has just created the index.
enum { slots_of_writers = 3 };

static int index_lock(sqlite3_file *file, int slot, int count, int flags) {
  sqlite3_file *real = real_of(file);
  int is_busy = is_armed && armed.manner == fault_busy;
  int concerns = !is_busy
      || ((flags & SQLITE_SHM_LOCK) && !armed.is_lasting)
      || ((flags & SQLITE_SHM_LOCK) && slot < slots_of_writers
          && ((fault_file *)file)->has_index);
  if (!concerns || !fault_strikes_now(fault_index_lock))
    return INSIDE(real->pMethods->xShmLock(real, slot, count, flags));
  if (flags & SQLITE_SHM_UNLOCK) INSIDE(real->pMethods->xShmLock(real, slot, count, flags));
  return is_busy ? SQLITE_BUSY : SQLITE_IOERR_SHMLOCK;
}

static void index_barrier(sqlite3_file *file) {
  real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int index_unmap(sqlite3_file *file, int is_deleted) {
  return INSIDE(real_of(file)->pMethods->xShmUnmap(real_of(file), is_deleted));
}

static const sqlite3_io_methods methods = {
  2, file_close, file_read, file_write, file_truncate, file_sync, file_size, file_lock,
  file_unlock, file_check_reserved, file_control, file_sector_size, file_characteristics,
  index_map, index_lock, index_barrier, index_unmap, 0, 0,
};

static int vfs_open(
    sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags, int *flags_out) {
  (void)vfs;
  fault_file *opened = (fault_file *)file;
  opened->base.pMethods = 0;
  if (fault_strikes_now(fault_open)) return SQLITE_CANTOPEN;
  opened->real = (sqlite3_file *)(opened + 1);
  opened->has_index = 0;
  opened->traced = trace_file_named(name);
  int code = INSIDE(usual->xOpen(usual, name, opened->real, flags, flags_out));
  if (opened->real->pMethods) opened->base.pMethods = &methods;
  return code;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int syncs_directory) {
  (void)vfs;
  if (fault_strikes_now(fault_delete)) return SQLITE_IOERR_DELETE;
  int code = INSIDE(usual->xDelete(usual, name, syncs_directory));
  if (code == SQLITE_OK) trace_note_delete(name);
  return code;
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *result) {
  (void)vfs;
  if (fault_strikes_now(fault_access)) return SQLITE_IOERR_ACCESS;
  return INSIDE(usual->xAccess(usual, name, flags, result));
}

static int vfs_full_path(sqlite3_vfs *vfs, const char *name, int size, char *out) {
  (void)vfs;
  return INSIDE(usual->xFullPathname(usual, name, size, out));
}

static int vfs_last_error(sqlite3_vfs *vfs, int size, char *text) {
  (void)vfs;
  return system_error ? system_error : usual->xGetLastError(usual, size, text);
}

int fault_is_installed(void) { return usual != 0; }

int fault_install(void) {
  int code = fault_install_memory();
  if (code != SQLITE_OK) return code;
  usual = sqlite3_vfs_find(0);
  if (!usual) return SQLITE_ERROR;
  // Functions that are not replaced here, such as time and randomness, come from the copy.
  static sqlite3_vfs faulty;
  faulty = *usual;
  faulty.szOsFile = sizeof(fault_file) + usual->szOsFile;
  faulty.pNext = 0;
  faulty.zName = "faulty";
  faulty.xOpen = vfs_open;
  faulty.xDelete = vfs_delete;
  faulty.xAccess = vfs_access;
  faulty.xFullPathname = vfs_full_path;
  faulty.xGetLastError = vfs_last_error;
  return sqlite3_vfs_register(&faulty, 1);
}
