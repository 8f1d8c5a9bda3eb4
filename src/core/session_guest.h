/* session_guest.h - the guest of a session at a level with an engine (cell_level.h): what it is
 * started from. Called by session_lifecycle.c before the session's cell is made.
 *
 * gVisor: the engine's program. microVM: the root image of the template and, so that the guest does
 * not start from the beginning, a memory image: that of the template (memory_images.h); of the
 * session itself, if it was paused to disk; of the snapshot that it is made from; or of another
 * session that was forked.
 *
 * A session uses its root image, and as long as it is paused to disk its memory image, by
 * STORE_LAYER_GUEST_OF_SESSION, in this order. */
#pragma once

#include "guest_image.h"
#include "live_guest.h"
#include "session.h"

struct keeper_create;

/* e NULL: the request and descriptors for BOOT, which the callee owns. */
typedef void session_guest_fn(struct session *s, const struct keeper_create *plan,
			      const struct boot_request *r, int *fds, const struct err *e);

/* Has the session's level an engine? */
bool session_guest_is_needed(const struct session *s);

/* Finds or makes what the guest is started from, then calls on_ready, never from inside. */
void session_guest_prepare(struct session *s, const struct keeper_create *plan,
			   session_guest_fn *on_ready);
/* The session stops, or leaves memory. True: it was waiting for its images and has no cell. */
bool session_guest_stopping(struct session *s);

/* Identity and limits of its guest. */
void session_guest_request(const struct session *s, struct boot_request *ret);

/* A new session: notes what its guest is made of (layer_origin.h), which is that of the memory that
 * it goes on with, or what new guests are made of. */
void session_guest_set_origin(struct session *s);

/* The session has got a cell that was made in advance (guest_at_hand.h): writes that it uses the
 * root image. */
int session_guest_claim(const struct session *s, struct err *e) MUST_USE;

/* The guest of a session that goes on with the memory of another runs. */
void session_guest_went_on(struct session *s);

/* Its root image; "" if it has none. */
int session_guest_root(const struct session *s, char ret[STORE_ID_MAX], struct err *e) MUST_USE;

/* ---- for guest_at_hand.c, too */

struct core;

/* Identity and limits of a guest with that id. */
void guest_fill_request(const struct core *c, const struct store_session *row, const char *id,
			struct boot_request *ret);
/* Adds copies of what it is started from; image[0] -1: from the beginning. */
int guest_fill_fds(const struct core *c, int root, const int *image, struct boot_request *r,
		   int *fds, struct err *e) MUST_USE;
