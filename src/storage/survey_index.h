/* survey_index.h - the regular files of an archive and where they are. Called by survey.c. */
#pragma once

#include "err.h"
#include "oci_digest.h"

#define SURVEY_NAME_MAX 256
#define SURVEY_FILES_MAX 4096 /* an archive with more is no image */

struct survey_file {
	char name[SURVEY_NAME_MAX]; /* without "./" in front */
	char link[SURVEY_NAME_MAX]; /* "": it is a file; else the name of another */
	uint64_t offset, size;
};

struct survey_index {
	struct survey_file *files; /* owned */
	size_t n;
	bool too_many;
	bool compressed; /* offsets are those of the uncompressed archive */
};

/* Lists the files of an archive. */
int survey_index_read(int fd, uint64_t bytes_max, struct survey_index *ret, struct err *e) MUST_USE;
void survey_index_release(struct survey_index *x);

/* The file of that name, links followed; NULL: there is none. */
const struct survey_file *survey_index_find(const struct survey_index *x, const char *name);
