// Awaitables: work behind a breaker.
//
// A driver hands on what its event loop sends and throws to the work. Decisions that take the file are
// left to coroutines in Python, which make them in another thread.
#include "extension.h"

typedef enum {
  UNSTARTED,    // nothing was awaited yet
  WORKING,      // `inner` is the work
  REPORTING,    // `inner` reports; the work has ended with `outcome`
  HANDED_OVER,  // `inner` does all of it
  ENDED,
} Phase;

typedef struct {
  PyObject_HEAD
  Breaker *breaker;
  PyObject *work;     // what was called, usually a coroutine; kept because tools ask for its name
  PyObject *inner;    // what is sent to now; NULL before and afterwards
  PyObject *outcome;  // what the work returned, or raised
  bool has_failed;    // whether it raised
  bool is_running;    // whether `inner` is at work this very moment
  int begun;          // SB_LIMITED if the permit has room, in which the work runs
  Phase phase;
  sb_permit permit;
} Driver;

// Returns an awaitable that runs the work with a permit, or if that is NULL, asks for one when it is
// awaited. `begun` is what the permit's sb_begin() has returned. The reference to the work and the permit
// belong to the awaitable then; if there is no memory for it, both are given back.
PyObject *sb_drive(Breaker *breaker, const sb_permit *permit, int begun, PyObject *work) {
  State *state = breaker->state;
  Driver *self;
  // Memory of drivers that have ended, because each call takes one.
  if (state->spare_count) {
    self = state->spare[--state->spare_count];
    PyObject_Init((PyObject *)self, state->driver);
  } else {
    self = PyObject_GC_New(Driver, state->driver);
    if (!self) {
      sb_permit unused = permit ? *permit : sb_no_permit();
      sb_abandon(breaker, &unused);
      Py_DECREF(work);
      return NULL;
    }
  }
  self->breaker = (Breaker *)Py_NewRef((PyObject *)breaker);
  self->work = work;
  self->inner = self->outcome = NULL;
  self->has_failed = self->is_running = false;
  self->begun = begun;
  self->phase = UNSTARTED;
  self->permit = permit ? *permit : sb_no_permit();
  PyObject_GC_Track((PyObject *)self);
  return (PyObject *)self;
}

// Gives back the permit of a call that tells nothing about the resource. It leaves exceptions alone.
static void give_back(Driver *self) {
  if (self->permit.kind) sb_abandon(self->breaker, &self->permit);
  self->permit = sb_no_permit();
}

static PySendResult end(Driver *self, PyObject **result) {
  self->phase = ENDED;
  Py_CLEAR(self->inner);
  if (self->has_failed) {
    sb_raise_again(self->outcome);
    self->outcome = NULL;
    return PYGEN_ERROR;
  }
  *result = self->outcome;
  self->outcome = NULL;
  return PYGEN_RETURN;
}

// Makes the exception that is set, such as that of a signal handler, the outcome of the work.
static void end_with_exception(Driver *self) {
  PyObject *before = self->outcome;
  self->outcome = NULL;
  if (self->has_failed) {
    sb_raise_again(before);
  } else {
    Py_DECREF(before);
  }
  self->outcome = sb_raised();
  self->has_failed = true;
}

static PySendResult drive(Driver *self, PyObject *value, PyObject **result);

// The work has returned a result, or raised if that is NULL.
static PySendResult work_ended(Driver *self, PyObject **result) {
  Breaker *breaker = self->breaker;
  Ending judged, *ending = &judged;
  judged.owner = NULL;
  self->is_running = true;  // what judges is not to send anything
  self->has_failed = !*result;
  self->outcome = *result ? *result : sb_raised();
  *result = NULL;
  int interrupted = 0;
  if (self->has_failed) {
    interrupted = sb_judge_exception(breaker, self->outcome, ending);
  } else if (breaker->judge_result) {
    interrupted = sb_judge_result(breaker, self->outcome, ending);
  } else {
    ending = NULL;
  }
  if (interrupted) end_with_exception(self);
  Py_CLEAR(self->inner);
  int code = sb_finish_now(breaker, &self->permit, ending);
  if (code == SB_WOULD_BLOCK) {
    self->inner = sb_leave_slowly(breaker, &self->permit, ending);
    if (!self->inner) end_with_exception(self);
  } else if (sb_watch_failure(breaker, code, ending)) {
    end_with_exception(self);
  }
  self->permit = sb_no_permit();
  Py_XDECREF(judged.owner);
  self->is_running = false;
  if (!self->inner) return end(self, result);
  self->phase = REPORTING;
  return drive(self, Py_None, result);
}

// Goes on after `inner` has yielded, returned or raised.
static PySendResult advance(Driver *self, PySendResult status, PyObject **result) {
  if (status == PYGEN_NEXT) return status;
  if (self->phase == WORKING) {
    if (status == PYGEN_ERROR) *result = NULL;
    return work_ended(self, result);
  }
  if (self->phase == REPORTING && status == PYGEN_RETURN) {
    Py_CLEAR(*result);
    return end(self, result);
  }
  self->phase = ENDED;
  Py_CLEAR(self->inner);
  return status;
}

