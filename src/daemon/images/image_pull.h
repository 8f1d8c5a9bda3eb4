/* image_pull.h - pulls an image from a registry and makes a template of it. Called by the
 * interfaces and by builds.
 *
 * cordon-pull fetches (pull_link.h), cordon-storage unpacks and image_make.c writes the rows.
 * Cordond connects the two by a pipe for each layer, and reads the documents of the image again
 * itself, each by the digest that the one before it named: cordon-pull is not trusted. A reference
 * with a digest therefore gets exactly that image.
 *
 * Layers of images pulled without credentials are shared by all tenants. Those pulled with
 * credentials belong to the tenant. */
#pragma once

#include <stdbool.h>

#include "daemon/images/image_make.h"
#include "daemon/images/pull_link.h"
#include "lib/oci/oci_manifest.h"
#include "lib/oci/oci_ref.h"
#include "lib/wire/pull_msg.h"

#define IMAGE_PULLS_TENANT_MAX 4 /* at a time */
#define IMAGE_PULLS_MAX 16	 /* of all tenants. One without any may have one more */
#define IMAGE_TAGS_MAX 16

struct image_pull_spec {
	const char *reference;
	const char *user, *password; /* "" or NULL: none. or: */
	bool aws;	    /* they are an access key of AWS. The host is one of oci_ref.h */
	const char *secret; /* name of a secret, "user:password". NULL: none */
	const char *name;   /* of the template. NULL: made from the reference */
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

	/* Digest of the object that the reference named. Known from IMAGE_PULL_RESOLVED on. */
	char digest[OCI_DIGEST_TEXT];
	/* When it has ended without an error. The caller uses it at once (template_use()). */
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
	uint32_t blob;	     /* number of the blob on its way. 0: none */
	bool is_second;	     /* attempt to make the template */
	struct err unpacked; /* unpacking has failed, and the verdict on the blob is awaited */
	struct loop_timer verdict;
};

/* -1: malformed, not allowed, or too many. Then done is not used. Else it ends by done. Errors are
 * for the user: "image 'x' not found: ...". */
int image_pull_start(struct image_pull *p, const struct image_pull_spec *spec,
		     struct err *e) MUST_USE;
/* done does not end, and nothing is left of it. Repeatable, and allowed for an ended one or one
 * never started (zeroed). */
void image_pull_cancel(struct image_pull *p);

/* The node's part: the channel to cordon-pull and the open pulls. */
extern const struct session_part pull_part;
/* A new channel of cordon-pull, taken over. */
int image_pull_set_channel(struct core *c, int channel, struct err *e) MUST_USE;

/* ---- the operator's bounds for pulls: the settings registries and image_mirror. Pure.
 *
 * Items of `registries` are "*" (every registry at a public address), "*.example.com", or a host
 * exactly: "registry.example.com", "10.0.0.5:5000". An exactly named host may have private
 * addresses. Those behind a pattern may not. image_mirror is "HOST=URL,...". */

/* host: of a reference, "name" or "name:port". */
bool pull_policy_allows(const char *registries, const char *host);
/* The mirror of a registry. "" if it has none. */
void pull_policy_mirror(const char *mirrors, const char *host, char ret[PULL_URL_MAX]);
/* Hosts whose addresses may be private: those named exactly, and the mirror. */
void pull_policy_open_hosts(const char *registries, const char *mirror, char ret[PULL_HOSTS_MAX]);
/* Where a registry is reached: most are where they are called, one is not. */
const char *pull_policy_server(const char *host);

/* ---- the reference of a pull, and the words for its errors. For image_pull.c. Touches nothing but
 * the texts of the pull. */

/* Read reference, name and tags. Without a name the template is called as the last part of the
 * image's path, with the image's tag ("latest" and digests count as none). */
int pull_spec_read(struct image_pull *p, const struct image_pull_spec *spec,
		   struct err *e) MUST_USE;

/* The host of a registry without its port. */
void pull_spec_host_name(const char *host, char ret[OCI_REF_HOST_MAX]);

/* The error as users see it. word: the registry's own, "" if it had none. */
void pull_spec_explain(const char *reference, const char *word, struct err *e);
