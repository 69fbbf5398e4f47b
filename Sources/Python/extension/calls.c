// Entering and leaving a breaker. The healthy path keeps the GIL; what may wait releases it.
#include "extension.h"

// Lets listeners look at what a call has found or changed. It leaves exceptions alone.
void sb_watch(Breaker *self) {
  if (!self->watch) return;
  PyObject *pending = sb_raised();
  PyObject *answer = PyObject_CallNoArgs(self->watch);
  if (!answer) PyErr_WriteUnraisable(self->watch);
  Py_XDECREF(answer);
  sb_raise_again(pending);
}

static int entered(Breaker *self, int code, const sb_rejection *rejection) {
  // Work goes on without the breaker after its store was closed, as at the end of a program.
  if (code == SB_OK || code == SB_ERR_CLOSED) return SB_OK;
  if (code == SB_REJECTED) {
    sb_raise_rejection(self, rejection);
  } else if (code != SB_WOULD_BLOCK) {
    sb_raise(self->state, code);
  }
  return code;
}

// Takes a permit if that needs no file. Returns SB_OK, SB_WOULD_BLOCK, or another code with an
// exception.
int sb_begin_now(Breaker *self, sb_permit *permit) {
  // Not its macro, which would write 256 bytes on each call.
  sb_rejection rejection;
  rejection.size = sizeof rejection;
  int code = sb_enter(self->handle, permit, &rejection, SB_NOWAIT);
  return code == SB_OK ? SB_OK : entered(self, code, &rejection);
}

// Takes a permit, and waits for the store if it must. Returns SB_OK, or another code with an
// exception.
int sb_begin(Breaker *self, sb_permit *permit) {
  int code = sb_begin_now(self, permit);
  if (code != SB_WOULD_BLOCK) return code;
  sb_rejection rejection = SB_REJECTION_INIT;
  WITHOUT_GIL(code, sb_enter(self->handle, permit, &rejection, 0));
  return entered(self, code, &rejection);
}

// Takes a permit as sb_begin() does, where listeners may be told.
int sb_begin_and_watch(Breaker *self, sb_permit *permit) {
  int code = sb_begin_now(self, permit);
  if (code == SB_OK) return code;
  if (code == SB_WOULD_BLOCK) code = sb_begin(self, permit);
  sb_watch(self);
  return code;
}

// Reads what a judge in Python has said: None for a success, or (outcome, text, open_for_ns).
static int read_ending(PyObject *words, Ending *ending) {
  *ending = (Ending){SB_SUCCESS, false, SB_DETAILS_INIT, NULL};
  if (words == Py_None) return 0;
  long long open_for = 0;
  Text error;
  if (!PyArg_ParseTuple(words, "iO&L", &ending->outcome, sb_text, &error, &open_for)) return -1;
  ending->details.error = error.bytes;
  ending->details.error_length = error.length;
  ending->details.open_for_ns = open_for;
  ending->has_details = ending->details.error || open_for;
  ending->owner = Py_NewRef(words);
  return 0;
}

// Judges what the work raised. It leaves no exception.
void sb_judge_exception(Breaker *self, PyObject *exception, Ending *ending) {
  PyObject *words = PyObject_CallFunctionObjArgs(self->judge, exception, NULL);
  if (!words || read_ending(words, ending)) {
    PyErr_WriteUnraisable(self->judge);
    *ending = (Ending){SB_FAILURE, false, SB_DETAILS_INIT, NULL};
  }
  Py_XDECREF(words);
}

// Judges what the work returned. It leaves no exception.
int sb_judge_result(Breaker *self, PyObject *result, Ending *ending) {
  PyObject *words = PyObject_CallFunctionObjArgs(self->judge_result, result, NULL);
  if (!words || read_ending(words, ending)) {
    PyErr_WriteUnraisable(self->judge_result);
    *ending = (Ending){SB_SUCCESS, false, SB_DETAILS_INIT, NULL};
  }
  Py_XDECREF(words);
  return ending->outcome;
}

// Reports an outcome if that needs no file. Returns the code of the library.
int sb_finish_now(Breaker *self, sb_permit *permit, const Ending *ending) {
  // The permit of a call that no breaker permitted.
  if (!permit->kind) return SB_OK;
  return sb_leave(self->handle, permit, ending ? ending->outcome : SB_SUCCESS,
                  ending && ending->has_details ? &ending->details : NULL, SB_NOWAIT);
}

// Reports an outcome, and waits for the store if it must. Returns the code of the library.
int sb_finish(Breaker *self, sb_permit *permit, const Ending *ending) {
  int code = sb_finish_now(self, permit, ending);
  if (code != SB_WOULD_BLOCK) return code;
  int outcome = ending ? ending->outcome : SB_SUCCESS;
  const sb_details *details = ending && ending->has_details ? &ending->details : NULL;
  WITHOUT_GIL(code, sb_leave(self->handle, permit, outcome, details, 0));
  return code;
}

// Reports an outcome where listeners may be told, after waiting for the store if it must.
void sb_finish_and_watch(Breaker *self, sb_permit *permit, const Ending *ending) {
  if (sb_finish_now(self, permit, ending) != SB_WOULD_BLOCK) return;
  sb_finish(self, permit, ending);
  sb_watch(self);
}

// Gives a permit back whose call says nothing about the resource. It leaves exceptions alone.
void sb_abandon(Breaker *self, sb_permit *permit) {
  Ending ending = {SB_IGNORED, false, SB_DETAILS_INIT, NULL};
  PyObject *pending = sb_raised();
  sb_finish(self, permit, &ending);
  sb_raise_again(pending);
}

// Reports the exception that is set, and leaves it set.
void sb_end_exception(Breaker *self, sb_permit *permit) {
  PyObject *exception = sb_raised();
  Ending ending;
  sb_judge_exception(self, exception, &ending);
  sb_finish_and_watch(self, permit, &ending);
  Py_XDECREF(ending.owner);
  sb_raise_again(exception);
}

// Reports a result, and returns it.
PyObject *sb_end_result(Breaker *self, sb_permit *permit, PyObject *result) {
  if (!self->judge_result) {
    sb_finish_and_watch(self, permit, NULL);
    return result;
  }
  Ending ending;
  sb_judge_result(self, result, &ending);
  sb_finish_and_watch(self, permit, &ending);
  Py_XDECREF(ending.owner);
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

// Sets an exception that sb_raised() has taken; NULL sets none.
void sb_raise_again(PyObject *exception) {
  if (!exception) return;
#if PY_VERSION_HEX >= 0x030C0000
  PyErr_SetRaisedException(exception);
#else
  PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(exception)), exception,
                PyException_GetTraceback(exception));
#endif
}
