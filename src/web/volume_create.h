/* volume_create.h - a request that creates a volume: what the interfaces share. */
#pragma once

#include <jansson.h>

#include "request.h"
#include "volume.h"

/* How an interface writes it. */
struct volume_create {
	int (*read)(json_t *root, struct volume_spec *ret, struct err *e);
	void (*made)(struct request *r, const struct store_volume *row);
	void (*failed)(struct request *r, const struct err *e);
};

/* The body has come. Answers when the volume is there, or is not. */
void volume_create_body(struct request *r, const struct volume_create *how, const uint8_t *body,
			size_t len);
