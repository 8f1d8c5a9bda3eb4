/* capture_values.h - the search of a capture's files for secret values. Used by session_capture.c.
 * cordon-storage searches (storage_msg.h).
 *
 * By the setting captured_secrets, or the tenant's if that is stricter, a value refuses the
 * capture, or the answer and an event list its file. */
#pragma once

#include <stdbool.h>

#include "lib/base/err.h"
#include "lib/wire/storage_msg.h"

struct session;

/* With the setting captured_secrets = name: files of the capture with values of secrets that the
 * session was given. */
struct session_capture_found {
	struct storage_found files;
	/* There are also files from before a pause without memory or a fork. They were not
	 * searched. */
	bool unsearched;
};

struct capture_values {
	int values;	 /* owned: for cordon-storage. -1: nothing is searched for */
	int found;	 /* owned: cordon-storage lists files here. -1: a value is an error */
	bool unsearched; /* see struct session_capture_found */
};

/* Collect the values to search for. Called when the cell is frozen: values of executions up to then
 * are included. kind: of the capture. Nothing is searched for if the session was given no secret,
 * its files stay its own (a pause), or the setting allows values. */
int capture_values_find(struct capture_values *v, struct session *s, const char *kind,
			struct err *e) MUST_USE;
/* The descriptors for cordon-storage, which the caller owns. -1: none. */
void capture_values_give(struct capture_values *v, int *ret_values, int *ret_found);
/* The layer is there: read the list, and record an event if it has any file. */
int capture_values_take(const struct capture_values *v, const struct session *s, const char *kind,
			struct session_capture_found *ret, struct err *e) MUST_USE;
void capture_values_release(struct capture_values *v);
