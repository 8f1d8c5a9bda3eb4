/* guest_root.h - the file systems of a virtual machine, in the layout of a cell
 * (cell/keeper/root.h): an overlay of the image on a tmpfs that holds all writes, /dev/shm
 * included, and is limited in bytes and inodes. See guest_boot.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

/* /proc, /sys and /dev of the initramfs, as the boot code needs them. */
int guest_root_prepare(struct err *e) MUST_USE;

/* Make the root of the image on /dev/vda and all mounts in it, and move there. */
int guest_root_enter(struct err *e) MUST_USE;

/* Borrowed: the directory of the image, -1 before guest_root_enter(). */
int guest_root_image(void);

/* For each HELLO. Return 0 or an errno. ENOTSUP where guest_root_enter() was not called. */
int guest_root_resize(uint64_t disk_bytes, uint64_t inodes);
/* /etc/machine-id, and a new boot id: a clone is not the machine that it was made from. */
int guest_root_set_machine_id(const char *id);
/* Only /tmp, /run, /dev/shm and /home/user can be written to, as in a cell with a read-only root.
 * EPERM: it is so already, and cannot be undone. EBUSY: a file is open for writing. */
int guest_root_set_read_only(bool read_only);
