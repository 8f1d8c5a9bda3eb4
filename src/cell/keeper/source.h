/* source.h - the files of the machine that a server's request may name: each is a root, which the
 * operator chose, and a path below it. Called by the builder and by all that serve requests.
 *
 * Invariant: the sender of the request may be hostile. A source is opened below its root
 * and without links, only for a use that the root was given for, and a template or a stored layer
 * only if no other user of the machine can change it. */
#pragma once

#include "cell/keeper/keeper.h"

/* Open the source of a layer or a mount, below a root that the operator allows for this use
 * (KEEPER_ROOT_*). Links are not followed. Nothing outside of the root is reached. *ret_fd is the
 * caller's also on failure, if it is not -1. */
int source_open(const struct keeper *k, const struct cell_source *from, uint32_t use, int *ret_fd,
		struct err *e) MUST_USE;

/* Is this source an image of a volume? */
bool source_is_image(const struct cell_source *from);
/* Is this source a volume: "UUID/data" or "UUID/image" below the root of volumes? */
bool source_is_volume(const struct keeper *k, const struct cell_source *from);

/* The directory with the disk images, or -1, and the name of a cell's image. */
int source_disks(const struct keeper *k, const char *id, char *ret_name, size_t cap);

/* Is it a layer of cordon-storage? Its owners are ids of cells. */
bool source_is_stored(const struct keeper *k, const struct cell_source *from);
