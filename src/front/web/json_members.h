/* json_members.h - reads a JSON object of a request, member by member. Pure.
 *
 *	json_members_begin(&m, object, "limits", e);
 *	json_members_bytes(&m, "memory", &memory, NULL);
 *	return json_members_end(&m);
 *
 * Nothing is written for an absent or null member. The first mistake is kept, names the member and
 * makes json_members_end() fail. So does a member that no caller read, since it is most likely
 * misspelt: the error names the member probably meant. Texts are borrowed from the object. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"

#define JSON_MEMBERS_BODY_MAX (1U << 20) /* bytes of a body */
#define JSON_MEMBERS_DEPTH_MAX 64
#define JSON_MEMBERS_VALUES_MAX 12000 /* of a body, at any depth: about 10 ms */
#define JSON_MEMBERS_MAX 32	      /* known ones of an object */

struct json_members {
	json_t *object;
	const char *where; /* the member of this object. "": the body itself */
	const char *known[JSON_MEMBERS_MAX];
	unsigned nknown;
	bool failed;
	struct err *e;
};

/* Called before the daemon confines itself: jansson would open a file for its seed later. */
void json_members_setup(void);

/* Parse a body, which must be an object. An empty body is {}. The caller releases the object with
 * json_decref(). */
json_t *json_members_parse(const void *body, size_t len, struct err *e) MUST_USE;

void json_members_begin(struct json_members *m, json_t *object, const char *where, struct err *e);
int json_members_end(struct json_members *m) MUST_USE;
/* End an object that may have unknown members, as those of E2B clients do. */
int json_members_end_lenient(struct json_members *m) MUST_USE;

/* The member itself, or NULL. */
json_t *json_members_take(struct json_members *m, const char *name);
/* Fail for the member: "name: why". Return -1. */
int json_members_fail(struct json_members *m, const char *name, const char *why);
/* Fail for a value of more than max bytes. */
void json_members_too_large(struct json_members *m, const char *name, size_t max);

void json_members_text(struct json_members *m, const char *name, size_t max, const char **ret);
void json_members_bool(struct json_members *m, const char *name, bool *ret);
/* One of count words. *ret is its place. */
void json_members_choice(struct json_members *m, const char *name, const char *const *words,
			 unsigned count, unsigned *ret);
void json_members_count(struct json_members *m, const char *name, uint64_t min, uint64_t max,
			uint64_t *ret);
/* A number, or text in the format of units.h. *given (may be NULL): the member was there, perhaps
 * as 0. exact: the name that the member has in answers, whose value is a whole number of bytes,
 * milliseconds or thousandths, so that clients can send the values they read. NULL: none. */
void json_members_bytes(struct json_members *m, const char *name, const char *exact, uint64_t *ret,
			bool *given);
void json_members_time(struct json_members *m, const char *name, const char *exact,
		       uint64_t *ret_ms, bool *given);
void json_members_millis(struct json_members *m, const char *name, const char *exact,
			 uint64_t *ret);
/* An object of strings, such as metadata, as JSON of at most max_bytes. *ret is the caller's to
 * free, also on failure. */
void json_members_string_map(struct json_members *m, const char *name, size_t max, size_t max_bytes,
			     char **ret);
/* An object or an array in it. NULL if absent (or of another type, which fails). */
json_t *json_members_object(struct json_members *m, const char *name, size_t max);
json_t *json_members_array(struct json_members *m, const char *name, size_t max);

/* ---- environments
 *
 * {"NAME": "value"} of a request as "NAME=value" strings. Pure. */

/* Append each with its NUL. Return the count, or -1 after json_members_fail(). */
int spec_env_read(struct json_members *m, const char *name, size_t max, struct buf *to);
