// Functions that tests need and Swift cannot express.
#pragma once
#include <stddef.h>

// fork(2), which Swift hides from its callers.
int ts_fork(void);

// Called in the thread that runs a statement, before it (`is_done` is 0) and after it (1). A commit
// is also reported at the moment it is decided, with the text "commit".
typedef void (*ts_statement_observer)(const char *sql, int is_done);

// Observes every connection that this process opens from now on.
void ts_watch_statements(ts_statement_observer observer);

// Becomes another user permanently. Returns 0 or errno.
int ts_become(unsigned user, unsigned group);

// Whether this thread has robust locks, for which the kernel and the C library follow pointers that lie in them.
int ts_keeps_robust_locks(void);

// Ends the process with a signal after a number of seconds, unless it has ended before.
void ts_limit(unsigned seconds);

// Ends the calling thread, and nothing else, even if it is the first one.
void ts_leave_thread(void);

// pipe2 with O_CLOEXEC, because Glibc in Swift has only pipe. Returns 0 or errno.
int ts_pipe(int ends[2]);

// Lets a program that posix_spawn starts inherit no descriptors but its standard streams. Returns 0
// or an errno. `actions` is a posix_spawn_file_actions_t. (Swift does not import it.)
int ts_inherit_nothing(void *actions);

// Removes a directory and its contents, without following links.
void ts_remove_all(const char *path);

// Returns the number of allocated bytes of this process, as the sanitizer counts them if there is
// one. (Glibc in Swift has no mallinfo2.)
size_t ts_allocated_bytes(void);

// Whether a sanitizer checks the memory of this process.
int ts_is_watched(void);

// Whether ThreadSanitizer checks its threads.
int ts_threads_are_watched(void);
