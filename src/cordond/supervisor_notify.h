/* supervisor_notify.h - messages of cordond to the supervisor (wire/supervisor_msg.h). Called by
 * main.c, and by the core when another program does not answer. */
#pragma once

#include <stdbool.h>

#include "loop.h"

struct core;

/* False: the socket is full, or the supervisor has ended, which main.c detects. */
bool supervisor_notify(char word, unsigned slot);

/* Says that the server is ready, which the supervisor tells systemd: when /readyz would, a moment
 * after recovery, when all programs are there. One that does not come is waited for for a few
 * seconds only: it does not stop the server. */
struct supervisor_ready {
	struct core *core; /* borrowed */
	struct loop_timer look;
	uint64_t until_ns;
};
void supervisor_notify_ready(struct supervisor_ready *r, struct core *c);

/* Of struct core_options. */
bool supervisor_replace_keeper(void *arg, unsigned slot);
void supervisor_replace_egress(void *arg, unsigned slot);
void supervisor_replace_pull(void *arg);
void supervisor_replace_cache(void *arg);
void supervisor_replace_storage(void *arg);
