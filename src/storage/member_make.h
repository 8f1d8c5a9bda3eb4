/* member_make.h - makes what a member of an archive describes: file, link, FIFO; and sets owner,
 * mode, attributes and time. The name must not exist in the directory. Called by what unpacks
 * archives, in a worker. */
#pragma once

#include <sys/stat.h>
#include <time.h>

#include "storage_jail.h"
#include "tar_member.h"

/* Owners from 65536 on become this one ("nobody"). */
#define MEMBER_NOBODY 65534U

/* A regular file with the body that the reader gives. */
int member_make_file(int dir, const char *name, const struct tar_member *m, struct tar_reader *r,
		     const struct storage_ids *ids, struct err *e) MUST_USE;
int member_make_symlink(int dir, const char *name, const struct tar_member *m,
			const struct storage_ids *ids, struct err *e) MUST_USE;
int member_make_fifo(int dir, const char *name, const struct tar_member *m,
		     const struct storage_ids *ids, struct err *e) MUST_USE;

/* Owner, mode, attributes and time of a directory (open for reading). */
int member_set_dir(int fd, const struct tar_member *m, const struct storage_ids *ids,
		   struct err *e) MUST_USE;

/* Id of a cell, as it is stored. */
uint32_t member_map_id(uint64_t id, const struct storage_ids *ids);

/* The time of a member; one before 1901 or beyond the year 2200 becomes the nearest within. */
struct timespec member_time(const struct tar_member *m);

/* A copy of a file of another layer, with all that belongs to it. from is open for reading. */
int member_copy(int from, const struct stat *st, int dir, const char *name, struct err *e) MUST_USE;

/* Gives a directory owner, mode, attributes and time of another one. */
int member_copy_dir(int from, int to, struct err *e) MUST_USE;

/* Is this an attribute that an archive may set: user.* but not what overlay uses, file
 * capabilities, and ACLs? */
bool member_may_set(const char *attribute);

/* What a file or directory with this content and these attributes takes on disk, in blocks: of a
 * sparse file each block with a piece in it, as an archive chooses the pieces. */
uint64_t member_bytes(const struct tar_member *m);

/* For errors of system calls: REASON_STORAGE_FULL if there is no room. */
int member_fail(struct err *e, const char *what, const char *name) MUST_USE;
