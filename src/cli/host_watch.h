/* host_watch.h - keeps the template "host" as the machine is. See host_watch.c. */
#pragma once

#include <stdint.h>

struct supervisor;

/* Looks if it is time to. Returns when it wants to be called again. */
uint64_t host_watch_look(struct supervisor *v);
