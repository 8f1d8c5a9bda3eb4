/* kernel_output.h - what a kernel writes to its pipes 1 and 2, given to its owner in whole
 * characters (kernel_calls.on_output). For kernel_process.c. */
#pragma once

#include "kernel_process.h"

/* Reads once. Returns how many bytes came; 0: none now. */
size_t kernel_read_output(struct kernel *k, int stream);
/* Reads both pipes, up to a bound. */
void kernel_drain_output(struct kernel *k);
/* Gives what is left of a character, which will not be completed. */
void kernel_flush_output(struct kernel *k);
