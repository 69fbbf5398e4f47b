#define _GNU_SOURCE
#include "chost.h"
#include "waiting.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

int sb_no_checkpoint_on_close(sqlite3 *db) {
  return sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)0);
}

int sb_has_access_list(const char *path) {
  return getxattr(path, "system.posix_acl_access", NULL, 0) > 0;
}

int sb_persist_wal(sqlite3 *db) {
  int on = 1;
  return sqlite3_file_control(db, "main", SQLITE_FCNTL_PERSIST_WAL, &on);
}

int sb_delete_wal_on_close(sqlite3 *db) {
  int off = 0;
  // SQLite deletes a file only after a checkpoint.
  int code = sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, (int *)0);
  if (code != SQLITE_OK) return code;
  return sqlite3_file_control(db, "main", SQLITE_FCNTL_PERSIST_WAL, &off);
}

const void *sb_wal_index(sqlite3 *db) {
  sqlite3_file *file = 0;
  if (sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK) return 0;
  if (!file || !file->pMethods || file->pMethods->iVersion < 2 || !file->pMethods->xShmMap) return 0;
  void volatile *region = 0;
  // Asks only for what SQLite has already mapped; this never extends the mapping.
  if (file->pMethods->xShmMap(file, 0, 32768, 0, &region) != SQLITE_OK) return 0;
  return (const void *)region;
}

int sb_has_moved(sqlite3 *db, int *moved) {
  return sqlite3_file_control(db, "main", SQLITE_FCNTL_HAS_MOVED, moved);
}

uint64_t sb_file_system_type(const char *path) {
  struct statfs status;
  return statfs(path, &status) == 0 ? (uint32_t)status.f_type : 0;
}

int sb_mutex_lock_until(pthread_mutex_t *mutex, int64_t nanoseconds) {
  if (pthread_mutex_trylock(mutex) == 0) return 0;
  while (sb_ask(nanoseconds) == SB_WAIT_GOES_ON) {
    int64_t part = sb_next_question(nanoseconds);
    struct timespec deadline = {part / 1000000000, part % 1000000000};
    int code = pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &deadline);
    if (code != ETIMEDOUT) return code;
  }
  return ETIMEDOUT;
}

const char *sb_exec_path(void) { return (const char *)getauxval(AT_EXECFN); }

void sb_name_thread(const char *name) { pthread_setname_np(pthread_self(), name); }

uint64_t sb_mount(const char *path) {
  struct statx status;
  int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT;
  if (statx(AT_FDCWD, path, flags, STATX_MNT_ID, &status) != 0) return 0;
  // Since Linux 5.8; an older kernel leaves the bit out.
  return status.stx_mask & STATX_MNT_ID ? status.stx_mnt_id : 0;
}

sb_origin sb_origin_of(const char *store, int64_t lineage) {
  sb_origin origin = {.lineage = lineage};
  struct statx status;
  int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT;
  if (statx(AT_FDCWD, store, flags, STATX_INO | STATX_BTIME, &status) != 0) return origin;
  origin.inode = status.stx_ino;
  if (status.stx_mask & STATX_BTIME) {
    origin.born = (int64_t)status.stx_btime.tv_sec * 1000000000 + status.stx_btime.tv_nsec;
  }
  return origin;
}

static const char origin_name[] = "user.shared-breaker.origin";

int sb_origin_in(int log, sb_origin *origin) {
  return fgetxattr(log, origin_name, origin, sizeof *origin) == sizeof *origin;
}

void sb_set_origin(int log, const sb_origin *origin) {
  if (origin) {
    fsetxattr(log, origin_name, origin, sizeof *origin, 0);
  } else if (fremovexattr(log, origin_name) == 0) {
    fsync(log);
  }
}

int64_t sb_boot_offset;
static int knows_boot_offset;

// The text has one line for each clock, such as `boottime  86400  0`. This also runs in the child
// of a fork, so it uses only functions that are safe there.
static int parse_boot_offset(const char *text, int64_t *offset) {
  const char *line = strstr(text, "boottime");
  if (!line) return 0;
  char *rest;
  long long seconds = strtoll(line + strlen("boottime"), &rest, 10);
  long long nanoseconds = strtoll(rest, 0, 10);
  *offset = (int64_t)seconds * 1000000000 + nanoseconds;
  return 1;
}

