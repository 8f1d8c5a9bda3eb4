/* spec_session.h - the body of POST /v1/sessions as a struct session_spec. Pure, fuzzed. */
#pragma once

#include <jansson.h>

#include "buf.h"
#include "json_members.h"
#include "session.h"

#define SPEC_ENV_MAX 256
#define SPEC_METADATA_MAX 64
#define SPEC_METADATA_TEXT_MAX 16384

/* What was read, and what its texts point into. */
struct spec_session {
	struct session_spec spec;
	json_t *root;	/* owned, as the rest */
	char *metadata; /* as JSON */
	char *policy;
	struct buf env, writable, exportable, secrets;
};

/* Fails with ERR_INVALID, naming the member, or ERR_SYSTEM without memory; spec_session_release()
 * in either case. */
int spec_session_read(const void *body, size_t len, struct spec_session *ret,
		      struct err *e) MUST_USE;
void spec_session_release(struct spec_session *s);

/* The member `mounts` of an object, into mounts and nmounts of the spec. */
void spec_session_mounts(struct json_members *m, struct session_spec *spec);
