// Functions that the static libraries of Swift and of C++ take from newer versions of glibc than 2.34, so
// that a wheel can be installed where glibc is older. They are not visible from outside.
#include <stdint.h>
#include <sys/random.h>

__attribute__((visibility("hidden"))) float hypotf(float x, float y) {
  return (float)__builtin_sqrt((double)x * x + (double)y * y);
}

__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
  uint32_t number = 0;
  while (getrandom(&number, sizeof number, 0) != sizeof number) {}
  return number;
}
