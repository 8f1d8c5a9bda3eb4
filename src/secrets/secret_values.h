/* secret_values.h - every value that must not be seen in what a session writes: its secrets, those
 * that rules put into requests, and what both were before a change. For the files of this folder.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;
struct session;

/* One of a session's values, in the clear. */
struct secret_values_one {
	const char *value;
	size_t len;
	const char *name, *hosts; /* hosts: lines */
	bool past;		  /* it was replaced or revoked */
};
/* Calls on_value for each value, which is wiped when on_value returns. */
void secret_values_each(struct session *s,
			void (*on_value)(const struct secret_values_one *v, void *arg), void *arg);
/* For captures (session_parts.h): values that may be in files of the session. */
int secret_values_add(struct session *s, bool same, struct buf *to, struct err *e);
/* Is it one of the session's secrets, or does a rule put it in? */
bool secret_values_has(const struct session *s, const char *name);
/* Is the name of n bytes one of these lines? lines may be NULL. */
bool secret_values_has_line(const char *lines, const char *name, size_t n);
