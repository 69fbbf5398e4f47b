// What tests need and Swift cannot say.
#pragma once
#include <stddef.h>

// fork(2), which Swift keeps from its callers.
int ts_fork(void);

// Called in the thread that runs a statement: before it (`is_done` 0), and after it (1). A commit
// is also announced at the moment in which it is decided, with the text "commit".
typedef void (*ts_statement_observer)(const char *sql, int is_done);

// Watches every connection that this process opens from now on.
void ts_watch_statements(ts_statement_observer observer);

// Becomes another user for good. Returns 0 or errno.
int ts_become(unsigned user, unsigned group);

// Ends the process with a signal after so many seconds, unless it has ended before.
void ts_limit(unsigned seconds);

// pipe2 with O_CLOEXEC: Glibc in Swift has only pipe. Returns 0 or errno.
int ts_pipe(int ends[2]);

// Removes a directory and all that is in it, links unfollowed.
void ts_remove_all(const char *path);

// How many bytes of this process's memory are allocated, as a sanitizer counts them if there is
// one. (Glibc in Swift has no mallinfo2.)
size_t ts_allocated_bytes(void);

// Whether a sanitizer watches over the memory of this process.
int ts_is_watched(void);

// Whether ThreadSanitizer watches over its threads.
int ts_threads_are_watched(void);
