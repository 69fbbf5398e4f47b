/*
 * sharedbreaker.h - circuit breakers that all processes of a host share, for C.
 *
 * A breaker sits in front of something that may fail, such as a server. Ask it before each call, and
 * tell it afterwards how the call went:
 *
 *     sb_store *store;
 *     sb_breaker *payments;
 *     sb_permit permit = SB_PERMIT_INIT;
 *
 *     if (sb_open(NULL, 0, NULL, &store) != SB_OK ||
 *         sb_breaker_open(store, "payments", SB_NUL, "max-failures=3 open-for=30s", SB_NUL,
 *                         SB_STORE_DEFAULT, &payments) != SB_OK)
 *       errx(1, "%s", sb_error_text());
 *
 *     switch (sb_enter(payments, &permit, NULL, 0)) {
 *     case SB_OK:
 *       sb_leave(payments, &permit, charge(order) ? SB_SUCCESS : SB_FAILURE, NULL, 0);
 *       break;
 *     case SB_REJECTED:
 *       try_again_later(order);
 *       break;
 *     default:
 *       warnx("%s", sb_error_text());
 *     }
 *
 * Link with `pkg-config --cflags --libs sharedbreaker`. The state of all breakers is in one file,
 * which the command `cbctl` shows and changes.
 *
 * CODES. Every function that can fail returns an int: SB_OK, another answer (greater than 0), or an
 * error (less than 0). An answer or error changes nothing unless its description says otherwise.
 * Codes are for programs; sb_error_text() has the words for people.
 *
 * TEXT is UTF-8 with a length in bytes, and may hold any character that its description does not
 * forbid. The length SB_NUL says that the text ends at its first zero byte. NULL with the length 0 or
 * SB_NUL is no text. Texts that a function hands out end with a zero byte that their length does not count;
 * free them with sb_free().
 *
 * ERRORS. The words of an error are kept for each thread, where sb_error_text() finds them. A program whose
 * calls may go on in another thread before it asks, as goroutines do, passes an sb_error in place of the
 * handle, which receives the words of that very call. SB_STORE(), SB_BREAKER(), SB_NEWS(), SB_HOOK() and
 * SB_TURN() do so, in every call that takes such a handle:
 *
 *     sb_error error = SB_ERROR_INIT;
 *     if (sb_reset(SB_BREAKER(payments, &error), NULL, 0) < 0) warnx("%s", error.text);
 *
 * STRUCTS begin with their size. Initialize each with its macro (SB_PERMIT_INIT and so on), or set
 * all of it to zero and then `size` to its sizeof. A member that is 0 has its default.
 *
 * DURATIONS are in nanoseconds, at most 365 days.
 *
 * THREADS. Every function may be called from any thread at any time. A permit, a hook and a turn are used by
 * one thread at a time. Let no thread be cancelled, as by pthread_cancel(), in a function of the library. The library handles no signal. It starts no thread, except one while calls wait for
 * their turns on a descriptor; see TURNS.
 *
 * WAITING. sb_enter() and sb_leave() need nanoseconds while all is well: they take no lock, allocate
 * nothing and make no system call, except once a second. To learn what another process changed, they
 * read the file; to tell others, as every failure must, they write it. Writing waits for other
 * processes, for `lock_timeout_ns` at most. With SB_NOWAIT they return SB_WOULD_BLOCK instead of
 * reading or writing the file, or of waiting for a fork() or an sb_close() of another thread, and you
 * call them again where waiting is allowed, such as in a worker thread of an event loop. Where the policy
 * has a `queue-timeout`, sb_enter() also waits for room under `max-concurrent` and for the end of a hold, as
 * long as that says: so give callers that wait threads of their own, and never those that the calls under way
 * need to end. An event loop waits with sb_turn_open() instead. A caller that waits delays neither fork() nor sb_close(), which sends it away with SB_ERR_CLOSED. All other
 * functions that take a store, a breaker or a hook may read or write the file, unless their description
 * says that they do not. sb_interruptible() lets signals and other threads end waits early.
 *
 * THE STORE FAILS. If the file cannot be used, sb_enter() and sb_leave() go on without it, as the
 * enum sb_store_failure says, and return to it by themselves. All other functions return the error.
 *
 * FORK. A process may fork at any time, with any number of threads; fork() waits for calls that are
 * reading or writing the file. Stores, breakers and hooks that were opened before work in both processes,
 * those of sb_shared_store() too. A permit belongs to the process that got it: what a child reports on a
 * permit of its parent is SB_REFUSED. The descriptor of sb_news_open() belongs to its process too: a child
 * opens its own, and closes the inherited one with sb_news_free(). A turn is the parent's as well: its place in
 * the queue is, and a child can only free it.
 *
 * PROCESS. Load the library as often as you like; it is never unloaded. Have a store open through this
 * library and through no other copy of SQLite in the same process (sqlite.org/howtocorrupt.html,
 * 2.2.1). If memory runs out, the process ends.
 */
#ifndef SHAREDBREAKER_H
#define SHAREDBREAKER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. It is raised when something is added, and nothing is ever taken away
 * or changed within libsharedbreaker.so.1. */
#define SB_ABI_VERSION 1

/* The length of a text that ends at its first zero byte. */
#define SB_NUL (-1)

/* An unknown duration. */
#define SB_UNKNOWN (-1)

/* The results of functions. */
enum sb_code {
  /* It is done; the call is permitted; the outcome counts. */
  SB_OK = 0,

  /* Answers that are not errors. */

  /* The breaker rejects the call. */
  SB_REJECTED = 1,
  /* The answer takes something that SB_NOWAIT forbids; see WAITING. Nothing has changed. */
  SB_WOULD_BLOCK = 2,
  /* The breaker has changed since the call began: the outcome counts in the totals only. */
  SB_OUTDATED = 3,
  /* The probe has lost its lease, or the permit belongs to another process: nothing was recorded. */
  SB_REFUSED = 4,
  /* There is no such breaker. */
  SB_NOT_FOUND = 5,
  /* There is nothing to do now. */
  SB_NOTHING = 6,
  /* The store has not been used yet. */
  SB_UNTRIED = 7,
  /* An entry has failed too often and is skipped. */
  SB_SKIPPED = 8,
  /* The wait for the store was ended early; see sb_interruptible(). Nothing has changed. */
  SB_INTERRUPTED = 9,
  /* The breaker limits how many calls are under way, and SB_UNLIMITED was given. Nothing has changed. */
  SB_LIMITED = 10,
  /* The call waits for its turn; see TURNS. */
  SB_WAITING = 11,

