/* export_source.h - reads the audit log and the network records of a tenant in pages, from a cursor
 * on, and finds the trace and the session of each. */
#pragma once

#include "cmd/client/api_call.h"
#include "cmd/client/export_cursor.h"

#define EXPORT_BATCH 500 /* items of each kind */

struct export_source {
	struct api_call *api;	    /* borrowed */
	const char *tenant;	    /* NULL: the key's own. Another one has an audit log only */
	bool values;		    /* with the values behind commitments */
	bool details;		    /* sessions and executions are wanted, for spans */
	struct export_known *known; /* owned: traces of sessions */

	/* The last batch. */
	struct export_item items[2 * EXPORT_BATCH];
	size_t n;
	char origin[EXPORT_ORIGIN_MAX], own_tenant[64];
	json_t *pages[2], *shown[2 * EXPORT_BATCH]; /* owned: what items point into */
	size_t nshown;
	struct export_cursor after; /* the cursor when the batch is taken */
};

int export_source_open(struct export_source *s, struct err *e) MUST_USE;
void export_source_release(struct export_source *s);
/* Read the next batch behind the cursor. 1: there is one. 0: there is nothing new. -1. */
int export_source_next(struct export_source *s, const struct export_cursor *c,
		       struct err *e) MUST_USE;
/* Sessions that have not ended: an array, owned by the caller. */
int export_source_sessions(struct export_source *s, json_t **ret, struct err *e) MUST_USE;
