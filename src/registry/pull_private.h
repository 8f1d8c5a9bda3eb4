/* pull_private.h - the structures of pulls, and what pull.c and pull_blob.c call of each other. */
#pragma once

#include "pull.h"

struct blob {
	struct blob *next;
	struct pull *pull;
	uint32_t number;
	uint64_t told; /* bytes of the last PULL_PROGRESS */
	struct fetch fetch;
};

struct pull {
	struct pull *next;
	struct pulls *all;
	uint32_t id;
	uint8_t *copy; /* owned: what `start` points into */
	size_t copy_len;
	struct pull_start start;
	struct address bases[2]; /* mirror, registry */
	unsigned nbases, base;
	struct login login;
	struct fetch document;
	enum pull_document expected;
	unsigned depth;
	bool resolved;
	struct blob *blobs;
	unsigned nblobs;
	struct loop_timer deadline, progress;
};

struct loop *pull_loop(const struct pull *p);
/* blob 0: the pull itself. word: the registry's word for the error; "": none. */
void pull_report_failure(struct pulls *all, uint32_t pull, uint32_t blob, const char *word,
			 const struct err *e);
/* The address of an object; kind: "manifests" or "blobs". */
int pull_set_url(const struct pull *p, struct address *ret, const char *kind, const char *name,
		 struct err *e) MUST_USE;
/* Releases the fetch, and sets what all fetches of the pull have in common. */
void pull_init_fetch(struct pull *p, struct fetch *f);

/* ---- pull_blob.c */

/* PULL_BLOB. *fd is taken over if it succeeds, and -1 then. */
int pull_blob_add(struct pull *p, const struct pull_msg *m, int *fd, struct err *e) MUST_USE;
void pull_blob_free(struct blob *b);
/* Reports how far the blobs are, again and again while there are any. */
void pull_on_progress(struct loop_timer *t);