  /* Errors of the caller. */

  /* An argument is NULL, negative, too large or not in its enum. */
  SB_ERR_ARGUMENT = -1,
  /* The store was closed. */
  SB_ERR_CLOSED = -2,
  /* A text is not UTF-8, or holds a zero byte where none may be. */
  SB_ERR_TEXT = -3,
  /* A text cannot be the name of a breaker: 1 to 255 bytes without control characters. */
  SB_ERR_NAME = -4,
  /* A policy has an unknown word or an invalid value, or could never open or never close. */
  SB_ERR_POLICY = -5,
  /* A text is not a token. */
  SB_ERR_TOKEN = -6,
  /* There is no process with that number. */
  SB_ERR_PROCESS = -7,
  /* A struct has a size that this version of the library does not know. */
  SB_ERR_SIZE = -8,
  /* The permit was used already, or never given by sb_enter(). */
  SB_ERR_PERMIT_USED = -9,
  /* The permit was given by another breaker. */
  SB_ERR_PERMIT_OTHER = -10,
  /* The permit that is to be filled still waits for its sb_leave(). */
  SB_ERR_PERMIT_LIVE = -11,
  /* A descriptor or a hook's entry belongs to the process that this one was forked from. */
  SB_ERR_FORKED = -12,
  /* The hook has no entry to report on, or still has one. */
  SB_ERR_HOOK = -13,
  /* There is no memory for the answer, or no descriptor. */
  SB_ERR_RESOURCES = -14,

  /* Errors of the store. All of them, and all that are added, are -100 or less. */

  /* There is no store at the path. */
  SB_ERR_MISSING = -100,
  /* The path leads through something that is not a directory. */
  SB_ERR_NOT_A_DIRECTORY = -101,
  /* The path names a directory. */
  SB_ERR_IS_DIRECTORY = -102,
  /* The path names a symbolic link, which is never followed. */
  SB_ERR_SYMBOLIC_LINK = -103,
  /* This user may not use the file. */
  SB_ERR_PERMISSION = -104,
  /* The file can be read but not written. */
  SB_ERR_READ_ONLY = -105,
  /* The disk, or a quota, is full. */
  SB_ERR_DISK_FULL = -106,
  /* The file is damaged. */
  SB_ERR_CORRUPT = -107,
  /* The file is not a store. */
  SB_ERR_NOT_A_STORE = -108,
  /* The file was written by a newer version. */
  SB_ERR_NEWER_VERSION = -109,
  /* The file lies on a network file system, where processes cannot share it safely. */
  SB_ERR_NETWORK_FILE_SYSTEM = -110,
  /* Another process held the store for longer than the lock timeout. */
  SB_ERR_BUSY = -111,
  /* The system could not read or write the file. */
  SB_ERR_IO = -112,
  /* The store has as many breakers as it may hold; those that exist can still be used. */
  SB_ERR_TOO_MANY_BREAKERS = -113,
  /* Anything else about the store. */
  SB_ERR_STORE = -199
};

/* Whether a code says that the store could not be used. */
#define SB_IS_STORE_ERROR(code) ((code) <= SB_ERR_MISSING)

/* Flags; combine them with |. Any other bit is SB_ERR_ARGUMENT. */
enum sb_flags {
  /* Never read or write the file; see WAITING. */
  SB_NOWAIT = 1,
  /* For sb_connect(): never create the file. */
  SB_EXISTING = 2,
  /* For sb_options: print nothing. Otherwise the library prints a line on standard error when this
   * process can no longer use the store, and one when it can again; sb_error_text() has the same words
   * after sb_health(). Set it in a program that writes them to a log of its own. $SHARED_BREAKER_QUIET
   * sets it for every program, if it is not empty. */
  SB_QUIET = 4,
  /* For sb_breaker_claiming(): its calls leave the units of `reserve` to all others, and wait behind them. */
  SB_BACKGROUND = 8,
  /* For sb_enter(): calls that this thread makes before it gives the permit back are inside of this one; see
   * CALLS INSIDE OF CALLS. */
  SB_SURROUND = 16,
  /* For sb_enter(): permit the call only if it is under no limit; otherwise the answer is SB_LIMITED. */
  SB_UNLIMITED = 32,
  /* For sb_enter(), sb_enter_inside() and sb_turn_open(): the call is sent again, so `retry-budget` may reject it. */
  SB_RETRY = 64
};

/* How a call ended, as far as the breaker is concerned. */
enum sb_outcome {
  /* The resource did what was asked. */
  SB_SUCCESS = 0,
  /* The resource failed. With `open_for_ns` the breaker opens at once, for that time. */
  SB_FAILURE = 1,
  /* The resource failed so that trying again cannot help: the breaker opens at once. */
  SB_PERMANENT_FAILURE = 2,
  /* The call tells nothing about the resource, as when it was cancelled; it frees a probe's slot. */
  SB_IGNORED = 3,
  /* The resource works, and asks to be left alone, for `hold_for_ns` if it named a time: it is no failure, and calls
   * of all processes are held until then. */
  SB_HOLD = 4
};

/* The state of a breaker. */
enum sb_state {
  /* Calls go through, and their outcomes are watched. */
  SB_CLOSED = 0,
  /* Calls are rejected until the open time is over. */
  SB_OPEN = 1,
  /* A few calls, the probes, test whether the resource has recovered. */
  SB_HALF_OPEN = 2
};

/* An override that an operator, or code, applies on top of the state. */
enum sb_mode {
  /* The state alone decides. */
  SB_AUTOMATIC = 0,
  /* Every call is rejected. */
  SB_FORCED_OPEN = 1,
  /* Every call goes through. */
  SB_FORCED_CLOSED = 2,
  /* The state changes and is recorded as usual, but no call is rejected. */
  SB_OBSERVE = 3
};

