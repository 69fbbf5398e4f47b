// The names of Unicode characters, which nothing here uses, would be a sixteenth of the C library. Without
// this function of Swift's standard library nothing refers to them; to it, no character has a name.
#include <stdint.h>

__attribute__((visibility("hidden"))) intptr_t __wrap__swift_stdlib_getScalarName(
    uint32_t character, uint8_t *name, intptr_t room) {
  (void)character, (void)name, (void)room;
  return 0;
}
