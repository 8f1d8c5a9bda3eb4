/* kernel_image.h - the kernel of a Linux package as QEMU boots it: the ELF file that is packed
 * inside vmlinuz (doc/levels.md says why: no unpacking in the guest, and the PVH entry). */
#pragma once

#include "err.h"

/* Reads vmlinuz (a bzImage, or an ELF file already) and writes the ELF file. Fails for a packing
 * other than LZ4 and zstd, and for a kernel without the PVH entry. */
int kernel_image_unpack(int vmlinuz, int out, struct err *e) MUST_USE;
