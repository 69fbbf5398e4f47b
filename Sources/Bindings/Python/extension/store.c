// The store, the news of it, and hooks: what is read and written rarely.
#include "extension.h"

static PyObject *store_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  State *state = sb_state_of(type);
  if (!state) return NULL;
  Text path, group, program;
  sb_options options = SB_OPTIONS_INIT;
  long long timeout, maximum;
  unsigned int mode;
  PyObject *time;
  Py_buffer buffer = {0};
  if (!PyArg_ParseTuple(args, "O&iLIO&O&LO", sb_text, &path, &options.on_store_failure, &timeout,
                        &mode, sb_text, &group, sb_text, &program, &maximum, &time) ||
      (time != Py_None && PyObject_GetBuffer(time, &buffer, PyBUF_SIMPLE)))
    return NULL;
  if (buffer.obj && buffer.len < (Py_ssize_t)sizeof(int64_t)) {
    PyBuffer_Release(&buffer);
    PyErr_SetString(PyExc_ValueError, "a clock needs eight bytes");
    return NULL;
  }
  options.lock_timeout_ns = timeout;
  options.mode = mode;
  options.group = group.bytes;
  options.group_length = group.length;
  options.program = program.bytes;
  options.program_length = program.length;
  options.maximum_breakers = maximum;
  // The package tells of a loss itself, through logging.
  options.flags = SB_QUIET;
  sb_store *handle = NULL;
  int code = buffer.obj ? sb_test_open(path.bytes, path.length, &options, buffer.buf, &handle)
                        : sb_open(path.bytes, path.length, &options, &handle);
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  Store *self = (Store *)(code == SB_OK ? allocate(type, 0) : sb_raise(state, code));
  if (!self) {
    sb_close(handle);
    PyBuffer_Release(&buffer);
    return NULL;
  }
  self->time = buffer;
  self->state = state;
  self->module = Py_NewRef(sb_module_of(type));
  self->handle = handle;
  self->lock_timeout = timeout;
  self->forks = sb_forks;
  return (PyObject *)self;
}

static void close_handle(Store *self) {
  sb_store *handle = self->handle;
  self->handle = NULL;
  if (!handle) return;
  Py_BEGIN_ALLOW_THREADS
  sb_close(handle);
  Py_END_ALLOW_THREADS
}

// Forgets what belongs to the parent of a fork: the calls of its threads, and what it has told its log.
static void forget_parent(Store *self) {
  if (self->forks == sb_forks) return;
  self->forks = sb_forks;
  self->users = 0;
  self->is_lost = false;
}

// Begins a call of the library; NULL if the store is closed.
sb_store *sb_begin_use(Store *self) {
  forget_parent(self);
  if (!self->handle || self->is_closing) return NULL;
  self->users++;
  return self->handle;
}

// Ends a call of the library. The last one closes the store if it is to be closed.
void sb_end_use(Store *self) {
  if (!--self->users && self->is_closing) close_handle(self);
}

// Tells the log if this process has lost its store, or has it back. It keeps the exception that is set, and
// returns -1 if there is another one.
int sb_tell_log(Store *self) {
  forget_parent(self);
  if (!self->handle || self->is_closing) return 0;
  int code = sb_health(self->handle);
  if (SB_IS_STORE_ERROR(code) == self->is_lost) return 0;
  self->is_lost = !self->is_lost;
  PyObject *pending = sb_raised();
  PyObject *answer =
      PyObject_CallMethod((PyObject *)self, "_log_health", "z", self->is_lost ? sb_words(code) : NULL);
  int status = answer ? 0 : -1;
  Py_XDECREF(answer);
  sb_raise_again(pending);
  return status;
}

static void store_dealloc(PyObject *object) {
  Store *self = (Store *)object;
  PyTypeObject *type = Py_TYPE(object);
  if (self->weak) PyObject_ClearWeakRefs(object);
  PyObject *pending = sb_raised();
  close_handle(self);
  PyBuffer_Release(&self->time);
  sb_raise_again(pending);
  Py_CLEAR(self->module);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(object);
  Py_DECREF(type);
}

// _close(): the last user closes it.
static PyObject *store_close(PyObject *object, PyObject *unused) {
  Store *self = (Store *)object;
  forget_parent(self);
  self->is_closing = true;
  if (!self->users) close_handle(self);
  Py_RETURN_NONE;
}

