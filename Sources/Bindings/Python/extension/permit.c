// Permits as objects, for calls in two steps and for what is done in another thread.
#include "extension.h"

typedef struct {
  PyObject_HEAD
  Breaker *breaker;
  sb_permit permit;
  uint64_t outer;   // the room of the call that it is inside of, if another thread asks for it
  int64_t waited;   // how long its call counts as having waited for room already
  sb_turn *turn;    // what it waits for; NULL if it does not
  PyObject *bell;   // has the descriptor, which must stay open as long as the turn
  bool is_asking;   // whether a thread is asking for the turn, and so has to see to what becomes of it
  int is_given_up;  // whether its waiter in another thread has given it up
} Permit;

static PyObject *permit_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  State *state = sb_state_of(type);
  if (!state) return NULL;
  PyObject *breaker;
  if (!PyArg_ParseTuple(args, "O!", state->breaker, &breaker)) return NULL;
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  Permit *self = (Permit *)allocate(type, 0);
  if (!self) return NULL;
  self->breaker = (Breaker *)Py_NewRef(breaker);
  self->permit = sb_no_permit();
  return (PyObject *)self;
}

// Wraps a permit, which must not be used otherwise from then on.
PyObject *sb_new_permit(Breaker *breaker, sb_permit *permit) {
  PyObject *self = PyObject_CallMethod((PyObject *)breaker, "_permit", NULL);
  if (self) ((Permit *)self)->permit = *permit;
  return self;
}

// Takes the permit out of its object; false if it was used already.
bool sb_take_permit(PyObject *object, sb_permit *permit) {
  Permit *self = (Permit *)object;
  *permit = self->permit;
  self->permit = sb_no_permit();
  return permit->kind != 0;
}

// Gives up the turn, if there is one. It keeps the exception that is set.
static void end_turn(Permit *self) {
  sb_turn *turn = self->turn;
  PyObject *bell = self->bell;
  self->turn = NULL;
  self->bell = NULL;
  if (!turn && !bell) return;
  PyObject *pending = sb_raised();
  Py_BEGIN_ALLOW_THREADS
  sb_turn_free(turn);
  Py_END_ALLOW_THREADS
  Py_XDECREF(bell);
  sb_raise_again(pending);
}

static void permit_dealloc(PyObject *object) {
  Permit *self = (Permit *)object;
  PyTypeObject *type = Py_TYPE(object);
  end_turn(self);
  if (self->permit.kind) {
    PyObject *pending = sb_raised();
    sb_abandon(self->breaker, &self->permit);
    sb_raise_again(pending);
  }
  Py_XDECREF((PyObject *)self->breaker);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(object);
  Py_DECREF(type);
}

// _enter(wait) -> whether the permit was granted; false only without waiting.
static PyObject *permit_enter(PyObject *object, PyObject *wait) {
  Permit *self = (Permit *)object;
  if (self->permit.kind) {
    PyErr_SetString(PyExc_RuntimeError, "this permit has yet to be reported");
    return NULL;
  }
  int waits = PyObject_IsTrue(wait);
  if (waits < 0) return NULL;
  sb_permit permit = sb_no_permit();
  uint64_t room = self->outer;
  int code;
  if (waits) {
    // In the main thread signals take its place.
    sb_interruptible(NULL, &self->is_given_up);
    code = sb_begin(self->breaker, &permit, &room, self->waited);
    sb_interruptible(NULL, NULL);
  } else {
    code = sb_begin_now(self->breaker, &permit, &room);
  }
  if (code != SB_OK && code != SB_LIMITED && code != SB_WOULD_BLOCK) return NULL;
  self->permit = permit;
  return PyBool_FromLong(code != SB_WOULD_BLOCK);
}

// Asks for the permit, or for the turn that it waits for.
static int ask_for_turn(Permit *self, int descriptor, sb_permit *permit, sb_rejection *rejection, uint32_t flags) {
  if (self->turn) return sb_turn_take(self->turn, permit, rejection, flags);
  return sb_turn_open_on(self->breaker->handle, descriptor, self->waited, self->outer, permit, rejection, &self->turn,
                         flags | self->breaker->flags);
}

