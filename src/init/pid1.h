/* pid1.h - what every PID 1 of a cell sets up first. Called by the main() of cordon-init and of
 * cordon-shim. */
#pragma once

#include "own.h"

/* Names the process; makes it not dumpable, so that no process of the cell may trace it or read its
 * memory; resets what signals do and blocks all; keeps the keeper's descriptors (keeper_msg.h) from
 * programs. Returns a non-blocking signalfd(2) of SIGCHLD, or -1. */
int pid1_setup(const char *name) MUST_USE;
