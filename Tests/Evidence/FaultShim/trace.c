#include "faultshim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { files = 3 };

// The store's file, its log, and the journal with which SQLite creates a file that has no log yet.
static const char *const suffixes[files] = {"", "-wal", "-journal"};
static char paths[files][4096 + 8];
static char directory[4096];
static char outer_directory[4096];
static int is_tracing;
static trace_event *events;
static size_t count;
static size_t room;

static void add(trace_event event) {
  if (count == room) {
    room = room ? room * 2 : 1024;
    events = realloc(events, room * sizeof *events);
    if (!events) abort();
  }
  events[count++] = event;
}

static void cut_last_part(const char *path, char *out) {
  const char *slash = strrchr(path, '/');
  size_t length = slash ? (size_t)(slash - path) : 0;
  memcpy(out, path, length);
  out[length] = 0;
}

void trace_begin(const char *path) {
  for (size_t index = 0; index < count; index++) free((void *)events[index].bytes);
  count = 0;
  for (int file = 0; file < files; file++)
    snprintf(paths[file], sizeof paths[file], "%s%s", path, suffixes[file]);
  cut_last_part(path, directory);
  cut_last_part(directory, outer_directory);
  is_tracing = 1;
}

void trace_end(void) { is_tracing = 0; }

void trace_set_mark(int64_t number) {
  if (is_tracing) add((trace_event){.kind = trace_mark, .offset = number});
}

size_t trace_count(void) { return count; }

trace_event trace_at(size_t index) { return events[index]; }

int trace_file_named(const char *path) {
  if (!is_tracing || !path) return -1;
  for (int file = 0; file < files; file++)
    if (strcmp(path, paths[file]) == 0) return file;
  return -1;
}

void trace_note_write(int file, const void *bytes, size_t length, int64_t offset) {
  if (!is_tracing || file < 0) return;
  uint8_t *copy = malloc(length);
  if (!copy) abort();
  memcpy(copy, bytes, length);
  add((trace_event){trace_write, file, offset, length, copy, 0});
}

void trace_note_truncate(int file, int64_t length) {
  if (!is_tracing || file < 0) return;
  add((trace_event){.kind = trace_truncate, .file = file, .offset = length});
}

void trace_note_delete(const char *path) {
  int file = trace_file_named(path);
  if (file >= 0) add((trace_event){.kind = trace_delete, .file = file});
}

static int is_file(const struct stat *status, const char *path) {
  struct stat other;
  return stat(path, &other) == 0 && other.st_dev == status->st_dev
      && other.st_ino == status->st_ino;
}

void trace_note_sync(int descriptor) {
  struct stat status;
  if (!is_tracing || fstat(descriptor, &status) != 0) return;
  int names = 0;
  for (int file = 0; file < files; file++) {
    if (is_file(&status, paths[file])) add((trace_event){.kind = trace_sync, .file = file});
    names |= (access(paths[file], F_OK) == 0) << file;
  }
  if (is_file(&status, directory))
    add((trace_event){.kind = trace_directory_sync, .file = 0, .names = names});
  if (is_file(&status, outer_directory))
    add((trace_event){.kind = trace_directory_sync, .file = 1});
}
