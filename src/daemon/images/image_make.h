/* image_make.h - makes a template of an image: unpacks its layers, one after the other, and writes
 * the template's row. Used by pulls (image_pull.c) and by imports of files.
 *
 * The caller has read the configuration of the image (oci_config.h) and provides each layer as a
 * descriptor to read from. cordon-storage unpacks it and compares its digest with the one in the
 * configuration, so a layer has the content that its digest says, wherever it came from. An
 * existing layer is not asked for: layers are found by their chain digest (OCI's ChainID), in the
 * scope of the tenant or among those of public images. The form of a layer on disk depends on the
 * layers below it, so its own digest alone is not enough.
 *
 * Row or nothing: rows of new layers, the template, its uses and tags are one transaction at the
 * end. Until then directories of new layers have no row, and are removed if this ends otherwise or
 * the server dies. */
#pragma once

#include "daemon/disk/layers.h"
#include "daemon/store/store_template.h"
#include "daemon/template/templates.h"
#include "lib/json/json.h"
#include "lib/loop/completion.h"
#include "lib/oci/oci_config.h"

#define IMAGE_BYTES_MAX ((uint64_t)10 << 30) /* of all layers of an image, unpacked */
#define IMAGE_ENTRIES_MAX 1000000
#define IMAGE_FOLD_ABOVE 12 /* an image with more layers becomes one layer */

struct image_make;
struct image_made_layer;

/* Where a layer is read from: all that comes from fd or, if length is not 0, a part of its file. */
struct image_layer_source {
	int fd;
	uint64_t from, length;
	bool from_registry; /* it comes as slowly as a registry sends it */
};

struct image_make {
	/* Set by the caller, and valid until the end. */
	struct core *core;
	struct tenant *tenant;	   /* whose template it becomes. The operator's is for all */
	bool private_template;	   /* but not this one */
	bool public_layers;	   /* its layers are shared with all who pull the same */
	struct oci_config *config; /* borrowed */
	const uint64_t *sizes;	   /* of the layers as they come. NULL: not known */
	const char *name;	   /* of the template */
	const char *const *tags;
	size_t ntags;
	const char *provenance; /* see store_template.h */
	struct store_actor actor;
	const char *user, *workdir; /* in place of the configuration's. NULL or "": as it says */
	bool public_template;	    /* other tenants may use it */
	bool rootfs;		    /* one layer, a root file system: no digest of it is known */
	/* Open layer i for reading. The descriptor is taken over. */
	int (*open_layer)(struct image_make *m, unsigned i, struct image_layer_source *ret,
			  struct err *e);
	/* Layer i is there. shared: it was before. May be NULL. */
	void (*on_layer)(struct image_make *m, unsigned i, bool shared);
	void *arg;
	/* Layers opened and not confirmed: the rows are not written before. For callers that check
	 * more than the content. The others leave it 0. */
	unsigned pending;
	struct completion done; /* on_done and arg are the caller's */

	/* When it has ended without an error: */
	struct template_version *made;

	/* Private to image_make.c. */
	struct storage_job job;
	struct image_made_layer *layers; /* owned */
	unsigned first, nlayers;	 /* the stack: layers[first] up to layers[nlayers - 1] */
	unsigned next;			 /* of the configuration's layers */
	struct oci_digest chain;
	uint64_t bytes, entries; /* so far, of all layers */
	bool running;
	bool is_ready; /* all layers are there. It waits for `pending` */
};

/* End by m->done, from the loop. */
void image_make_start(struct image_make *m);
/* One of the pending layers is confirmed. */
void image_make_confirm(struct image_make *m);
/* m->done does not end, and nothing of it is left. Repeatable, and allowed for an ended one or one
 * never started (zeroed). */
void image_make_cancel(struct image_make *m);

/* The chain digest of a layer above `below` (NULL: it is the lowest). Pure. */
void image_make_chain(const struct oci_digest *below, const struct oci_digest *diff_id,
		      struct oci_digest *ret);

/* ---- the template that the configuration of an image describes: environment, user,
 * working directory, and the command that the image offers. Called by image_make.c. */

/* Texts of a row made from a configuration. The row borrows them. */
struct image_row {
	char user[OCI_USER_MAX];
	struct json command;
};

/* Fill in env, user, workdir and offered_command of the row. c must outlive it. */
void image_row_fill(struct image_row *r, const struct oci_config *c, struct store_template *row);
void image_row_release(struct image_row *r);