// Closes work that never begins, so that Python does not warn about it. It leaves exceptions alone.
static void drop(Driver *self) {
  PyObject *pending = sb_raised();
  PyObject *answer = PyObject_CallMethod(self->work, "close", NULL);
  if (!answer) PyErr_Clear();  // a future has no close()
  Py_XDECREF(answer);
  sb_raise_again(pending);
}

// Returns the object to send to if there is no permit yet, or none at all; NULL with an exception.
static PyObject *begin_otherwise(Driver *self, int code) {
  Breaker *breaker = self->breaker;
  self->phase = HANDED_OVER;
  if (code == SB_WOULD_BLOCK)
    return PyObject_CallMethod((PyObject *)breaker, "_call_slowly", "O", self->work);
  sb_watch(breaker);
  drop(self);
  return NULL;
}

// Asks for a permit, unless there is one. Returns what to send to; NULL with an exception.
static PyObject *begin(Driver *self) {
  Breaker *breaker = self->breaker;
  uint64_t room = 0;
  int code = self->permit.kind ? self->begun : sb_begin_now(breaker, &self->permit, &room);
  if (code != SB_OK) {
    if (code != SB_LIMITED) return begin_otherwise(self, code);
    if (room || sb_has_room(&self->permit, &room)) sb_move_to(breaker, room);
  }
  self->phase = WORKING;
  PyTypeObject *type = Py_TYPE(self->work);
  // A generator is a coroutine of types.coroutine().
  if (type == breaker->state->coroutine || type == breaker->state->generator)
    return Py_NewRef(self->work);
  // Something else to await, such as a future or what another decorator returns.
  return PyObject_CallMethod(self->work, "__await__", NULL);
}

// Whether something can be sent or thrown now; false with an exception if not.
static bool is_ready(Driver *self) {
  if (self->is_running) {
    PyErr_SetString(PyExc_ValueError, "coroutine already executing");
    return false;
  }
  if (self->phase == ENDED) {
    PyErr_SetString(PyExc_RuntimeError, "cannot reuse already awaited coroutine");
    return false;
  }
  return true;
}

static PySendResult drive(Driver *self, PyObject *value, PyObject **result) {
  *result = NULL;
  if (!is_ready(self)) return PYGEN_ERROR;
  PySendResult status = PYGEN_ERROR;
  self->is_running = true;
  if (self->phase == UNSTARTED) self->inner = begin(self);
  if (self->inner) status = PyIter_Send(self->inner, value, result);
  self->is_running = false;
  return advance(self, status, result);
}

static PySendResult driver_am_send(PyObject *self, PyObject *value, PyObject **result) {
  return drive((Driver *)self, value, result);
}

static PyObject *driver_send(PyObject *self, PyObject *value) {
  PyObject *result;
  PySendResult status = drive((Driver *)self, value, &result);
  return sb_as_generator(status, result);
}

static PyObject *driver_next(PyObject *self) { return driver_send(self, Py_None); }

static PyObject *driver_throw(PyObject *object, PyObject *args) {
  Driver *self = (Driver *)object;
  if (!is_ready(self)) return NULL;
  if (self->phase == UNSTARTED) {
    // Work that never began is not a call, and tells nothing about the resource.
    give_back(self);
    self->phase = HANDED_OVER;
    self->inner = Py_NewRef(self->work);
  }
  self->is_running = true;
  PyObject *result = sb_throw_into(self->inner, args);
  self->is_running = false;
  PySendResult status = PYGEN_NEXT;
  if (!result) {
    result = sb_stop_value();
    status = result ? PYGEN_RETURN : PYGEN_ERROR;
  }
  status = advance(self, status, &result);
  return sb_as_generator(status, result);
}

// Reports work that was closed early, as a block that is left by GeneratorExit is reported. It keeps the
// exception that is set.
static void report_closing(Driver *self) {
  PyObject *pending = sb_raised();
  PyObject *closing = PyObject_CallNoArgs(PyExc_GeneratorExit);
  if (closing) sb_report_exception(self->breaker, &self->permit, closing);
  Py_XDECREF(closing);
  sb_raise_again(pending);
}

// Ends the work where nothing can be awaited any more.
static PyObject *driver_close(PyObject *object, PyObject *unused) {
  Driver *self = (Driver *)object;
  if (self->phase == ENDED) Py_RETURN_NONE;
  if (!is_ready(self)) return NULL;
  PyObject *inner = self->inner ? self->inner : Py_NewRef(self->work);
  bool was_working = self->phase == WORKING;
  self->inner = NULL;
  self->phase = ENDED;
  PyObject *answer = NULL, *close = PyObject_GetAttrString(inner, "close");
  if (close) {
    answer = PyObject_CallNoArgs(close);
    Py_DECREF(close);
  } else if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Clear();
    answer = Py_NewRef(Py_None);
  }
  Py_DECREF(inner);
  if (was_working) report_closing(self);
  give_back(self);
  if (PyErr_Occurred()) Py_CLEAR(answer);
  return answer;
}

