// Arguments and results of the library, as objects.
#include "extension.h"

// Gets the Text of a str, of bytes, or none for None, as a converter of PyArg_ParseTuple() does: 0 with an
// exception if it is anything else.
int sb_text(PyObject *object, void *place) {
  Text *text = place;
  Py_ssize_t size = 0;
  text->bytes = NULL;
  if (PyBytes_Check(object)) {
    char *bytes;
    if (PyBytes_AsStringAndSize(object, &bytes, &size)) return 0;
    text->bytes = bytes;
  } else if (object != Py_None) {
    text->bytes = PyUnicode_AsUTF8AndSize(object, &size);
    if (!text->bytes) return 0;
  }
  text->length = size;
  return 1;
}

// Makes a str of a text that the library handed out.
PyObject *sb_take_text(char *text, int64_t length) {
  PyObject *object = PyUnicode_DecodeUTF8(text, length, "replace");
  sb_free(text);
  return object;
}

// Returns None if the library has done what it was asked.
PyObject *sb_nothing(State *state, int code) {
  return code == SB_OK ? Py_NewRef(Py_None) : sb_raise(state, code);
}

// Returns the verdict on a report.
PyObject *sb_verdict(State *state, int code) {
  switch (code) {
  case SB_OK: return Py_NewRef(state->verdicts[0]);
  case SB_OUTDATED: return Py_NewRef(state->verdicts[1]);
  case SB_REFUSED: return Py_NewRef(state->verdicts[2]);
  default: return sb_raise(state, code);
  }
}
