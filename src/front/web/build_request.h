/* build_request.h - a request for a template build, for all interfaces. */
#pragma once

#include <jansson.h>

#include "daemon/images/build.h"
#include "front/web/json_members.h"
#include "front/web/request.h"

/* The member tags: an array of texts, into ask. */
void build_ask_tags(struct json_members *m, struct build_ask *ask);

/* The body has come: read() fills in the requested values, answer() gets the row of the build.
 * Errors are answered here. */
void build_ask_body(struct request *r, const uint8_t *body, size_t len,
		    int (*read)(json_t *root, struct build_ask *ask, struct err *e),
		    void (*answer)(struct request *r, const struct store_build *row));

/* ---- archives of a build
 *
 * Receives the body of a request as an archive of a build (build.h). */

/* Read the body. When all of it is kept, answer with that status and no body. The caller has
 * checked the client's right. The request's earlier state is not used any more. */
void build_receive(struct request *r, const char *tenant, const char *template_id, const char *hash,
		   int status);