// _connect(existing)
static PyObject *store_connect(PyObject *object, PyObject *existing) {
  Store *self = (Store *)object;
  int only = PyObject_IsTrue(existing), code;
  if (only < 0) return NULL;
  USE(self, code, sb_connect(handle, only ? SB_EXISTING : 0));
  return sb_nothing(self->state, code);
}

static PyObject *store_flush(PyObject *object, PyObject *unused) {
  Store *self = (Store *)object;
  int code;
  USE(self, code, sb_flush(handle));
  return sb_nothing(self->state, code);
}

// _health() -> (code, text)
static PyObject *store_health(PyObject *object, PyObject *unused) {
  Store *self = (Store *)object;
  int code = self->handle && !self->is_closing ? sb_health(self->handle) : SB_ERR_CLOSED;
  return Py_BuildValue("is", code, sb_words(code));
}

static PyObject *store_path(PyObject *object, PyObject *unused) {
  Store *self = (Store *)object;
  char *text = NULL;
  int64_t length = 0;
  int code;
  USE(self, code, sb_path(handle, &text, &length));
  if (code != SB_OK) return sb_raise(self->state, code);
  PyObject *path = PyUnicode_DecodeFSDefaultAndSize(text, length);
  sb_free(text);
  return path;
}

// _snapshot(name) -> JSON, or None if there is no such breaker
static PyObject *store_snapshot(PyObject *object, PyObject *words) {
  Store *self = (Store *)object;
  Text name;
  char *json = NULL;
  int64_t length = 0;
  int code;
  if (!sb_text(words, &name)) return NULL;
  USE(self, code, sb_snapshot(handle, name.bytes, name.length, &json, &length));
  if (code == SB_NOT_FOUND) Py_RETURN_NONE;
  return code == SB_OK ? sb_take_text(json, length) : sb_raise(self->state, code);
}

// _list(prefix) -> JSON
static PyObject *store_list(PyObject *object, PyObject *words) {
  Store *self = (Store *)object;
  Text prefix;
  char *json = NULL;
  int64_t length = 0;
  int code;
  if (!sb_text(words, &prefix)) return NULL;
  USE(self, code, sb_list(handle, prefix.bytes, prefix.length, &json, &length));
  return code == SB_OK ? sb_take_text(json, length) : sb_raise(self->state, code);
}

// _history(name, after, limit) -> (JSON, last); `after` is None for the end of the history.
static PyObject *store_history(PyObject *object, PyObject *args) {
  Store *self = (Store *)object;
  Text name;
  PyObject *after;
  long long limit;
  char *json = NULL;
  int64_t length = 0, last = 0;
  int code;
  if (!PyArg_ParseTuple(args, "O&OL", sb_text, &name, &after, &limit)) return NULL;
  long long from = after == Py_None ? SB_NEWEST : PyLong_AsLongLong(after);
  if (from == -1 && PyErr_Occurred()) return NULL;
  USE(self, code,
      sb_history(handle, name.bytes, name.length, from, limit, &json, &length, &last));
  if (code != SB_OK) return sb_raise(self->state, code);
  PyObject *document = sb_take_text(json, length);
  return document ? Py_BuildValue("NL", document, (long long)last) : NULL;
}

// _report(token, outcome, error, time_ns, elapsed_ns) -> the verdict
static PyObject *store_report(PyObject *object, PyObject *args) {
  Store *self = (Store *)object;
  Text token, error;
  int outcome, code;
  long long time, elapsed;
  sb_details details = SB_DETAILS_INIT;
  if (!PyArg_ParseTuple(args, "O&iO&LL", sb_text, &token, &outcome, sb_text, &error, &time,
                        &elapsed))
    return NULL;
  details.error = error.bytes;
  details.error_length = error.length;
  *sb_named_time(&details, outcome) = time;
  details.elapsed_ns = elapsed;
  USE(self, code, sb_token_report(handle, token.bytes, token.length, outcome, &details));
  return sb_verdict(self->state, code);
}

// _renew(token, for_ns) -> whether the probe still has its lease
static PyObject *store_renew(PyObject *object, PyObject *args) {
  Store *self = (Store *)object;
  Text token;
  long long time;
  int code;
  if (!PyArg_ParseTuple(args, "O&L", sb_text, &token, &time)) return NULL;
  USE(self, code, sb_token_renew(handle, token.bytes, token.length, time));
  if (code < 0 || code == SB_INTERRUPTED) return sb_raise(self->state, code);
  return PyBool_FromLong(code == SB_OK);
}

