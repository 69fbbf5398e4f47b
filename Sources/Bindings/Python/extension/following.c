// The news of a store and hooks, as objects.
#include "extension.h"

// Both keep their store open.
typedef struct {
  PyObject_HEAD
  Store *store;
  sb_news *handle;
} News;

typedef struct {
  PyObject_HEAD
  Store *store;
  sb_hook *handle;
} Hook;

static void *allocate(PyTypeObject *type) {
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  return allocate(type, 0);
}

static void release(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(object);
  Py_DECREF(type);
}

static PyObject *news_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  State *state = sb_state_of(type);
  if (!state) return NULL;
  PyObject *store;
  sb_news *news = NULL;
  int code;
  if (!PyArg_ParseTuple(args, "O!", state->store, &store)) return NULL;
  USE((Store *)store, code, sb_news_open(handle, &news));
  if (code != SB_OK) return sb_raise(state, code);
  News *self = allocate(type);
  if (!self) {
    sb_news_free(news);
    return NULL;
  }
  self->store = (Store *)Py_NewRef(store);
  self->handle = news;
  return (PyObject *)self;
}

static PyObject *news_fileno(PyObject *object, PyObject *unused) {
  News *self = (News *)object;
  return PyLong_FromLong(self->handle ? sb_news_descriptor(self->handle) : -1);
}

// take() -> whether it is time to look
static PyObject *news_take(PyObject *object, PyObject *unused) {
  News *self = (News *)object;
  int code = self->handle ? sb_news_take(self->handle) : SB_ERR_CLOSED;
  if (code < 0) return sb_raise(self->store->state, code);
  return PyBool_FromLong(code == SB_OK);
}

static PyObject *news_close(PyObject *object, PyObject *unused) {
  News *self = (News *)object;
  sb_news_free(self->handle);
  self->handle = NULL;
  Py_RETURN_NONE;
}

static void news_dealloc(PyObject *object) {
  News *self = (News *)object;
  sb_news_free(self->handle);
  Py_XDECREF((PyObject *)self->store);
  release(object);
}

static PyMethodDef news_methods[] = {
    {"fileno", news_fileno, METH_NOARGS, NULL},
    {"take", news_take, METH_NOARGS, NULL},
    {"close", news_close, METH_NOARGS, NULL},
    {NULL},
};

static PyType_Slot news_slots[] = {
    {Py_tp_new, news_new}, {Py_tp_dealloc, news_dealloc}, {Py_tp_methods, news_methods}, {0, NULL}};

PyType_Spec sb_news_spec = {
    "shared_breaker._extension.News", sizeof(News), 0, Py_TPFLAGS_DEFAULT, news_slots};

// Hook(store, hook name, breaker name or None, timeout_ns, attempts)
static PyObject *hook_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  State *state = sb_state_of(type);
  if (!state) return NULL;
  PyObject *store;
  Text hook_name, name;
  long long timeout;
  int attempts, code;
  if (!PyArg_ParseTuple(args, "O!O&O&Li", state->store, &store, sb_text, &hook_name, sb_text, &name,
                        &timeout, &attempts))
    return NULL;
  sb_hook *hook = NULL;
  USE((Store *)store, code,
      sb_hook_open(handle, hook_name.bytes, hook_name.length, name.bytes, name.length, timeout,
                   attempts, &hook));
  if (code != SB_OK) return sb_raise(state, code);
  Hook *self = allocate(type);
  if (!self) {
    sb_hook_free(hook);
    return NULL;
  }
  self->store = (Store *)Py_NewRef(store);
  self->handle = hook;
  return (PyObject *)self;
}

// take() -> (JSON of the entry or None, nanoseconds until it is worth asking again or -1)
static PyObject *hook_take(PyObject *object, PyObject *unused) {
  Hook *self = (Hook *)object;
  char *json = NULL;
  int64_t length = 0, wait = SB_UNKNOWN;
  int code;
  INTERRUPTIBLY(self->store, code, sb_hook_take(self->handle, &json, &length, &wait));
  if (code == SB_SKIPPED) return Py_BuildValue("OL", Py_None, 0LL);
  if (code == SB_NOTHING) return Py_BuildValue("OL", Py_None, (long long)wait);
  if (code != SB_OK) return sb_raise(self->store->state, code);
  PyObject *entry = sb_take_text(json, length);
  return entry ? Py_BuildValue("NL", entry, 0LL) : NULL;
}

// done(result): notes the result, which the next take() writes.
static PyObject *hook_done(PyObject *object, PyObject *result) {
  Hook *self = (Hook *)object;
  long number = PyLong_AsLong(result);
  if (number == -1 && PyErr_Occurred()) return NULL;
  int code;
  WITHOUT_GIL(code, sb_hook_done(self->handle, (int)number));
  return sb_nothing(self->store->state, code);
}

static void hook_dealloc(PyObject *object) {
  Hook *self = (Hook *)object;
  PyObject *pending = sb_raised();
  // It may have to give an entry back, which waits for the store.
  Py_BEGIN_ALLOW_THREADS
  sb_hook_free(self->handle);
  Py_END_ALLOW_THREADS
  sb_raise_again(pending);
  Py_XDECREF((PyObject *)self->store);
  release(object);
}

static PyMethodDef hook_methods[] = {
    {"take", hook_take, METH_NOARGS, NULL}, {"done", hook_done, METH_O, NULL}, {NULL}};

static PyType_Slot hook_slots[] = {
    {Py_tp_new, hook_new}, {Py_tp_dealloc, hook_dealloc}, {Py_tp_methods, hook_methods}, {0, NULL}};

PyType_Spec sb_hook_spec = {
    "shared_breaker._extension.Hook", sizeof(Hook), 0, Py_TPFLAGS_DEFAULT, hook_slots};
