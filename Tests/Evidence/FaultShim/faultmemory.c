#include "faultshim.h"

#include <sqlite3.h>

static sqlite3_mem_methods usual;

static void *allocate(int size) {
  return fault_strikes_now(fault_memory) ? 0 : usual.xMalloc(size);
}

static void *reallocate(void *memory, int size) {
  return fault_strikes_now(fault_memory) ? 0 : usual.xRealloc(memory, size);
}

int fault_install_memory(void) {
  int code = sqlite3_config(SQLITE_CONFIG_GETMALLOC, &usual);
  if (code != SQLITE_OK) return code;
  sqlite3_mem_methods failing = usual;
  failing.xMalloc = allocate;
  failing.xRealloc = reallocate;
  return sqlite3_config(SQLITE_CONFIG_MALLOC, &failing);
}
