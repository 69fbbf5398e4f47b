// The breaker: `with`, `async with`, and calls. Its Python subclass adds what is not hot.
#include "extension.h"

static PyObject *breaker_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  State *state = sb_state_of(type);
  if (!state) return NULL;
  PyObject *store, *name, *judge, *judge_result;
  Text text, policy;
  int on_store_failure, code;
  if (!PyArg_ParseTuple(args, "O!UO&iOO", state->store, &store, &name, sb_text, &policy,
                        &on_store_failure, &judge, &judge_result) ||
      !sb_text(name, &text))
    return NULL;
  sb_breaker *breaker = NULL;
  USE((Store *)store, code,
      sb_breaker_open(handle, text.bytes, text.length, policy.bytes, policy.length,
                      on_store_failure, &breaker));
  if (code != SB_OK) return sb_raise(state, code);
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  Breaker *self = (Breaker *)allocate(type, 0);
  if (!self) {
    sb_breaker_free(breaker);
    return NULL;
  }
  self->state = state;
  self->module = Py_NewRef(sb_module_of(type));
  self->handle = breaker;
  self->name = Py_NewRef(name);
  self->store = Py_NewRef(store);
  self->judge = Py_NewRef(judge);
  self->judge_result = judge_result == Py_None ? NULL : Py_NewRef(judge_result);
  self->logged_state = NEVER_LOGGED;
  sb_forget_blocks(self);
  return (PyObject *)self;
}

// _claim(units, background, retry) -> the same breaker for calls that take several units of its limit, that can wait, or
// that are sent again.
static PyObject *claim(PyObject *object, PyObject *args) {
  Breaker *self = (Breaker *)object;
  int units, is_in_background, is_retry, code;
  if (!PyArg_ParseTuple(args, "ipp", &units, &is_in_background, &is_retry)) return NULL;
  sb_breaker *handle = NULL;
  WITHOUT_GIL(code, sb_breaker_claiming(self->handle, units, is_in_background ? SB_BACKGROUND : 0,
                                        &handle));
  if (code != SB_OK) return sb_raise(self->state, code);
  PyTypeObject *type = Py_TYPE(object);
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  Breaker *claiming = (Breaker *)allocate(type, 0);
  if (!claiming) {
    sb_breaker_free(handle);
    return NULL;
  }
  claiming->state = self->state;
  claiming->module = Py_NewRef(self->module);
  claiming->handle = handle;
  claiming->flags = is_retry ? SB_RETRY : 0;
  claiming->name = Py_NewRef(self->name);
  claiming->store = Py_NewRef(self->store);
  claiming->judge = Py_NewRef(self->judge);
  claiming->judge_result = Py_XNewRef(self->judge_result);
  claiming->logged_state = self->logged_state;
  sb_forget_blocks(claiming);
  return (PyObject *)claiming;
}

static int breaker_traverse(PyObject *object, visitproc visit, void *arg) {
  Breaker *self = (Breaker *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->module);
  Py_VISIT(self->store);
  Py_VISIT(self->judge);
  Py_VISIT(self->judge_result);
  Py_VISIT(self->watch);
  Py_VISIT(self->get_room);
  Py_VISIT(self->set_room);
  for (Block *block = self->blocks; block; block = block->next) {
    Py_VISIT(block->frame);
    Py_VISIT(block->context);
  }
  return 0;
}

static int breaker_clear(PyObject *object) {
  Breaker *self = (Breaker *)object;
  Py_CLEAR(self->watch);
  return 0;
}

static void breaker_dealloc(PyObject *object) {
  Breaker *self = (Breaker *)object;
  PyTypeObject *type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  sb_forget_breaker(self);
  if (self->weak) PyObject_ClearWeakRefs(object);
  sb_forget_blocks(self);
  sb_breaker_free(self->handle);
  Py_CLEAR(self->watch);
  Py_CLEAR(self->judge);
  Py_CLEAR(self->judge_result);
  Py_CLEAR(self->get_room);
  Py_CLEAR(self->set_room);
  Py_CLEAR(self->store);
  Py_CLEAR(self->name);
  Py_CLEAR(self->module);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(object);
  Py_DECREF(type);
}

