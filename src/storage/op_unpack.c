/* op_unpack.c - makes a layer from an archive. The worker that reads the archive can change nothing
 * but the new layer. */
#include <stdio.h>
#include <string.h>

#include "lib/base/io.h"
#include "storage/layer_make.h"
#include "storage/storage_jail.h"
#include "storage/storage_room.h"
#include "storage/stream_in.h"
#include "storage/unpack_capture.h"
#include "storage/unpack_image.h"

#define HEAD_BYTES 4096U /* of the stream for each entry: headers and padding */

/* The request with its descriptors by name. They are borrowed. */
struct unpacked {
	const struct storage_unpack *r;
	int input;
	int values; /* of STORAGE_SEARCH. Else -1 */
	int found;  /* of STORAGE_NAME. Else -1 */
};

/* How long the uncompressed archive may be. */
static uint64_t unpack_stream_max(const struct storage_unpack *r)
{
	return r->bytes_max + r->entries_max * HEAD_BYTES;
}

static struct stream_in *unpack_open_stream(const struct unpacked *u, bool hash, struct err *e)
{
	if (u->r->length == 0)
		return stream_in_fd(u->input, unpack_stream_max(u->r), hash, e);
	return stream_in_part(u->input, u->r->from, u->r->length, unpack_stream_max(u->r), hash, e);
}

/* An image's layer or a root file system goes into place 0. */
static int unpack_root(const struct unpacked *u, int top, const int *lower, struct stream_in *in,
		       struct storage_reply *reply, struct err *e)
{
	int roots[STORAGE_STACK_MAX];
	struct unpack_image job = { .lower = roots,
				    .nlower = u->r->nlower,
				    .whole = u->r->format == STORAGE_ROOTFS,
				    .ids = storage_jail_ids(),
				    .count = { .bytes_max = u->r->bytes_max,
					       .entries_max = u->r->entries_max } };

	job.top = layer_make_root(top, lower, u->r->nlower, roots, e);
	if (job.top < 0 || unpack_image(in, &job, e) < 0)
		return -1;
	reply->bytes = job.count.bytes;
	reply->entries = job.count.entries;
	return 0;
}

static int unpack_searched(const struct unpacked *u, int top, struct stream_in *in,
			   struct capture_search *search, struct storage_reply *reply,
			   struct err *e)
{
	struct unpack_capture job = { .top = top,
				      .at = u->r->at,
				      .ids = storage_jail_ids(),
				      .search = search,
				      .count = { .bytes_max = u->r->bytes_max,
						 .entries_max = u->r->entries_max } };

	if (unpack_capture(in, &job, e) < 0)
		return -1;
	reply->bytes = job.count.bytes;
	reply->entries = job.count.entries;
	return 0;
}

/* The search is freed here, so the stream loses its watch first. */
static int unpack_changes(const struct unpacked *u, int top, struct stream_in *in,
			  struct storage_reply *reply, struct err *e)
{
	static struct storage_found found; /* large */
	struct capture_search *search = NULL;
	int result;

	if (u->values >= 0) {
		search = capture_search_new(u->values, in, u->found >= 0 ? &found : NULL, e);
		if (search == NULL)
			return -1;
	}
	result = unpack_searched(u, top, in, search, reply, e);
	stream_in_set_watch(in, NULL, NULL);
	capture_search_free(search);
	if (result == 0 && u->found >= 0)
		result = io_write_all(u->found, &found, sizeof(found), e);
	return result;
}

static int unpack_check_hash(const struct storage_unpack *r, const uint8_t found[STORAGE_SHA256],
			     struct err *e)
{
	if ((r->flags & STORAGE_CHECK_SHA256) == 0 || memcmp(found, r->sha256, STORAGE_SHA256) == 0)
		return 0;
	return err_set(e, ERR_INVALID, "the content of the archive does not have its digest");
}

/* The stream is read to its end, behind the archive's end marker, because the digest covers all of
 * it. */
static int unpack_work(void *arg, int top, const int *lower, struct storage_reply *reply,
		       struct err *e)
{
	const struct unpacked *u = arg;
	bool hash = (u->r->flags & (STORAGE_WANT_SHA256 | STORAGE_CHECK_SHA256)) != 0;
	struct stream_in *in = unpack_open_stream(u, hash, e);
	int result = -1;

	if (in == NULL)
		return -1;
	stream_in_set_silence(in, u->r->silence_ms);
	storage_room_keep(u->r->reserve_percent);
	if (u->r->format == STORAGE_CAPTURE)
		result = unpack_changes(u, top, in, reply, e);
	else
		result = unpack_root(u, top, lower, in, reply, e);
	if (result == 0)
		result = stream_in_finish(in, reply->sha256, e);
	if (result == 0)
		result = unpack_check_hash(u->r, reply->sha256, e);
	stream_in_free(in);
	return result;
}

int op_unpack(struct storage_run *run, struct err *e)
{
	uint32_t flags = run->r->unpack.flags;
	struct unpacked u = { &run->r->unpack, run->fds[0],
			      (flags & STORAGE_SEARCH) != 0 ? run->fds[1] : -1,
			      (flags & STORAGE_NAME) != 0 ? run->fds[2] : -1 };
	const struct layer_make m = { .id = u.r->layer,
				      .lower = u.r->lower,
				      .nlower = u.r->nlower,
				      .work = unpack_work,
				      .arg = &u };

	return layer_make(run, &m, e);
}
