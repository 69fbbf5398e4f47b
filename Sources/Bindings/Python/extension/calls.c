// Entering and leaving a breaker. The healthy path keeps the GIL; what may wait releases it.
#include "extension.h"

// Returned by functions that have finished their work but were interrupted meanwhile: the exception that is
// set comes from outside, such as from a signal handler, and belongs to the caller.
#define INTERRUPTED (-1)

#define UNKNOWN_STATE (-1)

// Returns the state as it is now.
static int state_now(Breaker *self) {
  int state = SB_CLOSED, code;
  WITHOUT_GIL(code, sb_breaker_state(self->handle, &state));
  return code == SB_OK ? state : UNKNOWN_STATE;
}

// Tells the log what this process has changed; a breaker that was closed and still is has not changed. One that
// was open and still is may have been closed by others meanwhile. It keeps the exception that is set.
static int tell_state(Breaker *self, int state) {
  int before = self->logged_state;
  if (state == UNKNOWN_STATE || (state == SB_CLOSED && state == before)) return 0;
  self->logged_state = state;
  if (before == NEVER_LOGGED && state == SB_CLOSED) return 0;
  PyObject *pending = sb_raised();
  PyObject *words = before == NEVER_LOGGED ? Py_None : self->state->states[before];
  PyObject *answer = PyObject_CallMethod(
      (PyObject *)self, "_log_changes", "OO", words, self->state->states[state]);
  int status = answer ? 0 : INTERRUPTED;
  Py_XDECREF(answer);
  sb_raise_again(pending);
  return status;
}

// Does what is due after a call that may have waited: it lets signal handlers run, and tells the log of the
// store, and of the state if the call may have changed it. Returns INTERRUPTED if something has raised.
int sb_after_waiting(Breaker *self, bool has_changed) {
  PyObject *pending = sb_raised();
  // Handlers come last of what releases the GIL: the interpreter may overlook a signal while it takes it again.
  int state = has_changed ? state_now(self) : UNKNOWN_STATE;
  int status = PyErr_CheckSignals() ? INTERRUPTED : 0;
  if (sb_tell_log((Store *)self->store)) status = INTERRUPTED;
  if (tell_state(self, state)) status = INTERRUPTED;
  sb_raise_again(pending);
  return status;
}

// Lets listeners look at what a call has found or changed, and gives them how its failure was judged if that
// counts, or the rejection that is set. It keeps the exception that is set.
static int watch_ending(Breaker *self, int code, const Ending *ending) {
  if (!self->watch) return 0;
  PyObject *pending = sb_raised();
  PyObject *found = pending ? pending : Py_None;
  if (ending && ending->owner && code == SB_OK) found = ending->owner;
  PyObject *answer = PyObject_CallFunctionObjArgs(self->watch, found, NULL);
  int status = answer ? 0 : INTERRUPTED;
  Py_XDECREF(answer);
  sb_raise_again(pending);
  return status;
}

int sb_watch(Breaker *self) { return watch_ending(self, SB_OK, NULL); }

// Whether a report may change the state: that of a failure, or of a probe. A slow success that opens the
// breaker is told with the next change.
bool sb_may_change(uint32_t kind, const Ending *ending) {
  return kind == SB_PROBE ||
         (ending && (ending->outcome == SB_FAILURE || ending->outcome == SB_PERMANENT_FAILURE));
}

// Tells the log and listeners of a failure whose report did not wait, as it does not while the store is lost.
int sb_watch_failure(Breaker *self, int code, const Ending *ending) {
  if (!sb_may_change(0, ending) || code != SB_OK) return 0;
  int status = sb_after_waiting(self, true);
  return watch_ending(self, code, ending) ? INTERRUPTED : status;
}

// Returns the meaning of a code of sb_enter() for a call: SB_OK, SB_WOULD_BLOCK, or another code with an
// exception.
int sb_entered(Breaker *self, int code, const sb_rejection *rejection) {
  // Work goes on without the breaker after its store was closed, as at the end of a program.
  if (code == SB_OK || code == SB_ERR_CLOSED) return SB_OK;
  if (code == SB_REJECTED) {
    sb_raise_rejection(self, rejection);
  } else if (code != SB_WOULD_BLOCK) {
    sb_raise(self->state, code);
  }
  return code;
}

