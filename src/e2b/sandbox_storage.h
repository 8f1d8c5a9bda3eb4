/* sandbox_storage.h - choices of a sandbox's file system. E2B's contract has no members for them,
 * so its clients make them with keys of the metadata:
 *
 *   cordon.storage   memory or disk
 *   cordon.disk      size of the disk, such as 20G
 *   cordon.root      writable or read-only
 *   cordon.persist   true or false
 *   cordon.keep      time without use after which a persistent sandbox is deleted, such as 7d
 *
 * Called by sandbox_spec.c. Pure. */
#pragma once

#include <jansson.h>

#include "session.h"

/* metadata: an object that has strings only. ERR_INVALID names the key. */
int sandbox_storage_read(const json_t *metadata, struct session_spec *ret, struct err *e) MUST_USE;
