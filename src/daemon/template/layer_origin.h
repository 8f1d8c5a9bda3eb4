/* layer_origin.h - the origin of guest images, and the changes since: for lists of layers
 * (api_node.c). Written by root_images.c, memory_images.c and session_memory.c.
 *
 * The origin of an image is text, lines "word\ttext" as in the provenance of templates. The guest's
 * own origin (kernel, agent, engine) is a part of it, `guest`, which the supervisor writes for new
 * guests (SERVE_GUEST_ORIGIN_MAX). A session keeps the origin of its first guest, as long as it
 * continues with the same memory. */
#pragma once

#include "daemon/store/store_layer.h"
#include "lib/base/sha256.h"

struct root_image;
struct session;
struct template_stack;
struct template_version;

#define LAYER_ORIGIN_MAX 4096
#define LAYER_ORIGIN_MACHINE_MAX 33

/* When packages of the machine were changed last, as far as directories show it: images of the
 * template `host` depend on that. */
void layer_origin_add_machine(struct sha256 *h);

/* The origin of a root image, of a template's memory image above it, and of a session's memory. */
void layer_origin_of_root(const struct template_version *v, const struct template_stack *stack,
			  char ret[LAYER_ORIGIN_MAX]);
void layer_origin_of_memory(const struct root_image *root, uint64_t memory_bytes, uint32_t cpus,
			    const char *guest, char ret[LAYER_ORIGIN_MAX]);
void layer_origin_of_session(const struct session *s, const char *root, char ret[LAYER_ORIGIN_MAX]);

/* Changes since an image was made. */
enum layer_stale {
	LAYER_STALE_KERNEL,   /* the guest's: another one is installed */
	LAYER_STALE_AGENT,    /* cordon-init: it was upgraded */
	LAYER_STALE_ENGINE,   /* QEMU's version, or whether it uses KVM */
	LAYER_STALE_MACHINE,  /* the machine's programs, part of the image */
	LAYER_STALE_TEMPLATE, /* no session can be made of the versions that use it */
	LAYER_STALE_WORDS
};
const char *layer_stale_name(enum layer_stale s);

/* The origin of new images. */
struct layer_origin_now {
	const char *guest; /* "": this server makes no guests, so nothing can be compared */
	char machine[LAYER_ORIGIN_MACHINE_MAX];
};
void layer_origin_now(const char *guest, struct layer_origin_now *ret);

/* A set of 1 << enum layer_stale. Only images of guests have an origin. 0 for others. */
unsigned layer_origin_stale(const struct layer_origin_now *now, const struct store_layer *row);
