/* volume_state.h - what this folder keeps for the node. Private to it. */
#pragma once

#include "content_call.h"
#include "storage_link.h"
#include "volume.h"

struct volume_node {
	struct core *core;	      /* borrowed */
	struct storage_link *storage; /* borrowed */
	bool no_images;		      /* this machine cannot mount them */
	bool images_work;	      /* it can: one was mounted, perhaps by an earlier daemon */
	struct content_call *calls;   /* list.h: under way */
	unsigned ncalls;
	/* The one volume that is being removed; volume_removal.c. */
	struct storage_job removal;
	char removing[STORE_ID_MAX]; /* "": none */
	uint64_t retry_ns;	     /* not before this time, after a failure */
	uint64_t expiry_ns;	     /* when expired volumes are looked for next */
};

struct volume_node *volume_node(struct core *c);

/* volume_removal.c: begins to remove the next volume whose row says so, if none is under way. */
void volume_removal_next(struct volume_node *n);
void volume_removal_release(struct volume_node *n);
