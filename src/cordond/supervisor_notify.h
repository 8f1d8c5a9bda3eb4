/* supervisor_notify.h - messages of cordond to the supervisor (wire/supervisor_msg.h). Called by
 * main.c, and by the core when another program does not answer. */
#pragma once

#include <stdbool.h>

/* False: the socket is full, or the supervisor has ended, which main.c detects. */
bool supervisor_notify(char word, unsigned slot);

/* Of struct core_options. */
bool supervisor_replace_keeper(void *arg, unsigned slot);
void supervisor_replace_egress(void *arg, unsigned slot);
void supervisor_replace_pull(void *arg);
void supervisor_replace_storage(void *arg);
