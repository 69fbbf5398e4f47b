// Parts that Swift cannot express: variadic functions, the internals of an SQLite file, mappings at
// a fixed address, and hooks around fork.
#pragma once
#include <pthread.h>
#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <time.h>

// Keeps SQLite from checkpointing when a connection closes. (sqlite3_db_config is variadic.)
int sb_no_checkpoint_on_close(sqlite3 *db);

// Keeps the WAL file when the last connection closes.
int sb_persist_wal(sqlite3 *db);

// Undoes both, as far as the WAL file is concerned: the last connection deletes it when it closes.
int sb_delete_wal_on_close(sqlite3 *db);

// The start of SQLite's own mapping of the WAL-index, or NULL if it has none.
const void *sb_wal_index(sqlite3 *db);

// The name of our VFS of SQLite; NULL if there is no memory. It sleeps as long as the waits of the
// thread go on, and claims the right to write, on the log, wherever SQLite locks a store to write.
const char *sb_vfs(void);

// Claims the right to write for a connection that was opened by our VFS, which keeps it, beyond SQLite's
// locks too, until sb_give_back_claim(). Returns SQLITE_OK, or SQLITE_BUSY if another one has it.
int sb_claim_to_write(sqlite3 *db);
void sb_give_back_claim(sqlite3 *db);

// Sets `moved` to 1 if the path no longer names the file that the connection has open, and to 0 if
// it does. Returns a result code of SQLite.
int sb_has_moved(sqlite3 *db, int *moved);

// Gives a file of an open directory the name `path`, unless a file has it already. Where the file system
// cannot exclude that, it may take the place of an empty directory. Returns 0 or errno.
int sb_give_name(int directory, const char *name, const char *path);

// Takes a shared lock on one byte of a file. It lasts until the descriptor and all copies of it are
// closed, and any number of descriptors can hold the same byte. Returns 0 or errno. (Swift imports
// neither the command nor its structure. Unlike SQLite's own locks, this lock belongs to the open
// file, so closing another descriptor of the same file does not drop it.)
int sb_share_byte(int descriptor, int64_t byte);

// Whether another descriptor, in any process of the host, holds a byte from `first` up to, but not
// including, `end`. This works across PID namespaces and without /proc.
int sb_is_held(int descriptor, int64_t first, int64_t end);

// Whether certainly no process holds a byte: 0 also if the kernel or the file system cannot tell.
int sb_is_free(int descriptor, int64_t byte);

// Takes a shared lock on one byte of a file, as sb_share_byte does, for as long as this process lives,
// whatever becomes of the descriptor. Returns 0 or errno.
//
// A mapping, which is never read, keeps the open file. So no close() or closefrom() ends the lock;
// the end of the process does, an execve(), or sb_end_hold(). The mapping is not inherited by a fork,
// so children do not keep the lock of a parent that has died. On a file system that maps another file
// than the one that was opened, such as overlayfs, the lock ends with the descriptor: the caller has
// to check.
int sb_hold_for_life(int descriptor, int64_t byte, void **hold);

// Ends such a lock; only the process that has taken it may.
void sb_end_hold(void *hold);

// Bytes of a file.
typedef struct sb_range {
  uint64_t device;
  uint64_t inode;
  int64_t first;
  int64_t count;
} sb_range;

// The descriptors of a store and of the index of its log; -1 for one that is not known.
typedef struct sb_descriptors {
  int store;
  int index;
} sb_descriptors;

// The descriptors that were opened for a connection, which may share the index with another one.
sb_descriptors sb_opened(sqlite3 *db);

// Takes shared locks on bytes of files by the descriptors that were opened for a connection, if they are of
// these files and can be written to. If they do not have all of them, it takes the locks by each descriptor
// that this process has open of such a file. Such a lock lasts until its descriptor is closed. This opens and
// closes nothing of these files. Returns the number of locks.
int sb_hold_open(sqlite3 *db, const sb_range *ranges, size_t count);

