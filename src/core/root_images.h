/* root_images.h - root images of templates, for sessions at level microvm: each is made once, by
 * cordon-storage, when the first session needs it, and is a layer with a use of its template's
 * version (store_layer.h). Sessions that come meanwhile wait for the same request. Used by
 * session_guest.c and memory_images.c.
 *
 * The image is named by what it is made of: base and layers; of the host template also when the
 * machine's programs were changed last. Images are shared by the versions of one tenant, and each
 * version has a use of its own: so an image stays as long as any of them. The image of a session
 * that has layers of its own belongs to the session's tenant, and only such sessions use it. */
#pragma once

#include "completion.h"
#include "storage_link.h"
#include "layer_origin.h"
#include "layers.h"
#include "store_layer.h"

struct core;
struct template_stack;
struct template_version;

/* Who an image is for. */
struct root_image_user {
	struct template_version *version;
	const char *tenant;  /* which has the image in its quota */
	const char *session; /* which uses it; "": the version does, for all of its sessions */
};

/* One image that was asked for. */
struct root_image {
	struct root_image *next, **link; /* list.h: of the core */
	struct core *core;
	char digest[STORE_LAYER_DIGEST_MAX];
	char version[STORE_ID_MAX]; /* of the template that it is made for */
	char session[STORE_ID_MAX]; /* the same; "": for all sessions of the version */
	char tenant[STORE_ID_MAX];
	char layer[STORE_ID_MAX];      /* "": not known yet */
	int fd;			       /* owned: for reading; -1: not there yet */
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

/* The image of a template, or of layers above it; w ends when it is there, or with the reason why
 * not. *ret stays valid until w has ended, and for the call of its on_done. */
void root_image_get(struct core *c, const struct root_image_user *u,
		    const struct template_stack *stack, struct completion *w,
		    struct root_image **ret);

/* The same if it is open already, with a use of that version; else NULL. Valid until this turn of
 * the loop ends. */
struct root_image *root_image_at_hand(struct template_version *v,
				      const struct template_stack *stack);

/* The image that is that layer, if it is open; else -1. Borrowed. */
int root_image_fd(const struct core *c, const char *layer);

/* An image that is open gets a use of that user. A version that has one writes nothing.
 * ERR_CONFLICT: its layer is gone, and the next root_image_get() makes it again. */
int root_image_use(struct root_image *g, const struct root_image_user *u, struct err *e) MUST_USE;

/* At the end of the daemon. */
void root_image_free_all(struct core *c);
