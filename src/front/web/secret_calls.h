/* secret_calls.h - handlers of requests about secrets. Both interfaces use them and differ only in
 * how a secret is shown. Each function answers the request. */
#pragma once

#include "daemon/store/store_secret.h"
#include "front/web/request.h"
#include "lib/json/json.h"

struct secret_calls {
	bool lenient; /* an E2B client's, see spec_secret.h: an update is a new value */
	/* Write one, without its value. */
	void (*show)(struct json *j, struct core *c, const struct store_secret *row);
	const char *place; /* of Location: before the name. NULL: there is no such header */
};

void secret_calls_create(struct request *r, const struct secret_calls *how, const void *body,
			 size_t len);
/* For the secret in the path. */
void secret_calls_get(struct request *r, const struct secret_calls *how);
void secret_calls_update(struct request *r, const struct secret_calls *how, const void *body,
			 size_t len);
void secret_calls_delete(struct request *r);
