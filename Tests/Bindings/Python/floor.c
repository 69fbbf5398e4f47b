// The floor of the benchmark: a context manager in C that does nothing; and a call whose instructions are counted.
#include <Python.h>

static PyObject *enter(PyObject *self, PyObject *unused) { Py_RETURN_NONE; }

static PyObject *leave(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
  Py_RETURN_FALSE;
}

// The name is a symbol, because scripts/budgets lets callgrind count the instructions of what it calls.
__attribute__((noinline)) PyObject *sb_counted(PyObject *self, PyObject *function) {
  PyObject *result = PyObject_CallNoArgs(function);
  __asm__ volatile("" ::: "memory"); // so that the call is not the last thing, which would be a jump
  return result;
}

static PyMethodDef methods[] = {
    {"__enter__", enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void *)leave, METH_FASTCALL, NULL},
    {NULL},
};

static PyType_Slot slots[] = {{Py_tp_methods, methods}, {0, NULL}};

static PyType_Spec spec = {"floor.Empty", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT, slots};

static PyMethodDef functions[] = {{"counted", sb_counted, METH_O, NULL}, {NULL}};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "floor", NULL, -1, functions};

PyMODINIT_FUNC PyInit_floor(void) {
  PyObject *module = PyModule_Create(&definition);
  PyObject *type = module ? PyType_FromSpec(&spec) : NULL;
  if (!type || PyModule_AddObject(module, "Empty", type)) return NULL;
  return module;
}
