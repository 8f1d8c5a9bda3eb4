/* resolver_ask.h - gets a job its result from the entry of its name, which is created if there is
 * none. For resolver*.c only. */
#pragma once

#include "resolver_private.h"

/* The entry of a name that is known or being asked for; one whose time is over is freed. */
struct entry *resolver_ask_find(struct resolver *r, const char *host);
/* Gives the job its result, or lets it wait for the entry of its name. */
void resolver_ask(struct job *j);
