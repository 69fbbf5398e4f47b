// A function behind a breaker, as the decorator makes it.
#include "extension.h"

typedef struct {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject *function;
  Breaker *breaker;
  PyObject *dict;
  PyObject *weak;
} Guarded;

static PyObject *guarded_call(PyObject *object, PyObject *const *arguments, size_t count,
                              PyObject *names) {
  Guarded *self = (Guarded *)object;
  return sb_call_through(self->breaker, self->function, arguments, count, names);
}

// Calls a coroutine function, which begins nothing: the awaitable asks the breaker when it is awaited.
static PyObject *guarded_coroutine_call(PyObject *object, PyObject *const *arguments, size_t count,
                                        PyObject *names) {
  Guarded *self = (Guarded *)object;
  PyObject *work = PyObject_Vectorcall(self->function, arguments, count, names);
  return work ? sb_drive(self->breaker, NULL, SB_OK, work) : NULL;
}

// Puts a function behind a breaker.
PyObject *sb_guard(Breaker *breaker, PyObject *function, bool is_coroutine_function) {
  PyTypeObject *type = breaker->state->guarded;
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  Guarded *self = (Guarded *)allocate(type, 0);
  if (!self) return NULL;
  self->vectorcall = is_coroutine_function ? guarded_coroutine_call : guarded_call;
  self->function = Py_NewRef(function);
  self->breaker = (Breaker *)Py_NewRef((PyObject *)breaker);
  return (PyObject *)self;
}

static int guarded_traverse(PyObject *object, visitproc visit, void *arg) {
  Guarded *self = (Guarded *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->function);
  Py_VISIT((PyObject *)self->breaker);
  Py_VISIT(self->dict);
  return 0;
}

// Leaves what a call needs: a finalizer may call it yet, and its function can break a cycle itself.
static int guarded_clear(PyObject *object) {
  Py_CLEAR(((Guarded *)object)->dict);
  return 0;
}

static void guarded_dealloc(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  if (((Guarded *)object)->weak) PyObject_ClearWeakRefs(object);
  guarded_clear(object);
  Py_CLEAR(((Guarded *)object)->function);
  Py_CLEAR(((Guarded *)object)->breaker);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(object);
  Py_DECREF(type);
}

// Binds as functions do, so that it can decorate methods.
static PyObject *guarded_get(PyObject *object, PyObject *instance, PyObject *owner) {
  if (!instance || instance == Py_None) return Py_NewRef(object);
  PyObject *method = (PyObject *)((Guarded *)object)->breaker->state->method;
  return PyObject_CallFunctionObjArgs(method, object, instance, NULL);
}

// Pickled by name, as functions are.
static PyObject *guarded_reduce(PyObject *object, PyObject *unused) {
  return PyObject_GetAttrString(object, "__qualname__");
}

static PyObject *guarded_repr(PyObject *object) {
  Guarded *self = (Guarded *)object;
  return PyUnicode_FromFormat("<%R behind %R>", self->function, (PyObject *)self->breaker);
}

static PyMethodDef methods[] = {{"__reduce__", guarded_reduce, METH_NOARGS, NULL}, {NULL}};

static PyMemberDef members[] = {
    {"__vectorcalloffset__", Py_T_PYSSIZET, offsetof(Guarded, vectorcall), Py_READONLY, NULL},
    {"__dictoffset__", Py_T_PYSSIZET, offsetof(Guarded, dict), Py_READONLY, NULL},
    {"__weaklistoffset__", Py_T_PYSSIZET, offsetof(Guarded, weak), Py_READONLY, NULL},
    {"breaker", Py_T_OBJECT_EX, offsetof(Guarded, breaker), Py_READONLY, "Its breaker."},
    {NULL},
};

static PyGetSetDef properties[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL}, {NULL}};

static PyType_Slot slots[] = {
    {Py_tp_call, PyVectorcall_Call},  {Py_tp_traverse, guarded_traverse},
    {Py_tp_clear, guarded_clear},     {Py_tp_dealloc, guarded_dealloc},
    {Py_tp_descr_get, guarded_get},   {Py_tp_repr, guarded_repr},
    {Py_tp_methods, methods},         {Py_tp_members, members},
    {Py_tp_getset, properties},       {0, NULL},
};

PyType_Spec sb_guarded_spec = {
    "shared_breaker._extension.Guarded", sizeof(Guarded), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
        Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    slots};
