/* spec_secret.h - reads secrets in requests: the body that creates or changes one, and the list of
 * secrets of a session. Pure. */
#pragma once

#include "daemon/secrets/secret.h"
#include "front/web/json_members.h"
#include "lib/base/buf.h"

/* The values read, and the JSON that their texts point into. */
struct spec_secret {
	const char *name; /* NULL: not given */
	struct secret_fields fields;
	json_t *root; /* owned, as the rest */
	char *metadata;
	struct buf hosts, methods, paths, places;
};

/* Fail with ERR_INVALID, naming the member. spec_secret_release() in either case. lenient: for E2B
 * clients: only name, value and metadata are read, other members are ignored. */
int spec_secret_read(const void *body, size_t len, bool lenient, struct spec_secret *ret,
		     struct err *e) MUST_USE;
void spec_secret_release(struct spec_secret *s);

/* The member `secrets` of a session, as lines of secret_spec.h. */
void spec_secret_list(struct json_members *m, const char *name, struct buf *to);
#define SPEC_SECRET_LINES_BYTES (SECRET_LINES_MAX * (SECRET_WHERE_MAX + (size_t)256))
