#pragma once

#include <stdint.h>
#include <sys/types.h>

// Starts a worker process, which Swift itself cannot: it does not offer fork().
//
// The child does the work and ends with the number that this returns, or by SIGTERM when the thread that
// started it ends. The parent gets the child's process number, or -1 if there cannot be another process.
pid_t prefork_start(int32_t (*work)(int32_t number), int32_t number);
