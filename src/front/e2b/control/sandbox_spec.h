/* sandbox_spec.h - the body of a request that creates or resumes a sandbox. Pure, fuzzed. Clients
 * are E2B's, old and new: unknown members are ignored. */
#pragma once

#include <jansson.h>

#include "daemon/session/session.h"
#include "front/e2b/control/network.h"
#include "front/web/json_members.h"
#include "lib/base/buf.h"

#define SANDBOX_SPEC_ENV_MAX 256
#define SANDBOX_SPEC_METADATA_MAX 64
#define SANDBOX_SPEC_METADATA_TEXT_MAX 16384

enum sandbox_spec_version { SANDBOX_SPEC_V1, SANDBOX_SPEC_V2 };

/* The values read, and the JSON that their texts point into. */
struct sandbox_spec {
	struct session_spec spec; /* its template is not set: the caller looks it up */
	const char *template;	  /* as the client calls it */
	bool secure, auto_resume;
	struct network network;
	const json_t *volumes; /* volumeMounts. NULL: none. The caller looks them up */
	json_t *root;	       /* owned, as the rest */
	char *metadata;	       /* as JSON */
	struct buf env;
};

/* Fail with ERR_INVALID, naming the member. ERR_UNSUPPORTED for valid members that Cordon lacks.
 * sandbox_spec_release() in either case. */
int sandbox_spec_read(const void *body, size_t len, enum sandbox_spec_version version,
		      struct sandbox_spec *ret, struct err *e) MUST_USE;
void sandbox_spec_release(struct sandbox_spec *s);

/* ---- requests for an existing sandbox */
struct sandbox_spec_timeout {
	bool given; /* a timeout */
	int64_t timeout_s;
	bool memory; /* keep the memory of the sandbox (the default) */
};

/* Read a body with a timeout, in the member `name`, and memory. ERR_INVALID. */
int sandbox_spec_timeout(const void *body, size_t len, const char *name,
			 struct sandbox_spec_timeout *ret, struct err *e) MUST_USE;