/* The cause of a rejection. */
enum sb_cause {
  /* The breaker is not closed, or its mode says so. */
  SB_CAUSE_OPEN = 0,
  /* As many calls are under way as max-concurrent permits. */
  SB_CAUSE_BUSY = 1,
  /* The resource has asked to be left alone until an instant, or the first call after that is under way. */
  SB_CAUSE_HELD = 2,
  /* The resource has just come back, and as many calls are under way as have succeeded since, and one more. */
  SB_CAUSE_RAMPING = 3,
  /* As many calls have begun in the last interval as rate permits. */
  SB_CAUSE_RATE = 4,
  /* The call has SB_RETRY, and as many were sent again in the last ten seconds as retry-budget permits. */
  SB_CAUSE_RETRY_BUDGET = 5
};

/* How sb_enter() decides while the store cannot be used. */
enum sb_store_failure {
  /* For a breaker: as its store's options say. For a store: SB_ALONE. */
  SB_STORE_DEFAULT = 0,
  /* Use a breaker of this process alone, which starts from the last known shared state. */
  SB_ALONE = 1,
  /* Permit the call; its outcome is not recorded. */
  SB_PERMIT = 2,
  /* Reject the call. */
  SB_REJECT = 3,
  /* Return the error of the store. */
  SB_FAIL = 4
};

/* The purpose of a permit. */
enum sb_permit_kind {
  /* An ordinary call. */
  SB_NORMAL = 1,
  /* One of the few calls that test whether the resource has recovered. */
  SB_PROBE = 2
};

/* A store, a breaker, the news of a store, a hook, a turn: only the library knows what is inside. Using one
 * after it was freed is undefined, as it is with memory. */
typedef struct sb_store sb_store;
typedef struct sb_breaker sb_breaker;
typedef struct sb_news sb_news;
typedef struct sb_hook sb_hook;
typedef struct sb_turn sb_turn;

/*
 * The right to make one call. It is a plain value: it needs no freeing, and may be anywhere in memory. Leave
 * its members to the library. Copies are the same permit: report only one of them, because the library would
 * count the others too. One variable can serve any number of calls, one after another.
 */
typedef struct sb_permit {
  uint32_t size;
  /* SB_NORMAL or SB_PROBE after sb_enter(); 0 after sb_leave(). */
  uint32_t kind;
  uint64_t opaque[11];
} sb_permit;

#define SB_PERMIT_INIT {sizeof(sb_permit), 0, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}

/* Why a call was rejected, and when to try again. */
typedef struct sb_rejection {
  uint32_t size;
  /* Enum sb_state. */
  int32_t state;
  /* Enum sb_mode. */
  int32_t mode;
  /* The bytes of `reason`; 0 if none was given. */
  int32_t reason_length;
  /* When asking again makes sense: when the open time or the mode ends, or when the probe under way may
   * have succeeded. SB_UNKNOWN if that is up to an operator, or to the calls under way. */
  int64_t retry_after_ns;
  /* Why the mode was set, if the mode is what rejects; or that the store cannot be used, if that is.
   * Cut at a character, and ended by a zero. */
  char reason[248];
  /* Enum sb_cause. */
  int32_t cause;
  int32_t reserved;
} sb_rejection;

#define SB_REJECTION_INIT {sizeof(sb_rejection), 0, 0, 0, 0, {0}, 0, 0}

/* Further facts about how a call went. */
typedef struct sb_details {
  uint32_t size;
  uint32_t reserved;
  /* A description of the error, for people to read; at most 1 KiB of it is kept. NULL if there is none. A text
   * that is not UTF-8 is repaired, because a report is never lost over its words. */
  const char *error;
  int64_t error_length;
  /* The time that the resource itself named, such as the Retry-After of a 503; 0 or less if it named none, or one that
   * is over. At most 365 days of it count. */
  int64_t open_for_ns;
  /* With SB_HOLD: the time that it asked to be left alone for, such as the Retry-After of a 429, in the same way. */
  int64_t hold_for_ns;
  /* How long the call took; 0 to measure from sb_enter(), where the policy looks at slow calls. */
  int64_t elapsed_ns;
} sb_details;

#define SB_DETAILS_INIT {sizeof(sb_details), 0, 0, SB_NUL, 0, 0, 0}

/* How this process uses a store. */
typedef struct sb_options {
  uint32_t size;
  /* Enum sb_store_failure, for breakers that do not say. */
  int32_t on_store_failure;
  /* The longest time that a call waits for another process that is writing; 500 ms if 0. */
  int64_t lock_timeout_ns;
  /* The permission bits of the files, if this process creates them; 0 for 0660 with a `group`, and without one
   * for those of the store that they replace, or else 0600. */
  uint32_t mode;
  /* SB_QUIET, or 0. */
  uint32_t flags;
  /* The group of the files, if this process creates them; NULL for that of the process. */
  const char *group;
  int64_t group_length;
  /* The name of this program in the history; NULL for that of its executable, or of its script and the
   * interpreter, as in "worker.rb (ruby3.1)". */
  const char *program;
  int64_t program_length;
  /* How many breakers the store may have before this process creates no more; 0 for 200,000. */
  int64_t maximum_breakers;
} sb_options;

#define SB_OPTIONS_INIT {sizeof(sb_options), 0, 0, 0, 0, 0, SB_NUL, 0, SB_NUL, 0}

/* The words of one call's error, and the handle that the call is for. It belongs to the caller, may be anywhere
 * in memory, and serves any number of calls, one after another. */
typedef struct sb_error {
  uint32_t size;
  /* The result of the latest failed call with this struct (enum sb_code); 0 if none has failed. */
  int32_t code;
  /* The sb_store, sb_breaker, sb_news, sb_hook or sb_turn that functions use if they are given this struct in its
   * place. */
  void *handle;
  /* The bytes of `text`. */
  int64_t text_length;
  /* The error, its cause and the remedy, in one line that ends with a zero byte. */
  char text[1032];
} sb_error;

#define SB_ERROR_INIT {sizeof(sb_error), 0, 0, 0, {0}}

