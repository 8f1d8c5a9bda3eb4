/* build_context.h - the directory of a build on this machine: its files become the archives of
 * COPY. Called by template_build.c. */
#pragma once

#include "dockerignore.h"
#include "err.h"

struct build_context {
	const char *dir;
	char *rules_text; /* owned */
	struct dockerignore *rules;
	const char *source; /* of the COPY that is packed */
};

/* *ret is the caller's to free; at most DOCKERFILE_MAX bytes. */
int build_context_read(const char *path, char **ret, size_t *ret_len, struct err *e) MUST_USE;

/* The caller closes it in either case. dir is borrowed. */
int build_context_open(struct build_context *c, const char *dir, struct err *e) MUST_USE;
void build_context_close(struct build_context *c);

/* A source that is not there would be an empty archive. ERR_NOT_FOUND. */
int build_context_check(const char *dir, const char *source, unsigned line, struct err *e) MUST_USE;
/* The archive of a COPY in memory, owned by the caller, or -1. */
int build_context_pack(struct build_context *c, const char *source, struct err *e) MUST_USE;
/* The SHA-256 of an archive, which is its name. */
int build_context_hash(int fd, char ret_hash[65], struct err *e) MUST_USE;
