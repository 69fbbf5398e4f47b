#include "extension.h"

// Returns the meaning of a code in words, for the latest call of this thread. The words of an error are the
// library's latest ones; a closed store is often not asked.
const char *sb_words(int code) {
  const char *text = code < 0 && code != SB_ERR_CLOSED ? sb_error_text() : "";
  return text[0] ? text : sb_code_text(code);
}

// Raises what a code of the library stands for, with the library's own words. Returns NULL.
PyObject *sb_raise(State *state, int code) {
  if (code == SB_INTERRUPTED) return NULL;  // a signal handler has raised
  const char *text = sb_words(code);
  if (SB_IS_STORE_ERROR(code) || code == SB_ERR_CLOSED) {
    PyObject *error = PyObject_CallFunction(state->store_error, "si", text, code);
    if (error) PyErr_SetObject(state->store_error, error);
    Py_XDECREF(error);
    return NULL;
  }
  // The words of the library name the function of C.
  if (code == SB_ERR_TOKEN) text = "not a token: pass what acquire_token() returned";
  PyObject *type = PyExc_ValueError;
  if (code == SB_ERR_NAME) type = state->invalid_name;
  if (code == SB_ERR_POLICY) type = state->invalid_policy;
  if (code == SB_ERR_PROCESS) type = PyExc_ProcessLookupError;
  if (code <= SB_ERR_PERMIT_USED && !SB_IS_STORE_ERROR(code)) type = PyExc_RuntimeError;
  PyErr_SetString(type, text);
  return NULL;
}

static PyObject *seconds(int64_t nanoseconds) {
  return nanoseconds < 0 ? Py_NewRef(Py_None) : PyFloat_FromDouble((double)nanoseconds / 1e9);
}

// Raises Rejected, or Busy for lack of room. Returns NULL.
PyObject *sb_raise_rejection(Breaker *self, const sb_rejection *rejection) {
  State *state = self->state;
  PyObject *wait = seconds(rejection->retry_after_ns);
  PyObject *reason = rejection->reason_length
      ? PyUnicode_DecodeUTF8(rejection->reason, rejection->reason_length, "replace")
      : Py_NewRef(Py_None);
  const char *word = rejection->cause == SB_CAUSE_BUSY ? "busy"
      : rejection->cause == SB_CAUSE_HELD              ? "held"
      : rejection->cause == SB_CAUSE_RAMPING           ? "ramping"
      : rejection->cause == SB_CAUSE_RATE              ? "rate"
      : rejection->cause == SB_CAUSE_RETRY_BUDGET      ? "retry_budget"
                                                       : "open";
  PyObject *type = rejection->cause == SB_CAUSE_BUSY ? state->busy : state->rejected;
  PyObject *cause = PyUnicode_InternFromString(word);
  PyObject *arguments = NULL, *error = NULL;
  if (wait && reason && cause)
    arguments = PyTuple_Pack(6, self->name, state->states[rejection->state],
                             state->modes[rejection->mode], wait, reason, cause);
  if (arguments) error = PyObject_Call(type, arguments, NULL);
  if (error) PyErr_SetObject(type, error);
  Py_XDECREF(error);
  Py_XDECREF(arguments);
  Py_XDECREF(cause);
  Py_XDECREF(reason);
  Py_XDECREF(wait);
  return NULL;
}
