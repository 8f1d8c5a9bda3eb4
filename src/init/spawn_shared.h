/* spawn_shared.h - processes that use the memory of PID 1 until they execute their program.
 *
 * A fork makes an address space that lives for a few system calls, and PID 1 has to fault in each
 * of its own pages again: about 0.15 ms, in gVisor 10 to 20. Called by spawn.c, and by programs.c
 * when such a process has its program or has exited. Each has a block of PID 1's memory, with its
 * stack and a copy of the request. vfork(2) would need none, but PID 1 would wait for a process
 * that others can stop.
 *
 * What must not change: the process becomes a user of the cell while it still shares the memory. No
 * program of that user may trace it, or open its memory. The kernel refuses that because PID 1 is
 * not dumpable (pid1.c), and a change of user leaves that so but where fs.suid_dumpable is 1: there
 * the process is forked. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "err.h"
#include "spawn_child.h"

/* Should the program of this request be started so? Not a built-in: it has no program to execute;
 * and not in a virtual machine, where a program begins in another cgroup (spawn_cgroup). */
bool spawn_shared_is_used(const struct agent_spawn *request);

/* A block; its request is a copy of this one. NULL with errno: there is no memory. */
struct child_process *spawn_shared_new(const struct agent_spawn *request);

/* Starts a process that calls spawn_child_run(c). The block lives until spawn_shared_end(). On -1
 * with errno, free it with spawn_shared_free(). */
pid_t spawn_shared_start(struct child_process *c) MUST_USE;
void spawn_shared_free(struct child_process *c);

/* This process has its program, or has exited: its block is freed, if there is one. */
void spawn_shared_end(pid_t pid);
