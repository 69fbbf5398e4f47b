// The command line as the system passed it. Swift reads it from /proc, which is not available
// everywhere.
#pragma once

// The number of words, including the program's name.
int sb_argument_count(void);

// The words, which are valid for the life of the process.
char *const *sb_arguments(void);
