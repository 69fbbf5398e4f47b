// Declarations that the files of the extension share. Everything here is used with the GIL held.
#ifndef SHARED_BREAKER_EXTENSION_H
#define SHARED_BREAKER_EXTENSION_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "sharedbreaker.h"

#if PY_VERSION_HEX < 0x030C0000
// The limited API has these under their new names since 3.12.
#include <structmember.h>
#define Py_T_OBJECT_EX T_OBJECT_EX
#define Py_T_PYSSIZET T_PYSSIZET
#define Py_READONLY READONLY
#endif

#ifndef SPARE_DRIVERS
#define SPARE_DRIVERS 16
#endif

struct Breaker;

// The state of the extension in one interpreter.
typedef struct {
  PyTypeObject *store, *news, *hook, *breaker, *permit, *guarded, *driver, *finished;
  PyObject *done;  // an awaitable that is already done
  PyObject *rejected, *busy, *store_error, *invalid_policy, *invalid_name;
  PyObject *states[3], *modes[4], *kinds[2], *verdicts[3];
  PyTypeObject *coroutine, *generator, *async_generator, *method;
  PyObject *way_of_waiting;  // says how the running code waits for room
  PyObject *context;  // identifies the thread and task that is running
  PyObject *variable;  // contextvars.ContextVar
  PyObject *set_wakeup;  // signal.set_wakeup_fd; NULL where no handlers run
  Py_ssize_t rooms;  // how many calls of all breakers have room, or more
  void *spare[SPARE_DRIVERS];  // memory of drivers that have ended
  int spare_count;
} State;

typedef struct {
  PyObject_HEAD
  State *state;
  PyObject *module;  // keeps the state
  sb_store *handle;  // NULL once it is closed
  int64_t lock_timeout;
  Py_ssize_t users;  // calls of the library that use the handle without the GIL
  unsigned forks;    // the process that the users and is_lost belong to
  bool is_lost;      // whether the log was told last that the store cannot be used
  bool is_closing;
  Py_buffer time;  // that of a test; `time.obj` is NULL if it has the system's
  struct Breaker *breakers;  // those that it was told of and that are still there
  PyObject *weak;
} Store;

// A `with` block under way whose permit differs from that of the others.
typedef struct Block {
  struct Block *next;
  PyObject *frame;    // the frame that the block is in
  PyObject *context;  // NULL if the room tells what the block belongs to
  bool is_resumable;  // its frame is that of a generator, which runs on after it has left the stack
  uint64_t room;      // the one that it has taken; 0 if it has taken none
  sb_permit permit;
} Block;

typedef struct Breaker {
  PyObject_HEAD
  State *state;
  PyObject *module;  // keeps the state
  sb_breaker *handle;
  uint32_t flags;  // of all its calls: SB_RETRY if they are sent again
  // The store's next one, and what points to this one; NULL if the store was not told of it.
  struct Breaker *next, **link;
  PyObject *name;
  PyObject *store;
  PyObject *judge;  // judges what was raised
  PyObject *judge_result;  // judges what was returned; NULL if every result is a success
  int logged_state;  // the one after the last call that may have changed it, or NEVER_LOGGED
  bool is_limited;  // whether the latest call was under a limit, and the next one asks for room at once
  Py_ssize_t rooms;  // how many of them began through this object
  PyObject *watch;  // called after a call that was not healthy; NULL if there are no listeners
  PyObject *weak;
  // The `with` blocks under way. Their permits are equal while the breaker is healthy: one of them
  // is kept, with their number. The others are in a list.
  sb_permit shared;
  Py_ssize_t shared_count;
  Block *blocks;
  unsigned forks;  // the process that the blocks belong to
  // Get and set the room that the running task's calls of this breaker are inside of, as an int, which is 0 for
  // none; NULL until a call has taken room.
  PyObject *get_room, *set_room;
} Breaker;

#define NEVER_LOGGED (-1)

// The longest duration of the library, 365 days. A call that counts as having waited so long does not wait any more.
#define SB_LONGEST (INT64_C(365) * 86400 * 1000000000)

// How a call ended, as the library takes it. `owner` keeps the text alive.
typedef struct {
  int outcome;
  bool has_details;
  sb_details details;
  PyObject *owner;
} Ending;

// The place of the time for which a resource has asked to be left alone.
static inline int64_t *sb_named_time(sb_details *details, int outcome) {
  return outcome == SB_HOLD ? &details->hold_for_ns : &details->open_for_ns;
}


// A text as the library takes it, which belongs to the object that it was got from.
typedef struct {
  const char *bytes;
  int64_t length;
} Text;

// A wait for a store that signals end early.
typedef struct {
  Store *store;
  PyThreadState *thread;
  PyObject *pending;  // the exception that was set before
  int64_t until;      // from this instant on, signals no longer end it
  int outer;          // the wake-up descriptor to restore
  enum { AT_ONCE, LISTENING, PATIENTLY, OVER } phase;
} Wait;

// Calls the library without the GIL, and waits as long as that takes.
#define WITHOUT_GIL(code, call) \
  do {                          \
    Py_BEGIN_ALLOW_THREADS      \
    code = (call);              \
    Py_END_ALLOW_THREADS        \
  } while (0)

// Calls the library without the GIL, and lets signals end its waits: the code is SB_INTERRUPTED, with an
// exception, if a handler has raised.
#define INTERRUPTIBLY(store, code, call)                                                         \
  for (Wait wait_ = sb_wait_for(store); sb_begins_wait(&wait_, &code); sb_ends_wait(&wait_, code)) \
  code = (call)

