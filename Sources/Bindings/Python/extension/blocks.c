// The permits of `with` blocks under way, so that each block gives back the one that it was given.
//
// `with` hands its object nothing to keep a permit in, and any number of threads and tasks use one
// breaker at a time. The permits of healthy calls are equal, so one of them and a number are enough.
// A permit that differs is kept with the frame that its block is in, and with what identifies the thread and task of
// that frame. Where the call has taken room, its context has the room, which is enough.
#include "extension.h"

#include <pthread.h>

unsigned sb_forks;

static void after_fork_in_child(void) { sb_forks++; }

int sb_blocks_prepare(void) {
  static bool is_prepared;
  if (is_prepared) return 0;
  is_prepared = true;
  return pthread_atfork(NULL, NULL, after_fork_in_child);
}

static void free_block(Block *block) {
  Py_XDECREF(block->frame);
  Py_XDECREF(block->context);
  PyMem_Free(block);
}

// Forgets all blocks, such as those of the process that this one was forked from.
void sb_forget_blocks(Breaker *self) {
  self->forks = sb_forks;
  self->shared = sb_no_permit();
  self->shared_count = 0;
  Block *block = self->blocks;
  self->blocks = NULL;
  while (block) {
    Block *next = block->next;
    free_block(block);
    block = next;
  }
}

// Returns the frame of the caller in Python; None if there is none.
PyObject *sb_current_frame(void) {
  PyObject *frame = (PyObject *)PyEval_GetFrame();
  return Py_NewRef(frame ? frame : Py_None);
}

// Whether a frame is that of a generator or an asynchronous one.
static bool is_of_generator(PyObject *frame) {
  const long generator = 0x20, asynchronous_generator = 0x200;
  PyObject *code = frame == Py_None ? NULL : PyObject_GetAttrString(frame, "f_code");
  PyObject *flags = code ? PyObject_GetAttrString(code, "co_flags") : NULL;
  long bits = flags ? PyLong_AsLong(flags) : 0;
  PyErr_Clear();
  Py_XDECREF(flags);
  Py_XDECREF(code);
  return bits > 0 && bits & (generator | asynchronous_generator);
}

// Keeps the permit of a block that is entered, and the room that its call has taken, or 0. `frame` may be NULL for
// that of the caller.
int sb_place_block(Breaker *self, const sb_permit *permit, uint64_t room, PyObject *frame) {
  if (self->forks != sb_forks) sb_forget_blocks(self);
  if (!self->blocks) {
    if (!self->shared_count) self->shared = *permit;
    if (!self->shared_count || !memcmp(permit, &self->shared, sizeof *permit)) {
      self->shared_count++;
      return 0;
    }
  }
  Block *block = PyMem_Calloc(1, sizeof *block);
  if (!block) {
    PyErr_NoMemory();
    return -1;
  }
  block->permit = *permit;
  block->room = room;
  block->frame = frame ? Py_NewRef(frame) : sb_current_frame();
  // A room tells by itself what the block belongs to.
  block->is_resumable = !room && is_of_generator(block->frame);
  if (!room && !(block->context = PyObject_CallNoArgs(self->state->context))) {
    free_block(block);
    return -1;
  }
  block->next = self->blocks;
  self->blocks = block;
  return 0;
}

// Takes a block out of the list that `link` points into.
static Block *unlink_block(Block **link) {
  Block *block = *link;
  *link = block->next;
  return block;
}