static PyObject *enter(PyObject *object, PyObject *unused) {
  Breaker *self = (Breaker *)object;
  sb_permit permit = sb_no_permit();
  uint64_t room = 0;
  int code = sb_begin_and_watch(self, &permit, &room);
  if (code != SB_OK) {
    if (code != SB_LIMITED) return NULL;
    sb_move_to(self, room);
  }
  if (sb_place_block(self, &permit, code == SB_LIMITED ? room : 0, NULL)) {
    sb_abandon(self, &permit);
    return NULL;
  }
  Py_RETURN_NONE;
}

// Whether the arguments of __exit__ say that the block has raised.
static bool has_raised(PyObject *const *arguments, Py_ssize_t count) {
  return count >= 2 && arguments[1] != Py_None;
}

static PyObject *leave(PyObject *object, PyObject *const *arguments, Py_ssize_t count) {
  Breaker *self = (Breaker *)object;
  sb_permit permit;
  if (sb_take_block(self, &permit)) {
    if (has_raised(arguments, count)) {
      sb_report_exception(self, &permit, arguments[1]);
    } else {
      sb_finish_and_watch(self, &permit, NULL);
    }
  }
  // One that came meanwhile, such as that of a signal handler.
  if (PyErr_Occurred()) return NULL;
  Py_RETURN_FALSE;
}

static PyObject *enter_async(PyObject *object, PyObject *unused) {
  Breaker *self = (Breaker *)object;
  sb_permit permit = sb_no_permit();
  uint64_t room = 0;
  int code = sb_begin_now(self, &permit, &room);
  if (code == SB_WOULD_BLOCK) {
    PyObject *frame = sb_current_frame();
    PyObject *coroutine = PyObject_CallMethod(object, "_enter_slowly", "O", frame);
    Py_DECREF(frame);
    return coroutine;
  }
  if (code != SB_OK) {
    if (code != SB_LIMITED) {
      sb_watch(self);
      return NULL;
    }
    sb_move_to(self, room);
  }
  if (sb_place_block(self, &permit, code == SB_LIMITED ? room : 0, NULL)) {
    sb_abandon(self, &permit);
    return NULL;
  }
  return Py_NewRef(self->state->done);
}

static PyObject *leave_async(PyObject *object, PyObject *const *arguments, Py_ssize_t count) {
  Breaker *self = (Breaker *)object;
  sb_permit permit;
  if (!sb_take_block(self, &permit)) return Py_NewRef(self->state->done);
  Ending judged, *ending = NULL;
  bool must_end_now = PyErr_Occurred();
  if (has_raised(arguments, count)) {
    ending = &judged;
    // Nothing can be awaited any more while a generator is closed.
    if (sb_judge_exception(self, arguments[1], ending) ||
        PyErr_GivenExceptionMatches(arguments[1], PyExc_GeneratorExit))
      must_end_now = true;
  }
  PyObject *answer = NULL;
  int code;
  if (must_end_now) {
    sb_finish(self, &permit, ending);
    answer = PyErr_Occurred() ? NULL : Py_NewRef(self->state->done);
  } else if ((code = sb_finish_now(self, &permit, ending)) == SB_WOULD_BLOCK) {
    answer = sb_leave_slowly(self, &permit, ending);
  } else if (!sb_watch_failure(self, code, ending)) {
    answer = Py_NewRef(self->state->done);
  }
  if (ending) Py_XDECREF(ending->owner);
  return answer;
}

// _place(frame, permit): keeps the permit of a block that was entered where waiting is allowed.
static PyObject *place(PyObject *object, PyObject *args) {
  Breaker *self = (Breaker *)object;
  PyObject *frame, *holder;
  if (!PyArg_ParseTuple(args, "OO!", &frame, self->state->permit, &holder)) return NULL;
  sb_permit permit;
  uint64_t room;
  sb_take_permit(holder, &permit);
  if (sb_has_room(&permit, &room)) {
    sb_move_to(self, room);
  } else {
    room = 0;
  }
  if (sb_place_block(self, &permit, room, frame)) {
    sb_abandon(self, &permit);
    return NULL;
  }
  Py_RETURN_NONE;
}

// _guard(function, is_coroutine_function) -> the function behind the breaker.
static PyObject *guard(PyObject *object, PyObject *args) {
  PyObject *function;
  int is_coroutine_function;
  if (!PyArg_ParseTuple(args, "Op", &function, &is_coroutine_function)) return NULL;
  return sb_guard((Breaker *)object, function, is_coroutine_function);
}

