// The floor of the benchmark: a context manager in C that does nothing.
#include <Python.h>

static PyObject *enter(PyObject *self, PyObject *unused) { Py_RETURN_NONE; }

static PyObject *leave(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
  Py_RETURN_FALSE;
}

static PyMethodDef methods[] = {
    {"__enter__", enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void *)leave, METH_FASTCALL, NULL},
    {NULL},
};

static PyType_Slot slots[] = {{Py_tp_methods, methods}, {0, NULL}};

static PyType_Spec spec = {"floor.Empty", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT, slots};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "floor", NULL, -1, NULL};

PyMODINIT_FUNC PyInit_floor(void) {
  PyObject *module = PyModule_Create(&definition);
  PyObject *type = module ? PyType_FromSpec(&spec) : NULL;
  if (!type || PyModule_AddObject(module, "Empty", type)) return NULL;
  return module;
}