int sb_learn_boot_offset(void) {
  if (__atomic_load_n(&knows_boot_offset, __ATOMIC_ACQUIRE)) return 1;
  int64_t offset = 0;
  int file = open("/proc/self/timens_offsets", O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    // A kernel without time namespaces has the rest of /proc, but not this file.
    if (errno != ENOENT || access("/proc/self/stat", F_OK) != 0) return 0;
  } else {
    char text[256];
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0) return 0;
    text[length] = 0;
    if (!parse_boot_offset(text, &offset)) return 0;
  }
  __atomic_store_n(&sb_boot_offset, offset, __ATOMIC_RELAXED);
  __atomic_store_n(&knows_boot_offset, 1, __ATOMIC_RELEASE);
  return 1;
}

int sb_boot_clock_is_false;

// The system call itself: syscall(3) can be replaced as well.
static int kernel_clock(clockid_t clock, struct timespec *time) {
#if defined(__x86_64__)
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "0"((long)SYS_clock_gettime), "D"((long)clock), "S"(time)
                   : "rcx", "r11", "memory");
  return (int)result;
#elif defined(__aarch64__)
  register long number __asm__("x8") = SYS_clock_gettime;
  register long first __asm__("x0") = clock;
  register struct timespec *second __asm__("x1") = time;
  __asm__ volatile("svc 0" : "+r"(first) : "r"(number), "r"(second) : "memory");
  return (int)first;
#else
  return (int)syscall(SYS_clock_gettime, clock, time);
#endif
}

int64_t sb_kernel_boot_nanoseconds(void) {
  struct timespec time;
  // A sandbox that allows only the clocks of the vDSO refuses the call.
  if (kernel_clock(CLOCK_BOOTTIME, &time) != 0) clock_gettime(CLOCK_BOOTTIME, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec - sb_known_boot_offset();
}

static int boot_clocks_differ(int64_t *real) {
  int64_t told = sb_own_boot_nanoseconds();
  *real = sb_kernel_boot_nanoseconds();
  return *real - told > 1000000000 || told - *real > 1000000000;
}

int64_t sb_checked_boot_nanoseconds(void) {
  int64_t real;
  // Twice, because the process may have been stopped between the two readings.
  if (boot_clocks_differ(&real) && boot_clocks_differ(&real))
    __atomic_store_n(&sb_boot_clock_is_false, 1, __ATOMIC_RELAXED);
  return real;
}

// Runs at load time, before the program can have used up its descriptors.
__attribute__((constructor)) static void learn_at_start(void) {
  sb_learn_boot_offset();
  sb_checked_boot_nanoseconds();
}

// Where the file system cannot reserve space (ext2, for example), writing zeros up to the end of
// the file allocates it. No process has mapped that range yet, so no count is overwritten. The lock
// keeps two processes from writing at once; if it is taken, this fails instead of waiting.
static int write_room(int descriptor, int64_t end) {
  static const char zeros[65536];
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) return errno;
  int code = 0;
  struct stat status;
  int64_t before = fstat(descriptor, &status) == 0 ? status.st_size : end;
  int64_t at = before;
  while (at < end && code == 0) {
    size_t count = end - at < (int64_t)sizeof zeros ? (size_t)(end - at) : sizeof zeros;
    ssize_t written = pwrite(descriptor, zeros, count, at);
    if (written > 0) at += written;
    else if (written == 0 || errno != EINTR) code = written == 0 ? ENOSPC : errno;
  }
  // A partial segment would look like a truncated file.
  if (code != 0 && at > before && ftruncate(descriptor, before) != 0) code = errno;
  flock(descriptor, LOCK_UN);
  return code;
}

int sb_reserve(int descriptor, int64_t offset, int64_t length) {
  while (fallocate(descriptor, 0, offset, length) != 0) {
    // A sandbox may refuse the call, or say that the kernel does not have it.
    if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EPERM)
      return write_room(descriptor, offset + length);
    if (errno != EINTR) return errno;
  }
  return 0;
}

int sb_empty_mapping(void *address, size_t length) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void *empty = mmap(0, length, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (empty == MAP_FAILED) return errno;
  // Created elsewhere and then moved: a mapping that fails in place can leave a hole there.
  if (mremap(empty, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, address) != MAP_FAILED) return 0;
  int code = errno;
  munmap(empty, length);
  return code;
}