// Gives back the permit, if there is one, of a call that is interrupted before it begins.
static int give_up(Breaker *self, sb_permit *permit) {
  if (permit->kind) sb_abandon(self, permit);
  return INTERRUPTED;
}

// Takes a permit under a limit if that needs no file. Returns as sb_begin_now() does.
__attribute__((noinline)) static int begin_within_limit(Breaker *self, sb_permit *permit, uint64_t *room,
                                                        sb_rejection *rejection) {
  uint64_t outer = *room;
  // While no call has room, there is nothing to be inside of.
  if (!outer && self->state->rooms) outer = sb_room_around(self);
  int code = sb_enter_inside(self->handle, outer, permit, rejection, SB_NOWAIT | self->flags);
  if (code == SB_OK) {
    bool has_room = sb_takes_room(self, permit, room);
    // A call inside of another one names the room of that. If there is no room at all, there is no limit.
    self->is_limited = *room != 0;
    return has_room ? SB_LIMITED : SB_OK;
  }
  // sb_enter() rejects from memory sooner.
  self->is_limited = false;
  return sb_entered(self, code, rejection);
}

// Takes a permit if that needs no file. Returns SB_OK; SB_LIMITED if the call has taken room, and may surround what
// follows; SB_WOULD_BLOCK; or another code with an exception. `room` is that of the call that it is inside of, or 0
// for that of the running task, and with SB_LIMITED receives the one that the call has taken.
int sb_begin_now(Breaker *self, sb_permit *permit, uint64_t *room) {
  // Not its macro, which would write 256 bytes on each call.
  sb_rejection rejection;
  rejection.size = sizeof rejection;
  if (__builtin_expect(self->is_limited, false)) return begin_within_limit(self, permit, room, &rejection);
  int code = sb_enter(self->handle, permit, &rejection, SB_NOWAIT | SB_UNLIMITED | self->flags);
  if (code == SB_OK) return SB_OK;
  if (code == SB_LIMITED) return begin_within_limit(self, permit, room, &rejection);
  return sb_entered(self, code, &rejection);
}

// Takes a permit, and waits for the store and for room if it must, as a call that has waited before. Returns as
// sb_begin_now() does, but never SB_WOULD_BLOCK.
int sb_begin(Breaker *self, sb_permit *permit, uint64_t *room, int64_t waited) {
  uint64_t outer = *room;
  int code = sb_begin_now(self, permit, room);
  if (code != SB_WOULD_BLOCK) return code;
  if (!outer) outer = sb_room_around(self);
  sb_rejection rejection = SB_REJECTION_INIT;
  code = sb_enter_and_wait(self, outer, waited, permit, &rejection);
  code = sb_entered(self, code, &rejection);
  if (code == SB_OK && permit->kind && sb_takes_room(self, permit, room)) code = SB_LIMITED;
  if (sb_after_waiting(self, permit->kind == SB_PROBE)) return give_up(self, permit);
  return code;
}

// Takes a permit as sb_begin() does, where listeners may be told.
int sb_begin_and_watch(Breaker *self, sb_permit *permit, uint64_t *room) {
  int code = sb_begin_now(self, permit, room);
  if (code == SB_OK || code == SB_LIMITED) return code;
  if (code == SB_WOULD_BLOCK) code = sb_begin(self, permit, room, 0);
  if (sb_watch(self)) return give_up(self, permit);
  return code;
}

// Reads the verdict of a judge in Python: None for a success, or (outcome, text, time in nanoseconds).
static int read_ending(PyObject *words, Ending *ending) {
  *ending = (Ending){SB_SUCCESS, false, SB_DETAILS_INIT, NULL};
  if (words == Py_None) return 0;
  long long time = 0;
  Text error;
  if (!PyArg_ParseTuple(words, "iO&L", &ending->outcome, sb_text, &error, &time)) return -1;
  ending->details.error = error.bytes;
  ending->details.error_length = error.length;
  *sb_named_time(&ending->details, ending->outcome) = time;
  ending->has_details = ending->details.error || time;
  ending->owner = Py_NewRef(words);
  return 0;
}

