// A disk that fails when it is told, and that remembers what it was told to keep.
//
// A SQLite VFS over the usual one, and a few system calls that the library makes itself. All of it
// is as usual until it is armed. It is for one thread that works at a time.
#pragma once

#include <stddef.h>
#include <stdint.h>

// What can fail.
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
  // Any of them.
  fault_any = fault_kinds,
  // SQLite's own memory, which is of no disk.
  fault_memory,
} fault_kind;

// How it fails.
typedef enum fault_manner {
  fault_input_output,
  fault_disk_full,
  // Only the first half of what was to be written is written.
  fault_short,
  fault_busy,
  fault_no_memory,
} fault_manner;

// Makes the VFS the usual one of this process; before SQLite is used.
int fault_install(void);
int fault_is_installed(void);

// Names the directory of the stores. System calls fail only for files below it, and for what the
// library asks the kernel through /proc.
void fault_set_place(const char *directory);

// From now on the `first`th operation of a kind fails, counted from 1; if `is_lasting`, so do all
// after it.
void fault_arm(fault_kind kind, fault_manner manner, int first, int is_lasting);

// Nothing fails any more. Returns how many operations have failed.
int fault_disarm(void);

// How many operations have failed since the disk was armed; for other threads.
int fault_strikes(void);

// What it does first: makes SQLite's memory fail as well.
int fault_install_memory(void);

// What the VFS, the memory and the system calls ask: whether this operation fails.
int fault_strikes_now(fault_kind kind);
fault_manner fault_armed_manner(void);

// Set while SQLite's own VFS is at work, whose system calls are no concern of the library's.
extern __thread int fault_inside;

// What happened to the files of a store.
typedef enum trace_kind {
  trace_write,
  trace_truncate,
  trace_delete,
  // All that was written to the file before is on the disk.
  trace_sync,
  // The names that the directory has at that moment are on the disk.
  trace_directory_sync,
  // A mark that the user of the trace has set.
  trace_mark,
} trace_kind;

typedef struct trace_event {
  trace_kind kind;
  // 0 the store's file, 1 its log, 2 its journal. Of a directory: 0 the store's, 1 the one that it
  // lies in.
  int file;
  // Where it was written, the length that it was cut to, or the number of the mark.
  int64_t offset;
  size_t length;
  const uint8_t *bytes;
  // Of the store's directory: for each file a bit, which is set if it was there.
  int names;
} trace_event;

// Begins to write down what happens to the file of that path, its log and its journal.
void trace_begin(const char *store);
void trace_end(void);
void trace_set_mark(int64_t number);
size_t trace_count(void);
trace_event trace_at(size_t index);

// What the VFS and the system calls tell.
int trace_file_named(const char *path);
void trace_note_write(int file, const void *bytes, size_t length, int64_t offset);
void trace_note_truncate(int file, int64_t length);
void trace_note_delete(const char *path);
void trace_note_sync(int descriptor);
