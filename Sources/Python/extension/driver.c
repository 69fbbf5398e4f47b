// Awaitables: a coroutine behind a breaker, and what is done already.
//
// A driver hands on what its event loop sends and throws to the coroutine of the work. What cannot
// be decided without the file is left to coroutines in Python, which do it in another thread.
#include "extension.h"

typedef enum {
  UNSTARTED,
  WORKING,    // `inner` is the work
  REPORTING,  // `inner` reports; the work has ended with `outcome`
  HANDED_OVER,  // `inner` does all of it
  ENDED,
} Phase;

typedef struct {
  PyObject_HEAD
  Breaker *breaker;
  PyObject *function, *arguments, *keywords;
  PyObject *inner;
  PyObject *outcome;  // what the work returned, or raised
  bool has_failed;    // whether it raised
  Phase phase;
  sb_permit permit;
} Driver;

// Memory of drivers that have ended, for the next ones. Each call takes one.
static Driver *make(Breaker *breaker) {
  State *state = breaker->state;
  Driver *self;
  if (state->spare_count) {
    self = state->spare[--state->spare_count];
    PyObject_Init((PyObject *)self, state->driver);
  } else {
    self = PyObject_GC_New(Driver, state->driver);
    if (!self) return NULL;
  }
  memset((char *)self + sizeof(PyObject), 0, sizeof *self - sizeof(PyObject));
  self->breaker = (Breaker *)Py_NewRef((PyObject *)breaker);
  return self;
}

// Returns an awaitable that calls a coroutine function behind a breaker.
PyObject *sb_drive_call(Breaker *breaker, PyObject *function, PyObject *arguments,
                        PyObject *keywords) {
  Driver *self = make(breaker);
  if (!self) return NULL;
  self->function = Py_NewRef(function);
  self->arguments = Py_NewRef(arguments);
  self->keywords = Py_NewRef(keywords);
  self->permit.size = sizeof self->permit;
  PyObject_GC_Track((PyObject *)self);
  return (PyObject *)self;
}

// Returns an awaitable that runs a coroutine with a permit that was granted before. It takes over the
// reference to the coroutine.
PyObject *sb_drive(Breaker *breaker, const sb_permit *permit, PyObject *coroutine) {
  Driver *self = make(breaker);
  if (!self) {
    Py_DECREF(coroutine);
    return NULL;
  }
  self->inner = coroutine;
  self->permit = *permit;
  self->phase = WORKING;
  PyObject_GC_Track((PyObject *)self);
  return (PyObject *)self;
}

