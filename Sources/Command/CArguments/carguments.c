#include "carguments.h"

static int count;
static char *const *words;

// glibc passes the arguments of main to constructors too, in programs and in shared libraries.
__attribute__((constructor)) static void keep(int argc, char **argv) {
  count = argc;
  words = argv;
}

int sb_argument_count(void) { return count; }

char *const *sb_arguments(void) { return words; }
