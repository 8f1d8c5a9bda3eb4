/* spawn_shared.h - processes that use the memory of PID 1 until they execute their program.
 *
 * For gVisor only, where a fork is slow: it makes an address space that lives for a few system
 * calls, and PID 1 has to fault in each of its own pages again. Called by spawn.c, and by main.c
 * and programs.c when such a process has its program or has exited. Each has a block of PID 1's
 * heap, with its stack and a copy of the request. vfork(2) would need none, but PID 1 would wait
 * for a process that others can stop. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "err.h"
#include "spawn_child.h"

/* Should the program of this request be started so? Not a built-in: it has no program to execute.
 */
bool spawn_shared_is_used(const struct agent_spawn *request);

/* A block; its request is a copy of this one. NULL with errno: there is no memory. */
struct child_process *spawn_shared_new(const struct agent_spawn *request);

/* Starts a process that calls spawn_child_run(c). The block lives until spawn_shared_end(). On -1
 * with errno, free it with spawn_shared_free(). */
pid_t spawn_shared_start(struct child_process *c) MUST_USE;
void spawn_shared_free(struct child_process *c);

/* This process has its program, or has exited: its block is freed, if there is one. */
void spawn_shared_end(pid_t pid);
