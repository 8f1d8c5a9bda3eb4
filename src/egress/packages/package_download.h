/* package_download.h - requests for a file being downloaded wait until the cache has it. Called by
 * package_gate_file.c. The first request leads. The others follow, and look into the cache when it
 * has ended, one of them leads if the file is not there. Those that waited for too long, or for a
 * stuck one (its program does not read), continue by themselves: clients give up after some seconds
 * without a byte. */
#pragma once

#include "egress/control/egress_session.h"
#include "egress/packages/cache_link.h"
#include "lib/loop/completion.h"

#define PACKAGE_DOWNLOAD_WAIT_MS 1000 /* then it is looked whether the leading one gets on */
#define PACKAGE_DOWNLOAD_WAITS 8U
#define PACKAGE_DOWNLOAD_LEADS 16U /* of a session */
#define PACKAGE_DOWNLOAD_FOLLOWERS 64U
#define PACKAGE_DOWNLOADS_MAX 1024U

struct package_download;

/* One that leads or follows. Embedded in the gate. */
struct package_follow {
	struct completion done; /* on_done, arg: the owner's. e: it waited for long */
	/* The owner's, of one that leads: how many bytes came so far. */
	uint64_t (*moved)(const struct package_follow *f);
	/* For package_download.c only. */
	struct package_download *download; /* of one that leads */
	struct package_download *followed; /* of one that waits */
	struct egress_session *session;	   /* of one that leads */
	unsigned waits;
};

/* True: it leads, and must end with package_download_end(). False: it follows, done comes later,
 * or (ret_alone) there are too many, or the one that leads does not get on. key: with its scope. */
bool package_download_join(struct egress_session *session, struct package_follow *f,
			   const char *key, bool *ret_alone);
/* It has waited for long (done came with an error). True: it waits on, as the leading one gets on.
 */
bool package_download_wait_on(struct package_follow *f);
/* For gateway_tap_want.stored: ends when the cache has the file. */
struct cache_call *package_download_stored(struct package_follow *f);
/* The leading request has ended. stored: the file was handed to the cache, which answers later. */
void package_download_end(struct package_follow *f, bool stored);
/* One that follows ends. No effect twice. */
void package_download_leave(struct package_follow *f);
