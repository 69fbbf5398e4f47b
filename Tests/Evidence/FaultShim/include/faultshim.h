// A disk that fails on command and that records what is written to it.
//
// It consists of a SQLite VFS over the usual one, and of a few system calls that the library makes
// itself. Everything works as usual until a fault is armed. Only one thread at a time may use it.
#pragma once

#include <stddef.h>
#include <stdint.h>

// The operations that can fail.
typedef enum fault_kind {
  fault_open,
  fault_read,
  fault_write,
  fault_sync,
  fault_truncate,
  fault_size,
  fault_lock,
  fault_unlock,
  fault_delete,
  fault_access,
  fault_index_map,
  fault_index_lock,
  // System calls of the library's own.
  fault_call_open,
  fault_call_sync,
  fault_call_reserve,
  fault_call_lock,
  fault_kinds,
  // Any of the operations above.
  fault_any = fault_kinds,
  // SQLite's own memory, which is not part of the disk.
  fault_memory,
  // The library renames or deletes a file. A process can be killed there.
  fault_call_name,
} fault_kind;

// How an operation fails.
typedef enum fault_manner {
  fault_input_output,
  fault_disk_full,
  // Only the first half of the bytes is written.
  fault_short,
  fault_busy,
  fault_no_memory,
  // The process is killed before the operation. Then `fault_any` stands for operations whose effect
  // other processes can see.
  fault_killed,
} fault_manner;

// Makes this VFS the default of the process. Call it before SQLite is used.
int fault_install(void);
int fault_is_installed(void);

// Sets the directory of the stores. System calls fail only for files below it, and for the files of
// /proc that the library reads.
void fault_set_place(const char *directory);

// Makes the `first`th operation of a kind from now on fail, counted from 1. If `is_lasting`, every
// later one fails too.
void fault_arm(fault_kind kind, fault_manner manner, int first, int is_lasting);

// Makes everything work again. Returns the number of operations that have failed.
int fault_disarm(void);

// Returns the number of operations that have failed since a fault was armed. Other threads may call
// it.
int fault_strikes(void);

// Makes SQLite's memory fail too; `fault_install` calls it first.
int fault_install_memory(void);

// Returns whether this operation fails. The VFS, the memory and the system calls ask it.
int fault_strikes_now(fault_kind kind);
fault_manner fault_armed_manner(void);

// Whether a path or a descriptor is that of a file of the store.
int fault_concerns_path(const char *path);
int fault_concerns_descriptor(int descriptor);

// Makes this process stop, as by SIGSTOP, before the `step`th system call on a file of the store,
// counted from 1; 0 lets it run.
void stop_before_step(int step);
int stop_steps(void);

// Counts a step if the call concerns the store.
void stop_if_due(int concerns);

// How long this process has asked the system to let it sleep.
int64_t stop_nanoseconds_slept(void);

// Set while SQLite's own VFS runs, whose system calls are not the library's.
extern __thread int fault_inside;

// The kind of an access to a file of a store.
typedef enum trace_kind {
  trace_write,
  trace_truncate,
  trace_delete,
  // Everything that was written to the file before is on the disk.
  trace_sync,
  // The names that the directory has at this moment are on the disk.
  trace_directory_sync,
  // A mark that the user of the trace set.
  trace_mark,
} trace_kind;

typedef struct trace_event {
  trace_kind kind;
  // The file: 0 is the store's file, 1 its log, 2 its journal. For a directory, 0 is the store's,
  // and 1 the one that contains it.
  int file;
  // The offset of a write, the length after a truncation, or the number of a mark.
  int64_t offset;
  size_t length;
  const uint8_t *bytes;
  // For the store's directory, one bit for each file, which is set if the file was there.
  int names;
} trace_event;

// Begins to record what happens to the file at a path, its log and its journal.
void trace_begin(const char *store);
void trace_end(void);
void trace_set_mark(int64_t number);
size_t trace_count(void);
trace_event trace_at(size_t index);

// Reports from the VFS and the system calls.
int trace_file_named(const char *path);
void trace_note_write(int file, const void *bytes, size_t length, int64_t offset);
void trace_note_truncate(int file, int64_t length);
void trace_note_delete(const char *path);
void trace_note_sync(int descriptor);
