/* disk_image.h - file systems in image files: the disks of sessions with storage "disk", and
 * volumes. Called by the builder and, for the end of a cell, by cell.c.
 *
 * An image is a file of cordon-storage, formatted as ext4 by it. Its bytes are written by the
 * kernel's ext4 only, never by a tenant. It is mounted through a loop device.
 *
 * Invariant: an image has one loop device at most. The keeper locks the image before it gives it to
 * a loop device, and the loop device holds the same open file: so the lock is held exactly as long
 * as the loop device has the image, whatever process is killed. The loop device frees itself with
 * the last mount (autoclear). */
#pragma once

#include <stdbool.h>

#include "lib/base/err.h"

/* Open the image `name` in dir_fd, which must be a file of the user that owns dir_fd, and mount it.
 * shared: an image may be mounted already, and both mounts show one file system. Not shared: an
 * image in use is ERR_CONFLICT. *ret_fd is a detached mount without devices, whose owners are the
 * ids in the image. The caller owns it. ERR_UNSUPPORTED: no loop device can be had here. */
int disk_image_mount(int dir_fd, const char *name, bool shared, int *ret_fd,
		     struct err *e) MUST_USE;

/* Is the image in use by a loop device? false also if there is no such image. */
bool disk_image_in_use(int dir_fd, const char *name);
