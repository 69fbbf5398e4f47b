// Calls of functions through the breaker.
#include "extension.h"

// Calls a coroutine function while the file has to be read, which the event loop must not wait for.
static PyObject *call_slowly(Breaker *self, PyObject *function, PyObject *const *arguments,
                             size_t count, PyObject *names) {
  Py_ssize_t positional = PyVectorcall_NARGS(count);
  Py_ssize_t named = names ? PyTuple_Size(names) : 0;
  PyObject *tuple = PyTuple_New(positional);
  PyObject *dict = PyDict_New();
  PyObject *coroutine = NULL;
  if (!tuple || !dict) goto end;
  for (Py_ssize_t i = 0; i < positional; i++) PyTuple_SetItem(tuple, i, Py_NewRef(arguments[i]));
  for (Py_ssize_t i = 0; i < named; i++)
    if (PyDict_SetItem(dict, PyTuple_GetItem(names, i), arguments[positional + i])) goto end;
  coroutine = PyObject_CallMethod((PyObject *)self, "_call_slowly", "OOO", function, tuple, dict);
end:
  Py_XDECREF(tuple);
  Py_XDECREF(dict);
  return coroutine;
}

static bool is_coroutine_function(Breaker *self, PyObject *function) {
  PyObject *answer = PyObject_CallMethod((PyObject *)self, "_is_coroutine_function", "O", function);
  bool is = answer == Py_True;
  if (!answer) PyErr_Clear();
  Py_XDECREF(answer);
  return is;
}

// Calls a function behind the breaker. What it returns may have to be awaited or iterated over yet: the
// call lasts as long as that.
PyObject *sb_call_through(Breaker *self, PyObject *function, PyObject *const *arguments,
                          size_t count, PyObject *names) {
  sb_permit permit = sb_no_permit();
  int code = sb_begin_now(self, &permit);
  if (code == SB_WOULD_BLOCK) {
    if (is_coroutine_function(self, function))
      return call_slowly(self, function, arguments, count, names);
    code = sb_begin_and_watch(self, &permit);
  } else if (code != SB_OK) {
    sb_watch(self);
  }
  if (code != SB_OK) return NULL;
  PyObject *result = PyObject_Vectorcall(function, arguments, count, names);
  if (!result) {
    sb_end_exception(self, &permit);
    return NULL;
  }
  State *state = self->state;
  PyTypeObject *type = Py_TYPE(result);
  if (type == state->coroutine) return sb_drive(self, &permit, result);
  if (type == state->generator || type == state->async_generator) {
    PyObject *holder = sb_new_permit(self, &permit);
    PyObject *guarded = NULL;
    if (holder)
      guarded = PyObject_CallMethod((PyObject *)self, "_watch_generator", "OO", holder, result);
    Py_XDECREF(holder);
    Py_DECREF(result);
    return guarded;
  }
  return sb_end_result(self, &permit, result);
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
