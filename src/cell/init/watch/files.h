/* files.h - the watcher records which files programs open, remove, rename and link. Called by
 * watch.c. */
#pragma once

#include <linux/seccomp.h>
#include <stdbool.h>

#include "cell/init/watch/trace.h"

/* Read what is wanted (struct watch_wish), before the watcher gives up its rights. */
void files_begin(void);
bool files_is_call(int nr);
void files_call(const struct seccomp_notif *n, const struct trace_ops *ops);