// Returns a coroutine that reports where waiting is allowed.
PyObject *sb_leave_slowly(Breaker *breaker, const sb_permit *permit, const Ending *ending) {
  sb_permit copy = *permit;
  PyObject *object = sb_new_permit(breaker, &copy);
  if (!object) return NULL;
  PyObject *words = ending && ending->owner ? ending->owner : Py_None;
  PyObject *coroutine =
      PyObject_CallMethod((PyObject *)breaker, "_leave_slowly", "OO", object, words);
  Py_DECREF(object);
  return coroutine;
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

static PySendResult drive(Driver *self, PyObject *value, PyObject **result);

// The work has returned a result, or raised if that is NULL.
static PySendResult work_ended(Driver *self, PyObject **result) {
  Breaker *breaker = self->breaker;
  Ending judged, *ending = &judged;
  judged.owner = NULL;
  self->has_failed = !*result;
  self->outcome = *result ? *result : sb_raised();
  *result = NULL;
  if (self->has_failed) {
    sb_judge_exception(breaker, self->outcome, ending);
  } else if (breaker->judge_result) {
    sb_judge_result(breaker, self->outcome, ending);
  } else {
    ending = NULL;
  }
  Py_CLEAR(self->inner);
  int code = sb_finish_now(breaker, &self->permit, ending);
  if (code == SB_WOULD_BLOCK) {
    self->inner = sb_leave_slowly(breaker, &self->permit, ending);
    if (!self->inner) PyErr_WriteUnraisable((PyObject *)breaker);
  }
  self->permit = sb_no_permit();
  Py_XDECREF(judged.owner);
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

static PySendResult start(Driver *self) {
  Breaker *breaker = self->breaker;
  int code = sb_begin_now(breaker, &self->permit);
  if (code == SB_OK) {
    PyObject *coroutine = PyObject_Call(self->function, self->arguments, self->keywords);
    if (coroutine && Py_TYPE(coroutine) != breaker->state->coroutine) {
      // Something else to await, such as a future or what another decorator returns.
      PyObject *iterator = PyObject_CallMethod(coroutine, "__await__", NULL);
      Py_DECREF(coroutine);
      coroutine = iterator;
    }
    self->inner = coroutine;
    self->phase = WORKING;
  } else if (code == SB_WOULD_BLOCK) {
    self->inner = PyObject_CallMethod((PyObject *)breaker, "_call_slowly", "OOO", self->function,
                                      self->arguments, self->keywords);
    self->phase = HANDED_OVER;
  } else {
    sb_watch(breaker);
    self->phase = ENDED;
    return PYGEN_ERROR;
  }
  return self->inner ? PYGEN_NEXT : PYGEN_ERROR;
}

static PySendResult drive(Driver *self, PyObject *value, PyObject **result) {
  *result = NULL;
  if (self->phase == UNSTARTED) {
    PySendResult started = start(self);
    if (started != PYGEN_NEXT) return self->phase == ENDED ? started : advance(self, started, result);
  }
  if (self->phase == ENDED || !self->inner) {
    PyErr_SetString(PyExc_RuntimeError, "cannot reuse already awaited coroutine");
    return PYGEN_ERROR;
  }
  return advance(self, PyIter_Send(self->inner, value, result), result);
}

static PySendResult driver_am_send(PyObject *self, PyObject *value, PyObject **result) {
  return drive((Driver *)self, value, result);
}

// Returns what send() and throw() of a generator return.
static PyObject *as_generator(PySendResult status, PyObject *result) {
  if (status != PYGEN_RETURN) return status == PYGEN_NEXT ? result : NULL;
  PyObject *stop = PyObject_CallFunctionObjArgs(PyExc_StopIteration, result, NULL);
  Py_DECREF(result);
  if (stop) PyErr_SetObject(PyExc_StopIteration, stop);
  Py_XDECREF(stop);
  return NULL;
}

static PyObject *driver_send(PyObject *self, PyObject *value) {
  PyObject *result;
  PySendResult status = drive((Driver *)self, value, &result);
  return as_generator(status, result);
}

static PyObject *driver_next(PyObject *self) { return driver_send(self, Py_None); }

// Takes the value of the StopIteration that is set; NULL if another exception is.
static PyObject *stop_value(void) {
  if (!PyErr_ExceptionMatches(PyExc_StopIteration)) return NULL;
  PyObject *stop = sb_raised();
  PyObject *value = PyObject_GetAttrString(stop, "value");
  Py_DECREF(stop);
  return value;
}

static PyObject *driver_throw(PyObject *object, PyObject *args) {
  Driver *self = (Driver *)object;
  PyObject *type, *value = NULL, *trace = NULL;
  if (!PyArg_UnpackTuple(args, "throw", 1, 3, &type, &value, &trace)) return NULL;
  if (self->phase == UNSTARTED || self->phase == ENDED || !self->inner) {
    self->phase = ENDED;
    if (PyExceptionInstance_Check(type)) {
      PyErr_SetObject((PyObject *)Py_TYPE(type), type);
    } else {
      PyErr_SetObject(type, value);
    }
    return NULL;
  }
  PyObject *throw = PyObject_GetAttrString(self->inner, "throw");
  PyObject *result = NULL;
  if (throw) {
    result = PyObject_Call(throw, args, NULL);
    Py_DECREF(throw);
  } else if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
    // An iterator without throw(), such as that of an awaitable in C.
    PyErr_Clear();
    if (PyExceptionInstance_Check(type)) {
      PyErr_SetObject((PyObject *)Py_TYPE(type), type);
    } else {
      PyErr_SetObject(type, value);
    }
  }
  PySendResult status = PYGEN_NEXT;
  if (!result) {
    result = stop_value();
    status = result ? PYGEN_RETURN : PYGEN_ERROR;
  }
  status = advance(self, status, &result);
  return as_generator(status, result);
}

// Ends the work where nothing can be awaited any more.
static PyObject *driver_close(PyObject *object, PyObject *unused) {
  Driver *self = (Driver *)object;
  PyObject *inner = self->inner;
  self->inner = NULL;
  self->phase = ENDED;
  PyObject *answer = Py_NewRef(Py_None);
  if (inner) {
    PyObject *close = PyObject_GetAttrString(inner, "close");
    if (close) {
      Py_DECREF(answer);
      answer = PyObject_CallNoArgs(close);
      Py_DECREF(close);
    } else {
      PyErr_Clear();
    }
    Py_DECREF(inner);
  }
  if (self->permit.kind) sb_abandon(self->breaker, &self->permit);
  self->permit = sb_no_permit();
  return answer;
}

static int driver_traverse(PyObject *object, visitproc visit, void *arg) {
  Driver *self = (Driver *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT((PyObject *)self->breaker);
  Py_VISIT(self->function);
  Py_VISIT(self->arguments);
  Py_VISIT(self->keywords);
  Py_VISIT(self->inner);
  Py_VISIT(self->outcome);
  return 0;
}

static int driver_clear(PyObject *object) {
  Driver *self = (Driver *)object;
  self->phase = ENDED;
  Py_CLEAR(self->function);
  Py_CLEAR(self->arguments);
  Py_CLEAR(self->keywords);
  Py_CLEAR(self->inner);
  Py_CLEAR(self->outcome);
  return 0;
}

static void driver_dealloc(PyObject *object) {
  Driver *self = (Driver *)object;
  PyTypeObject *type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  if (self->permit.kind) sb_abandon(self->breaker, &self->permit);
  Breaker *breaker = self->breaker;
  State *state = breaker->state;
  driver_clear(object);
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
    {NULL},
};

static PyType_Slot driver_slots[] = {
    {Py_am_await, itself},
    {Py_am_send, driver_am_send},
    {Py_tp_iter, itself},
    {Py_tp_iternext, driver_next},
    {Py_tp_methods, driver_methods},
    {Py_tp_traverse, driver_traverse},
    {Py_tp_clear, driver_clear},
    {Py_tp_dealloc, driver_dealloc},
    {0, NULL},
};

PyType_Spec sb_driver_spec = {
    "shared_breaker._extension.Call", sizeof(Driver), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, driver_slots};

static PySendResult finished_send(PyObject *self, PyObject *value, PyObject **result) {
  *result = Py_NewRef(Py_None);
  return PYGEN_RETURN;
}

// No exception stands for a StopIteration whose value is None.
static PyObject *finished_next(PyObject *self) { return NULL; }

static PyType_Slot finished_slots[] = {
    {Py_am_await, itself},
    {Py_am_send, finished_send},
    {Py_tp_iter, itself},
    {Py_tp_iternext, finished_next},
    {0, NULL},
};

PyType_Spec sb_finished_spec = {
    "shared_breaker._extension.Finished", sizeof(PyObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, finished_slots};
