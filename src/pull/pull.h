/* pull.h - one pull of cordon-pull: finds the manifest of an image for this machine and its
 * configuration, passes them to cordond, and fetches the blobs that cordond asks for. Called by
 * main.c. */
#pragma once

#include "lib/wire/pull_msg.h"
#include "pull/fetch.h"

struct pull_channel;
struct pull;

/* How pulls report: in the order of events, from the loop. The message is the caller's to send. It
 * points into memory valid during the call. */
typedef void pull_report_fn(void *arg, const struct pull_msg *m);

struct pulls {
	const struct get_means *means;
	pull_report_fn *on_report;
	void *arg;
	struct pull *first;
	size_t n;
};

/* cordond's message about a pull. fd: PULL_BLOB's, taken over. A pull's error is reported as
 * PULL_FAILED. */
void pulls_handle(struct pulls *all, const struct pull_msg *m, int fd);
/* End all, without a report. */
void pulls_release(struct pulls *all);
