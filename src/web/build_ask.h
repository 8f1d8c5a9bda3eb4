/* build_ask.h - a request for a build of a template: what the interfaces share. */
#pragma once

#include <jansson.h>

#include "build.h"
#include "json_members.h"
#include "request.h"

/* The member tags: an array of texts, into ask. */
void build_ask_tags(struct json_members *m, struct build_ask *ask);

/* The body has come: read() fills in what is asked for, answer() gets the row of the build. Errors
 * are answered here. */
void build_ask_body(struct request *r, const uint8_t *body, size_t len,
		    int (*read)(json_t *root, struct build_ask *ask, struct err *e),
		    void (*answer)(struct request *r, const struct store_build *row));
