#include "prefork.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

pid_t prefork_start(int32_t (*work)(int32_t number), int32_t number) {
  pid_t parent = getpid();
  pid_t child = fork();
  if (child != 0) return child;
  // A worker does not outlive its parent, even if that is killed, and had ended before this line.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(0);
  // Not exit(), which would write once more what the parent had in its buffers.
  _exit(work(number));
}
