// What the benchmark needs and Swift cannot say.
#pragma once

#include <stdint.h>

// Starts (1) or stops (0) counting what this program and its libraries allocate.
void bs_count_allocations(int is_on);

// How often memory has been asked for while that was counted.
int64_t bs_allocations(void);

// Has this process killed when the one that started it ends.
void bs_end_with_parent(void);
