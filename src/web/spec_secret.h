/* spec_secret.h - secrets as requests name them: the body that makes or changes one, and the list
 * of those that a session gets. Pure. */
#pragma once

#include "buf.h"
#include "json_members.h"
#include "secret.h"

/* What was read, and what its texts point into. */
struct spec_secret {
	const char *name; /* NULL: not given */
	struct secret_wish wish;
	json_t *root; /* owned, as the rest */
	char *metadata;
	struct buf hosts, methods, paths, places;
};

/* Fails with ERR_INVALID, naming the member; spec_secret_release() in either case. lenient: an E2B
 * client's: name, value and metadata, and what else there is does not count. */
int spec_secret_read(const void *body, size_t len, bool lenient, struct spec_secret *ret,
		     struct err *e) MUST_USE;
void spec_secret_release(struct spec_secret *s);

/* The member `secrets` of a session, as lines of secret_spec.h. */
void spec_secret_list(struct json_members *m, const char *name, struct buf *to);
#define SPEC_SECRET_LINES_BYTES (SECRET_LINES_MAX * (SECRET_WHERE_MAX + (size_t)256))
