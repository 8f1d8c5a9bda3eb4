/* volume_access.h - what the requests for a volume's content have in common: the token, parameters,
 * and how an entry and a failure are written. */
#pragma once

#include "content_call.h"
#include "json.h"
#include "request.h"

/* Checks the token of the request and finds the volume of its path. From now on the request
 * belongs to the volume's tenant. False: it was answered. */
bool volume_access(struct request *r, struct store_volume *ret) MUST_USE;

/* The parameters path, uid, gid, mode and force, into r. path is made clean. ERR_INVALID. */
int volume_access_params(struct request *r, struct storage_content *ret, struct err *e) MUST_USE;

void volume_access_shape(struct json *j, const struct content_entry *e);

/* Answers a failed operation. what: enum storage_content_what. */
void volume_access_fail(struct request *r, uint32_t what, const struct err *e);

/* Makes a path clean: it begins with '/' and has no empty, "." or ".." component; none leads out of
 * the root. ERR_INVALID: empty, or too long. Pure. */
int volume_access_clean(const char *path, char ret[CONTENT_PATH_MAX], struct err *e) MUST_USE;