int sb_keep_in_memory(const void *address, size_t length) {
  return mlock(address, length) == 0 ? 0 : errno;
}

uint64_t sb_memory_limit(void) {
  struct rlimit limit;
  return getrlimit(RLIMIT_MEMLOCK, &limit) == 0 ? limit.rlim_cur : 0;
}

enum { page_size = 4096 };

static void *zero_page_at(void *address) {
  int fixed = address ? MAP_FIXED : 0;
  return mmap(address, page_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
}

void *sb_index_page(void) {
  void *page = zero_page_at(0);
  return page == MAP_FAILED ? 0 : page;
}

int sb_index_attach(void *page, const void *mapping) {
  // An old size of zero makes mremap create a second mapping of the same pages. It needs no
  // descriptor of the -shm file, whose closing would drop SQLite's locks, and it outlives SQLite's
  // own mapping.
  void *copy = mremap((void *)(uintptr_t)mapping, 0, page_size, MREMAP_MAYMOVE);
  if (copy == MAP_FAILED) return errno;
  // Created elsewhere and then moved: a mapping that fails in place can leave a hole there.
  void *at = mremap(copy, page_size, page_size, MREMAP_MAYMOVE | MREMAP_FIXED, page);
  if (at != MAP_FAILED) {
    // Every healthy call reads it. Without the right to lock it, it can be read from the disk again.
    sb_keep_in_memory(page, page_size);
    return 0;
  }
  int code = errno;
  munmap(copy, page_size);
  zero_page_at(page);
  return code;
}

int sb_index_detach(void *page) { return zero_page_at(page) == MAP_FAILED ? errno : 0; }

void sb_index_free(void *page) { munmap(page, page_size); }

static pthread_once_t install_once = PTHREAD_ONCE_INIT;
static int install_error;
static pthread_mutex_t hooks_lock = PTHREAD_MUTEX_INITIALIZER;
static sb_fork_hook *hooks;
uint64_t sb_forks;

// The objects that the hooks keep alive during a fork.
typedef struct held {
  void *object;
  void (*release)(void *object);
  struct held *next;
} held;

static held *held_by_hooks;

static void before_fork(void) {
  pthread_mutex_lock(&hooks_lock);
  for (sb_fork_hook *hook = hooks; hook; hook = hook->next) {
    void *object = hook->before(hook->context);
    held *entry = object ? malloc(sizeof *entry) : 0;
    // Without memory the object is never released, which is better than releasing it too early.
    if (!entry) continue;
    *entry = (held){object, hook->release, held_by_hooks};
    held_by_hooks = entry;
  }
}

static void after_fork(int is_child) {
  for (sb_fork_hook *hook = hooks; hook; hook = hook->next) hook->after(hook->context, is_child);
  held *entry = held_by_hooks;
  held_by_hooks = 0;
  pthread_mutex_unlock(&hooks_lock);
  while (entry) {
    held *next = entry->next;
    entry->release(entry->object);
    free(entry);
    entry = next;
  }
}

static void after_fork_in_parent(void) { after_fork(0); }

static void after_fork_in_child(void) {
  __atomic_add_fetch(&sb_forks, 1, __ATOMIC_RELEASE);
  // unshare(2) moves the children of a process, but not the process itself, into a new time
  // namespace.
  __atomic_store_n(&knows_boot_offset, 0, __ATOMIC_RELAXED);
  sb_learn_boot_offset();
  after_fork(1);
}

static void install(void) {
  install_error = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

int sb_fork_add(sb_fork_hook *hook) {
  pthread_once(&install_once, install);
  if (install_error) return install_error;
  pthread_mutex_lock(&hooks_lock);
  hook->next = hooks;
  hooks = hook;
  pthread_mutex_unlock(&hooks_lock);
  return 0;
}

void sb_fork_remove(sb_fork_hook *hook) {
  pthread_mutex_lock(&hooks_lock);
  for (sb_fork_hook **at = &hooks; *at; at = &(*at)->next) {
    if (*at == hook) {
      *at = hook->next;
      break;
    }
  }
  pthread_mutex_unlock(&hooks_lock);
}

int sb_give_name(int directory, const char *name, const char *path) {
  int code = renameat2(directory, name, AT_FDCWD, path, RENAME_NOREPLACE);
  if (code != 0 && errno == EINVAL) code = renameat(directory, name, AT_FDCWD, path);
  return code == 0 ? 0 : errno;
}
