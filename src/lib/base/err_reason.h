/* err_reason.h - why something failed, where callers treat failures of one code differently.
 *
 * An err_code says what kind of failure it is. A reason names the case. Each reason belongs to one
 * code (err_reason.c), so err_set_reason() sets both. Code outside decides by these two fields
 * only, never by the message, and by errno only where a system call or the kernel of a cell has set
 * it. The values travel in struct err between processes of one version. The names are part of the
 * API (doc/openapi.yaml): add rows, do not rename them. */
#pragma once

#include <stdbool.h>

enum err_reason {
	REASON_NONE,
	REASON_GONE,	     /* the session has ended or is paused. Waiting does not help */
	REASON_LOST,	     /* the same, by a failure of the server, the machine or an engine */
	REASON_UNAUTHORIZED, /* no valid key was given */
	REASON_UNAVAILABLE,  /* a part of the server is missing or busy: try again */
	REASON_TIMEOUT,	     /* a part of the server did not answer in time */
	REASON_PEER_DIED,    /* the asked process died before it answered: ask again */
	REASON_STORAGE_FULL, /* of the server's disk */
	REASON_TOO_LARGE,    /* a value, for the store */
	REASON_DAMAGED,	     /* the database */
	REASON_SECRETS_IN_MEMORY, /* it would give values of secrets to other sessions */

	/* bounds of one tenant or session */
	REASON_QUOTA_SESSIONS,
	REASON_QUOTA_RATE,
	REASON_QUOTA_MEMORY,
	REASON_QUOTA_STORAGE,
	REASON_QUOTA_PIDS,
	REASON_QUOTA_RECORDS,
	REASON_QUOTA_QUEUE,
	REASON_QUOTA_EXECUTIONS,
	REASON_QUOTA_CONNECTIONS,
	REASON_QUOTA_KEYS,
	REASON_QUOTA_SECRETS,
	REASON_QUOTA_SECRET_BYTES,
	REASON_QUOTA_POLICIES,
	REASON_QUOTA_DIFFS,
	REASON_QUOTA_TEMPLATES,
	REASON_QUOTA_BUILDS,
	REASON_QUOTA_STREAMS,
	REASON_QUOTA_STORED,
	REASON_QUOTA_VOLUMES,

	/* bounds of the machine */
	REASON_CAPACITY_SESSIONS,
	REASON_CAPACITY_MEMORY,
	REASON_CAPACITY_RATE,
	REASON_CAPACITY_INPUT,
	REASON_CAPACITY_DIFFS,
	REASON_QUEUE_TIMEOUT, /* a queued session was not started in time */

	/* later ones: numbers stay, since programs of an earlier version send them, too */
	REASON_SECRETS_IN_FILES,
	REASON_NOT_FROZEN, /* a program of the cell does not come out of a system call */
	REASONS
};

/* Has the session ended, for whatever reason? */
static inline bool err_reason_is_gone(enum err_reason r)
{
	return r == REASON_GONE || r == REASON_LOST;
}
