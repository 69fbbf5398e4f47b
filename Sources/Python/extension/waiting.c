// Calls of the library that may wait. They release the GIL, and a signal ends the wait.
//
// A handler may use the library itself, or fork, so it must not run inside a call. A signal therefore ends the
// wait first. Then its handler runs, and unless that has raised, the library is called again. While the main
// thread waits, the interpreter's C handler writes a byte to its wake-up descriptor for each signal, which can
// be seen without the GIL.
#include "extension.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// What signals write to. The child of a fork makes its own.
static struct {
  int reader, writer;
  unsigned forks;
} bell = {-1, -1, 0};

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int has_rung(void *unused) {
  struct pollfd reader = {bell.reader, POLLIN, 0};
  return poll(&reader, 1, 0) > 0;
}

// Sets the wake-up descriptor of the interpreter, and returns the one before; -2 if it cannot be set. It keeps
// the exception that is set.
static int set_wakeup(State *state, int descriptor) {
  PyObject *pending = sb_raised();
  PyObject *answer = PyObject_CallFunction(state->set_wakeup, "i", descriptor);
  long before = answer ? PyLong_AsLong(answer) : -2;
  Py_XDECREF(answer);
  PyErr_Clear();
  sb_raise_again(pending);
  return (int)before;
}

// Lets signals ring; false if they cannot.
static bool listen_for_signals(Wait *wait) {
  State *state = wait->store->state;
  int inherited = -1;
  if (bell.reader < 0 || bell.forks != sb_forks) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK)) return false;
    inherited = bell.writer;
    if (bell.reader >= 0) close(bell.reader);
    bell.reader = ends[0];
    bell.writer = ends[1];
    bell.forks = sb_forks;
  }
  wait->outer = set_wakeup(state, bell.writer);
  if (inherited >= 0) {
    // The process was forked while a thread of its parent waited.
    if (wait->outer == inherited) wait->outer = -1;
    close(inherited);
  }
  return wait->outer >= -1;
}

// Restores the wake-up descriptor, and passes on what has rung.
static void stop_listening(Wait *wait) {
  char signals[256];
  ssize_t count;
  if (set_wakeup(wait->store->state, wait->outer) < -1) set_wakeup(wait->store->state, -1);
  while ((count = read(bell.reader, signals, sizeof signals)) > 0)
    if (wait->outer >= 0 && write(wait->outer, signals, (size_t)count) < 0) continue;
}

// Prepares a wait for a store. It keeps the exception that is set.
Wait sb_wait_for(Store *store) {
  Wait wait = {.store = store, .pending = sb_raised()};
  // Only the main thread of the main interpreter runs handlers, and only there is the function known.
  wait.ends_early = store->state->set_wakeup && syscall(SYS_gettid) == getpid();
  if (wait.ends_early) wait.until = now() + store->lock_timeout;
  return wait;
}

// Releases the GIL for a call of the library; false if there is nothing more to call. The code is
// SB_INTERRUPTED then if a handler has raised.
bool sb_begins_wait(Wait *wait, int *code) {
  wait->is_listening = !wait->is_over && wait->ends_early && listen_for_signals(wait);
  // A signal that came before has not rung.
  if (wait->is_listening && PyErr_CheckSignals()) {
    stop_listening(wait);
    *code = SB_INTERRUPTED;
    wait->is_over = true;
  }
  if (wait->is_over) {
    sb_raise_again(wait->pending);
    return false;
  }
  if (wait->is_listening) sb_interruptible(has_rung, NULL);
  wait->thread = PyEval_SaveThread();
  return true;
}

// Takes the GIL again, and runs the handlers of signals that have ended the wait.
void sb_ends_wait(Wait *wait, int code) {
  PyEval_RestoreThread(wait->thread);
  if (wait->is_listening) {
    sb_interruptible(NULL, NULL);
    stop_listening(wait);
  }
  wait->is_over = code != SB_INTERRUPTED || PyErr_CheckSignals();
  // Signals that keep coming must not let a call wait for ever.
  if (now() >= wait->until) wait->ends_early = false;
}
