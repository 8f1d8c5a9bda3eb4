/* volume_open.h - asks a keeper to mount the image of a volume, for the content of the volume
 * (volumes/content_call.c) and to see whether this machine can do it. The mount is held by its
 * descriptor only. */
#pragma once

#include "core.h"
#include "store_volume.h"

struct keeper_call;

struct volume_open {
	/* fd: a detached mount, the callee's; -1 with e. Called once, unless cancelled. */
	void (*on_done)(struct volume_open *o, int fd, const struct err *e);
	void *arg;		  /* the owner's */
	struct keeper_call *call; /* volume_open.c's */
};

void volume_open_start(struct core *c, const struct store_volume *v, struct volume_open *o);
/* Repeatable. */
void volume_open_cancel(struct volume_open *o);
