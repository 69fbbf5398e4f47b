#define _GNU_SOURCE
#include "chost.h"
#include "waiting.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

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

// SQLite opens a file by its name, and would wait for ever if a pipe were there by then that no program
// writes to. Only the files of a store are opened without waiting.
static __thread int opens_store;
static int (*usual_open)(const char *, int, int);

// The descriptor that SQLite has opened last of a store's files; -1 if it has opened none.
static __thread int opened = -1;

static int open_without_waiting(const char *path, int flags, int mode) {
  if (!opens_store) return usual_open(path, flags, mode);
  return opened = usual_open(path, flags | O_NONBLOCK, mode);
}

static void never_wait_in_open(void) {
  sqlite3_vfs *system = sqlite3_vfs_find("unix");
  if (!system || system->iVersion < 3 || !system->xGetSystemCall || !system->xSetSystemCall) return;
  sqlite3_syscall_ptr found = system->xGetSystemCall(system, "open");
  if (!found || found == (sqlite3_syscall_ptr)open_without_waiting) return;
  usual_open = (int (*)(const char *, int, int))found;
  system->xSetSystemCall(system, "open", (sqlite3_syscall_ptr)open_without_waiting);
}

// Our part of the open file of a store, after the usual VFS's: its methods, ours, and its log, opened
// once more to claim the right to write on it.
typedef struct {
  const sqlite3_io_methods *usual;
  sqlite3_io_methods methods;
  int log;
  // Which descriptors SQLite has opened for this connection.
  sb_descriptors opened;
  // Whether the claim outlasts SQLite's lock.
  int keeps_claim;
} claiming_file;

// The bytes of an open file that belong to the usual VFS, with those that align what follows them.
static int part_of_usual(void) {
  enum { alignment = _Alignof(claiming_file) };
  return (usual->szOsFile + alignment - 1) / alignment * alignment;
}

static claiming_file *claiming(sqlite3_file *file) {
  return (claiming_file *)((char *)file + part_of_usual());
}

// Locks the byte of the log that a process has while it writes, or recovers the index, or unlocks it.
// The lock belongs to the open file. Returns 0 or errno.
static int change_claim(claiming_file *own, short type) {
  if (own->log < 0) return 0;
  struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = INT64_MAX - 1, .l_len = 1};
  return fcntl(own->log, F_OFD_SETLK, &lock) == 0 ? 0 : errno;
}

// Takes the claim. Where the log is not open for writing, or cannot be locked, SQLite's lock must be
// enough.
static int take_claim(claiming_file *own) {
  int code = change_claim(own, F_WRLCK);
  return code == EAGAIN || code == EACCES ? SQLITE_BUSY : SQLITE_OK;
}

static void give_back_claim(claiming_file *own) { change_claim(own, F_UNLCK); }

// SQLite locks the first byte to write, and to recover the index of a log in which it finds no valid
// header. A process loses that lock without notice when any of its code closes a descriptor of the
// index, so the claim, which lasts, goes with it.
static int lock_with_claim(sqlite3_file *file, int first, int count, int flags) {
  claiming_file *own = claiming(file);
  int is_to_write = first == 0 && flags & SQLITE_SHM_EXCLUSIVE;
  if (is_to_write && flags & SQLITE_SHM_UNLOCK && !own->keeps_claim) give_back_claim(own);
  int code = own->usual->xShmLock(file, first, count, flags);
  if (code != SQLITE_OK || !is_to_write || !(flags & SQLITE_SHM_LOCK)) return code;
  code = take_claim(own);
  if (code != SQLITE_OK) {
    own->usual->xShmLock(file, first, count, SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE);
  }
  return code;
}

// The first part that is mapped opens the index.
static int map_without_waiting(sqlite3_file *file, int part, int size, int extends, void volatile **address) {
  claiming_file *own = claiming(file);
  opens_store = 1;
  opened = -1;
  int code = own->usual->xShmMap(file, part, size, extends, address);
  opens_store = 0;
  if (opened >= 0) own->opened.index = opened;
  return code;
}

static void close_log(claiming_file *own) {
  if (own->log >= 0) close(own->log);
  own->log = -1;
}

