/* volume_create.h - a request that creates a volume, for all interfaces. */
#pragma once

#include <jansson.h>

#include "daemon/volumes/volume.h"
#include "front/web/request.h"

/* How an interface writes it. */
struct volume_create {
	int (*read)(json_t *root, struct volume_spec *ret, struct err *e);
	void (*made)(struct request *r, const struct store_volume *row);
	void (*failed)(struct request *r, const struct err *e);
};

/* The body has come. Answer when the volume is there, or is not. */
void volume_create_body(struct request *r, const struct volume_create *how, const uint8_t *body,
			size_t len);
