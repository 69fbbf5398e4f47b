#define _GNU_SOURCE
#include "chost.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

int sb_share_byte(int descriptor, int64_t byte) {
  struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
  return fcntl(descriptor, F_OFD_SETLK, &lock) == 0 ? 0 : errno;
}

int sb_is_held(int descriptor, int64_t first, int64_t end) {
  if (first >= end) return 0;
  struct flock lock = {
      .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = first, .l_len = end - first};
  return fcntl(descriptor, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

int sb_is_free(int descriptor, int64_t byte) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
  return fcntl(descriptor, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

enum { page_size = 4096 };

int sb_hold_for_life(int descriptor, int64_t byte, void **hold) {
  void *mapping = mmap(0, page_size, PROT_NONE, MAP_SHARED, descriptor, 0);
  if (mapping == MAP_FAILED) return errno;
  int code = madvise(mapping, page_size, MADV_DONTFORK) == 0 ? sb_share_byte(descriptor, byte) : errno;
  if (code) munmap(mapping, page_size);
  else *hold = mapping;
  return code;
}

void sb_end_hold(void *hold) { munmap(hold, page_size); }

static int hold_by(int descriptor, const sb_range *ranges, size_t count) {
  struct stat status;
  if (descriptor < 0 || fstat(descriptor, &status) != 0) return 0;
  int held = 0;
  for (size_t i = 0; i < count; ++i) {
    if (status.st_dev != ranges[i].device || status.st_ino != ranges[i].inode) continue;
    // Others that only read the file would keep the lock when SQLite has closed it.
    if ((fcntl(descriptor, F_GETFL) & O_ACCMODE) != O_RDWR) continue;
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = ranges[i].first,
                         .l_len = ranges[i].count};
    held += fcntl(descriptor, F_OFD_SETLK, &lock) == 0;
  }
  return held;
}

int sb_hold_open(sqlite3 *db, const sb_range *ranges, size_t count) {
  sb_descriptors opened = sb_opened(db);
  int held = hold_by(opened.store, ranges, count) + hold_by(opened.index, ranges, count);
  // In a process with thousands of descriptors, looking at each takes longer than all else of opening a store.
  if ((size_t)held == count) return held;
  DIR *directory = opendir("/proc/self/fd");
  if (directory) {
    struct dirent *entry;
    while ((entry = readdir(directory))) {
      if (entry->d_name[0] != '.') held += hold_by(atoi(entry->d_name), ranges, count);
    }
    closedir(directory);
    return held;
  }
  // Without /proc, descriptors are looked for where the kernel hands them out: from the lowest on.
  struct rlimit limit;
  int end = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < 65536 ? (int)limit.rlim_cur
                                                                            : 65536;
  for (int descriptor = 0; descriptor < end; ++descriptor) {
    held += hold_by(descriptor, ranges, count);
  }
  return held;
}

int sb_lock_holder(int descriptor, int64_t byte) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
  if (fcntl(descriptor, F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return -1;
  return lock.l_pid > 0 ? lock.l_pid : 0;
}
