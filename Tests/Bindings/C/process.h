/* Helpers of tests with several processes: waiting for a child, and a child that locks the store. Include it before
 * any other header. */
#ifndef PROCESS_H
#define PROCESS_H

#define _DEFAULT_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* Waits for a child that must succeed. */
static inline void await(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) CHECK(errno == EINTR);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    fprintf(stderr, "a child ended with %d, by signal %d\n", WEXITSTATUS(status), status & 127);
    exit(1);
  }
}

/* Another process that holds the lock of writers. */
typedef struct holder {
  pid_t process;
  int end;
} holder;

static inline holder hold(const char *store) {
  holder its;
  int ready[2], end[2];
  char path[4096], byte = 0;
  snprintf(path, sizeof path, "%s-shm", store);
  CHECK(pipe(ready) == 0 && pipe(end) == 0);
  its.process = fork();
  if (its.process == 0) {
    struct flock lock;
    int file = open(path, O_RDWR);
    memset(&lock, 0, sizeof lock);
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    /* Where SQLite has it: https://sqlite.org/walformat.html, 2.2. */
    lock.l_start = 120;
    lock.l_len = 1;
    close(end[1]);
    if (file < 0 || fcntl(file, F_SETLKW, &lock) != 0 || write(ready[1], "", 1) != 1) _exit(1);
    _exit(read(end[0], &byte, 1) == 0 ? 0 : 1);
  }
  close(ready[1]);
  close(end[0]);
  its.end = end[1];
  CHECK(read(ready[0], &byte, 1) == 1);
  close(ready[0]);
  return its;
}

static inline void let_go(holder its) {
  close(its.end);
  await(its.process);
}

#endif
