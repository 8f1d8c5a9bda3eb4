/* kernel_modules.h - the modules that a guest needs, out of an unpacked kernel package, into an
 * initramfs: unpacked, unchanged (their signatures stay valid), each after those that it depends
 * on.
 */
#pragma once

#include "cpio.h"

/* tree: the unpacked package. Adds modules/NUMBER-NAME.ko in the order in which to load them. */
int kernel_modules_add(int tree, const char *release, struct cpio *c, struct err *e) MUST_USE;
