/* pull.h - one pull of cordon-pull: finds the manifest of an image for this machine and its
 * configuration, passes them to cordond, and fetches the blobs that cordond asks for. Called by
 * pull_channel.c. */
#pragma once

#include "fetch.h"
#include "pull_msg.h"

struct pull_channel;
struct pull;

/* How pulls report: in the order of events, from the loop. The message is the caller's to send; it
 * points into memory that is valid during the call. */
typedef void pull_report_fn(void *arg, const struct pull_msg *m);

struct pulls {
	const struct get_means *means;
	pull_report_fn *on_report;
	void *arg;
	struct pull *first;
	size_t n;
};

/* A message of cordond about a pull. fd: of PULL_BLOB, taken over. What is wrong with a pull is
 * reported as PULL_FAILED. */
void pulls_handle(struct pulls *all, const struct pull_msg *m, int fd);
/* Ends all, without a report. */
void pulls_release(struct pulls *all);
