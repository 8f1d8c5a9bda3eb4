/* gvisor_bundle.h - the description of a guest that runsc reads (config.json of an OCI bundle).
 * Pure.
 *
 * The guest's root is the cell's own root directory, so its files are the cell's, which the keeper
 * lists, captures and limits. Only /proc, /dev, /dev/shm and /sys are the guest kernel's: they are
 * empty in GVISOR_ROOT. PID 1 of the guest is cordon-init with GVISOR_STREAM_FD
 * as its stream. */
#pragma once

#include <stddef.h>

#include "lib/wire/boot_msg.h"

#define GVISOR_BUNDLE_MAX 8192
#define GVISOR_STREAM_FD 3	    /* in the guest */
#define GVISOR_ROOT "/dev/shm/root" /* in runsc's mount namespace */

/* Write the text and its NUL. Return its length, 0 if it does not fit. */
size_t gvisor_bundle_write(const struct boot_request *r, char *ret, size_t cap);
