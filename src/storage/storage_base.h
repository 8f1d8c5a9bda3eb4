/* storage_base.h - what layers stand on, as requests name it (STORAGE_FOLD_*): nothing, the places
 * of the host template, or a directory of template_dir. Called in a runner. */
#pragma once

#include "storage_msg.h"

/* Opens its places; the caller owns them. -1: there is no such place. */
int storage_base_open(uint32_t flags, const char *base, int ret[STORAGE_HOST_MAX],
		      struct err *e) MUST_USE;