// The number of the mount by which a path is reached, without following a last link; 0 if the kernel
// does not tell. (Swift does not import statx.)
uint64_t sb_mount(const char *path);

// The store that a log belongs to: its lineage, and the file that it lies in.
typedef struct sb_origin {
  int64_t lineage;
  uint64_t inode;
  int64_t born; // in nanoseconds, so that a later file with that inode is told apart; 0 if unknown
} sb_origin;

sb_origin sb_origin_of(const char *store, int64_t lineage);

// The origin that a log carries in an extended attribute, which outlives every process; 0 if it carries
// none. Setting none takes the attribute away, on the disk too. (Swift does not import these calls.)
int sb_origin_in(int log, sb_origin *origin);
void sb_set_origin(int log, const sb_origin *origin);

// The process that holds a byte so that no other can lock it for writing; 0 if it cannot be told
// which, and -1 if there is none.
int sb_lock_holder(int descriptor, int64_t byte);

// The magic number of the file system that a path is on, or 0. (Swift does not import statfs.)
uint64_t sb_file_system_type(const char *path);

// Locks a mutex, or gives up at an instant of CLOCK_MONOTONIC, or when all waits of this thread end.
// Returns 0 or errno. (Swift imports only the variant that waits on the wall clock, which can be set.)
int sb_mutex_lock_until(pthread_mutex_t *mutex, int64_t nanoseconds);

// The path that this program was started by, or NULL. (Swift does not import getauxval.) It lies
// above the environment, where no program writes its title.
const char *sb_exec_path(void);

// Names the calling thread, in at most 15 bytes. (Swift does not import pthread_setname_np.)
void sb_name_thread(const char *name);

// A page for SQLite's WAL-index, which reads as zero until it is attached. Its address never changes
// and is always readable.
void *sb_index_page(void);

// Maps the page of another shared mapping there, in one step. Returns 0 or errno.
int sb_index_attach(void *page, const void *mapping);

// Makes the page zero again, in one step. Returns 0 or errno.
int sb_index_detach(void *page);

// Atomics on memory shared with other processes. Swift's own work only on storage that Swift
// allocates.
static inline uint64_t sb_load(const uint64_t *address) {
  return __atomic_load_n(address, __ATOMIC_ACQUIRE);
}

static inline uint32_t sb_load32(const uint32_t *address) {
  return __atomic_load_n(address, __ATOMIC_ACQUIRE);
}

static inline void sb_set(uint64_t *address, uint64_t value) {
  __atomic_store_n(address, value, __ATOMIC_RELEASE);
}

static inline void sb_add(uint64_t *address, uint64_t count) {
  __atomic_add_fetch(address, count, __ATOMIC_RELEASE);
}

/* Adds one, and returns what was there before. */
static inline uint64_t sb_count(uint64_t *address) {
  return __atomic_fetch_add(address, 1, __ATOMIC_RELEASE);
}

static inline uint64_t sb_exchange(uint64_t *address, uint64_t value) {
  return __atomic_exchange_n(address, value, __ATOMIC_ACQ_REL);
}

// Replaces the value if it is the expected one. Returns whether it did.
static inline int sb_replace(uint64_t *address, uint64_t expected, uint64_t value) {
  return __atomic_compare_exchange_n(address, &expected, value, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE);
}

// The words of a breaker's counters, in memory that processes share.
enum {
  SB_COUNTER_SUCCESSES,
  SB_COUNTER_KEY,
  SB_COUNTER_UNJUDGED,
  SB_COUNTER_IGNORED,
  SB_COUNTER_REJECTIONS,
  SB_COUNTER_SLOW,
  SB_COUNTER_WOULD_REJECT,
  SB_COUNTER_BUSY,
  SB_COUNTER_HELD,
  SB_COUNTER_RAMPING,
  SB_COUNTER_OVER_RATE,
  SB_COUNTER_RETRIES,
  SB_COUNTER_OVER_BUDGET,
  SB_COUNTER_WORDS = 16
};

