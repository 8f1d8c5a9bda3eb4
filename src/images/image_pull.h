/* image_pull.h - pulls an image from a registry and makes a template of it. Called by the
 * interfaces and by builds.
 *
 * cordon-pull fetches (pull_link.h), cordon-storage unpacks and image_make.c writes the rows;
 * cordond connects the two by a pipe for each layer, and reads the documents of the image again
 * itself, each by the digest that the one before it named: cordon-pull is not trusted. A reference
 * with a digest therefore gets exactly that image.
 *
 * Layers of images that were pulled without credentials are shared by all tenants; those pulled
 * with credentials belong to the tenant. */
#pragma once

#include "image_make.h"
#include "oci_manifest.h"
#include "oci_ref.h"
#include "pull_link.h"

#define IMAGE_PULLS_TENANT_MAX 4 /* at a time */
#define IMAGE_TAGS_MAX 16

struct image_pull_spec {
	const char *reference;
	const char *user, *password; /* "" or NULL: none; or: */
	bool aws;	    /* they are an access key of AWS; the host is one of oci_ecr.h */
	const char *secret; /* name of a secret, "user:password"; NULL: none */
	const char *name;   /* of the template; NULL: made from the reference */
	const char *tags[IMAGE_TAGS_MAX];
	size_t ntags; /* 0: "default" */
};

enum image_pull_event {
	IMAGE_PULL_RESOLVED, /* digest[], nlayers and total are known */
	IMAGE_PULL_BYTES,    /* of layer `layer`: `bytes` of `size` */
	IMAGE_PULL_LAYER,    /* it is unpacked, or was there before: `shared` */
	IMAGE_PULL_EVENTS
};

struct image_pull_progress {
	enum image_pull_event event;
	unsigned layer, nlayers;
	uint64_t bytes, size, total;
	bool shared;
};

struct image_pull {
	/* Set by the caller. */
	struct core *core;
	struct tenant *tenant;
	struct store_actor actor;
	void (*on_progress)(struct image_pull *p, const struct image_pull_progress *now);
	struct completion done; /* on_done and arg are the caller's */
	void *arg;

	/* Digest of what the reference named; known from IMAGE_PULL_RESOLVED on. */
	char digest[OCI_DIGEST_TEXT];
	/* When it has ended without an error; the caller uses it at once (template_use()). */
	struct template_version *made;

	/* Private to image_pull.c. */
	struct image_pull *next, **link; /* list.h */
	struct pull_call call;
	struct image_make make;
	struct oci_ref ref;
	char reference[OCI_REF_TEXT_MAX];
	char name[STORE_NAME_MAX];
	char tag_texts[IMAGE_TAGS_MAX][STORE_TAG_MAX];
	const char *tags[IMAGE_TAGS_MAX];
	char provenance[OCI_REF_TEXT_MAX + OCI_DIGEST_TEXT + 32];
	struct oci_manifest *manifest; /* owned */
	struct oci_config *config;     /* owned */
	uint64_t sizes[OCI_LAYERS_MAX];
	struct oci_descriptor expected; /* the next document */
	bool has_expected, has_manifest;
	unsigned depth;
	uint32_t blob;	     /* number of the blob that is on its way; 0: none */
	bool is_second;	     /* attempt to make the template */
	struct err unpacked; /* unpacking has failed, and the verdict on the blob is awaited */
	struct loop_timer verdict;
};

/* -1: malformed, not allowed, or too many; then done is not used. Else it ends by done. Errors are
 * for the user: "image 'x' not found: ...". */
int image_pull_start(struct image_pull *p, const struct image_pull_spec *spec,
		     struct err *e) MUST_USE;
/* done does not end, and nothing is left of it. Repeatable, and allowed for one that was never
 * started (zeroed) or has ended. */
void image_pull_cancel(struct image_pull *p);

/* What is kept for the node: the channel to cordon-pull and the pulls under way. */
extern const struct session_part pull_part;
/* A new channel of cordon-pull, taken over. */
int image_pull_set_channel(struct core *c, int channel, struct err *e) MUST_USE;