/* A handle whose next call puts the words of its error into an sb_error, given by its address. In other
 * languages, set `handle` and pass the address of the struct. */
#define SB_STORE(store, error) ((error)->handle = (store), (sb_store *)(void *)(error))
#define SB_BREAKER(breaker, error) ((error)->handle = (breaker), (sb_breaker *)(void *)(error))
#define SB_NEWS(news, error) ((error)->handle = (news), (sb_news *)(void *)(error))
#define SB_HOOK(hook, error) ((error)->handle = (hook), (sb_hook *)(void *)(error))
#define SB_TURN(turn, error) ((error)->handle = (turn), (sb_turn *)(void *)(error))

/*
 * THE LIBRARY. None of these functions reads or writes a file.
 */

/* Returns the version of the library, such as "1.2.0". */
const char *sb_version(void);

/* Returns the SB_ABI_VERSION that the library was built with. A program that uses what was added in
 * version N needs N or more. */
int sb_abi_version(void);

/* Returns the version of the SQLite that the library runs with. */
const char *sb_sqlite_version(void);

/* Returns the meaning of a code, in a few words. It never returns NULL. */
const char *sb_code_text(int code);

/* Returns what went wrong, why, and what to do, in one line, for the latest call in this thread that
 * returned an error; empty if there was none. The text is valid until the next such call in this
 * thread. Calls that succeed leave it alone. */
const char *sb_error_text(void);

/* Lets the waits of this thread be ended early: by a signal handler, by another thread, or by the runtime
 * of a language that has to look after its own signals.
 *
 * is_over  Is asked before each pause of a wait, every few milliseconds; any answer but 0 ends the wait. It
 *          runs in this thread and inside the library: it must return soon, must not leave by longjmp() or an
 *          exception, and must not call the library. NULL: `context` is an int, such as a volatile
 *          sig_atomic_t that a handler sets, and waits end while it is not 0.
 * context  Is handed to `is_over`, or is that int. NULL for both: nothing ends a wait early, as in every
 *          thread at first.
 *
 * A function whose wait was ended returns SB_INTERRUPTED, and has changed nothing: a permit is what it was
 * before, and the store is not considered lost. Call it again, or give up. Only waits end early, so an int that
 * is set too early or too late does no harm: calls that need not wait do what they always do, and one that has
 * to wait returns SB_INTERRUPTED at once until the int is 0 again. sb_close() and fork() are not cut short.
 *
 * A runtime that runs handlers of its users should run them after the call, not in `is_over`: they may call
 * the library, or fork, which waits for the call to return. */
void sb_interruptible(int (*is_over)(void *context), void *context);

/* Frees a text that a function handed out; NULL is nothing to free. */
void sb_free(void *text);

/*
 * STORES
 */

/* Names a store. Nothing is read or created yet: the first use does that, so a store that cannot be
 * used does not keep a program from starting. Call sb_connect() to learn at once.
 *
 * path     The file; NULL for $SHARED_BREAKER_STORE, else /var/lib/shared-breaker/breakers.db for
 *          root, else $XDG_STATE_HOME/shared-breaker/breakers.db (~/.local/state). A relative path is
 *          resolved now.
 * options  NULL for the defaults.
 * store    Receives the store, which you close with sb_close(); NULL after an error.
 *
 * Errors: SB_ERR_ARGUMENT, SB_ERR_TEXT, SB_ERR_SIZE. */
int sb_open(const char *path, int64_t path_length, const sb_options *options, sb_store **store);

/* Names a store for a test, as sb_open() does. Its time does not pass by itself: the test moves it on.
 *
 * time_ns  The time in nanoseconds since 1970, which only ever increases. It must stay in its place until
 *          sb_close(). All processes of the store need the same time, as in a file that they map. */
int sb_test_open(const char *path, int64_t path_length, const sb_options *options,
                 const int64_t *time_ns, sb_store **store);

/* Opens the store now, and creates the file if there is none. With SB_EXISTING it never creates it,
 * nor does any later use of this sb_store: the error is SB_ERR_MISSING. */
int sb_connect(sb_store *store, uint32_t flags);

/* Writes what this process has not written yet, and keeps the store open.
 *
 * Usually there is nothing to write. Failures and changes are written when they happen, and successes
 * are counted in memory that all processes share. A process that cannot use that memory keeps its counts
 * and writes them once a second, with its next call. A policy that could not be declared waits in the
 * same way, and what sb_hook_done() was told waits for the next sb_hook_take(). With nothing to write,
 * sb_flush() does not touch the file.
 *
 * Call it before the process pauses its calls for long, or ends without sb_close(), as by _exit(2). The
 * child of a fork flushes what it has counted itself, and leaves what it inherited to its parent.
 *
 * Errors: SB_ERR_ARGUMENT, SB_ERR_CLOSED, and the store's. The rest is kept for the next attempt. */
int sb_flush(sb_store *store);

/* Writes what this process has not written yet, closes the file, and frees the store. It first waits until
 * calls that other threads are making have returned, of this store or of another. Then each use of the
 * store's breakers, news and hooks, which still have to be freed, returns SB_ERR_CLOSED, and none opens the
 * file again. Leave calls first: a permit that is still out has no outcome any more, and a probe's slot is
 * taken until its `probe-timeout` or the end of the process. Its call is not one of the lost calls, even if the
 * process ends by _exit(2). NULL does nothing.
 *
 * A program that keeps its stores until it exits should close them, so that the totals of its last
 * second are not lost. A process that is killed loses them only where it could not use the shared
 * counters. */
int sb_close(sb_store *store);

/* Returns whether this process could use the store when it last tried: SB_OK, SB_UNTRIED, or the error,
 * with its text. It tries nothing, and never reads or writes the file. */
int sb_health(sb_store *store);

/* Returns the path of the store, to be freed with sb_free(). */
int sb_path(sb_store *store, char **path, int64_t *length);