// Calls the library in the same way with the handle of a store, which cannot be closed meanwhile.
#define USE(store, code, call)                           \
  do {                                                   \
    sb_store *handle = sb_begin_use(store);              \
    if (!handle) {                                       \
      code = SB_ERR_CLOSED;                              \
      break;                                             \
    }                                                    \
    INTERRUPTIBLY(store, code, call);                    \
    sb_end_use(store);                                   \
  } while (0)

extern PyType_Spec sb_store_spec, sb_news_spec, sb_hook_spec, sb_breaker_spec, sb_permit_spec,
    sb_guarded_spec, sb_driver_spec, sb_finished_spec;

// How often this process descends from one that has forked: what differs belongs to another process.
extern unsigned sb_forks;

// module.c
PyObject *sb_module_of(PyTypeObject *type);
State *sb_state_of(PyTypeObject *type);

// errors.c
const char *sb_words(int code);
PyObject *sb_raise(State *state, int code);
PyObject *sb_raise_rejection(Breaker *self, const sb_rejection *rejection);

// values.c
int sb_text(PyObject *object, void *text);
PyObject *sb_take_text(char *text, int64_t length);
PyObject *sb_nothing(State *state, int code);
PyObject *sb_verdict(State *state, int code);

// store.c
sb_store *sb_begin_use(Store *self);
void sb_end_use(Store *self);
int sb_tell_log(Store *self);
void sb_forget_breaker(Breaker *breaker);

// waiting.c
Wait sb_wait_for(Store *store);
bool sb_begins_wait(Wait *wait, int *code);
void sb_ends_wait(Wait *wait, int code);
bool sb_runs_handlers(State *state);
int sb_wait_until_readable(Store *store, int descriptor);

// room.c
int sb_enter_and_wait(Breaker *self, uint64_t outer, int64_t waited, sb_permit *permit, sb_rejection *rejection);

// nesting.c
uint64_t sb_room_around(Breaker *self);
void sb_move_to(Breaker *self, uint64_t room);
bool sb_has_room(const sb_permit *permit, uint64_t *room);
bool sb_takes_room(Breaker *self, const sb_permit *permit, uint64_t *room);
PyObject *sb_room_as_int(uint64_t room);
uint64_t sb_int_as_room(PyObject *number);
PyObject *sb_environment_of(sb_store *handle, PyObject *rooms, State *state);

// calls.c
int sb_begin(Breaker *self, sb_permit *permit, uint64_t *room, int64_t waited);
int sb_begin_and_watch(Breaker *self, sb_permit *permit, uint64_t *room);
int sb_entered(Breaker *self, int code, const sb_rejection *rejection);
int sb_after_waiting(Breaker *self, bool has_changed);
bool sb_may_change(uint32_t kind, const Ending *ending);
int sb_watch(Breaker *self);
int sb_watch_failure(Breaker *self, int code, const Ending *ending);
int sb_begin_now(Breaker *self, sb_permit *permit, uint64_t *room);
int sb_judge_exception(Breaker *self, PyObject *exception, Ending *ending);
int sb_judge_result(Breaker *self, PyObject *result, Ending *ending);
int sb_finish_and_watch(Breaker *self, sb_permit *permit, const Ending *ending);
int sb_finish(Breaker *self, sb_permit *permit, const Ending *ending);
int sb_finish_interruptibly(Breaker *self, sb_permit *permit, const Ending *ending);
int sb_finish_now(Breaker *self, sb_permit *permit, const Ending *ending);
int sb_report_exception(Breaker *self, sb_permit *permit, PyObject *exception);
void sb_end_exception(Breaker *self, sb_permit *permit);
void sb_abandon(Breaker *self, sb_permit *permit);
PyObject *sb_end_result(Breaker *self, sb_permit *permit, PyObject *result);
PyObject *sb_raised(void);
void sb_raise_again(PyObject *exception);

// through.c
PyObject *sb_call_through(Breaker *self, PyObject *function, PyObject *const *arguments,
                          size_t count, PyObject *names);
PyObject *sb_call(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names);

// blocks.c
int sb_blocks_prepare(void);
int sb_place_block(Breaker *self, const sb_permit *permit, uint64_t room, PyObject *frame);
bool sb_take_block(Breaker *self, sb_permit *permit);
uint64_t sb_room_of_block(Breaker *self);
void sb_forget_blocks(Breaker *self);
PyObject *sb_current_frame(void);

// driver.c
PyObject *sb_drive(Breaker *self, const sb_permit *permit, int begun, PyObject *work);

// generators.c
PyObject *sb_as_generator(PySendResult status, PyObject *result);
PyObject *sb_stop_value(void);
PyObject *sb_throw_into(PyObject *inner, PyObject *args);

// done.c
PyObject *sb_leave_slowly(Breaker *self, const sb_permit *permit, const Ending *ending);

// permit.c
PyObject *sb_new_permit(Breaker *self, sb_permit *permit);
bool sb_take_permit(PyObject *object, sb_permit *permit);
PyObject *sb_ready(PyObject *module, PyObject *permits);

// guarded.c
PyObject *sb_guard(Breaker *self, PyObject *function, bool is_coroutine_function);

static inline sb_permit sb_no_permit(void) {
  sb_permit permit = SB_PERMIT_INIT;
  return permit;
}

#endif
