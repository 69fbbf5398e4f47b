// Calls of functions through the breaker.
#include "extension.h"

// Returns 1 or 0, or -1 with an exception.
static int is_coroutine_function(Breaker *self, PyObject *function) {
  PyObject *answer = PyObject_CallMethod((PyObject *)self, "_is_coroutine_function", "O", function);
  if (!answer) return -1;
  int is = answer == Py_True;
  Py_DECREF(answer);
  return is;
}

// Whether a result has to be awaited, as a future has, or an object with __await__.
static bool is_awaitable(PyObject *result) {
  return result != Py_None && PyType_GetSlot(Py_TYPE(result), Py_am_await);
}

// Calls a function behind the breaker. Its result may have to be awaited or iterated over yet: the call
// lasts as long as that.
PyObject *sb_call_through(Breaker *self, PyObject *function, PyObject *const *arguments,
                          size_t count, PyObject *names) {
  sb_permit permit = sb_no_permit();
  uint64_t room = 0;
  int code = sb_begin_now(self, &permit, &room);
  if (code == SB_WOULD_BLOCK) {
    // The event loop must not wait. The coroutine asks again when it is awaited.
    int is = is_coroutine_function(self, function);
    if (is < 0) return NULL;
    if (is) {
      PyObject *work = PyObject_Vectorcall(function, arguments, count, names);
      return work ? sb_drive(self, NULL, SB_OK, work) : NULL;
    }
    code = sb_begin_and_watch(self, &permit, &room);
  } else if (code != SB_OK && code != SB_LIMITED) {
    sb_watch(self);
  }
  if (code != SB_OK) {
    if (code != SB_LIMITED) return NULL;
    sb_move_to(self, room);
  }
  PyObject *result = PyObject_Vectorcall(function, arguments, count, names);
  if (!result) {
    sb_end_exception(self, &permit);
    return NULL;
  }
  State *state = self->state;
  PyTypeObject *type = Py_TYPE(result);
  bool is_stream = type == state->generator || type == state->async_generator;
  if (type != state->coroutine && !is_stream && !is_awaitable(result))
    return sb_end_result(self, &permit, result);
  // The call goes on when the result is awaited or iterated over, and its caller is outside of it until then.
  if (code == SB_LIMITED) sb_move_to(self, 0);
  if (!is_stream) return sb_drive(self, &permit, code, result);
  PyObject *holder = sb_new_permit(self, &permit);
  PyObject *guarded = NULL;
  if (holder)
    guarded = PyObject_CallMethod((PyObject *)self, "_watch_generator", "OO", holder, result);
  else
    sb_abandon(self, &permit);
  Py_XDECREF(holder);
  Py_DECREF(result);
  return guarded;
}

// call(function, *args, **kwargs)
PyObject *sb_call(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
  if (count < 1) {
    PyErr_SetString(PyExc_TypeError, "call() needs a function to call");
    return NULL;
  }
  return sb_call_through((Breaker *)object, arguments[0], arguments + 1,
                         (size_t)(count - 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, names);
}
