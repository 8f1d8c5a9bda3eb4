/* root_image.h - the root image of a virtual machine without a server, for `cordon run --level
 * microvm`: an erofs file with the whole root file system. Called by run_guest.c.
 *
 *	host		the machine's /usr and the root directory made for cells (template.h); made
 *once and kept in the cache directory until a file of it changes /DIR		a directory that is
 *a root file system; made anew each time /FILE		an erofs image */
#pragma once

#include "template.h"

#define ROOT_IMAGE_MAX (8ULL << 30) /* of a directory; the host has as much as it takes */

/* Opens it for reading; makes it first, if need be. host: of template_open("host"). */
int root_image_open(const char *from, const struct template *host, int *ret_fd,
		    struct err *e) MUST_USE;
