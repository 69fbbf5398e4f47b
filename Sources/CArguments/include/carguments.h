// The command line as the system has handed it over. Swift reads it through /proc, which is not
// everywhere to be had, and not to be read by one who may run a program but not read its file.
#pragma once

// How many words there are, the program's name among them.
int sb_argument_count(void);

// The words; they last as long as the process.
char *const *sb_arguments(void);