// _queue(wait, bell) -> None if the permit was granted; True if it waits, and the bell rings when to ask again; False if
// that has to be asked where waiting is allowed. It never waits for the turn.
static PyObject *permit_queue(PyObject *object, PyObject *args) {
  Permit *self = (Permit *)object;
  Breaker *breaker = self->breaker;
  PyObject *bell;
  int waits, code;
  if (!PyArg_ParseTuple(args, "pO", &waits, &bell)) return NULL;
  int descriptor = PyObject_AsFileDescriptor(bell);
  if (descriptor < 0) return NULL;
  if (!self->bell) self->bell = Py_NewRef(bell);
  uint64_t room;
  sb_permit permit = sb_no_permit();
  sb_rejection rejection = SB_REJECTION_INIT;
  if (waits) {
    // In the main thread signals take its place.
    sb_interruptible(NULL, &self->is_given_up);
    self->is_asking = true;
    INTERRUPTIBLY((Store *)breaker->store, code, ask_for_turn(self, descriptor, &permit, &rejection, 0));
    self->is_asking = false;
    sb_interruptible(NULL, NULL);
    if (permit.kind) sb_takes_room(breaker, &permit, &room);
    if (self->is_given_up) {
      end_turn(self);
      if (permit.kind) sb_abandon(breaker, &permit);
      return PyErr_Occurred() ? NULL : Py_NewRef(Py_False);
    }
  } else {
    code = ask_for_turn(self, descriptor, &permit, &rejection, SB_NOWAIT);
    if (permit.kind) sb_takes_room(breaker, &permit, &room);
  }
  if (code == SB_WAITING || code == SB_WOULD_BLOCK) return PyBool_FromLong(code == SB_WAITING);
  end_turn(self);
  code = sb_entered(breaker, code, &rejection);
  if (waits && sb_after_waiting(breaker, permit.kind == SB_PROBE)) {
    if (permit.kind) sb_abandon(breaker, &permit);
    return NULL;
  }
  if (code != SB_OK) return NULL;
  if (self->is_given_up) {
    // The call was cancelled while others ran.
    if (permit.kind) sb_abandon(breaker, &permit);
    return Py_NewRef(Py_False);
  }
  self->permit = permit;
  Py_RETURN_NONE;
}

// Whether the turn of a permit has more to say than that the call still waits.
static bool is_ready(PyObject *object) {
  Permit *self = (Permit *)object;
  return self->turn && sb_turn_is_ready(self->turn) != SB_NOTHING;
}

static PyObject *permit_is_ready(PyObject *object, PyObject *unused) {
  return PyBool_FromLong(is_ready(object));
}

// ready(permits) -> those keys of a dict whose turns have more to say than that their calls still wait
PyObject *sb_ready(PyObject *module, PyObject *permits) {
  PyObject *list = PyList_New(0), *permit;
  Py_ssize_t position = 0;
  while (list && PyDict_Next(permits, &position, &permit, NULL))
    if (is_ready(permit) && PyList_Append(list, permit)) Py_CLEAR(list);
  return list;
}

// _has_waited(for_ns): the call counts as having waited for room so long already, and waits that much less.
static PyObject *permit_has_waited(PyObject *object, PyObject *time) {
  long long nanoseconds = PyLong_AsLongLong(time);
  if (nanoseconds == -1 && PyErr_Occurred()) return NULL;
  ((Permit *)object)->waited = nanoseconds;
  Py_RETURN_NONE;
}

// _look_around(): the permit is for a call inside of those that surround the running code.
static PyObject *permit_look_around(PyObject *object, PyObject *unused) {
  Permit *self = (Permit *)object;
  self->outer = sb_room_around(self->breaker);
  Py_RETURN_NONE;
}

// _room() -> the room that the call has taken; 0 if it has taken none.
static PyObject *permit_room(PyObject *object, PyObject *unused) {
  uint64_t room = 0;
  if (!sb_has_room(&((Permit *)object)->permit, &room)) room = 0;
  return sb_room_as_int(room);
}

// _give_up(): ends the wait of another thread for the permit.
static PyObject *permit_give_up(PyObject *object, PyObject *unused) {
  __atomic_store_n(&((Permit *)object)->is_given_up, 1, __ATOMIC_RELEASE);
  Py_RETURN_NONE;
}

