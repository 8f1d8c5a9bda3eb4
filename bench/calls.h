/* calls.h - the few calls of the API that are measured. */
#pragma once

#include "link.h"

#define CALLS_ID_MAX 64
#define CALLS_PATH_MAX 128
#define CALLS_COMMAND "/bin/true"
#define CALLS_RUN "{\"argv\":[\"" CALLS_COMMAND "\"]}"

void calls_session_path(char path[CALLS_PATH_MAX], const char *id);
void calls_run_path(char path[CALLS_PATH_MAX], const char *id);

/* Is this the answer of a command that ran and exited with 0? */
bool calls_ran(const struct link *l);

/* These end the program if the answer is not as it should be. body NULL: everything as usual. */
void calls_create(struct link *l, const char *body, char id[CALLS_ID_MAX]);
void calls_delete(struct link *l, const char *id);

/* Waits until the server has cleared up behind its answers and its pool is full. */
void calls_settle(struct link *l);
