/* sandbox_filter.h - which sandboxes a list is to show, and where its next page begins. Pure,
 * fuzzed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/store/store.h"
#include "lib/base/err.h"

#define SANDBOX_FILTER_PAIRS_MAX 32
#define SANDBOX_FILTER_TEXT_MAX 4096

/* ---- metadata */
struct sandbox_filter {
	unsigned n;
	struct {
		char *name, *value; /* owned, in the form of a row's metadata */
	} pairs[SANDBOX_FILTER_PAIRS_MAX];
};

/* Read the parameter "metadata", decoded once as any parameter. Clients encode it three times: each
 * value, then the pairs, then the parameter. "": no filter. The caller releases *ret, also after an
 * error (ERR_INVALID). */
int sandbox_filter_read(const char *parameter, struct sandbox_filter *ret, struct err *e) MUST_USE;
void sandbox_filter_release(struct sandbox_filter *f);
/* Are all pairs in the metadata of a row? It is compact JSON, as jansson writes it, so one pass is
 * enough. */
bool sandbox_filter_matches(const struct sandbox_filter *f, const char *metadata);

/* ---- states */
enum { SANDBOX_FILTER_RUNNING = 1 << 0, SANDBOX_FILTER_PAUSED = 1 << 1 };
/* "running,paused" as a set. "": both. ERR_INVALID. */
int sandbox_filter_states(const char *parameter, unsigned *ret, struct err *e) MUST_USE;

/* ---- the place behind the last row of a page */
struct sandbox_filter_cursor {
	uint64_t ms;
	char id[STORE_ID_MAX];
	bool ascending;
};
#define SANDBOX_FILTER_CURSOR_MAX 128

/* As E2B writes it: base64url of "<time>__<id>", with "__asc" behind it in that order. */
void sandbox_filter_cursor_write(const struct sandbox_filter_cursor *c,
				 char ret[SANDBOX_FILTER_CURSOR_MAX]);
/* Either alphabet, with or without padding. ERR_INVALID. */
int sandbox_filter_cursor_read(const char *text, struct sandbox_filter_cursor *ret,
			       struct err *e) MUST_USE;
