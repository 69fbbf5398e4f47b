// The extension module: its types, and what they have in common.
#include "extension.h"

static PyTypeObject *add_type(PyObject *module, PyType_Spec *spec) {
  PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
  if (!type || PyModule_AddType(module, (PyTypeObject *)type)) {
    Py_XDECREF(type);
    return NULL;
  }
  return (PyTypeObject *)type;
}

static PyObject *attribute(const char *module_name, const char *name) {
  PyObject *module = PyImport_ImportModule(module_name);
  PyObject *value = module ? PyObject_GetAttrString(module, name) : NULL;
  Py_XDECREF(module);
  return value;
}

static int intern(PyObject **place, const char *text) {
  *place = PyUnicode_InternFromString(text);
  return *place ? 0 : -1;
}

static int execute(PyObject *module) {
  State *state = PyModule_GetState(module);
  if (sb_blocks_prepare()) {
    PyErr_SetFromErrno(PyExc_OSError);
    return -1;
  }
  struct { PyTypeObject **place; PyType_Spec *spec; } types[] = {
      {&state->store, &sb_store_spec},     {&state->news, &sb_news_spec},
      {&state->hook, &sb_hook_spec},       {&state->breaker, &sb_breaker_spec},
      {&state->permit, &sb_permit_spec},   {&state->guarded, &sb_guarded_spec},
      {&state->driver, &sb_driver_spec},   {&state->finished, &sb_finished_spec}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (!(*types[i].place = add_type(module, types[i].spec))) return -1;
  allocfunc allocate = (allocfunc)PyType_GetSlot(state->finished, Py_tp_alloc);
  if (!(state->done = allocate(state->finished, 0))) return -1;

  struct { PyObject **place; const char *module, *name; } objects[] = {
      {&state->rejected, "shared_breaker._errors", "Rejected"},
      {&state->busy, "shared_breaker._errors", "Busy"},
      {&state->store_error, "shared_breaker._errors", "StoreError"},
      {&state->invalid_policy, "shared_breaker._errors", "InvalidPolicy"},
      {&state->invalid_name, "shared_breaker._errors", "InvalidName"},
      {&state->context, "shared_breaker._context", "running_context"},
      {&state->way_of_waiting, "shared_breaker._loops", "way_of_waiting"},
      {&state->variable, "_contextvars", "ContextVar"},
      {(PyObject **)&state->coroutine, "types", "CoroutineType"},
      {(PyObject **)&state->generator, "types", "GeneratorType"},
      {(PyObject **)&state->async_generator, "types", "AsyncGeneratorType"},
      {(PyObject **)&state->method, "types", "MethodType"}};
  for (size_t i = 0; i < sizeof objects / sizeof *objects; i++)
    if (!(*objects[i].place = attribute(objects[i].module, objects[i].name))) return -1;

  if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0)
    if (!(state->set_wakeup = attribute("_signal", "set_wakeup_fd"))) return -1;

  struct { PyObject **place; const char *text; } words[] = {
      {&state->states[SB_CLOSED], "closed"},
      {&state->states[SB_OPEN], "open"},
      {&state->states[SB_HALF_OPEN], "half_open"},
      {&state->modes[SB_AUTOMATIC], "automatic"},
      {&state->modes[SB_FORCED_OPEN], "forced_open"},
      {&state->modes[SB_FORCED_CLOSED], "forced_closed"},
      {&state->modes[SB_OBSERVE], "observe"},
      {&state->kinds[SB_NORMAL - 1], "normal"},
      {&state->kinds[SB_PROBE - 1], "probe"},
      {&state->verdicts[0], "counted"},
      {&state->verdicts[1], "outdated"},
      {&state->verdicts[2], "refused"}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (intern(words[i].place, words[i].text)) return -1;

  PyObject *longest = PyLong_FromLongLong(SB_LONGEST);
  int status = longest ? PyModule_AddObjectRef(module, "LONGEST", longest) : -1;
  Py_XDECREF(longest);
  return status;
}

// Visits each reference that the state holds.
static void each(State *state, int (*visit)(PyObject **, void *), void *arg) {
  PyObject **all[] = {
      (PyObject **)&state->store,     (PyObject **)&state->news,      (PyObject **)&state->hook,
      (PyObject **)&state->breaker,   (PyObject **)&state->permit,    (PyObject **)&state->guarded,
      (PyObject **)&state->driver,    (PyObject **)&state->finished,  &state->done,
      &state->rejected,               &state->busy,                   &state->store_error,
      &state->invalid_policy,         &state->invalid_name,           &state->context,
      (PyObject **)&state->coroutine,
      (PyObject **)&state->generator, (PyObject **)&state->async_generator,
      (PyObject **)&state->method,    &state->variable,               &state->set_wakeup,
      &state->way_of_waiting};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (visit(all[i], arg)) return;
  struct { PyObject **first; size_t count; } words[] = {
      {state->states, 3}, {state->modes, 4}, {state->kinds, 2}, {state->verdicts, 3}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    for (size_t j = 0; j < words[i].count; j++)
      if (visit(words[i].first + j, arg)) return;
}

typedef struct {
  visitproc visit;
  void *arg;
  int result;
} Visit;

static int visit_one(PyObject **place, void *arg) {
  Visit *visit = arg;
  if (*place) visit->result = visit->visit(*place, visit->arg);
  return visit->result;
}

static int clear_one(PyObject **place, void *unused) {
  Py_CLEAR(*place);
  return 0;
}

static int traverse(PyObject *module, visitproc visit, void *arg) {
  Visit all = {visit, arg, 0};
  each(PyModule_GetState(module), visit_one, &all);
  return all.result;
}

static int clear(PyObject *module) {
  State *state = PyModule_GetState(module);
  while (state->spare_count) PyObject_GC_Del(state->spare[--state->spare_count]);
  each(state, clear_one, NULL);
  return 0;
}

static void release(void *module) { clear(module); }

// Returns the module that defines a type, or one that the type is derived from; a borrowed reference.
PyObject *sb_module_of(PyTypeObject *type) {
  for (; type; type = PyType_GetSlot(type, Py_tp_base)) {
    PyObject *module = PyType_GetModule(type);
    if (module) return module;
    PyErr_Clear();
  }
  PyErr_SetString(PyExc_TypeError, "this type is not derived from one of shared_breaker");
  return NULL;
}

State *sb_state_of(PyTypeObject *type) {
  PyObject *module = sb_module_of(type);
  return module ? PyModule_GetState(module) : NULL;
}

static PyObject *version(PyObject *module, PyObject *unused) {
  return PyUnicode_FromString(sb_version());
}

static PyObject *sqlite_version(PyObject *module, PyObject *unused) {
  return PyUnicode_FromString(sb_sqlite_version());
}

static PyMethodDef functions[] = {
    {"ready", sb_ready, METH_O, NULL},
    {"version", version, METH_NOARGS, "Return the version of the library."},
    {"sqlite_version", sqlite_version, METH_NOARGS, "Return the version of the SQLite inside."},
    {NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_SUPPORTED},
#endif
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_extension", "Breakers that all processes of a host share.",
    sizeof(State), functions, slots, traverse, clear, release,
};

PyMODINIT_FUNC PyInit__extension(void) { return PyModuleDef_Init(&definition); }
