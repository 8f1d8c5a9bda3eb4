/* session_room.c - theory of operation
 *
 * A timer looks at the file systems of both folders, more often the less is free, so that no
 * program can use up the reserve between two looks. If less than twice the reserve is free, and a
 * session has a disk or a writable volume, the images are measured after each look. Growth counts
 * from the last moment at which the reserve was whole. Deciding follows measuring: on_measured().
 *
 * Data in the page cache, written by a program and not yet by the kernel, is not measured: it comes
 * to the disk after the pause. The kernel bounds it (vm.dirty_ratio).
 *
 * After a restart growth counts from the first look. Paused sessions stay so. */
#include "daemon/session/session_room.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "daemon/cells/live_cell.h"
#include "daemon/node/core_private.h"
#include "daemon/session/session_pause.h"
#include "daemon/session/session_save.h"
#include "daemon/session/session_states.h"
#include "daemon/session/session_stop.h"
#include "daemon/session/session_suspend.h"
#include "daemon/session/volume_line.h"
#include "daemon/tenant/event_log.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"

/* ---- what grows */

static bool room_has_cell(const struct session *s)
{
	return s->cell != NULL && s->cell->connected;
}

/* The next writable volume of a session. */
static bool room_next_volume(const char **at, struct volume_line *ret)
{
	while (volume_line_next(at, ret))
		if (ret->writable)
			return true;
	return false;
}

static bool room_can_grow(const struct session *s)
{
	const char *at = s->row.mounts;
	struct volume_line v;

	return room_has_cell(s) && (s->row.storage == SESSION_DISK || room_next_volume(&at, &v));
}