static int close_with_log(sqlite3_file *file) {
  claiming_file *own = claiming(file);
  close_log(own);
  return own->usual->xClose(file);
}

// The claiming part of an open file; NULL if the file cannot have an index.
static claiming_file *claiming_or_none(sqlite3_file *file) {
  int is_ours = file && file->pMethods && file->pMethods->xClose == close_with_log;
  return is_ours ? claiming(file) : NULL;
}

// Opens the log once more as soon as SQLite has opened it, which it does before it locks anything of
// the index, so a process that drops its rights later has it open. The locks of a descriptor belong to
// it alone, so no connection gives back another one's claim.
//
// Returns whether SQLite can go on: with the log open, or for a user who may not write to it, or a log
// that is a link, without any claim.
static int open_log(claiming_file *own, const char *name) {
  close_log(own);
  own->log = open(name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  return own->log >= 0 || errno == EACCES || errno == EPERM || errno == EROFS || errno == ELOOP;
}

static int open_to_claim(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *flags_out) {
  (void)vfs;
  opens_store = 1;
  opened = -1;
  int code = usual->xOpen(usual, name, file, flags, flags_out);
  opens_store = 0;
  const sqlite3_io_methods *methods = file->pMethods;
  if (code == SQLITE_OK && flags & SQLITE_OPEN_WAL) {
    claiming_file *store = claiming_or_none(sqlite3_database_file_object(name));
    if (!store || open_log(store, name)) return SQLITE_OK;
    int why = errno;
    methods->xClose(file);
    file->pMethods = NULL;
    errno = why;
    return SQLITE_CANTOPEN;
  }
  if (!methods || methods->iVersion < 2 || !(flags & SQLITE_OPEN_MAIN_DB)) return code;
  claiming_file *own = claiming(file);
  *own = (claiming_file){
      .usual = methods, .methods = *methods, .log = -1, .opened = {opened, -1}};
  // A later SQLite would look for methods that are not in this copy.
  if (own->methods.iVersion > 3) own->methods.iVersion = 3;
  own->methods.xShmLock = lock_with_claim;
  own->methods.xShmMap = map_without_waiting;
  own->methods.xClose = close_with_log;
  file->pMethods = &own->methods;
  return code;
}

static claiming_file *claiming_store(sqlite3 *db) {
  sqlite3_file *file = NULL;
  int code = sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
  return code == SQLITE_OK ? claiming_or_none(file) : NULL;
}

int sb_claim_to_write(sqlite3 *db) {
  claiming_file *own = claiming_store(db);
  int code = own ? take_claim(own) : SQLITE_OK;
  if (own && code == SQLITE_OK) own->keeps_claim = 1;
  return code;
}

void sb_give_back_claim(sqlite3 *db) {
  claiming_file *own = claiming_store(db);
  if (!own || !own->keeps_claim) return;
  own->keeps_claim = 0;
  give_back_claim(own);
}

sb_descriptors sb_opened(sqlite3 *db) {
  claiming_file *own = claiming_store(db);
  return own ? own->opened : (sb_descriptors){-1, -1};
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
static sqlite3_vfs own;

// It does everything as the usual VFS does, except for sleeping and for the claim. It is not the
// default, so other users of SQLite in this process do not get it. The usual one is asked under its
// own address, behind which there may be more than SQLite knows of.
static void register_own(void) {
  usual = sqlite3_vfs_find(NULL);
  if (!usual) return;
  never_wait_in_open();
  own = (sqlite3_vfs){
      .iVersion = 1,
      .szOsFile = part_of_usual() + (int)sizeof(claiming_file),
      .mxPathname = usual->mxPathname,
      .zName = "shared-breaker",
      .xOpen = open_to_claim,
      .xDelete = delete_usually,
      .xAccess = access_usually,
      .xFullPathname = full_path_usually,
      .xRandomness = randomness_usually,
      .xSleep = sleep_patiently,
      .xCurrentTime = time_usually,
      .xGetLastError = last_error_usually,
  };
  if (sqlite3_vfs_register(&own, 0) != SQLITE_OK) own.zName = NULL;
}

const char *sb_vfs(void) {
  pthread_once(&register_once, register_own);
  return own.zName;
}
