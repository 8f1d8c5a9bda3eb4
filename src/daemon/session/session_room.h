/* session_room.h - keeps the reserve of the storage folder's file system (storage_reserve) from
 * sessions whose disks and volumes grow into it.
 *
 * Disks and volumes are promised more than there is. Requests that need room are refused when the
 * reserve is touched, but a program that writes asks nobody. So cordon-storage measures the images
 * (image_sizes.h). A tenant whose images have grown by its share of the reserve (disk_room.h) since
 * then has the sessions paused that write to them: the rest is for the writes of the others. They
 * are resumed when there is room again. Until then session_resume() refuses them, also after a
 * restart of this daemon: row.room says so. Where cells cannot be frozen, they are ended. */
#pragma once

#include "daemon/session/session.h"

/* At the start, and at the end of the daemon. */
void session_room_setup(struct core *c);
void session_room_release(struct core *c);
