// How generators and coroutines answer send() and throw(), in terms of the C API.
#include "extension.h"

// Turns a result of a generator into that of send() and throw().
PyObject *sb_as_generator(PySendResult status, PyObject *result) {
  if (status != PYGEN_RETURN) return status == PYGEN_NEXT ? result : NULL;
  PyObject *stop = PyObject_CallFunctionObjArgs(PyExc_StopIteration, result, NULL);
  Py_DECREF(result);
  if (stop) PyErr_SetObject(PyExc_StopIteration, stop);
  Py_XDECREF(stop);
  return NULL;
}

// Takes the value of the StopIteration that is set; NULL if another exception is.
PyObject *sb_stop_value(void) {
  if (!PyErr_ExceptionMatches(PyExc_StopIteration)) return NULL;
  PyObject *stop = sb_raised();
  PyObject *value = PyObject_GetAttrString(stop, "value");
  Py_DECREF(stop);
  return value;
}

// Calls throw() of `inner`. An iterator without it, such as that of an awaitable in C, just ends.
PyObject *sb_throw_into(PyObject *inner, PyObject *args) {
  PyObject *type, *value = NULL, *trace = NULL;
  if (!PyArg_UnpackTuple(args, "throw", 1, 3, &type, &value, &trace)) return NULL;
  PyObject *throw = PyObject_GetAttrString(inner, "throw");
  if (throw) {
    PyObject *result = PyObject_Call(throw, args, NULL);
    Py_DECREF(throw);
    return result;
  }
  if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return NULL;
  PyErr_Clear();
  if (PyExceptionInstance_Check(type)) {
    PyErr_SetObject((PyObject *)Py_TYPE(type), type);
  } else {
    PyErr_SetObject(type, value);
  }
  return NULL;
}
