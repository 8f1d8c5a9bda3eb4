/* journal_vfs.h - SQLite's own VFS, except that a commit writes its journal by one call.
 *
 * SQLite appends each page of a commit to the journal by two calls: the head of the frame (24
 * bytes), then the page. A create-run-delete cycle commits about 40 pages. Between journal_hold()
 * and journal_release() appended frames are collected, and written when the frame comes that ends
 * the transaction.
 *
 * Invariants: nothing is held longer than the one step of a statement that begins or ends with the
 * commit. SQLite gets the result of the write as that of the last frame, so before other
 * connections see the commit and before the step returns. After a failed write every further call
 * of the same step fails. So a reported commit is with the kernel, as with SQLite's VFS, and the
 * format of the files is the same. */
#pragma once

#include <sqlite3.h>

/* Register the VFS on the first call. The name is for sqlite3_open_v2(). NULL, for SQLite's own
 * VFS, if it cannot be registered. */
const char *journal_vfs_name(void);

/* Around one step that commits. No-ops on a connection with another VFS. */
void journal_hold(sqlite3 *db);
void journal_release(sqlite3 *db);
