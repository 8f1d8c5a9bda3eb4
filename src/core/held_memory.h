/* held_memory.h - memory images that guests map and that are no template's: the copy that a fork
 * has made, what was loaded for a session that was paused, or for one that is made from a snapshot.
 * Such an image is in the machine's memory, beside that of the cells, as long as one guest maps it;
 * it counts as memory of its tenant and of the node until the last user has gone.
 *
 * Users are sessions from when they are counted (quota.c) until they have no cell, and a fork while
 * it makes sessions. The row of a session names its image, so the next daemon counts the same. */
#pragma once

#include "session.h"

struct held_memory {
	struct held_memory *next, **link; /* list.h: of the core */
	struct tenant *tenant;
	char id[STORE_ID_MAX];
	uint64_t bytes;
	unsigned users;
};

/* A name for a new one. */
void held_memory_name(char ret[STORE_ID_MAX]);

/* One more user, the first of whom makes it count; and one less. id "": nothing. */
void held_memory_use(struct core *c, struct tenant *t, const char *id, uint64_t bytes);
void held_memory_unuse(struct core *c, const char *id);

/* What another user adds to the sums: 0 if it counts already. */
uint64_t held_memory_adds(const struct core *c, const char *id, uint64_t bytes);

/* The guest of a session, which is counted, maps an image of its own from here on. */
void held_memory_of_session(struct session *s, uint64_t bytes);

void held_memory_free_all(struct core *c);
