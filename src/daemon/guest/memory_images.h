/* memory_images.h - memory images of templates, for sessions at level microvm: a guest of the
 * template is started once in a cell of its own, its memory is written when its agent is ready, and
 * all sessions are its clones. The image is a layer with a use of its template's version, held in
 * sealed memory while used. Used by session_guest.c.
 *
 * It is named by its root image, the size of its memory, and the guest's kernel and agent. If it
 * cannot be made, sessions start their guests from the beginning.
 *
 * Two are made at a time on a node, one of each tenant, and others wait.
 * One without a waiting session is given up, so each booting guest stands for a new session and
 * counts in the quotas of its tenant. */
#pragma once

#include "daemon/cells/live_guest.h"
#include "daemon/guest/root_images.h"
#include "lib/wire/keeper_msg.h"

struct memory_image {
	struct memory_image *next, **link; /* list.h: of the core */
	struct core *core;
	char digest[STORE_LAYER_DIGEST_MAX];
	char version[STORE_ID_MAX]; /* of the template */
	char tenant[STORE_ID_MAX];
	char layer[STORE_ID_MAX];    /* "": not on disk yet */
	int image[LIVE_GUEST_IMAGE]; /* owned: memory, devices, sealed. -1: not there so far */
	uint64_t bytes;		     /* of memory that it takes: grows with what guests touch */
	uint64_t made_bytes;	     /* the same when it was made or loaded */
	char *origin;		     /* owned: see layer_origin.h */
	uint64_t used_ns;
	struct completions waiters;
	/* The rest is memory_images.c's. */
	struct live_cell *cell; /* owned: started for the image */
	struct live_guest_call call;
	struct storage_job job;
	struct layer_writing writing;
	bool loading;
	bool failed;		  /* it cannot be made: not tried again for a while */
	bool is_good;		  /* a guest has started from it */
	bool stale;		  /* it is not handed out again, and released when it is idle */
	struct guest_cold *cold;  /* owned: how it is made, until its turn has come */
	char asker[STORE_ID_MAX]; /* the tenant that asked for it first */
	struct loop_task later;	  /* ends those that asked for it when it was there */
};

/* How a guest of the template is started from the beginning: by limits of the server's own, as all
 * tenants wait for it and get it. */
struct guest_cold {
	struct keeper_create plan; /* with an id that no session has */
	struct boot_request request;
	int fds[BOOT_FDS_MAX]; /* owned */
};

/* The wanted image. */
struct memory_image_ask {
	const struct template_version *version;
	const struct root_image *root;
	const char *tenant; /* of the session */
	uint64_t memory_bytes;
	uint32_t vcpus;
	const char *guest; /* what else the memory depends on: kernel, agent, engine */
	/* Fill in how to make it, if it is missing. Called before memory_image_get() returns. */
	int (*cold)(void *arg, struct guest_cold *ret, struct err *e);
	void *arg;
};

/* The image for sessions with this memory. w ends when it is ready, or with the reason why not. */
void memory_image_get(struct core *c, const struct memory_image_ask *ask, struct completion *w,
		      struct memory_image **ret);

/* The image if it is in memory already. Otherwise NULL. Valid until this turn of the loop ends. */
struct memory_image *memory_image_at_hand(struct core *c, const struct memory_image_ask *ask);

/* A session that waited for it, and cancelled its completion, does not need it any more. */
void memory_image_leave(struct memory_image *g);

/* A guest was started from the image of that digest, or could not be: one from which no guest ever
 * started is dropped, and the next request makes it again. "": none. */
void memory_image_tried(struct core *c, const char *digest, bool good);

/* The memory that an image takes. */
uint64_t memory_image_bytes(const int image[LIVE_GUEST_IMAGE]);

/* Two empty memory files for an image, and copies of their descriptors. */
int memory_image_make_empty(int ret[LIVE_GUEST_IMAGE], int ret_copy[LIVE_GUEST_IMAGE],
			    struct err *e) MUST_USE;

/* Copy an image's descriptors: all or none. */
int memory_image_copy(const int image[LIVE_GUEST_IMAGE], int ret[LIVE_GUEST_IMAGE],
		      struct err *e) MUST_USE;

/* Ask cordon-storage to write an image as a layer of that tenant. job.done is the caller's, who
 * writes the row and settles w. */
int memory_image_save(struct core *c, const char *tenant, uint64_t bytes,
		      const int image[LIVE_GUEST_IMAGE], struct layer_writing *w,
		      struct storage_job *job, struct err *e) MUST_USE;

/* Bytes of images kept in memory for later sessions. Changed by tests. */
extern uint64_t memory_images_kept;

/* A guest that touches a page for the first time makes it a page of the image. That page counts for
 * the guest's cell only as long as the cell exists. So an image can take as much memory as its
 * guests. Close grown ones, above memory_images_kept. Called each second. */
void memory_images_shrink(struct core *c);

void memory_image_free_all(struct core *c);
