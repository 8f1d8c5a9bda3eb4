/* guest_layers.h - the layers that guests of a template's version are started from: root images and
 * memory images (store_layer.h: STORE_LAYER_GUEST_OF_TEMPLATE). Used by root_images.c and
 * memory_images.c.
 *
 * A version keeps the newest of each kind, so images of one kind never push out the other: any
 * tenant can have many memory images made, and none must take the root image from the others. */
#pragma once

#include "store_layer.h"

struct core;
struct layer_writing;
struct storage_reply;

#define ROOT_IMAGE_KIND "root" /* of a layer */

/* The version uses the layer from now on. Writes nothing if it does already. ERR_CONFLICT: the
 * layer is dying or gone; ERR_NOT_FOUND: the version is gone. */
int guest_layers_add(struct core *c, const char *version, const struct store_layer *row,
		     struct err *e) MUST_USE;

/* The same for the root image of a session. */
int guest_layers_add_session(struct core *c, const char *session, const char *layer,
			     struct err *e) MUST_USE;

/* What an image is, and whose. */
struct guest_layer {
	const char *version, *session; /* session "": the version uses it */
	const char *kind, *digest, *origin;
};

/* For one that was just written: its row and the use, or neither. */
int guest_layers_insert(struct core *c, const struct guest_layer *l, const struct layer_writing *w,
			const struct storage_reply *made, struct err *e) MUST_USE;

/* No version uses it any more: it is damaged. */
void guest_layers_drop(struct core *c, const char *layer);