/* Gets the store that this process opens once for all callers and keeps until it ends: for programs that
 * forget their handles, such as PHP scripts. Every call with the same path gets the same store, in every
 * thread, and in the child of a fork. It uses descriptors and memory once.
 *
 * path     As for sb_open(). The directory and the environment of now count.
 * options  As for sb_open(). The options of the first call for a path hold; later ones are only checked.
 * store    Receives the store; NULL after an error. sb_close() refuses to close it (SB_ERR_ARGUMENT).
 * error    Receives the words of an error; may be NULL.
 *
 * Where the process cannot use the shared counters, call sb_flush() before it ends.
 *
 * Errors: those of sb_open(), and SB_ERR_STORE if there is no default path. */
int sb_shared_store(const char *path, int64_t path_length, const sb_options *options,
                    sb_store **store, sb_error *error);

/*
 * BREAKERS
 */

/* Gets the breaker with a name, which all processes share, and declares its policy if you give one.
 *
 * name              1 to 255 bytes without control characters; case counts.
 * policy            Words as `cbctl policy --set` takes them, separated by spaces, such as
 *                   "failure-rate=50% window=1m min-calls=20"; "" for the default policy. The policy
 *                   that was declared last holds, in every process, and an operator's values win over
 *                   it. NULL declares none: what others declared holds.
 * on_store_failure  Enum sb_store_failure.
 * breaker           Receives the breaker, which you free with sb_breaker_free(); NULL after an error.
 *
 * A store that cannot be used is not an error here: the policy is declared when it can be. If there is no file,
 * the first call creates it and declares the policy, so a process that only declares, such as the master of
 * a prefork server, makes no file that its workers might not be allowed to use.
 *
 * Errors: SB_ERR_ARGUMENT, SB_ERR_TEXT, SB_ERR_NAME, SB_ERR_POLICY, SB_ERR_CLOSED. */
int sb_breaker_open(sb_store *store, const char *name, int64_t name_length, const char *policy,
                    int64_t policy_length, int on_store_failure, sb_breaker **breaker);

/* Gets a breaker of the store that sb_shared_store() keeps, which is kept as long. Every call with the same
 * path and name gets the same breaker, so call it whenever you need one: that takes less than a
 * microsecond. sb_breaker_free() leaves the breaker alone.
 *
 * path, options    As for sb_shared_store().
 * name, policy     As for sb_breaker_open(). A policy is declared when its words differ from those that
 *                  this function declared last in this process, so requests that repeat them neither write
 *                  nor undo what another process has declared since.
 * breaker          Receives the breaker; NULL after an error.
 * error            Receives the words of an error; may be NULL.
 *
 * While the store cannot be used, the breaker does what the options of the first call say. For another
 * choice, give the store to sb_breaker_open().
 *
 * Errors: those of sb_shared_store(), SB_ERR_NAME, SB_ERR_POLICY. */
int sb_shared_breaker(const char *path, int64_t path_length, const sb_options *options,
                      const char *name, int64_t name_length, const char *policy,
                      int64_t policy_length, sb_breaker **breaker, sb_error *error);

/* Gets the same breaker for calls that take several units of `max-concurrent`, or that can wait, such as
 * jobs that need half of a GPU, or that no user waits for:
 *
 *     sb_breaker_claiming(gpu, 2, SB_BACKGROUND, &training);
 *     sb_enter(training, &permit, &rejection, 0);
 *
 * A heavy call begins when there is room for all of its units, and no later caller overtakes it. One that
 * asks for more than the limit takes all of it. Without a limit these calls are like all others.
 *
 * units     How many units each call takes, 1 or more.
 * flags     0 or SB_BACKGROUND.
 * claiming  Receives the breaker, which you free with sb_breaker_free(), before the other one or after it;
 *           NULL after an error. From a breaker that sb_shared_breaker() keeps, the same words get the same
 *           breaker, which is kept as long and not freed.
 *
 * Each of the two takes the permits of the other, and in all but sb_enter() they are the same.
 *
 * Errors: SB_ERR_ARGUMENT. */
int sb_breaker_claiming(sb_breaker *breaker, int32_t units, uint32_t flags, sb_breaker **claiming);

/* Frees a breaker of this process; the breaker in the store stays. NULL does nothing. */
void sb_breaker_free(sb_breaker *breaker);

/* Returns whether this process shares the breaker with the others: SB_OK, SB_UNTRIED, or the error that
 * keeps it alone, with its text. It never reads or writes the file. */
int sb_breaker_health(sb_breaker *breaker);

/* Puts the current state (enum sb_state) into `state`. An open breaker whose open time is over stays
 * open until its next call. While the store cannot be used, this is the state of the breaker of this
 * process alone, or what was last known. */
int sb_breaker_state(sb_breaker *breaker, int *state);

/*
 * CALLS
 */

/* Asks for the right to make one call.
 *
 * permit     Receives the permit if the answer is SB_OK. Give it back with sb_leave(), exactly once.
 * rejection  Receives the reason if the answer is SB_REJECTED; may be NULL.
 * flags      SB_NOWAIT, SB_SURROUND, SB_UNLIMITED, SB_RETRY, or 0.
 *
 * Answers: SB_OK, SB_REJECTED, SB_WOULD_BLOCK, SB_LIMITED. Errors: SB_ERR_ARGUMENT, SB_ERR_SIZE,
 * SB_ERR_PERMIT_LIVE, SB_ERR_CLOSED, and the store's with SB_FAIL.
 *
 * The permit of a probe is a lease. If the process dies, the next caller gets its slot at once; if the
 * probe has not reported by `probe-timeout`, it has failed, unless sb_renew() gave it more time.
 *
 * With `max-concurrent`, the permit is one unit of it until sb_leave(), whatever thread calls that, or as many as
 * sb_breaker_claiming() says. */
int sb_enter(sb_breaker *breaker, sb_permit *permit, sb_rejection *rejection, uint32_t flags);

/* Reports how the call of a permit went, and uses the permit up.
 *
 * outcome  Enum sb_outcome.
 * details  What else is known; NULL if nothing.
 * flags    0 or SB_NOWAIT. An outcome that has to be written, as every failure has to be while the
 *          store can be used, is SB_WOULD_BLOCK then; the permit can still be used.
 *
 * If the store cannot be used, the report goes to the breaker of this process alone; that is not an error.
 *
 * Answers: SB_OK, SB_OUTDATED, SB_REFUSED, SB_WOULD_BLOCK. Errors, none of which uses the permit up:
 * SB_ERR_ARGUMENT, SB_ERR_SIZE, SB_ERR_PERMIT_USED, SB_ERR_PERMIT_OTHER, SB_ERR_CLOSED. */
