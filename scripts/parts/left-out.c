// Parts of Swift's standard library and of the C++ library that nothing here needs, though something refers to
// them. The linker puts these functions in the place of the ones that bring them.
#include <stddef.h>
#include <stdint.h>

// The names of Unicode characters would be a sixteenth of the C library. To this, no character has a name.
__attribute__((visibility("hidden"))) intptr_t __wrap__swift_stdlib_getScalarName(
    uint32_t character, uint8_t *name, intptr_t room) {
  (void)character, (void)name, (void)room;
  return 0;
}

// Reports of crashes ask for the names of C++ functions; to them, "not enough memory" is an answer.
__attribute__((visibility("hidden"))) char *__wrap___cxa_demangle(
    const char *name, char *room, size_t *length, int *status) {
  (void)name, (void)room, (void)length;
  if (status != NULL) *status = -1;
  return NULL;
}