// _continue(permit, work) -> an awaitable that runs the work with a permit.
static PyObject *go_on(PyObject *object, PyObject *args) {
  Breaker *self = (Breaker *)object;
  PyObject *holder, *work;
  if (!PyArg_ParseTuple(args, "O!O", self->state->permit, &holder, &work)) return NULL;
  sb_permit permit;
  uint64_t room;
  sb_take_permit(holder, &permit);
  return sb_drive(self, &permit, sb_has_room(&permit, &room) ? SB_LIMITED : SB_OK, Py_NewRef(work));
}

// _room_of_block() -> the room that the block of the caller has taken; 0 if it has taken none.
static PyObject *room_of_block(PyObject *object, PyObject *unused) {
  return sb_room_as_int(sb_room_of_block((Breaker *)object));
}

// _move_to(room) -> the room that the running task was inside of; from now on it is inside of the other one.
static PyObject *move_to(PyObject *object, PyObject *number) {
  Breaker *self = (Breaker *)object;
  uint64_t room = sb_int_as_room(number), before = sb_room_around(self);
  if (PyErr_Occurred()) return NULL;
  sb_move_to(self, room);
  return sb_room_as_int(before);
}

// _exchange(other): lets each of two breakers be the other one from now on, for a test.
static PyObject *exchange(PyObject *object, PyObject *with) {
  Breaker *self = (Breaker *)object, *other = (Breaker *)with;
  if (!PyObject_TypeCheck(with, self->state->breaker)) {
    PyErr_Format(PyExc_TypeError, "%R is not a Breaker", with);
    return NULL;
  }
  sb_breaker *handle = self->handle;
  self->handle = other->handle;
  other->handle = handle;
  self->logged_state = other->logged_state = NEVER_LOGGED;
  Py_RETURN_NONE;
}

static PyObject *reset(PyObject *object, PyObject *words) {
  Breaker *self = (Breaker *)object;
  Text reason;
  int code;
  if (!sb_text(words, &reason)) return NULL;
  INTERRUPTIBLY((Store *)self->store, code, sb_reset(self->handle, reason.bytes, reason.length));
  return sb_nothing(self->state, code);
}

// _trip(for_ns, reason)
static PyObject *trip(PyObject *object, PyObject *args) {
  Breaker *self = (Breaker *)object;
  long long time;
  Text reason;
  int code;
  if (!PyArg_ParseTuple(args, "LO&", &time, sb_text, &reason)) return NULL;
  INTERRUPTIBLY((Store *)self->store, code, sb_trip(self->handle, time, reason.bytes, reason.length));
  return sb_nothing(self->state, code);
}

// _hold(for_ns, reason)
static PyObject *hold(PyObject *object, PyObject *args) {
  Breaker *self = (Breaker *)object;
  long long time;
  Text reason;
  int code;
  if (!PyArg_ParseTuple(args, "LO&", &time, sb_text, &reason)) return NULL;
  INTERRUPTIBLY((Store *)self->store, code, sb_hold(self->handle, time, reason.bytes, reason.length));
  return sb_nothing(self->state, code);
}

// _end_hold(reason)
static PyObject *end_hold(PyObject *object, PyObject *words) {
  Breaker *self = (Breaker *)object;
  Text reason;
  int code;
  if (!sb_text(words, &reason)) return NULL;
  INTERRUPTIBLY((Store *)self->store, code, sb_hold_end(self->handle, reason.bytes, reason.length));
  return sb_nothing(self->state, code);
}

// _force(mode, for_ns, reason)
static PyObject *force(PyObject *object, PyObject *args) {
  Breaker *self = (Breaker *)object;
  int mode, code;
  long long time;
  Text reason;
  if (!PyArg_ParseTuple(args, "iLO&", &mode, &time, sb_text, &reason)) return NULL;
  INTERRUPTIBLY((Store *)self->store, code, sb_force(self->handle, mode, time, reason.bytes, reason.length));
  return sb_nothing(self->state, code);
}

