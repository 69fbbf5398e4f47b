// What Swift cannot say: variadic functions, the insides of a SQLite file, mappings at a fixed
// address, and the hooks around fork.
#pragma once
#include <pthread.h>
#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <time.h>

// sqlite3_db_config is variadic. Keeps SQLite from checkpointing when a connection closes.
int sb_no_checkpoint_on_close(sqlite3 *db);

// Keeps the WAL file when the last connection closes.
int sb_persist_wal(sqlite3 *db);

// The start of SQLite's own mapping of the WAL-index, or NULL if it has none.
const void *sb_wal_index(sqlite3 *db);

// Whether the path still names the file that the connection has open.
int sb_has_moved(sqlite3 *db, int *moved);

// Locks a byte of a file for as long as the descriptor, or a copy of it, is open. Any number of
// descriptors can hold the same byte. Returns 0 or errno. (Swift imports neither the command nor its
// structure. Unlike SQLite's own locks, these belong to the open file, so closing another descriptor
// of the same file does not drop them.)
int sb_hold(int descriptor, int64_t byte);

// Whether another descriptor, of any process of the host, holds a byte from `first` up to, but not
// including, `end`. It works across PID namespaces and without /proc.
int sb_is_held(int descriptor, int64_t first, int64_t end);

// The magic number of the file system that a path lies on, or 0. (Swift does not import statfs.)
uint64_t sb_file_system_type(const char *path);

// Takes a mutex, unless it is still held at an instant of CLOCK_MONOTONIC. Returns 0 or errno.
// (Swift imports only the form that waits on the wall clock, which anybody can set.)
int sb_mutex_lock_until(pthread_mutex_t *mutex, int64_t nanoseconds);

// Names the calling thread, with 15 bytes at most. (Swift does not import pthread_setname_np.)
void sb_name_thread(const char *name);

// A page that is zero until it is attached; its address never changes and can always be read.
void *sb_watch_page(void);

// Shows the page of another shared mapping at the watch page, in one step. Returns 0 or errno.
int sb_watch_attach(void *page, const void *mapping);

// Makes the watch page zero again, in one step. Returns 0 or errno.
int sb_watch_detach(void *page);

// Atomics on memory that other processes share: Swift's own are for memory that it has made.
static inline uint64_t sb_load(const uint64_t *address) {
  return __atomic_load_n(address, __ATOMIC_ACQUIRE);
}

static inline uint32_t sb_load32(const uint32_t *address) {
  return __atomic_load_n(address, __ATOMIC_ACQUIRE);
}

static inline void sb_store(uint64_t *address, uint64_t value) {
  __atomic_store_n(address, value, __ATOMIC_RELEASE);
}

static inline void sb_add(uint64_t *address, uint64_t count) {
  __atomic_add_fetch(address, count, __ATOMIC_RELEASE);
}

static inline uint64_t sb_exchange(uint64_t *address, uint64_t value) {
  return __atomic_exchange_n(address, value, __ATOMIC_ACQ_REL);
}

// Whether the value was the expected one and has been replaced.
static inline int sb_replace(uint64_t *address, uint64_t expected, uint64_t value) {
  return __atomic_compare_exchange_n(address, &expected, value, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE);
}

// The words of a breaker's counters, in memory that processes share.
enum {
  SB_SUCCESSES,
  SB_KEY,
  SB_UNJUDGED,
  SB_IGNORED,
  SB_REJECTIONS,
  SB_SLOW,
  SB_WOULD_REJECT,
  SB_COUNTER_WORDS = 8
};

// Nanoseconds of a clock that costs next to nothing and is a few milliseconds behind.
static inline int64_t sb_coarse_nanoseconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

// What the time namespace of this process adds to the host's boot clock, in nanoseconds; 0 as long as
// nobody could tell. See time_namespaces(7).
extern int64_t sb_boot_offset;

// Reads the offset, unless it is known. Returns whether it is.
int sb_learn_boot_offset(void);

// The offset. (Swift cannot load it atomically.)
static inline int64_t sb_known_boot_offset(void) {
  return __atomic_load_n(&sb_boot_offset, __ATOMIC_RELAXED);
}

// Nanoseconds since the host booted, as every process of the host counts them.
static inline int64_t sb_boot_nanoseconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_BOOTTIME, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec -
         sb_known_boot_offset();
}

// Reserves room in a file, which a mapping of it must never lack. Returns 0 or errno. (The C
// library's own function writes into counts of others where the file system cannot reserve.)
int sb_reserve(int descriptor, int64_t offset, int64_t length);

// Puts memory of this process alone, which is zero, in the place of a mapping, in one step: what is
// mapped there can always be read and written. Returns 0 or errno, and then nothing has changed.
int sb_empty_mapping(void *address, size_t length);

// A descriptor that can be polled until it has been raised; -1 if there is none. (Swift does not
// import eventfd.)
static inline int sb_flag(void) { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }
static inline int sb_flag_raise(int flag) { return eventfd_write(flag, 1); }

// Gives the watch page back.
void sb_watch_free(void *page);

// Called around every fork() of this process, in the thread that forks: before it, and after it
// on each side. What `before` returns, if anything, is released when the hooks' lock is free again.
typedef struct sb_fork_hook {
  void *(*before)(void *context);
  void (*after)(void *context, int is_child);
  void (*release)(void *held);
  void *context;
  struct sb_fork_hook *next;
} sb_fork_hook;

// Returns 0, or an errno if the hooks cannot be installed.
int sb_fork_add(sb_fork_hook *hook);

// Waits for a fork that is under way; afterwards the hook is no longer called.
void sb_fork_remove(sb_fork_hook *hook);

// How many forks lie between the first process that used this library and this one.
extern uint64_t sb_forks;
static inline uint64_t sb_fork_generation(void) { return sb_load(&sb_forks); }
