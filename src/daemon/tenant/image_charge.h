/* image_charge.h - counts the memory images that guests map outside of templates: the copy of a
 * fork, and the image loaded for a paused session or for a session of a snapshot.
 *
 * Such an image is in the memory of the machine, beside the memory of the cells, as long as one
 * guest maps it. It counts as memory of its tenant and of the node until its last user has gone.
 * The users are sessions, from their admission (quota.h) until they have no cell, and a fork while
 * it makes sessions. The row of a session names its image, so the next daemon counts the same. */
#pragma once

#include "daemon/node/core.h"
#include "daemon/store/store.h"

struct image_charge {
	struct image_charge *next, **link; /* list.h: of the core */
	struct tenant *tenant;
	char id[STORE_ID_MAX];
	uint64_t bytes;
	unsigned users;
};

/* A name for a new one. */
void image_charge_name(char ret[STORE_ID_MAX]);

/* Add a user, the first of whom makes the image count. Remove one. id "": nothing. */
void image_charge_use(struct core *c, struct tenant *t, const char *id, uint64_t bytes);
void image_charge_unuse(struct core *c, const char *id);

/* The bytes that another user adds to the sums: 0 if the image counts already. */
uint64_t image_charge_adds(const struct core *c, const char *id, uint64_t bytes);

/* The guest of a counted session maps an image of its own from here on. */
void image_charge_of_session(struct session *s, uint64_t bytes);

void image_charge_free_all(struct core *c);
