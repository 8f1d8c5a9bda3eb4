/* guest_package.h - the kernel package for guests as the machine's apt knows it: from its lists on
 * disk, nothing is downloaded. Called by `cordon guest`. */
#pragma once

#include <stdbool.h>

#include "cell/kernel/guest_files.h"

/* The name of the package that the meta package stands for today. */
int guest_package_find(char ret_name[GUEST_PACKAGE_MAX], struct err *e) MUST_USE;

/* The newest package, as NAME_VERSION, and whether its version is later than that of the file name
 * `installed`: NAME_VERSION_ARCHITECTURE.deb. A name of another form is older than none. */
int guest_package_newest(const char *installed, char ret[GUEST_PACKAGE_MAX], bool *ret_is_newer,
			 struct err *e) MUST_USE;