// Asks a judge, which passes on only exceptions from outside. It is asked once more after one, because the
// outcome is the same as without it.
static int judge(PyObject *judge, PyObject *value, Ending *ending, int otherwise) {
  PyObject *pending = sb_raised();
  int status = 0;
  bool is_judged = false;
  for (int round = 0; round < 2 && !is_judged; round++) {
    PyObject *words = PyObject_CallFunctionObjArgs(judge, value, NULL);
    is_judged = words && !read_ending(words, ending);
    Py_XDECREF(words);
    if (is_judged) break;
    status = INTERRUPTED;
    sb_raise_again(pending);
    pending = sb_raised();
  }
  if (!is_judged) *ending = (Ending){otherwise, false, SB_DETAILS_INIT, NULL};
  sb_raise_again(pending);
  return status;
}

// Judges what the work raised.
int sb_judge_exception(Breaker *self, PyObject *exception, Ending *ending) {
  return judge(self->judge, exception, ending, SB_FAILURE);
}

// Judges what the work returned.
int sb_judge_result(Breaker *self, PyObject *result, Ending *ending) {
  return judge(self->judge_result, result, ending, SB_SUCCESS);
}

// Whether a call has room, which was counted when the call took it.
static bool has_counted_room(Breaker *self, const sb_permit *permit) {
  uint64_t room;
  return self->rooms && sb_has_room(permit, &room);
}

// Counts the end of a call that had room. A call that may not have ended is still counted: others then look for what
// they are inside of, and nothing worse.
static void count_end(Breaker *self, int code) {
  if (code < 0 || code == SB_WOULD_BLOCK || code == SB_INTERRUPTED) return;
  self->rooms--;
  self->state->rooms--;
}

static int leave_now(Breaker *self, sb_permit *permit, const Ending *ending) {
  return sb_leave(self->handle, permit, ending ? ending->outcome : SB_SUCCESS,
                  ending && ending->has_details ? &ending->details : NULL, SB_NOWAIT);
}

// By itself, so that a call under no limit keeps nothing until it has left.
__attribute__((noinline)) static int leave_with_room_now(Breaker *self, sb_permit *permit, const Ending *ending) {
  bool had_room = has_counted_room(self, permit);
  int code = leave_now(self, permit, ending);
  if (had_room) count_end(self, code);
  return code;
}

// Reports an outcome if that needs no file. Returns the code of the library.
int sb_finish_now(Breaker *self, sb_permit *permit, const Ending *ending) {
  // The permit of a call that no breaker permitted.
  if (!permit->kind) return SB_REFUSED;
  return self->rooms ? leave_with_room_now(self, permit, ending) : leave_now(self, permit, ending);
}

// Reports an outcome, and waits for the store if it must. Returns the code of the library.
int sb_finish(Breaker *self, sb_permit *permit, const Ending *ending) {
  int code = sb_finish_now(self, permit, ending);
  if (code != SB_WOULD_BLOCK) return code;
  int outcome = ending ? ending->outcome : SB_SUCCESS;
  const sb_details *details = ending && ending->has_details ? &ending->details : NULL;
  bool had_room = has_counted_room(self, permit);
  WITHOUT_GIL(code, sb_leave(self->handle, permit, outcome, details, 0));
  if (had_room) count_end(self, code);
  return code;
}

// Leaves a report to another thread, because its call was made: a probe that is never reported would keep its
// slot. It leaves exceptions alone.
static void finish_elsewhere(Breaker *self, sb_permit *permit, const Ending *ending) {
  PyObject *pending = sb_raised();
  sb_permit copy = *permit;
  PyObject *object = sb_new_permit(self, &copy), *answer = NULL;
  sb_details details = SB_DETAILS_INIT;
  if (ending && ending->has_details) details = ending->details;
  int outcome = ending ? ending->outcome : SB_SUCCESS;
  if (object)
    answer = PyObject_CallMethod((PyObject *)self, "_leave_elsewhere", "Oiy#LL", object, outcome,
                                 details.error, (Py_ssize_t)details.error_length,
                                 (long long)*sb_named_time(&details, outcome),
                                 (long long)details.elapsed_ns);
  if (!answer) {
    // There are no threads at the end of a program.
    PyErr_Clear();
    if (object) sb_take_permit(object, &copy);
    sb_finish(self, &copy, ending);
  }
  Py_XDECREF(answer);
  Py_XDECREF(object);
  sb_raise_again(pending);
}

