/* session_guest.h - the guest of a session at a level with an engine (cell_level.h): the sources of
 * its start. Called by session_lifecycle.c before the session's cell is made.
 *
 * gVisor: the engine's program. microVM: the root image of the template and, so that the guest does
 * not start from the beginning, a memory image: that of the template (memory_images.h), of the
 * session itself, if it was paused to disk, of its snapshot, or of another, forked session.
 *
 * A session uses its root image, and as long as it is paused to disk its memory image, by
 * STORE_LAYER_GUEST_OF_SESSION, in this order. */
#pragma once

#include "daemon/cells/live_guest.h"
#include "daemon/guest/guest_image.h"
#include "daemon/session/session.h"

struct keeper_create;

/* e NULL: the request and descriptors for BOOT, which the callee owns. */
typedef void session_guest_fn(struct session *s, const struct keeper_create *plan,
			      const struct boot_request *r, int *fds, const struct err *e);

/* Find or make the guest's images, then call on_ready, never from inside. */
void session_guest_prepare(struct session *s, const struct keeper_create *plan,
			   session_guest_fn *on_ready);
/* Identity and limits of its guest. */
void session_guest_request(const struct session *s, struct boot_request *ret);

/* Note the origin of a new session's guest (layer_origin.h): its memory's if it continues with one,
 * else that of new guests. */
void session_guest_set_origin(struct session *s);

/* The session has got a cell made in advance (templates.h): write its use of the root
 * image. */
int session_guest_claim(const struct session *s, struct err *e) MUST_USE;

/* A guest continuing with another session's memory runs. */
void session_guest_went_on(struct session *s);

/* Its root image. "" if it has none. */
int session_guest_root(const struct session *s, char ret[STORE_ID_MAX], struct err *e) MUST_USE;

/* ---- for template_pools.c, too */

struct core;

/* Identity and limits of a guest with that id. */
void guest_fill_request(const struct core *c, const struct store_session *row, const char *id,
			struct boot_request *ret);
/* Add copies of the descriptors for its start. image[0] -1: from the beginning. */
int guest_fill_fds(const struct core *c, int root, const int *image, struct boot_request *r,
		   int *fds, struct err *e) MUST_USE;
