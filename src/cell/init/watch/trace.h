/* trace.h - the watcher of a traced cell records which programs start and end. Called by watch.c.
 */
#pragma once

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cell/init/watch/watch.h"
#include "lib/wire/watch_file.h"

/* Before the watcher gives up its rights: /proc becomes its root directory. */
bool trace_begin(uint64_t *ret_first);

/* Is this a call that the filter of this mode notifies of only where it is allowed? The watcher
 * lets it pass. */
bool trace_is_traced(int nr, enum watch_mode mode);

/* Lets the call pass by answer(), and records it by write(). */
struct trace_ops {
	void (*answer)(uint64_t id);
	void (*write)(struct watch_entry *e);
};
void trace_call(const struct seccomp_notif *n, const struct trace_ops *ops);

/* ---- for files.c: of a process that waits for its answer */

/* Bytes of its memory, at most up to the end of a page. Return how many. */
size_t trace_copy(pid_t pid, uint64_t from, void *to, size_t n);
/* A link of /proc/PID. */
void trace_link(pid_t pid, const char *name, char *ret, size_t cap, uint32_t *flags);
/* Its numbers and user, as the cell sees them. */
void trace_identity(pid_t pid, struct watch_entry *e);

/* Wait until the listener has something. Record the ends of killed programs. Return
 * its events, as poll(2). */
int trace_wait(int listener, const struct trace_ops *ops);
