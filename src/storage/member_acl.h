/* member_acl.h - POSIX ACLs of files in layers: the attributes system.posix_acl_access and
 * _default, as the kernel gives and takes them. Called by member_make.c, in a worker.
 *
 * The ids in them are stored as owners are (storage_jail.h). An ACL is kept or refused with the
 * reason, never left out: without it others may get rights, or owners lose theirs. Where there is
 * one id for everything it means nothing, and is left out as the owners are. */
#pragma once

#include "storage_jail.h"

bool member_acl_is(const char *attribute);
/* Sets what an archive has. */
int member_acl_set(int fd, const char *attribute, const uint8_t *value, size_t len,
		   const struct storage_ids *ids, struct err *e) MUST_USE;
/* Changes the ids of one that was read from a stored file to those of cells. */
void member_acl_unmap(uint8_t *value, size_t len, const struct storage_ids *ids);
/* Sets what another file on the same disk has. */
int member_acl_copy(int fd, const char *attribute, const void *value, size_t len,
		    struct err *e) MUST_USE;
/* The file is new: it must not have what its directory gives to all that are made in it. */
int member_acl_clear(int fd, struct err *e) MUST_USE;
