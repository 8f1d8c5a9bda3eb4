/* export_cursor.h - the position of an export in a file. The file is replaced as a whole, after the
 * receiver has taken all items before the position. One program at a time has the file. */
#pragma once

#include <stdint.h>

#include "cmd/client/export_item.h"
#include "lib/base/err.h"

struct export_cursor {
	const char *path; /* borrowed */
	int lock;	  /* owned: of PATH.lock */
	/* log: the first two parts of the audit log's origin ("cordon.NODE/TENANT"). next: the
	 * number of the next record. "" and 0: nothing was exported yet. */
	char log[EXPORT_ORIGIN_MAX];
	uint64_t epoch, next;
	uint64_t network; /* the last network record */
};

/* ERR_CONFLICT: another program has it. A file that does not exist is a beginning. */
int export_cursor_open(struct export_cursor *c, const char *path, struct err *e) MUST_USE;
/* On disk when this returns. */
int export_cursor_save(const struct export_cursor *c, struct err *e) MUST_USE;
void export_cursor_close(struct export_cursor *c);
