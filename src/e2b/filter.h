/* filter.h - which sandboxes a list is to show, and where its next page begins. Pure, fuzzed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "err.h"
#include "store.h"

#define FILTER_PAIRS_MAX 32
#define FILTER_TEXT_MAX 4096

/* ---- metadata */
struct filter {
	unsigned n;
	struct {
		char *name, *value; /* owned; written as in a row's metadata */
	} pairs[FILTER_PAIRS_MAX];
};

/* Reads the parameter "metadata", which was decoded once, as any parameter. Clients encode it three
 * times: each value, then the pairs, then the parameter. "": everything is wanted. The caller
 * releases *ret, also after an error (ERR_INVALID). */
int filter_read(const char *parameter, struct filter *ret, struct err *e) MUST_USE;
void filter_release(struct filter *f);
/* Are all pairs in the metadata of a row? It is compact JSON, as jansson writes it; one look over
 * it is all it takes. */
bool filter_matches(const struct filter *f, const char *metadata);

/* ---- states */
enum { FILTER_RUNNING = 1 << 0, FILTER_PAUSED = 1 << 1 };
/* "running,paused" as a set; "": both. ERR_INVALID. */
int filter_states(const char *parameter, unsigned *ret, struct err *e) MUST_USE;

/* ---- the place behind the last row of a page */
struct filter_cursor {
	uint64_t ms;
	char id[STORE_ID_MAX];
	bool ascending;
};
#define FILTER_CURSOR_MAX 128

/* As E2B writes it: base64url of "<time>__<id>", with "__asc" behind it in that order. */
void filter_cursor_write(const struct filter_cursor *c, char ret[FILTER_CURSOR_MAX]);
/* Of either alphabet; padding may be left out. ERR_INVALID. */
int filter_cursor_read(const char *text, struct filter_cursor *ret, struct err *e) MUST_USE;