// Reports an outcome as sb_finish() does, unless a signal handler raises meanwhile: SB_INTERRUPTED with its
// exception, and another thread goes on with the report.
int sb_finish_interruptibly(Breaker *self, sb_permit *permit, const Ending *ending) {
  int code = sb_finish_now(self, permit, ending);
  if (code != SB_WOULD_BLOCK) return code;
  int outcome = ending ? ending->outcome : SB_SUCCESS;
  const sb_details *details = ending && ending->has_details ? &ending->details : NULL;
  bool had_room = has_counted_room(self, permit);
  INTERRUPTIBLY((Store *)self->store, code, sb_leave(self->handle, permit, outcome, details, 0));
  if (had_room) count_end(self, code);
  if (code == SB_INTERRUPTED) finish_elsewhere(self, permit, ending);
  return code;
}

// Reports an outcome where listeners may be told, after waiting for the store if it must.
int sb_finish_and_watch(Breaker *self, sb_permit *permit, const Ending *ending) {
  bool has_changed = sb_may_change(permit->kind, ending);
  int code = sb_finish_now(self, permit, ending);
  if (code != SB_WOULD_BLOCK) return sb_watch_failure(self, code, ending);
  code = sb_finish_interruptibly(self, permit, ending);
  int status = sb_after_waiting(self, has_changed) || code == SB_INTERRUPTED ? INTERRUPTED : 0;
  return watch_ending(self, code, ending) ? INTERRUPTED : status;
}

// Gives back a permit whose call tells nothing about the resource. It leaves exceptions alone.
void sb_abandon(Breaker *self, sb_permit *permit) {
  Ending ending = {SB_IGNORED, false, SB_DETAILS_INIT, NULL};
  PyObject *pending = sb_raised();
  sb_finish(self, permit, &ending);
  sb_raise_again(pending);
}

// Reports what the work has raised.
int sb_report_exception(Breaker *self, sb_permit *permit, PyObject *exception) {
  Ending ending;
  int judged = sb_judge_exception(self, exception, &ending);
  int finished = sb_finish_and_watch(self, permit, &ending);
  Py_XDECREF(ending.owner);
  return judged ? judged : finished;
}

// Reports the exception that is set, and leaves it set.
void sb_end_exception(Breaker *self, sb_permit *permit) {
  PyObject *exception = sb_raised();
  sb_report_exception(self, permit, exception);
  sb_raise_again(exception);
}

// Reports a result, and returns it; NULL with an exception that came meanwhile.
PyObject *sb_end_result(Breaker *self, sb_permit *permit, PyObject *result) {
  int judged = 0, finished;
  if (self->judge_result) {
    Ending ending;
    judged = sb_judge_result(self, result, &ending);
    finished = sb_finish_and_watch(self, permit, &ending);
    Py_XDECREF(ending.owner);
  } else {
    finished = sb_finish_and_watch(self, permit, NULL);
  }
  if (judged || finished) Py_CLEAR(result);
  return result;
}

// Takes the exception that is set, normalized and with its traceback; NULL if there is none.
PyObject *sb_raised(void) {
#if PY_VERSION_HEX >= 0x030C0000
  return PyErr_GetRaisedException();
#else
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  if (!type) return NULL;
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace) PyException_SetTraceback(value, trace);
  Py_XDECREF(trace);
  Py_DECREF(type);
  return value;
#endif
}

// Returns the first of the exceptions that were raised while others were handled; a borrowed reference.
static PyObject *first_context(PyObject *exception) {
  for (int round = 0; round < 1000; round++) {
    PyObject *context = PyException_GetContext(exception);
    if (!context) break;
    exception = context;
    Py_DECREF(context);  // the one after it keeps it
  }
  return exception;
}

// Sets an exception that sb_raised() has taken; NULL sets none. An exception that has been set since then
// stays, as if it had been raised while the earlier one was handled.
void sb_raise_again(PyObject *exception) {
  if (!exception) return;
  PyObject *later = sb_raised();
  if (later) {
    PyObject *first = first_context(later);
    if (first == first_context(exception)) {
      Py_DECREF(exception);
    } else {
      PyException_SetContext(first, exception);
    }
    exception = later;
  }
#if PY_VERSION_HEX >= 0x030C0000
  PyErr_SetRaisedException(exception);
#else
  PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(exception)), exception,
                PyException_GetTraceback(exception));
#endif
}
