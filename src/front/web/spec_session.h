/* spec_session.h - the body of POST /v1/sessions as a struct session_spec. Pure, fuzzed. */
#pragma once

#include <jansson.h>

#include "lib/policy/alarm_rules.h"
#include "daemon/session/session.h"
#include "daemon/session/volume_line.h"
#include "front/web/json_members.h"
#include "lib/base/buf.h"
#include "lib/http/traceparent.h"

#define SPEC_ENV_MAX 256
#define SPEC_METADATA_MAX 64
#define SPEC_METADATA_TEXT_MAX 16384

/* The values read, and the JSON that their texts point into. */
struct spec_session {
	struct session_spec spec;
	json_t *root;	/* owned, as the rest */
	json_t *mcp;	/* of root: the member of that name. NULL: none */
	char *metadata; /* as JSON */
	char *policy;
	char traceparent[TRACEPARENT_MAX];
	struct buf redact;
	struct buf watch_reads;
	struct buf env, writable, exportable, secrets;
	char alarms[ALARM_RULES_TEXT_MAX];
	/* Mounts from this one on are volumes: their sources are names until spec_volumes_find()
	 * has written the core's form into sources. */
	unsigned first_volume;
	char sources[CELL_MOUNTS_MAX][VOLUME_LINE_SOURCE_MAX];
};

/* Fail with ERR_INVALID, naming the member, or ERR_SYSTEM without memory. spec_session_release()
 * in either case. */
int spec_session_read(const void *body, size_t len, struct spec_session *ret,
		      struct err *e) MUST_USE;
void spec_session_release(struct spec_session *s);

/* The member `mounts` of an object, into mounts and nmounts of the spec. */
void spec_session_mounts(struct json_members *m, struct session_spec *spec);
/* The member `redact`, as lines of redact.h: of REDACT_TEXT_MAX bytes at most. */
void spec_session_redact(struct json_members *m, struct buf *ret);
/* Is this path a place in a cell, and without control characters? */
bool spec_session_is_place(const char *path);

/* The member `volumes`, read after `mounts`. */
void spec_volumes_read(struct json_members *m, struct spec_session *s);
/* volume_create.c: finds the volumes of a tenant by the names. ERR_NOT_FOUND. */
int spec_volumes_find(struct spec_session *s, struct core *c, const struct tenant *t,
		      struct err *e) MUST_USE;
