// The command line as the system has handed it over. Swift finds it through /proc, which is not to
// be had everywhere.
#pragma once

// How many words there are, the program's name among them.
int sb_argument_count(void);

// The words; they last as long as the process.
char *const *sb_arguments(void);
