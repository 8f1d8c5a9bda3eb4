/* root_images.h - root images of templates, for sessions at level microvm: each is made once, by
 * cordon-storage, when the first session needs it, and is a layer with a use of its template's
 * version (store_layer.h). Later sessions wait for this request, too. Used by session_guest.c and
 * memory_images.c.
 *
 * The image is named by its origin: base and layers, and for the host template also the last change
 * of the machine's programs. Images are shared by the versions of one tenant, and each version has
 * a use of its own: so an image stays as long as any of them. The image of a session with layers of
 * its own belongs to the session's tenant, and only such sessions use it. */
#pragma once

#include "daemon/disk/layers.h"
#include "daemon/disk/storage_link.h"
#include "daemon/store/store_layer.h"
#include "daemon/template/layer_origin.h"
#include "lib/loop/completion.h"

struct core;
struct template_stack;
struct template_version;

/* The user of an image. */
struct root_image_user {
	struct template_version *version;
	const char *tenant;  /* whose quota has the image */
	const char *session; /* the using session. "": the version, for all of its sessions */
};

/* A requested image. */
struct root_image {
	struct root_image *next, **link; /* list.h: of the core */
	struct core *core;
	char digest[STORE_LAYER_DIGEST_MAX];
	char version[STORE_ID_MAX]; /* of the template that it is made for */
	char session[STORE_ID_MAX]; /* as above. "": for all sessions of the version */
	char tenant[STORE_ID_MAX];
	char layer[STORE_ID_MAX];      /* "": not known yet */
	int fd;			       /* owned: for reading. -1: not there so far */
	char origin[LAYER_ORIGIN_MAX]; /* see layer_origin.h */
	uint64_t used_ns;
	struct completions waiters;
	/* The rest is root_images.c's. */
	bool stale;		     /* its layer is gone: it is not handed out again */
	struct loop_task later;	     /* ends those that asked for it when it was open */
	struct template_version *of; /* used, while it is made */
	struct storage_job job;
	struct layer_writing writing;
};

/* The image of a template, or of layers above it. w ends when it is ready, or with the reason why
 * not. *ret stays valid until w has ended, and for the call of its on_done. */
void root_image_get(struct core *c, const struct root_image_user *u,
		    const struct template_stack *stack, struct completion *w,
		    struct root_image **ret);

/* The image if it is open already, with a use of that version. Otherwise NULL. Valid until this
 * turn of the loop ends. */
struct root_image *root_image_at_hand(struct template_version *v,
				      const struct template_stack *stack);

/* The image of that layer, if it is open. Otherwise -1. Borrowed. */
int root_image_fd(const struct core *c, const char *layer);

/* Give an open image a use of that user. A version with one writes nothing. ERR_CONFLICT: its layer
 * is gone, and the next root_image_get() makes it again. */
int root_image_use(struct root_image *g, const struct root_image_user *u, struct err *e) MUST_USE;

/* At the end of the daemon. */
void root_image_free_all(struct core *c);

/* ---- the uses that versions have of their root images and memory images
 *
 * A use is a row of store_layer.h: STORE_LAYER_GUEST_OF_TEMPLATE. Called here and by
 * memory_images.c. The uses of a version are in the order: root images, then memory images, the
 * newest of each first. A version keeps the newest of each kind, so images of one kind never push
 * out the other: a tenant can have many memory images made, and none takes the root image from the
 * others. */

struct core;
struct layer_writing;
struct storage_reply;

#define ROOT_IMAGE_KIND "root" /* of a layer */

/* The version uses the layer from now on. Write nothing if it does already. ERR_CONFLICT: the
 * layer is dying or gone. ERR_NOT_FOUND: the version is gone. */
int guest_layers_add(struct core *c, const char *version, const struct store_layer *row,
		     struct err *e) MUST_USE;

/* guest_layers_add() for the root image of a session. */
int guest_layers_add_session(struct core *c, const char *session, const char *layer,
			     struct err *e) MUST_USE;

/* The kind of an image, and its owner. */
struct guest_layer {
	const char *version, *session; /* session "": the version uses it */
	const char *kind, *digest, *origin;
};

/* For a just written image: insert its row and the use, or neither. */
int guest_layers_insert(struct core *c, const struct guest_layer *l, const struct layer_writing *w,
			const struct storage_reply *made, struct err *e) MUST_USE;

/* No version uses it any more: it is damaged. */
void guest_layers_drop(struct core *c, const char *layer);
