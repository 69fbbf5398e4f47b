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

// The pipe that signals write to. The child of a fork makes its own.
static struct {
  int reader, writer;
  unsigned forks;
} bell = {-1, -1, 0};

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

// Whether the thread runs the handlers of signals: only the main thread of the main interpreter does.
bool sb_runs_handlers(State *state) {
  static _Thread_local unsigned known_in;  // the number of forks at which it was looked up, plus 1
  static _Thread_local bool is_main;
  if (known_in != sb_forks + 1) {
    known_in = sb_forks + 1;
    is_main = syscall(SYS_gettid) == getpid();
  }
  return is_main && state->set_wakeup;
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
  return (Wait){.store = store,
                .pending = sb_raised(),
                .phase = sb_runs_handlers(store->state) ? AT_ONCE : PATIENTLY};
}

// Ends the first attempt as soon as it would wait, because most calls need not wait, and do without the rest.
static int has_to_wait(void *unused) { return 1; }

// Releases the GIL for a call of the library; false if there is nothing more to call. The code is
// SB_INTERRUPTED then if a handler has raised.
bool sb_begins_wait(Wait *wait, int *code) {
  if (wait->phase == LISTENING) {
    if (!listen_for_signals(wait)) {
      wait->phase = PATIENTLY;
    } else if (PyErr_CheckSignals()) {
      // A signal that came before has not rung.
      stop_listening(wait);
      *code = SB_INTERRUPTED;
      wait->phase = OVER;
    }
  }
  if (wait->phase == OVER) {
    sb_raise_again(wait->pending);
    return false;
  }
  if (wait->phase != PATIENTLY)
    sb_interruptible(wait->phase == AT_ONCE ? has_to_wait : has_rung, NULL);
  wait->thread = PyEval_SaveThread();
  return true;
}

// Takes the GIL again, and runs the handlers of signals that have ended the wait.
void sb_ends_wait(Wait *wait, int code) {
  PyEval_RestoreThread(wait->thread);
  if (wait->phase != PATIENTLY) sb_interruptible(NULL, NULL);
  if (wait->phase == LISTENING) stop_listening(wait);
  // Without signals to handle, only the caller that has given up the wait has ended it.
  if (code != SB_INTERRUPTED || wait->phase == PATIENTLY) {
    wait->phase = OVER;
  } else if (wait->phase == AT_ONCE) {
    wait->phase = LISTENING;
    wait->until = now() + wait->store->lock_timeout;
  } else if (PyErr_CheckSignals()) {
    wait->phase = OVER;
  } else if (now() >= wait->until) {
    // Signals that keep coming must not let a call wait for ever.
    wait->phase = PATIENTLY;
  }
}

// How long a wait looks for signals only now and then, where they cannot ring: in milliseconds.
enum { LOOK_FOR_SIGNALS = 100 };

// Waits until a descriptor is readable, however often signals come whose handlers return; -1 with an exception if
// one has raised.
int sb_wait_until_readable(Store *store, int descriptor) {
  bool is_readable = false, is_main = sb_runs_handlers(store->state);
  // In a child that a handler has forked, the descriptor is that of the parent.
  unsigned forks = sb_forks;
  while (!is_readable && forks == sb_forks) {
    Wait wait = {.store = store};
    bool listens = is_main && listen_for_signals(&wait);
    // A signal that came before has not rung.
    int status = PyErr_CheckSignals();
    if (!status) {
      struct pollfd ready[] = {{descriptor, POLLIN, 0}, {bell.reader, POLLIN, 0}};
      int patience = is_main && !listens ? LOOK_FOR_SIGNALS : -1, count;
      Py_BEGIN_ALLOW_THREADS
      count = poll(ready, listens ? 2 : 1, patience);
      Py_END_ALLOW_THREADS
      is_readable = count > 0 && ready[0].revents;
    }
    if (listens) stop_listening(&wait);
    if (status || PyErr_CheckSignals()) return -1;
  }
  return 0;
}
