// Waits for room under a limit, in the way of the code that waits.
//
// A thread waits in the library, which costs least. Once the handler of a signal has returned, the main thread waits for
// a turn on a descriptor instead, because the turn keeps its place and its deadline however many signals come. So does a
// greenlet from the beginning, with the loop that runs it.
#include "extension.h"

#include <time.h>

// Waits until a turn's descriptor is readable; -1 with an exception.
static int wait_until_readable(Breaker *self, PyObject *way, int descriptor) {
  if (way == Py_None) return sb_wait_until_readable((Store *)self->store, descriptor);
  PyObject *answer = PyObject_CallFunction(way, "Oi", self->name, descriptor);
  Py_XDECREF(answer);
  return answer ? 0 : -1;
}

// Finds out what has become of a turn. No signal ends its wait for the file, which is short.
static int take_turn(sb_turn *turn, sb_permit *permit, sb_rejection *rejection) {
  int code = sb_turn_take(turn, permit, rejection, SB_NOWAIT);
  if (code == SB_WOULD_BLOCK) WITHOUT_GIL(code, sb_turn_take(turn, permit, rejection, 0));
  return code;
}

// Gives a turn up, or frees it once it has ended. It keeps the exception that is set.
static void end_turn(sb_turn *turn) {
  PyObject *pending = sb_raised();
  Py_BEGIN_ALLOW_THREADS
  sb_turn_free(turn);
  Py_END_ALLOW_THREADS
  sb_raise_again(pending);
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

// Waits for a turn, for a call that has begun to wait at an instant.
static int enter_in_turn(Breaker *self, PyObject *way, int64_t begin, uint64_t outer, sb_permit *permit,
                         sb_rejection *rejection) {
  sb_turn *turn;
  int code, descriptor;
  do {
    turn = NULL;
    INTERRUPTIBLY((Store *)self->store, code,
                  sb_turn_open_on(self->handle, -1, now() - begin, outer, permit, rejection, &turn,
                                  self->flags));
    // The child of a fork cannot take its parent's turn, and asks for one of its own.
    while (code == SB_WAITING && (descriptor = sb_turn_descriptor(turn)) >= 0)
      code = wait_until_readable(self, way, descriptor) ? SB_INTERRUPTED : take_turn(turn, permit, rejection);
    if (turn) end_turn(turn);
  } while (code == SB_WAITING || code == SB_ERR_FORKED);
  return code;
}

// Takes a permit as sb_enter_inside() does, until a signal comes whose handler returns: SB_WAITING then.
static int enter_in_thread(Breaker *self, uint64_t outer, sb_permit *permit, sb_rejection *rejection) {
  int code = SB_INTERRUPTED;
  bool listens = false;
  for (Wait wait = sb_wait_for((Store *)self->store); sb_begins_wait(&wait, &code); listens = true) {
    code = sb_enter_inside(self->handle, outer, permit, rejection, self->flags);
    sb_ends_wait(&wait, code);
    if (!listens || code != SB_INTERRUPTED || PyErr_Occurred()) continue;
    sb_raise_again(wait.pending);
    return SB_WAITING;
  }
  return code;
}

// Takes a permit as sb_enter_inside() does, and waits for the file and for room. The code is SB_INTERRUPTED, with an
// exception, if a handler has raised, or if waiting for room would stop the loop that runs this code. A call that counts
// as having waited for so long already waits that much less; with SB_LONGEST it does not wait for room at all.
int sb_enter_and_wait(Breaker *self, uint64_t outer, int64_t waited, sb_permit *permit, sb_rejection *rejection) {
  // The queue answers a call that does not wait at once, which stops no loop.
  PyObject *way = waited == SB_LONGEST ? Py_NewRef(Py_None) : PyObject_CallNoArgs(self->state->way_of_waiting);
  if (!way) return SB_INTERRUPTED;
  int64_t begin = now() - waited;
  int code = SB_WAITING;
  // Only a turn knows of a wait before.
  bool needs_turn = waited > 0;
  if (way == Py_None && !needs_turn) code = enter_in_thread(self, outer, permit, rejection);
  if (code == SB_WAITING) {
    code = enter_in_turn(self, way, begin, outer, permit, rejection);
    // A thread can still wait if the process has no descriptor left for the turn.
    if (way == Py_None && !needs_turn && code == SB_ERR_RESOURCES)
      INTERRUPTIBLY((Store *)self->store, code,
                    sb_enter_inside(self->handle, outer, permit, rejection, self->flags));
  }
  Py_DECREF(way);
  return code;
}