static uint64_t room_sum(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* By how much the images that the session writes to have grown. */
static uint64_t room_grown(const struct session *s)
{
	const struct image_sizes *sizes = &s->core->room.sizes;
	const char *at = s->row.mounts;
	struct volume_line v;
	uint64_t sum = 0;

	if (s->row.storage == SESSION_DISK)
		sum = image_sizes_grown(sizes, s->row.id);
	while (room_next_volume(&at, &v))
		sum = room_sum(sum, image_sizes_grown(sizes, v.id));
	return sum;
}

static void room_claim(struct session *s, void *arg)
{
	struct image_sizes *sizes = &s->core->room.sizes;
	const char *at = s->row.mounts;
	struct volume_line v;

	if (s->row.storage == SESSION_DISK)
		image_sizes_claim(sizes, s->row.id, s->row.tenant, false);
	while (room_has_cell(s) && room_next_volume(&at, &v))
		image_sizes_claim(sizes, v.id, s->row.tenant, true);
}

static void room_add(const char *tenant, uint64_t bytes, void *arg)
{
	struct tenant *t = tenant_find(arg, tenant);

	if (t != NULL)
		t->room.images_grown = room_sum(t->room.images_grown, bytes);
}

/* ---- pauses */

static void room_tell(struct session *s, const char *what, uint64_t bytes)
{
	struct err e;

	log_warn("a session writes although the storage folder has no room above its reserve",
		 "session_id=%s tenant=%s grown=%llu action=%s", s->row.id, s->row.tenant,
		 (unsigned long long)bytes, what);
	if (event_log_append(s->core, NULL, s->row.tenant, s->row.id, "", "session.storage_full",
			     &e, "bytes\t%llu\n", (unsigned long long)bytes) < 0)
		log_warn("event could not be written", "session_id=%s error=%s", s->row.id, e.msg);
}

/* Where cells cannot be frozen: a persistent session keeps its disk, any other ends. */
static void room_end(struct session *s, uint64_t bytes)
{
	room_tell(s, "end", bytes);
	if (session_is_kept(&s->row)) {
		s->row.room = ROOM_KEPT;
		session_cold_pause(s, COLD_DISK, NULL, NULL);
	} else {
		session_stop(s, SESSION_STORAGE_FULL,
			     "its disk or volumes have grown although the storage folder has no "
			     "room above its reserve (storage_reserve)");
	}
}

/* Look at a session again after its present capture. */
static void room_pause(struct session *s, uint64_t bytes)
{
	s->row.room = ROOM_PAUSED; /* written with the state */
	session_pause(s, NULL, NULL);
	if (s->row.state == SESSION_RUNNING)
		s->row.room = ROOM_FREE;
	else
		room_tell(s, "pause", bytes);
}

static void room_stop_growth(struct session *s, void *arg)
{
	const struct core *c = arg;
	uint64_t bytes;

	if (s->row.state != SESSION_RUNNING || !room_can_grow(s) ||
	    s->tenant->room.images_grown < c->room.storage.limit)
		return;
	bytes = room_grown(s);
	if (bytes < DISK_ROOM_SMALL)
		return;
	if (c->cells.keeper.restrictions.freezer == 0)
		room_end(s, bytes);
	else
		room_pause(s, bytes);
}

static void on_measured(void *arg)
{
	struct core *c = arg;

	if (c->draining || !c->recovered)
		return;
	for (struct tenant *t = c->tenants; t != NULL; t = t->next)
		t->room.images_grown = 0;
	session_each(c, NULL, room_claim, NULL);
	image_sizes_each_grown(&c->room.sizes, room_add, c);
	if (c->room.storage.is_touched)
		session_each(c, NULL, room_stop_growth, c);
}

/* ---- there is room again */

static void room_resume(struct session *s, void *arg)
{
	bool resumes = s->row.room == ROOM_PAUSED && s->row.state == SESSION_PAUSED &&
		       !session_is_cold(&s->row);

	if (s->row.room == ROOM_FREE || s->row.room == ROOM_ALARM)
		return;
	s->row.room = ROOM_FREE;
	s->unsaved = true;
	if (resumes)
		session_resume(s, NULL, NULL);
}

/* ---- looking */

/* The numbers of cordon-storage are as old as its last answer. Those of the state folder are of
 * now, and both are usually one file system. */
static void room_look(struct core *c, bool any)
{
	uint64_t percent = c->o.config->storage_reserve;
	struct statfs fs;
	struct stat st;

	if (fstatfs(c->o.state_fd, &fs) == 0 && fstat(c->o.state_fd, &st) == 0)
		disk_room_take(&c->room.state, (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize,
			       (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize, percent);
	if (c->layers.link == NULL || c->storage.disk_bytes == 0)
		return;
	if (c->room.state.is_known && st.st_dev == c->storage.disk_device) {
		c->room.storage = c->room.state;
		return;
	}
	disk_room_take(&c->room.storage, c->storage.disk_bytes, c->storage.disk_free, percent);
	if (any || c->room.storage.is_near)
		storage_link_look(&c->storage);
}

static void room_find(struct session *s, void *arg)
{
	bool *found = arg;

	*found |= room_can_grow(s);
}

static void room_measure(struct core *c, bool any)
{
	image_sizes_fix(&c->room.sizes, c->room.storage.is_touched);
	if (!c->room.storage.is_near)
		image_sizes_forget(&c->room.sizes);
	else if (any || c->room.storage.is_touched)
		image_sizes_ask(&c->room.sizes);
}

static unsigned room_next_ms(const struct core *c)
{
	unsigned a = disk_room_look_ms(&c->room.state), b = disk_room_look_ms(&c->room.storage);

	return a < b ? a : b;
}

static void on_look(struct loop_timer *t)
{
	struct core *c = t->arg;
	bool any = false;

	if (!c->draining && c->recovered) {
		session_each(c, NULL, room_find, &any);
		room_look(c, any);
		if (c->layers.link != NULL)
			room_measure(c, any);
		if (!disk_room_is_missing(&c->room.storage))
			session_each(c, NULL, room_resume, NULL);
	}
	loop_timer_set(c->loop, t, clock_now_ns() + room_next_ms(c) * CLOCK_MS);
}

void session_room_setup(struct core *c)
{
	image_sizes_init(&c->room.sizes, &c->storage);
	c->room.sizes.on_measured = on_measured;
	c->room.sizes.arg = c;
	c->room.timer = (struct loop_timer){ .on_expire = on_look, .arg = c };
	loop_timer_set(c->loop, &c->room.timer, clock_now_ns());
}

void session_room_release(struct core *c)
{
	loop_timer_cancel(c->loop, &c->room.timer);
	image_sizes_release(&c->room.sizes);
}