// _acquire_token(pid) -> a token
static PyObject *acquire_token(PyObject *object, PyObject *pid) {
  Breaker *self = (Breaker *)object;
  int overflow;
  long number = PyLong_AsLongAndOverflow(pid, &overflow);
  if (number == -1 && !overflow && PyErr_Occurred()) return NULL;
  if (overflow || number < 0 || number > INT32_MAX) {
    PyErr_Format(PyExc_ValueError, "%S cannot be the number of a process", pid);
    return NULL;
  }
  char *token = NULL;
  int64_t length = 0;
  sb_rejection rejection = SB_REJECTION_INIT;
  int code;
  INTERRUPTIBLY((Store *)self->store, code, sb_token_acquire(self->handle, (int32_t)number, &token, &length, &rejection));
  if (code == SB_REJECTED) return sb_raise_rejection(self, &rejection);
  return code == SB_OK ? sb_take_text(token, length) : sb_raise(self->state, code);
}

static PyObject *snapshot(PyObject *object, PyObject *unused) {
  Breaker *self = (Breaker *)object;
  char *json = NULL;
  int64_t length = 0;
  int code;
  INTERRUPTIBLY((Store *)self->store, code, sb_breaker_snapshot(self->handle, &json, &length));
  return code == SB_OK ? sb_take_text(json, length) : sb_raise(self->state, code);
}

// _health() -> (code, text)
static PyObject *health(PyObject *object, PyObject *unused) {
  int code = sb_breaker_health(((Breaker *)object)->handle);
  return Py_BuildValue("is", code, sb_words(code));
}

static PyObject *get_state(PyObject *object, void *unused) {
  Breaker *self = (Breaker *)object;
  int state = SB_CLOSED, code;
  WITHOUT_GIL(code, sb_breaker_state(self->handle, &state));
  if (code != SB_OK) return sb_raise(self->state, code);
  return Py_NewRef(self->state->states[state]);
}

static PyMethodDef methods[] = {
    {"__enter__", enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void *)leave, METH_FASTCALL, NULL},
    {"__aenter__", enter_async, METH_NOARGS, NULL},
    {"__aexit__", (PyCFunction)(void *)leave_async, METH_FASTCALL, NULL},
    {"call", (PyCFunction)(void *)sb_call, METH_FASTCALL | METH_KEYWORDS,
     "call(function, /, *args, **kwargs)\n--\n\n"
     "Call a function behind the breaker, and return what it returns."},
    {"_claim", claim, METH_VARARGS, NULL},
    {"_guard", guard, METH_VARARGS, NULL},
    {"_continue", go_on, METH_VARARGS, NULL},
    {"_place", place, METH_VARARGS, NULL},
    {"_room_of_block", room_of_block, METH_NOARGS, NULL},
    {"_move_to", move_to, METH_O, NULL},
    {"_exchange", exchange, METH_O, NULL},
    {"_reset", reset, METH_O, NULL},
    {"_trip", trip, METH_VARARGS, NULL},
    {"_hold", hold, METH_VARARGS, NULL},
    {"_end_hold", end_hold, METH_O, NULL},
    {"_force", force, METH_VARARGS, NULL},
    {"_acquire_token", acquire_token, METH_O, NULL},
    {"_snapshot", snapshot, METH_NOARGS, NULL},
    {"_health", health, METH_NOARGS, NULL},
    {NULL},
};

static PyMemberDef members[] = {
    {"__weaklistoffset__", Py_T_PYSSIZET, offsetof(Breaker, weak), Py_READONLY, NULL},
    {"name", Py_T_OBJECT_EX, offsetof(Breaker, name), Py_READONLY, "Its name."},
    {"store", Py_T_OBJECT_EX, offsetof(Breaker, store), Py_READONLY, "Its store."},
    {"_judge", Py_T_OBJECT_EX, offsetof(Breaker, judge), Py_READONLY, NULL},
    {"_watch", Py_T_OBJECT_EX, offsetof(Breaker, watch), 0, NULL},
    {NULL},
};

static PyGetSetDef properties[] = {
    {"state", get_state, NULL, "'closed', 'open' or 'half_open'; asking changes nothing.", NULL},
    {NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, breaker_new},           {Py_tp_dealloc, breaker_dealloc},
    {Py_tp_traverse, breaker_traverse}, {Py_tp_clear, breaker_clear},
    {Py_tp_methods, methods},           {Py_tp_members, members},
    {Py_tp_getset, properties},         {0, NULL},
};

PyType_Spec sb_breaker_spec = {
    "shared_breaker._extension.Breaker", sizeof(Breaker), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE, slots};