// _exchange(other): lets each of two stores lead to the other's file from now on, for a test.
static PyObject *store_exchange(PyObject *object, PyObject *with) {
  Store *self = (Store *)object, *other = (Store *)with;
  if (!PyObject_TypeCheck(with, self->state->store)) {
    PyErr_Format(PyExc_TypeError, "%R is not a SharedStore", with);
    return NULL;
  }
  forget_parent(self);
  forget_parent(other);
  if (self->users || other->users) {
    PyErr_SetString(PyExc_RuntimeError, "another thread is using the store");
    return NULL;
  }
  Store before = *self;
  self->handle = other->handle, other->handle = before.handle;
  self->lock_timeout = other->lock_timeout, other->lock_timeout = before.lock_timeout;
  self->is_lost = other->is_lost, other->is_lost = before.is_lost;
  self->is_closing = other->is_closing, other->is_closing = before.is_closing;
  self->time = other->time, other->time = before.time;
  Py_RETURN_NONE;
}

// _add(breaker): lets the store know one of its breakers, which it does not keep. A set of weak references would do so too,
// but runs Python whenever one ends, where the exception of a signal's handler is lost.
static PyObject *store_add(PyObject *object, PyObject *added) {
  Store *self = (Store *)object;
  Breaker *breaker = (Breaker *)added;
  if (!PyObject_TypeCheck(added, self->state->breaker) || breaker->store != object) {
    PyErr_Format(PyExc_TypeError, "%R is not a breaker of the store", added);
    return NULL;
  }
  if (breaker->link) Py_RETURN_NONE;
  breaker->next = self->breakers;
  breaker->link = &self->breakers;
  if (breaker->next) breaker->next->link = &breaker->next;
  self->breakers = breaker;
  Py_RETURN_NONE;
}

// Forgets a breaker, which ends.
void sb_forget_breaker(Breaker *breaker) {
  if (!breaker->link) return;
  *breaker->link = breaker->next;
  if (breaker->next) breaker->next->link = breaker->link;
  breaker->link = NULL;
}

// _breakers() -> those that the store was told of and that are still there
static PyObject *store_breakers(PyObject *object, PyObject *unused) {
  PyObject *list = PyList_New(0);
  for (Breaker *breaker = ((Store *)object)->breakers; list && breaker; breaker = breaker->next)
    // One that is ending may run Python before it is forgotten.
    if (Py_REFCNT((PyObject *)breaker) > 0 && PyList_Append(list, (PyObject *)breaker)) Py_CLEAR(list);
  return list;
}

// _environment(rooms) -> the entry of an environment, or None
static PyObject *store_environment(PyObject *object, PyObject *rooms) {
  Store *self = (Store *)object;
  sb_store *handle = sb_begin_use(self);
  PyObject *entry = sb_environment_of(handle, rooms, self->state);
  if (handle) sb_end_use(self);
  return entry;
}

static PyMethodDef store_methods[] = {
    {"_add", store_add, METH_O, NULL},
    {"_breakers", store_breakers, METH_NOARGS, NULL},
    {"_close", store_close, METH_NOARGS, NULL},
    {"_connect", store_connect, METH_O, NULL},
    {"_environment", store_environment, METH_O, NULL},
    {"_exchange", store_exchange, METH_O, NULL},
    {"_flush", store_flush, METH_NOARGS, NULL},
    {"_health", store_health, METH_NOARGS, NULL},
    {"_path", store_path, METH_NOARGS, NULL},
    {"_snapshot", store_snapshot, METH_O, NULL},
    {"_list", store_list, METH_O, NULL},
    {"_history", store_history, METH_VARARGS, NULL},
    {"_report", store_report, METH_VARARGS, NULL},
    {"_renew", store_renew, METH_VARARGS, NULL},
    {NULL},
};

static PyMemberDef store_members[] = {
    {"__weaklistoffset__", Py_T_PYSSIZET, offsetof(Store, weak), Py_READONLY, NULL}, {NULL}};

static PyType_Slot store_slots[] = {
    {Py_tp_new, store_new},         {Py_tp_dealloc, store_dealloc},
    {Py_tp_methods, store_methods}, {Py_tp_members, store_members},
    {0, NULL},
};

PyType_Spec sb_store_spec = {
    "shared_breaker._extension.Store", sizeof(Store), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, store_slots};
