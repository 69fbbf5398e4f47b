// Calls inside of calls of a breaker with a limit: which room the running task's calls use.
//
// The room of the outermost call is kept in a variable of the context, which tasks hand down. Nothing takes it out,
// because that of a call that has ended is worth nothing. Breakers without a limit have no variable.
//
// Setting it takes longer than all else that a call does, and no call can do without: of two contexts that are
// copied from one, before a call and within it, only the later one may be inside, and nothing else tells them apart.
#include "extension.h"

// Rooms are signed ints, because Python makes and reads unsigned ones several times as slowly.
PyObject *sb_room_as_int(uint64_t room) {
  if (sizeof(long) == sizeof room) return PyLong_FromLong((long)room);
  return PyLong_FromLongLong((long long)room);
}

// Returns the room that an int stands for. It sets an exception if there is none.
uint64_t sb_int_as_room(PyObject *number) {
  if (sizeof(long) == sizeof(uint64_t)) return (uint64_t)PyLong_AsLong(number);
  return (uint64_t)PyLong_AsLongLong(number);
}

static PyObject *new_variable(State *state) {
  PyObject *name = Py_BuildValue("(s)", "shared_breaker_room");
  PyObject *words = Py_BuildValue("{s:i}", "default", 0);
  PyObject *variable = name && words ? PyObject_Call(state->variable, name, words) : NULL;
  Py_XDECREF(name);
  Py_XDECREF(words);
  return variable;
}

// Gets the variable, which all objects of the breaker share; false if there is none, with an exception if it cannot
// be had. It runs no Python, in which the handler of a signal could raise.
static bool prepare(Breaker *self, bool makes_it) {
  if (self->get_room) return true;
  PyObject *variables = PyObject_GetAttrString(self->store, "_rooms");
  if (!variables) return false;
  PyObject *variable = Py_XNewRef(PyDict_GetItemWithError(variables, self->name));
  if (!variable && makes_it && !PyErr_Occurred()) {
    variable = new_variable(self->state);
    if (variable && PyDict_SetItem(variables, self->name, variable)) Py_CLEAR(variable);
  }
  Py_DECREF(variables);
  PyObject *set = variable ? PyObject_GetAttrString(variable, "set") : NULL;
  PyObject *get = set ? PyObject_GetAttrString(variable, "get") : NULL;
  Py_XDECREF(variable);
  if (get && !self->get_room) {
    self->get_room = Py_NewRef(get);
    self->set_room = Py_NewRef(set);
  }
  Py_XDECREF(get);
  Py_XDECREF(set);
  return self->get_room != NULL;
}

// Returns the room that the running code is inside of, whether it is still worth something or not; 0 if there is
// none. It keeps the exception that is set.
uint64_t sb_room_around(Breaker *self) {
  // Usually there is no exception to keep.
  PyObject *pending = PyErr_Occurred() ? sb_raised() : NULL;
  PyObject *answer = prepare(self, false) ? PyObject_CallNoArgs(self->get_room) : NULL;
  uint64_t room = answer ? sb_int_as_room(answer) : 0;
  Py_XDECREF(answer);
  if (PyErr_Occurred()) {
    PyErr_Clear();
    room = 0;
  }
  sb_raise_again(pending);
  return room;
}

// Puts further calls of the running task inside of the call that has some room; outside of all if that is 0. It
// keeps the exception that is set.
void sb_move_to(Breaker *self, uint64_t room) {
  PyObject *pending = PyErr_Occurred() ? sb_raised() : NULL;
  PyObject *number = prepare(self, true) ? sb_room_as_int(room) : NULL;
  PyObject *words[] = {NULL, number}, *token = NULL;
  if (number)
    token = PyObject_Vectorcall(self->set_room, words + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
  // Without memory, what is inside takes room of its own.
  if (!token) PyErr_Clear();
  Py_XDECREF(token);
  Py_XDECREF(number);
  sb_raise_again(pending);
}

// Whether a call has taken room, which is got then.
bool sb_has_room(const sb_permit *permit, uint64_t *room) {
  return permit->kind && sb_permit_room(permit, room) == SB_OK;
}

// Whether a permit that was just granted has room, which is got and counted then. Each permit is asked once.
bool sb_takes_room(Breaker *self, const sb_permit *permit, uint64_t *room) {
  if (!sb_has_room(permit, room)) return false;
  self->rooms++;
  self->state->rooms++;
  return true;
}

// Returns the entry of an environment for a list of rooms; None if none of their calls is under way.
PyObject *sb_environment_of(sb_store *handle, PyObject *list, State *state) {
  Py_ssize_t count = PyList_Size(list);
  if (count < 0) return NULL;
  uint64_t *rooms = PyMem_Calloc((size_t)count + 1, sizeof *rooms);
  if (!rooms) return PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < count; i++) rooms[i] = sb_int_as_room(PyList_GetItem(list, i));
  char *entry = NULL;
  int64_t length = 0;
  int code = SB_NOTHING;
  if (!PyErr_Occurred() && handle)
    WITHOUT_GIL(code, sb_environment(handle, rooms, (int32_t)count, &entry, &length));
  PyMem_Free(rooms);
  if (PyErr_Occurred()) return NULL;
  if (code == SB_OK) return sb_take_text(entry, length);
  return sb_nothing(state, code == SB_NOTHING ? SB_OK : code);
}