// _leave_queue(): gives up the turn, after _give_up(). A thread that is asking for it does so itself.
static PyObject *permit_leave_queue(PyObject *object, PyObject *unused) {
  if (!((Permit *)object)->is_asking) end_turn((Permit *)object);
  Py_RETURN_NONE;
}

// _leave(outcome, error, time_ns, elapsed_ns, wait) -> the verdict; None if it would have to wait. The time is how long
// the resource is to be left alone, as a failure or as a hold.
static PyObject *permit_leave(PyObject *object, PyObject *args) {
  Permit *self = (Permit *)object;
  Ending ending = {SB_SUCCESS, true, SB_DETAILS_INIT, NULL};
  Text error;
  long long time, elapsed;
  int waits;
  if (!PyArg_ParseTuple(args, "iO&LLp", &ending.outcome, sb_text, &error, &time, &elapsed,
                        &waits))
    return NULL;
  ending.details.error = error.bytes;
  ending.details.error_length = error.length;
  *sb_named_time(&ending.details, ending.outcome) = time;
  ending.details.elapsed_ns = elapsed;
  sb_permit permit;
  State *state = self->breaker->state;
  if (!sb_take_permit(object, &permit)) return Py_NewRef(state->verdicts[2]);
  bool has_changed = sb_may_change(permit.kind, &ending);
  int code = waits ? sb_finish_interruptibly(self->breaker, &permit, &ending)
                   : sb_finish_now(self->breaker, &permit, &ending);
  if (code == SB_WOULD_BLOCK || code == SB_ERR_ARGUMENT) self->permit = permit;
  if (code == SB_WOULD_BLOCK) Py_RETURN_NONE;
  if ((waits && sb_after_waiting(self->breaker, has_changed)) || code == SB_INTERRUPTED) return NULL;
  return sb_verdict(state, code == SB_ERR_CLOSED ? SB_REFUSED : code);
}

// _renew(for_ns) -> whether the probe still has its lease.
static PyObject *permit_renew(PyObject *object, PyObject *time) {
  Permit *self = (Permit *)object;
  long long nanoseconds = PyLong_AsLongLong(time);
  if (nanoseconds == -1 && PyErr_Occurred()) return NULL;
  int code;
  sb_permit permit = self->permit;
  INTERRUPTIBLY((Store *)self->breaker->store, code,
                sb_renew(self->breaker->handle, &permit, nanoseconds));
  if (code < 0 || code == SB_INTERRUPTED) return sb_raise(self->breaker->state, code);
  return PyBool_FromLong(code == SB_OK);
}

static PyObject *permit_kind(PyObject *object, void *unused) {
  Permit *self = (Permit *)object;
  uint32_t kind = self->permit.kind;
  return Py_NewRef(kind ? self->breaker->state->kinds[kind - 1] : Py_None);
}

static PyObject *permit_breaker(PyObject *object, void *unused) {
  return Py_NewRef((PyObject *)((Permit *)object)->breaker);
}

static PyMethodDef methods[] = {
    {"_enter", permit_enter, METH_O, NULL},
    {"_queue", permit_queue, METH_VARARGS, NULL},
    {"_is_ready", permit_is_ready, METH_NOARGS, NULL},
    {"_has_waited", permit_has_waited, METH_O, NULL},
    {"_look_around", permit_look_around, METH_NOARGS, NULL},
    {"_room", permit_room, METH_NOARGS, NULL},
    {"_leave_queue", permit_leave_queue, METH_NOARGS, NULL},
    {"_give_up", permit_give_up, METH_NOARGS, NULL},
    {"_leave", permit_leave, METH_VARARGS, NULL},
    {"_renew", permit_renew, METH_O, NULL},
    {NULL},
};

static PyGetSetDef properties[] = {
    {"kind", permit_kind, NULL, "'normal' or 'probe'; None once it was reported.", NULL},
    {"breaker", permit_breaker, NULL, "The breaker that granted it.", NULL},
    {NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, permit_new},   {Py_tp_dealloc, permit_dealloc},
    {Py_tp_methods, methods},  {Py_tp_getset, properties},
    {Py_tp_doc, "The right to make one call."}, {0, NULL},
};

PyType_Spec sb_permit_spec = {
    "shared_breaker._extension.Permit", sizeof(Permit), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
