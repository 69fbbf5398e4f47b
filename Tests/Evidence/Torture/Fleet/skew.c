// Lets a program believe that its clock is off by $FLEET_SKEW_SECONDS. The torture compiles this, and relays load it.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long skew;

__attribute__((constructor)) static void learn(void) {
  const char *text = getenv("FLEET_SKEW_SECONDS");
  skew = text ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *when) {
  int code = (int)syscall(SYS_clock_gettime, clock, when);
  if (code == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) when->tv_sec += skew;
  return code;
}

int gettimeofday(struct timeval *restrict when, void *restrict zone) {
  (void)zone;
  struct timespec now;
  int code = clock_gettime(CLOCK_REALTIME, &now);
  if (code == 0) *when = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
  return code;
}

time_t time(time_t *when) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (when) *when = now.tv_sec;
  return now.tv_sec;
}