int sb_leave(sb_breaker *breaker, sb_permit *permit, int outcome, const sb_details *details,
             uint32_t flags);

/* Judges an answer of HTTP, and leaves the time that it names in the details, for sb_leave(). It touches no file.
 *
 * status   Its status; below 100, as clients have it, if there was no answer.
 * headers  Its headers, a line "Name: value" for each, of whatever kind they are; NULL if it has none.
 * details  Where to put `open_for_ns` or `hold_for_ns`; NULL if you do not want to know.
 *
 * 429 is SB_HOLD, for the time in retry-after-ms, Retry-After or the reset of a limit of which nothing is left, and so
 * is 403 that names a time. 408, 500 and above are SB_FAILURE, and so is no answer, for the time in Retry-After; 501 and
 * 505 and all other answers are SB_SUCCESS: the server works.
 *
 * Answers: enum sb_outcome. Errors: SB_ERR_ARGUMENT, SB_ERR_SIZE. */
int sb_judge_http(int status, const char *headers, int64_t headers_length, sb_details *details);

/*
 * TURNS. A call that is held, or finds no room under `max-concurrent`, in a ramp or under a `rate`, waits for its turn
 * where the policy has a `queue-timeout`.
 * An event loop waits for a descriptor:
 *
 *     sb_turn *turn;
 *     switch (sb_turn_open(gpu, 0, &permit, &rejection, &turn, SB_NOWAIT)) {
 *     case SB_OK:
 *       begin(&permit);
 *       break;
 *     case SB_WAITING:
 *       ...  wait until sb_turn_descriptor(turn) is readable, and call sb_turn_take() then
 *     case SB_REJECTED:
 *       ...
 *     case SB_WOULD_BLOCK:
 *       ...  call sb_turn_open() without SB_NOWAIT, in a thread that may read the file
 *     }
 *
 * However many calls of a process wait, one thread of the library does so for all of them. It blocks all signals,
 * begins with the first of them and ends after the last. Nothing polls: the process that gives
 * room back wakes it.
 */

/* Asks for the right to make one call, as sb_enter_inside() does, and for a turn if there is no room.
 *
 * room   That of the call which this one is inside of; 0 if there is none.
 * turn   Receives the turn if the answer is SB_WAITING, and NULL otherwise. You free it with sb_turn_free().
 * flags  SB_NOWAIT, SB_SURROUND, SB_RETRY, or 0. Without SB_NOWAIT it may read and write the file, but does not wait for
 *        the turn either.
 *
 * Answers: SB_OK, SB_REJECTED, SB_WAITING, SB_WOULD_BLOCK. Errors: those of sb_enter(), and SB_ERR_RESOURCES if the
 * process has no descriptor left. */
int sb_turn_open(sb_breaker *breaker, uint64_t room, sb_permit *permit, sb_rejection *rejection,
                 sb_turn **turn, uint32_t flags);

/* Asks for the right to make one call as sb_turn_open() does, for a loop in which so many calls wait that a descriptor
 * for each would be too many, or for a call that has waited already.
 *
 *     int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
 *     ...
 *     case SB_WAITING:
 *       ...  wait until `bell` is readable, read it, and call sb_turn_take() for each turn that is ready
 *
 * descriptor  An eventfd(2) of the caller's that does not block, which any number of turns may share. The library only
 *             writes to it. It must stay open until all of its turns are freed. -1 for one of the turn's own.
 * waited_ns   How long the call has waited for room before, which counts towards `queue-timeout`; 0 if it has not, and
 *             never negative.
 *
 * The rest is as for sb_turn_open(). */
int sb_turn_open_on(sb_breaker *breaker, int descriptor, int64_t waited_ns, uint64_t room, sb_permit *permit,
                    sb_rejection *rejection, sb_turn **turn, uint32_t flags);

/* Returns whether sb_turn_take() has anything but SB_WAITING to say. It never waits, and never reads or writes the
 * file.
 *
 * Answers: SB_OK; SB_NOTHING if the call still waits. Errors: SB_ERR_FORKED in a child of the process that opened
 * it. */
int sb_turn_is_ready(sb_turn *turn);

/* Returns the descriptor to poll for reading; -1 if there is none, such as in the child of a fork. It becomes readable
 * when the turn has come, when `queue-timeout` is over, when the breaker rejects the call, when the answer takes the
 * file, or when the store is closed. It stays open until sb_turn_free(). Only the library reads from it and closes it. */
int sb_turn_descriptor(sb_turn *turn);

/* Looks whether a turn has come, and makes a descriptor of its own unreadable again. It never waits for the turn.
 *
 * When the turn has come, its room is taken already. So take it soon, or free the turn: no other call has the room
 * meanwhile.
 *
 * permit, rejection  As for sb_enter().
 * flags              As for sb_turn_open(), which has taken note of SB_RETRY. SB_WOULD_BLOCK says that the answer takes the file, because the breaker
 *                    has changed or lost calls have to be recorded; call it without SB_NOWAIT then, in a thread that
 *                    may use the file. The turn loses nothing by that.
 *
 * Answers: SB_OK and SB_REJECTED, which end the turn; SB_WAITING if it is not its turn yet; SB_WOULD_BLOCK;
 * SB_INTERRUPTED, after which the turn has its place or its room as before, and its own descriptor is readable.
 * Errors: SB_ERR_PERMIT_USED if the turn has ended, SB_ERR_FORKED in a child of the process that opened it,
 * SB_ERR_CLOSED, and those of sb_enter(). */
int sb_turn_take(sb_turn *turn, sb_permit *permit, sb_rejection *rejection, uint32_t flags);

/* Frees a turn, and closes its descriptor, but not one of the caller's. One that has not ended gives up its place in the
 * queue, or its room. NULL does nothing. */
void sb_turn_free(sb_turn *turn);

