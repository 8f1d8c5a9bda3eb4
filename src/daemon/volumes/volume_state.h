/* volume_state.h - this folder's state for the node. Private to it. */
#pragma once

#include "daemon/disk/storage_link.h"
#include "daemon/volumes/content_call.h"
#include "daemon/volumes/volume.h"

/* The trial whether volumes can be images: volume_trial.c. */
struct volume_trial {
	bool decided; /* it has shown whether they can, perhaps to an earlier daemon */
	bool running;
	struct storage_job job;
	struct volume_open open;
	struct err mounted;	    /* why the image could not be mounted. Code ERR_NONE: it was */
	uint64_t again_ns;	    /* not before this time, after one that decided nothing */
	struct completions waiters; /* for its end: volumes waiting for their creation */
};

struct volume_node {
	struct core *core;	      /* borrowed */
	struct storage_link *storage; /* borrowed */
	bool no_images;		      /* this machine cannot mount them: the trial has shown it */
	struct volume_trial trial;
	struct content_call *calls; /* list.h: in progress */
	unsigned ncalls;
	/* The one volume in removal: volume.c. */
	struct storage_job removal;
	char removing[STORE_ID_MAX]; /* "": none */
	uint64_t retry_ns;	     /* not before this time, after a failure */
	uint64_t expiry_ns;	     /* when expired volumes are looked for next */
};

struct volume_node *volume_node(struct core *c);

void volume_trial_setup(struct volume_node *n);
/* Not decided yet: w ends with the trial, which may decide nothing. One is begun if none is
 * running. */
void volume_trial_wait(struct volume_node *n, struct completion *w);
/* Once a second: begins it when cordon-storage is there. */
void volume_trial_second(struct volume_node *n);
void volume_trial_release(struct volume_node *n);
