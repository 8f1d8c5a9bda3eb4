/* secret_values.h - every value that must not be seen in a session's output: its secrets, those
 * that rules put into requests, and what both were before a change. For the files of this
 * folder. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "daemon/session/session.h"
#include "daemon/store/store_layer.h"

struct buf;
struct err;
struct session;

/* One of a session's values, in the clear. */
struct secret_values_one {
	const char *value;
	size_t len;
	const char *name, *hosts; /* hosts: lines */
	bool past;		  /* it was replaced or revoked */
};
/* Call on_value for each value. The value is wiped when on_value returns. One that came with a
 * layer is past. */
void secret_values_each(struct session *s,
			void (*on_value)(const struct secret_values_one *v, void *arg), void *arg);
/* For captures (session_hooks.h): values that may be in files of the session. */
int secret_values_add(struct session *s, bool same, struct buf *to, struct err *e);
/* Is it one of the session's secrets, or does a rule put it in? */
bool secret_values_has(const struct session *s, const char *name);
/* Is the name of n bytes one of these lines? lines may be NULL. */
bool secret_values_has_line(const char *lines, const char *name, size_t n);

/* ---- values kept with the layers of sessions: files of a layer may have its session's secrets, so
 * each session with the layer masks them, also after the end of the secret. They are kept as they
 * are sealed (store_layer.h). For the files of this folder. */

#define SECRET_KEPT_MAX (32U << 20) /* of a tenant, with SECRET_KEPT_EACH for each */
#define SECRET_KEPT_EACH 1024

/* Can all be opened? Add their bytes, with SECRET_KEPT_EACH for each. ERR_CONFLICT: a key is
 * missing, so that files would be shown with values. */
int secret_kept_check(const struct session *s, size_t *bytes, struct err *e) MUST_USE;
/* See session_hooks.h. */
int secret_kept_write(struct session *s, const char *layer, const char *kind,
		      struct err *e) MUST_USE;
/* At the start: seal again the values that an older key has sealed. */
int secret_kept_start(struct core *c, struct err *e) MUST_USE;

/* ---- the mask of a session's output (session_mask_set()), made of all values that the
 * session has or had. */

/* Make the mask again. */
void secret_mask(struct session *s);
/* Make the mask again if a value has changed. Called before a value of the session is used for its
 * cell or for egress. */
void secret_mask_now(struct session *s);