// Returns the frames of the caller and of all that have called it, as a list; NULL with an exception.
static PyObject *running_frames(void) {
  PyObject *frames = PyList_New(0);
  PyObject *frame = sb_current_frame();
  while (frames && frame && frame != Py_None) {
    if (PyList_Append(frames, frame)) Py_CLEAR(frames);
    PyObject *back = frames ? PyObject_GetAttrString(frame, "f_back") : NULL;
    if (!back) Py_CLEAR(frames);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  return frames;
}

static bool has_frame(PyObject *frames, PyObject *frame) {
  Py_ssize_t count = PyList_Size(frames);
  for (Py_ssize_t i = 0; i < count; i++)
    if (PyList_GetItem(frames, i) == frame) return true;
  return false;
}

// Whether two contexts are of the same thread, task and greenlet. It runs nothing of Python's.
static bool is_same_context(PyObject *one, PyObject *other) {
  return PyLong_AsUnsignedLong(PyTuple_GetItem(one, 0)) ==
             PyLong_AsUnsignedLong(PyTuple_GetItem(other, 0)) &&
         PyTuple_GetItem(one, 1) == PyTuple_GetItem(other, 1) &&
         PyTuple_GetItem(one, 2) == PyTuple_GetItem(other, 2);
}

// Whether a block of the list was entered in the running context, which has a room, or 0.
static bool is_of_context(const Block *block, PyObject *context, uint64_t room) {
  return block->room ? block->room == room : is_same_context(block->context, context);
}

// Whether a caller whose frame is not in the list leaves the block that was entered before the list began: its context
// has the room of that block, and each call in the list has room of its own.
static bool leaves_first_block(Breaker *self, uint64_t room) {
  uint64_t first;
  if (!room || self->shared_count != 1 || !sb_has_room(&self->shared, &first) || first != room) return false;
  for (Block *block = self->blocks; block; block = block->next)
    if (!block->room) return false;
  return true;
}

// Takes the block that the caller leaves out of the list; NULL if it was entered before the list began. It may
// leave an exception from outside.
//
// Whatever runs Python may let other threads change the list, so nothing does while an address in it is held.
static Block *take_listed_block(Breaker *self) {
  PyObject *frame = sb_current_frame();
  Block *found = NULL;
  for (Block **link = &self->blocks; *link; link = &(*link)->next) {
    if ((*link)->frame != frame) continue;
    found = unlink_block(link);
    break;
  }
  Py_DECREF(frame);
  if (found) return found;
  uint64_t room = self->get_room ? sb_room_around(self) : 0;
  if (leaves_first_block(self, room)) return NULL;
  // It was entered in another frame, as contextlib.ExitStack does, which has ended since. A generator that is not on the
  // stack may only be suspended, and its block is still its own.
  PyObject *context = NULL, *frames = NULL;
  for (int round = 0; round < 2 && !frames; round++) {
    PyObject *pending = sb_raised();
    if (!context) context = PyObject_CallNoArgs(self->state->context);
    if (context) frames = running_frames();
    sb_raise_again(pending);
  }
  if (frames)
    for (Block **link = &self->blocks; *link; link = &(*link)->next) {
      if ((*link)->is_resumable || !is_of_context(*link, context, room)) continue;
      if (has_frame(frames, (*link)->frame)) continue;
      found = unlink_block(link);
      break;
    }
  if (!found && !self->shared_count && self->blocks) found = unlink_block(&self->blocks);
  Py_XDECREF(frames);
  Py_XDECREF(context);
  return found;
}

// Returns the room that the latest block of the caller's frame has taken; 0 if it has taken none.
uint64_t sb_room_of_block(Breaker *self) {
  uint64_t room = 0;
  // A breaker without a limit has no variable of rooms.
  if (!self->get_room || self->forks != sb_forks) return 0;
  PyObject *frame = sb_current_frame();
  Block *block = self->blocks;
  while (block && block->frame != frame) block = block->next;
  Py_DECREF(frame);
  if (block) return sb_has_room(&block->permit, &room) ? room : 0;
  return self->shared_count && sb_has_room(&self->shared, &room) ? room : 0;
}

// Takes the permit of the block that is left; false if there is none, as for a parent's block. It may leave
// an exception from outside, and keeps one that is set.
bool sb_take_block(Breaker *self, sb_permit *permit) {
  if (self->forks != sb_forks) sb_forget_blocks(self);
  if (self->blocks) {
    PyObject *pending = sb_raised();
    Block *block = take_listed_block(self);
    sb_raise_again(pending);
    if (block) {
      *permit = block->permit;
      free_block(block);
      return true;
    }
  }
  if (!self->shared_count) return false;
  *permit = self->shared;
  self->shared_count--;
  return true;
}
