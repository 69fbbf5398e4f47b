// Objects that a driver and `async with` hand to the event loop when the work is over: one that is done
// already, or a coroutine that reports.
#include "extension.h"

// Returns a coroutine that reports where waiting is allowed. If there can be none, it reports itself and returns
// NULL with an exception.
PyObject *sb_leave_slowly(Breaker *breaker, const sb_permit *permit, const Ending *ending) {
  sb_permit copy = *permit;
  PyObject *object = sb_new_permit(breaker, &copy), *coroutine = NULL;
  PyObject *words = ending && ending->owner ? ending->owner : Py_None;
  if (object)
    coroutine = PyObject_CallMethod((PyObject *)breaker, "_leave_slowly", "OO", object, words);
  if (!coroutine) {
    PyObject *pending = sb_raised();
    if (object) sb_take_permit(object, &copy);
    sb_finish(breaker, &copy, ending);
    sb_raise_again(pending);
  }
  Py_XDECREF(object);
  return coroutine;
}

static PyObject *itself(PyObject *self) { return Py_NewRef(self); }

static PySendResult finished_send(PyObject *self, PyObject *value, PyObject **result) {
  *result = Py_NewRef(Py_None);
  return PYGEN_RETURN;
}

// No exception stands for a StopIteration whose value is None.
static PyObject *finished_next(PyObject *self) { return NULL; }

// Makes the one object visible to the garbage collector, or its type would keep the module for ever.
static int finished_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  return 0;
}

static void finished_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

static PyType_Slot finished_slots[] = {
    {Py_am_await, itself},
    {Py_am_send, finished_send},
    {Py_tp_iter, itself},
    {Py_tp_iternext, finished_next},
    {Py_tp_traverse, finished_traverse},
    {Py_tp_dealloc, finished_dealloc},
    {0, NULL},
};

PyType_Spec sb_finished_spec = {
    "shared_breaker._extension.Finished", sizeof(PyObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, finished_slots};