// Nanoseconds of a clock that costs next to nothing to read and is a few milliseconds behind.
static inline int64_t sb_coarse_nanoseconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

// The second of the wall clock. No other clock is read in so few instructions.
static inline int64_t sb_second(void) { return time(NULL); }

// The offset that the time namespace of this process adds to the host's boot clock, in nanoseconds;
// 0 while unknown. See time_namespaces(7).
extern int64_t sb_boot_offset;

// Reads the offset unless it is already known. Returns whether it is known now.
int sb_learn_boot_offset(void);

// The offset. (Swift cannot load it atomically.)
static inline int64_t sb_known_boot_offset(void) {
  return __atomic_load_n(&sb_boot_offset, __ATOMIC_RELAXED);
}

// Nanoseconds since the host booted, asked of the kernel itself. A library that is loaded before
// others, such as libfaketime, can replace clock_gettime(3), but not this. It is slower.
int64_t sb_kernel_boot_nanoseconds(void);

// Whether the kernel's boot clock and that of clock_gettime(3) were found to differ.
extern int sb_boot_clock_is_false;

// Nanoseconds since the host booted, as this process is told. Compare them only with each other.
static inline int64_t sb_own_boot_nanoseconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_BOOTTIME, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec -
         sb_known_boot_offset();
}

// Nanoseconds since the host booted, as every process of the host counts them.
static inline int64_t sb_boot_nanoseconds(void) {
  if (__builtin_expect(__atomic_load_n(&sb_boot_clock_is_false, __ATOMIC_RELAXED), 0))
    return sb_kernel_boot_nanoseconds();
  return sb_own_boot_nanoseconds();
}

// Compares both clocks, and returns the kernel's.
int64_t sb_checked_boot_nanoseconds(void);

// Reserves space in a file, because a mapping must never lack it. Returns 0 or errno. (Where the
// file system cannot reserve, posix_fallocate writes into the counts of other processes.)
int sb_reserve(int descriptor, int64_t offset, int64_t length);

// Replaces a mapping with zero-filled memory private to this process, in one step, so that the
// range can be read and written at all times. Returns 0 or errno; on failure nothing has changed.
int sb_empty_mapping(void *address, size_t length);

// Keeps the pages of a range in memory, so that nothing has to be read for them again, which could
// fail and kill the process. Returns 0 or errno: the system limits it. A child of a fork has to ask
// for it again.
int sb_keep_in_memory(const void *address, size_t length);

// How many bytes this process may keep in memory.
uint64_t sb_memory_limit(void);

// A descriptor that polls as readable once it is raised; -1 if there is none. (Swift does not
// import eventfd.)
static inline int sb_flag(void) { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }
static inline int sb_flag_raise(int flag) { return eventfd_write(flag, 1); }

// Whether a file has an access control list, beside which its mode does not say who may use it.
int sb_has_access_list(const char *path);

// Frees a page that sb_index_page has made.
void sb_index_free(void *page);

// Called around every fork() of this process, in the thread that forks: `before` it, and `after` it
// on each side. The result of `before`, if not NULL, is released once the hooks' lock is free
// again.
typedef struct sb_fork_hook {
  void *(*before)(void *context);
  void (*after)(void *context, int is_child);
  void (*release)(void *held);
  void *context;
  struct sb_fork_hook *next;
} sb_fork_hook;

// Returns 0, or an errno if the hooks cannot be installed.
int sb_fork_add(sb_fork_hook *hook);

// Waits for a fork that is under way. Once this returns, the hook is no longer called.
void sb_fork_remove(sb_fork_hook *hook);

// How many forks lie between the first process that used this library and this one.
extern uint64_t sb_forks;
static inline uint64_t sb_fork_depth(void) { return sb_load(&sb_forks); }
