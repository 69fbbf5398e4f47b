// Preloaded by scripts/budgets: the one way of using mremap(2) that valgrind does not know, a second mapping of the
// same pages, which an old size of zero asks for.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *second_mapping(const char *path, size_t size, off_t offset) {
  // Left open: closing it would drop the locks that SQLite has on this file.
  int descriptor = open(path, O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return MAP_FAILED;
  return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, offset);
}

static void *mapping_again(uintptr_t address, size_t size) {
  FILE *maps = fopen("/proc/self/maps", "re");
  char line[8192], path[4096];
  void *mapping = MAP_FAILED;
  errno = EINVAL;
  while (maps && mapping == MAP_FAILED && fgets(line, sizeof line, maps)) {
    uintptr_t begin, end;
    uintmax_t offset;
    int fields = sscanf(
        line, "%" SCNxPTR "-%" SCNxPTR " %*s %" SCNxMAX " %*s %*s %4095[^\n]", &begin, &end, &offset, path);
    if (fields == 4 && begin <= address && address < end)
      mapping = second_mapping(path, size, (off_t)(offset + (address - begin)));
  }
  if (maps) fclose(maps);
  return mapping;
}

void *mremap(void *address, size_t old_size, size_t new_size, int flags, ...) {
  if (!old_size) return mapping_again((uintptr_t)address, new_size);
  va_list rest;
  va_start(rest, flags);
  void *at = va_arg(rest, void *);
  va_end(rest);
  return (void *)syscall(SYS_mremap, address, old_size, new_size, flags, at);
}