// Looks in the work for what tools ask of a coroutine, such as its name and frame.
static PyObject *driver_attribute(PyObject *object, void *name) {
  return PyObject_GetAttrString(((Driver *)object)->work, name);
}

// Tools ask how far a coroutine has got, and the work may not have begun or be over while the driver waits.
static PyObject *driver_is_running(PyObject *object, void *unused) {
  return PyBool_FromLong(((Driver *)object)->is_running);
}

static PyObject *driver_is_suspended(PyObject *object, void *unused) {
  Driver *self = (Driver *)object;
  return PyBool_FromLong(self->inner && !self->is_running);
}

// Looks in the work for what is not of awaiting, such as cancel() of a future.
static PyObject *driver_getattr(PyObject *object, PyObject *name) {
  PyObject *value = PyObject_GenericGetAttr(object, name);
  if (value || !PyErr_ExceptionMatches(PyExc_AttributeError)) return value;
  PyErr_Clear();
  return PyObject_GetAttr(((Driver *)object)->work, name);
}

// Enters what can be awaited or be the object of `async with`, such as a request of aiohttp: entering it is
// the call.
static PyObject *driver_enter(PyObject *object, PyObject *unused) {
  Driver *self = (Driver *)object;
  if (!is_ready(self)) return NULL;
  PyObject *work = PyObject_CallMethod(self->work, "__aenter__", NULL);
  if (!work) return NULL;
  PyObject *entering =
      sb_drive(self->breaker, self->permit.kind ? &self->permit : NULL, self->begun, work);
  self->permit = sb_no_permit();
  if (entering) self->phase = ENDED;
  return entering;
}

static PyObject *driver_leave(PyObject *object, PyObject *args) {
  PyObject *leave = PyObject_GetAttrString(((Driver *)object)->work, "__aexit__");
  PyObject *leaving = leave ? PyObject_Call(leave, args, NULL) : NULL;
  Py_XDECREF(leave);
  return leaving;
}

static int driver_traverse(PyObject *object, visitproc visit, void *arg) {
  Driver *self = (Driver *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT((PyObject *)self->breaker);
  Py_VISIT(self->work);
  Py_VISIT(self->inner);
  Py_VISIT(self->outcome);
  return 0;
}

static int driver_clear(PyObject *object) {
  Driver *self = (Driver *)object;
  self->phase = ENDED;
  Py_CLEAR(self->inner);
  Py_CLEAR(self->outcome);
  return 0;
}

static void driver_dealloc(PyObject *object) {
  Driver *self = (Driver *)object;
  PyTypeObject *type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  give_back(self);
  Breaker *breaker = self->breaker;
  State *state = breaker->state;
  driver_clear(object);
  Py_DECREF(self->work);
  if (state->spare_count < SPARE_DRIVERS) {
    state->spare[state->spare_count++] = object;
  } else {
    PyObject_GC_Del(object);
  }
  Py_DECREF((PyObject *)breaker);
  Py_DECREF(type);
}

static PyObject *itself(PyObject *self) { return Py_NewRef(self); }

static PyMethodDef driver_methods[] = {
    {"send", driver_send, METH_O, NULL},
    {"throw", driver_throw, METH_VARARGS, NULL},
    {"close", driver_close, METH_NOARGS, NULL},
    {"__aenter__", driver_enter, METH_NOARGS, NULL},
    {"__aexit__", driver_leave, METH_VARARGS, NULL},
    {NULL},
};

static PyGetSetDef driver_attributes[] = {
    {"__name__", driver_attribute, NULL, NULL, "__name__"},
    {"__qualname__", driver_attribute, NULL, NULL, "__qualname__"},
    {"cr_await", driver_attribute, NULL, NULL, "cr_await"},
    {"cr_code", driver_attribute, NULL, NULL, "cr_code"},
    {"cr_frame", driver_attribute, NULL, NULL, "cr_frame"},
    {"cr_running", driver_is_running, NULL, NULL, NULL},
    {"cr_suspended", driver_is_suspended, NULL, NULL, NULL},
    {NULL},
};

static PyType_Slot driver_slots[] = {
    {Py_am_await, itself},
    {Py_am_send, driver_am_send},
    {Py_tp_iter, itself},
    {Py_tp_iternext, driver_next},
    {Py_tp_methods, driver_methods},
    {Py_tp_getset, driver_attributes},
    {Py_tp_getattro, driver_getattr},
    {Py_tp_traverse, driver_traverse},
    {Py_tp_clear, driver_clear},
    {Py_tp_dealloc, driver_dealloc},
    {0, NULL},
};

PyType_Spec sb_driver_spec = {
    "shared_breaker._extension.Call", sizeof(Driver), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, driver_slots};
