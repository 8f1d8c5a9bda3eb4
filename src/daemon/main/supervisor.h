/* supervisor.h - cordond's side of its supervisor, cordon serve (lib/wire/supervisor_msg.h): the
 * setup that it gives, and messages to it. Called by main.c, and by the core when another program
 * does not answer. */
#pragma once

#include <stdbool.h>

#include "lib/loop/loop.h"

struct core;
struct core_options;
struct serve_setup;

/* False: the socket is full, or the supervisor has ended, which main.c detects. */
bool supervisor_notify(char word, unsigned slot);

/* Ask for another cordon-notary. arg is not used. */
void supervisor_replace_notary(void *arg);

/* Says that the server is ready, which the supervisor tells systemd: when /readyz would, a moment
 * after recovery, when all programs are there. One that does not come is waited for for a few
 * seconds only: it does not stop the server. */
struct supervisor_ready {
	struct core *core; /* borrowed */
	struct loop_timer look;
	uint64_t until_ns;
};
void supervisor_notify_ready(struct supervisor_ready *r, struct core *c);

/* Set the options that come from the supervisor, and the functions that ask it for another program.
 * The other options stay as they are. */
void supervisor_options(const struct serve_setup *s, struct core_options *o);