/* Renews the lease of a probe that is still making progress: it lasts `for_ns` from now on, or
 * `probe-timeout` if 0. It never shortens a lease, and does nothing for an ordinary permit.
 *
 * Answers: SB_OK; SB_REFUSED if the probe has lost its lease, so that its outcome will not count. */
int sb_renew(sb_breaker *breaker, const sb_permit *permit, int64_t for_ns);

/* Puts a rejection in words, as one line with the name of the breaker. It never reads or writes the
 * file. */
int sb_rejection_text(sb_breaker *breaker, const sb_rejection *rejection, char **text,
                      int64_t *length);

/*
 * CALLS INSIDE OF CALLS. A call of a breaker with `max-concurrent` that is made inside of another one of the same
 * breaker would wait for its own caller. If the library knows of the outer one, the inner one uses its room, and
 * gives nothing back. There are three ways to let it know:
 *
 * - In a thread: SB_SURROUND. Calls that the thread enters from then on are inside of the call, until its permit
 *   is given back. A thread that has several calls under way at once, such as that of an event loop, does not give
 *   this flag, because they are beside each other, and each of them counts.
 * - In a runtime whose tasks share threads, or move between them: sb_permit_room() and sb_enter_inside(). Keep
 *   the room where a task and those that it starts find it.
 * - In another process: sb_environment().
 *
 * Nothing has to be taken back. The room of a call that has ended, however it ended, is worth nothing: what is
 * entered with it takes room of its own. So is the room of a parent in the child of a fork.
 */

/* Gets the room that a call has taken, as a number: what is made inside of the call needs none of its own.
 *
 * Answers: SB_OK; SB_NOTHING if the call has taken none, because it is under no limit or is inside of another
 * call. `*room` is that call's then, or 0. Errors: SB_ERR_ARGUMENT, SB_ERR_SIZE, SB_ERR_PERMIT_USED. */
int sb_permit_room(const sb_permit *permit, uint64_t *room);

/* Asks for the right to make one call, as sb_enter() does, inside of a call of this process.
 *
 * room  That of the outer call, of whichever breaker; 0 if there is none. */
int sb_enter_inside(sb_breaker *breaker, uint64_t room, sb_permit *permit, sb_rejection *rejection,
                    uint32_t flags);

/* Puts calls under way into words for the environment of a program that is started inside of them: an entry such as
 * "SHARED_BREAKER_INSIDE=...", to be freed with sb_free(). The calls that this thread is inside of are in it, and so
 * are those that this process was started inside of, except those known to have ended. `cbctl run` sets the same
 * variable.
 *
 * rooms  Further calls of the store, as sb_permit_room() got them; may be NULL if the count is 0.
 *
 * Answers: SB_OK; SB_NOTHING if none of these calls is under way. */
int sb_environment(sb_store *store, const uint64_t *rooms, int32_t count, char **entry,
                   int64_t *length);

/*
 * PERMITS FOR OTHER PROCESSES
 *
 * A token is a permit as text, without spaces and at most 1,024 bytes long, with which any process of
 * the host can report how the call went. The token of a probe can be used once. The token of an
 * ordinary call is recorded nowhere, and counts each time it is used. A token takes no room under
 * `max-concurrent`. Tokens need the store: while it cannot be used, these functions return its error.
 */

/* Asks for the right to make one call whose outcome another process reports.
 *
 * pid        The process whose end frees a probe's slot; 0 if none does, so that it is free when the
 *            probe has reported, or at `probe-timeout`.
 * token      Receives the token, to be freed with sb_free(), if the answer is SB_OK.
 * rejection  Receives the reason if the answer is SB_REJECTED; may be NULL.
 *
 * Answers: SB_OK, SB_REJECTED. Errors: SB_ERR_PROCESS, the store's, and those of sb_enter(). */
int sb_token_acquire(sb_breaker *breaker, int32_t pid, char **token, int64_t *length,
                     sb_rejection *rejection);

/* Reports how the call of a token went. Without `elapsed_ns` the call is not judged as slow.
 *
 * Answers: SB_OK, SB_OUTDATED, SB_REFUSED. Errors: SB_ERR_TOKEN, the store's (report again when it can
 * be used), and those of sb_leave(). */
int sb_token_report(sb_store *store, const char *token, int64_t length, int outcome,
                    const sb_details *details);

/* Renews the lease of a probe that was given a token, as sb_renew() does. */
int sb_token_renew(sb_store *store, const char *token, int64_t length, int64_t for_ns);

/*
 * CHANGING BREAKERS. Each change is one transaction, which every process sees at its next call. Reasons
 * are for the history; NULL if there is none.
 */

/* Closes the breaker and clears its counters. A mode stays as it is. */
int sb_reset(sb_breaker *breaker, const char *reason, int64_t reason_length);

/* Opens the breaker now, for a time, or for as long as its policy says if 0. */
int sb_trip(sb_breaker *breaker, int64_t for_ns, const char *reason, int64_t reason_length);

/* Sets a mode (enum sb_mode) for a time, or until it is set again if 0. SB_AUTOMATIC ends the mode. */
int sb_force(sb_breaker *breaker, int mode, int64_t for_ns, const char *reason,
             int64_t reason_length);

/* Holds the calls of every process for a time, because the resource has asked to be left alone; it is no failure. If
 * calls are held for longer already, nothing changes. */
int sb_hold(sb_breaker *breaker, int64_t for_ns, const char *reason, int64_t reason_length);

/* Ends a hold. If there is none, nothing changes. */
int sb_hold_end(sb_breaker *breaker, const char *reason, int64_t reason_length);

/*
 * LOOKING. Nothing here changes a breaker or takes a permit. The documents are the JSON of cbctl's
 * --json, which is described in the guide "JSON and exit codes"; members are only ever added. Free each
 * with sb_free().
 */

/* Describes one breaker of the store: an element of "breakers" in `cbctl status --json`. The answer is
 * SB_NOT_FOUND if there is no such breaker. */
int sb_snapshot(sb_store *store, const char *name, int64_t name_length, char **json,
                int64_t *length);

/* Describes a breaker as this process sees it. While the store cannot be used, that is the breaker of
 * this process alone, or what was last known. */
int sb_breaker_snapshot(sb_breaker *breaker, char **json, int64_t *length);

