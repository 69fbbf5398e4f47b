#include "carguments.h"

static int count;
static char *const *words;

// The GNU C library hands main's arguments to constructors too, in programs and in libraries.
__attribute__((constructor)) static void keep(int argc, char **argv) {
  count = argc;
  words = argv;
}

int sb_argument_count(void) { return count; }

char *const *sb_arguments(void) { return words; }
