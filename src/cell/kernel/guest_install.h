/* guest_install.h - installs a guest kernel: out of a kernel package of Debian, downloaded with the
 * machine's apt-get or given as a file. The package is never installed on the machine. Called by
 * `cordon guest install`. */
#pragma once

#include "cell/kernel/guest_files.h"

/* deb: path of a package. NULL: apt-get downloads Debian's kernel for virtual machines. The folder
 * in state_dir is replaced when all is made, or left as it was. */
int guest_install(const char *state_dir, const char *deb, struct guest_manifest *ret,
		  struct err *e) MUST_USE;
