// The permits of `with` blocks under way, so that each block gives back the one that it was given.
//
// `with` hands its object nothing to keep a permit in, and any number of threads and tasks use one
// breaker at a time. The permits of healthy calls are equal, so one of them and a number are enough.
// A permit that differs is kept with the frame that its block is in.
#include "extension.h"

#include <pthread.h>

static unsigned forks;

static void after_fork_in_child(void) { forks++; }

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
  self->forks = forks;
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

// Keeps the permit of a block that is entered. `frame` may be NULL for that of the caller.
int sb_place_block(Breaker *self, const sb_permit *permit, PyObject *frame) {
  if (self->forks != forks) sb_forget_blocks(self);
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
  block->frame = frame ? Py_NewRef(frame) : sb_current_frame();
  block->context = PyObject_CallNoArgs(self->state->context);
  if (!block->context) {
    free_block(block);
    return -1;
  }
  block->next = self->blocks;
  self->blocks = block;
  return 0;
}

// Whether a frame is the caller's, or called it.
static bool is_running(PyObject *frame) {
  PyObject *current = sb_current_frame();
  while (current && current != Py_None && current != frame) {
    PyObject *back = PyObject_GetAttrString(current, "f_back");
    Py_DECREF(current);
    current = back;
  }
  bool found = current == frame && frame != Py_None;
  if (!current) PyErr_Clear();
  Py_XDECREF(current);
  return found;
}

// Finds the block of the list that the caller leaves; NULL if it was entered before the list began.
static Block **find_block(Breaker *self) {
  PyObject *frame = sb_current_frame();
  Block **found = NULL;
  for (Block **link = &self->blocks; *link && !found; link = &(*link)->next)
    if ((*link)->frame == frame) found = link;
  Py_DECREF(frame);
  if (found) return found;
  // It was entered in another frame, as contextlib.ExitStack does, which has ended since.
  PyObject *context = PyObject_CallNoArgs(self->state->context);
  if (!context) PyErr_Clear();
  for (Block **link = &self->blocks; *link && !found && context; link = &(*link)->next) {
    int same = PyObject_RichCompareBool((*link)->context, context, Py_EQ);
    if (same < 0) PyErr_Clear();
    if (same > 0 && !is_running((*link)->frame)) found = link;
  }
  Py_XDECREF(context);
  return found || self->shared_count ? found : &self->blocks;
}

// Takes the permit of the block that is left; false if there is none, as for a parent's block.
bool sb_take_block(Breaker *self, sb_permit *permit) {
  if (self->forks != forks) sb_forget_blocks(self);
  if (self->blocks) {
    PyObject *pending = sb_raised();
    Block **link = find_block(self);
    sb_raise_again(pending);
    if (link) {
      Block *block = *link;
      *link = block->next;
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