/* Lists the breakers whose names begin with a text, in the byte order of their names: the document of
 * `cbctl status --json`, in one line. NULL lists all of them. */
int sb_list(sb_store *store, const char *prefix, int64_t prefix_length, char **json,
            int64_t *length);

/* Reads on in what happened to a breaker, or to all of them if the name is NULL.
 *
 * after   The number of the entry to read on after: what `*last` received before, or 0 to begin with
 *         the oldest that is kept, or SB_NEWEST to learn in `*last` where the history now ends.
 * limit   At most this many entries, 1 to 10,000.
 * json    Receives the entries, oldest first: a JSON array of the objects that
 *         `cbctl history --json` prints, or "[]".
 * last    Receives what to pass as `after` the next time.
 *
 * If the history now ends before `after`, another file has taken the place of the store's. Reading
 * begins with its oldest entry then, and `*last` receives less than `after`. */
int sb_history(sb_store *store, const char *name, int64_t name_length, int64_t after, int64_t limit,
               char **json, int64_t *length, int64_t *last);

#define SB_NEWEST INT64_MAX

/*
 * NEWS. A descriptor that becomes readable when some process has changed a breaker's state, mode or
 * policy, for poll(2), epoll(7) or an event loop. It costs no thread. News say only that it is time to
 * look, with sb_history() or sb_snapshot(): one wake-up may stand for many changes, or for none.
 *
 *     sb_news *news;
 *     int64_t last;
 *     sb_news_open(store, &news);
 *     sb_history(store, NULL, 0, SB_NEWEST, 1, &json, &length, &last);
 *     for (;;) {
 *       struct pollfd ready = {sb_news_descriptor(news), POLLIN, 0};
 *       poll(&ready, 1, 2000);
 *       if (sb_news_take(news) == SB_OK)
 *         sb_history(store, NULL, 0, last, 1000, &json, &length, &last);
 *     }
 *
 * Poll with a timeout of a few seconds, as here: the directory of the store may be removed and made
 * again, which only sb_news_take() notices.
 */

/* Begins to listen. Entries from now on are news. */
int sb_news_open(sb_store *store, sb_news **news);

/* Returns the descriptor to poll for reading; -1 if there is none, such as in the child of a fork. It
 * stays open until sb_news_free(), also after the store was closed. Only the library reads from it and
 * closes it. */
int sb_news_descriptor(sb_news *news);

/* Makes the descriptor unreadable again. It never waits.
 *
 * Answers: SB_OK if it is time to look; SB_NOTHING if only other files have changed. Errors:
 * SB_ERR_FORKED in a child of the process that opened it. */
int sb_news_take(sb_news *news);

/* Ends listening and closes the descriptor. NULL does nothing. */
void sb_news_free(sb_news *news);

/*
 * HOOKS. A hook handles each entry of the history once, in one of the processes that ask for it, and in
 * order: something that has to happen once per host, such as to page someone.
 *
 *     for (;;) {
 *       switch (sb_hook_take(hook, &entry, &length, &wait_ns)) {
 *       case SB_OK:
 *         sb_hook_done(hook, page_someone(entry) ? SB_HANDLED : SB_FAILED);
 *         sb_free(entry);
 *         break;
 *       case SB_SKIPPED:
 *         break;
 *       case SB_NOTHING:
 *         ...  wait for news, or for wait_ns if it is not SB_UNKNOWN
 *         break;
 *       default:
 *         ...  wait a second or two: the store cannot be used
 *       }
 *     }
 *
 * An entry is handled when the next sb_hook_take() has written that you said so; sb_flush(), sb_hook_free()
 * and sb_close() write it too. If the process dies before that, takes longer than the timeout, or says that it
 * failed, the entry is handed out again, in any of the processes. After `attempts` it is skipped. Handling
 * begins with what happens after the hook's name is first used.
 */

enum sb_hook_result {
  /* The entry is handled. */
  SB_HANDLED = 0,
  /* It failed, and is tried again after a second, then after twice as long each time. */
  SB_FAILED = 1,
  /* It was not tried, because this process ends: it is left to the others. */
  SB_RELEASED = 2
};

/* Begins to take part in a hook.
 *
 * hook        The name of the hook, which all processes share. Use it with one breaker name only.
 * name        The breaker, or NULL for all of them.
 * timeout_ns  How long one entry may take before another process gets it; 60 seconds if 0.
 * attempts    How often an entry is tried; 5 if 0.
 *
 * Errors: SB_ERR_ARGUMENT, SB_ERR_TEXT, SB_ERR_NAME, SB_ERR_CLOSED. */
int sb_hook_open(sb_store *store, const char *hook_name, int64_t hook_name_length,
                 const char *name, int64_t name_length, int64_t timeout_ns, int attempts,
                 sb_hook **hook);

/* Writes what you said of the last entry, and takes the next one that this process is to handle, in one
 * transaction: an object of `cbctl history --json`. If that cannot be written, it is kept for the next call.
 *
 * wait_ns  Receives, if the answer is SB_NOTHING, when to ask again even without news; SB_UNKNOWN if
 *          only news can change the answer. May be NULL.
 *
 * Answers: SB_OK; SB_NOTHING; SB_SKIPPED if an entry has failed too often: ask again at once. Errors:
 * SB_ERR_HOOK if you have yet to say what became of the last entry, and the store's. */
int sb_hook_take(sb_hook *hook, char **entry, int64_t *length, int64_t *wait_ns);

/* Tells the result for the entry (enum sb_hook_result). It never reads or writes the file: the next
 * sb_hook_take() writes what you said. If another process has taken the entry over meanwhile, that changes
 * nothing.
 *
 * Errors: SB_ERR_HOOK without an entry, SB_ERR_FORKED in a child of the process that took it, SB_ERR_CLOSED. */
int sb_hook_done(sb_hook *hook, int result);

/* Ends taking part, and writes what you said of the last entry. An entry of which you have said nothing is
 * left to the others. If the file cannot be written now, the entry is handed out again. NULL does nothing. */
void sb_hook_free(sb_hook *hook);

#ifdef __cplusplus
}
#endif

#endif
