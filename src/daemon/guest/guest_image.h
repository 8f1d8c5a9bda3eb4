/* guest_image.h - a guest's memory for new sessions: that of a forked session. Shared by them. Made
 * by session_fork.c. session_guest.c starts guests with it.
 *
 * It is an image of its own, or that of the source with the pages that the source has changed
 * (session_memory.h), which each session copies when it starts. One session may start before the
 * changes are known: its engine waits for them at a socket, whose other end is here. */
#pragma once

#include "daemon/cells/live_guest.h"
#include "daemon/session/session.h"
#include "daemon/store/store_session.h"

struct core;
struct session;

struct guest_image {
	unsigned users;
	char root[STORE_ID_MAX];     /* its root image: a layer */
	char source[STORE_ID_MAX];   /* the session that it was taken of, */
	char guest[STORE_GUEST_MAX]; /* and what its guest was made of: layer_origin.h */
	struct core *core;
	char held[STORE_ID_MAX]; /* its name in image_charge.h. "": it is a template's */
	uint64_t bytes;
	int image[LIVE_GUEST_IMAGE]; /* owned: sealed */
	int changes;		     /* owned: sealed. -1: none, or to come */
	char changes_held[STORE_ID_MAX];
	char lender[STORE_ID_MAX]; /* whose cell is charged for them: session_memory.h */
	bool pending;		   /* the devices and changes are to come */
	int later;		   /* owned: to the engine that waits for them. Or -1 */
};

/* root: the source's root image, a layer. */
struct guest_image *guest_image_new(const struct session *source, const char *root);
struct guest_image *guest_image_use(struct guest_image *g);
/* NULL is allowed. The last user frees it. A waiting engine fails then. */
void guest_image_unuse(struct guest_image *g);

/* A socket for a starting engine (BOOT_FD_LATER). One at most. */
int guest_image_wait(struct guest_image *g, int *ret, struct err *e) MUST_USE;

/* The devices and changes have come. Take them over. */
void guest_image_settle(struct guest_image *g, int devices, int changes);
