/* capture_search.h - looks for values of secrets in a capture while it is unpacked: what a session
 * was given must not go to other sessions with its files. Called by op_unpack.c and
 * unpack_capture.c, in the worker.
 *
 * The whole archive is searched as it comes, so names, targets of links, attributes and contents
 * are; a value is found in the forms that masks know (base/mask.h). The values are in the memory of
 * the worker only, which reads what the same session has written. */
#pragma once

#include "err.h"
#include "stream_in.h"

struct capture_search;

/* Reads the file of STORAGE_SEARCH (wire/storage_msg.h), and watches the stream. */
struct capture_search *capture_search_new(int fd, struct stream_in *in, struct err *e) MUST_USE;
void capture_search_free(struct capture_search *s); /* may be NULL */

/* Fails with REASON_SECRETS_IN_FILES if a value was found so far. path: of the member that is being
 * read, as in the archive. s may be NULL: nothing is looked for. */
int capture_search_check(const struct capture_search *s, const char *path, struct err *e) MUST_USE;
