/* session_storage.c - see session_storage.h. Every refusal names the member, the bound, or what the
 * machine lacks. */
#include "session_storage.h"

#include "core_private.h"
#include "limit_text.h"

/* For a disk in memory: also the minima of the configuration's table. */
#define MEMORY_BYTES_MIN (64U << 10)
#define INODES_MIN 64
/* For an image: ext4 with a journal. */
#define IMAGE_BYTES_MIN (32U << 20)
#define IMAGE_INODES_MIN 1024
#define IMAGE_INODE_BYTES 16384 /* of the disk for each inode, by default; as mkfs.ext4 */
#define BPS_MIN (64U << 10)

static int between(const char *name, uint64_t value, uint64_t min, uint64_t max, struct err *e)
{
	if (value < min)
		return err_set(e, ERR_INVALID, "%s: %s is below the minimum of %s", name,
			       limit_text(name, value).s, limit_text(name, min).s);
	if (value > max)
		return err_set(e, ERR_INVALID, "%s: %s is above the maximum of %s", name,
			       limit_text(name, value).s, limit_text(name, max).s);
	return 0;
}

static int check_memory(const struct config *g, const struct cell_limits *a,
			struct store_limits *ret, struct err *e)
{
	ret->disk_bytes = a->disk_bytes == 0 ? g->disk_default : a->disk_bytes;
	ret->inodes = a->inodes == 0 ? g->inodes_default : a->inodes;
	if (a->read_bps > 0 || a->write_bps > 0)
		return err_set(e, ERR_INVALID,
			       "disk_read_bps, disk_write_bps: only with storage disk");
	if (ret->disk_bytes > g->disk_max)
		return err_set(e, ERR_INVALID,
			       "disk: %s is above the maximum of %s for storage memory (disk_max); "
			       "storage disk (--storage disk) may have up to %s",
			       limit_text("disk", ret->disk_bytes).s,
			       limit_text("disk", g->disk_max).s,
			       limit_text("disk", g->storage_disk_max).s);
	if (between("disk", ret->disk_bytes, MEMORY_BYTES_MIN, g->disk_max, e) < 0)
		return -1;
	return between("inodes", ret->inodes, INODES_MIN, g->inodes_max, e);
}

/* What this server and its machine need for images. */
static int check_machine(const struct core *c, struct err *e)
{
	if (c->cells.keeper.restrictions.rootless != 0)
		return err_set(e, ERR_UNSUPPORTED,
			       "storage disk: needs loop devices, which only root may use; this "
			       "server was started by an ordinary user");
	if (!c->o.has_storage)
		return err_set(e, ERR_UNSUPPORTED, "storage disk: this server has no storage_dir");
	/* What is promised may be more than the disk has; what is there must leave the reserve. */
	return layers_check_reserve(&c->layers, IMAGE_BYTES_MIN, e);
}

int session_storage_check_rates(const struct core *c, uint64_t read_bps, uint64_t write_bps,
				struct err *e)
{
	if ((read_bps == 0 && write_bps == 0) ||
	    (c->cells.keeper.restrictions.limits & CELL_LIMIT_DISK) != 0)
		return 0;
	return err_set(e, ERR_UNSUPPORTED,
		       "disk_read_bps, disk_write_bps: need cgroup v2 with the io controller, "
		       "which this machine does not have");
}

static int check_bps(const struct core *c, const struct cell_limits *a, struct store_limits *ret,
		     struct err *e)
{
	if (session_storage_check_rates(c, a->read_bps, a->write_bps, e) < 0)
		return -1;
	ret->read_bps = a->read_bps;
	ret->write_bps = a->write_bps;
	if (a->read_bps > 0 && between("disk_read_bps", a->read_bps, BPS_MIN, INT64_MAX, e) < 0)
		return -1;
	return a->write_bps == 0 ? 0
				 : between("disk_write_bps", a->write_bps, BPS_MIN, INT64_MAX, e);
}

static int check_image(const struct core *c, const struct cell_limits *a, struct store_limits *ret,
		       struct err *e)
{
	const struct config *g = c->o.config;
	uint64_t usual, most;

	if (check_machine(c, e) < 0)
		return -1;
	/* Whole blocks. */
	ret->disk_bytes =
		(a->disk_bytes == 0 ? g->storage_disk_default : a->disk_bytes) & ~(uint64_t)4095;
	if (between("disk", ret->disk_bytes, IMAGE_BYTES_MIN, g->storage_disk_max, e) < 0)
		return -1;
	usual = ret->disk_bytes / IMAGE_INODE_BYTES;
	usual = usual < IMAGE_INODES_MIN ? IMAGE_INODES_MIN : usual;
	most = ret->disk_bytes / 4096;
	most = most > UINT32_MAX ? UINT32_MAX : most;
	ret->inodes = a->inodes > 0 ? a->inodes : usual > most ? most : usual;
	if (between("inodes", ret->inodes, IMAGE_INODES_MIN, most, e) < 0)
		return -1;
	return check_bps(c, a, ret, e);
}

/* A persistent session has a cell while it is used: idle_timeout ends the cell, not the session. So
 * does its timeout, and without one it gets the longest. */
static int check_keep(const struct config *g, const struct session_spec *spec,
		      struct store_session *row, struct err *e)
{
	if (!spec->persist) {
		if (spec->keep_ms > 0)
			return err_set(e, ERR_INVALID, "keep: only with persist");
		return 0;
	}
	row->keep_ms = spec->keep_ms == 0 ? g->persist_keep_default_ms : spec->keep_ms;
	if (row->keep_ms > g->persist_keep_max_ms)
		return err_set(e, ERR_INVALID, "keep: at most %llu s",
			       (unsigned long long)g->persist_keep_max_ms / 1000);
	row->on_timeout = row->on_idle = SESSION_PAUSE_FILES;
	if (!spec->timeout_given)
		row->timeout_ms = g->session_timeout_max_ms;
	if (!spec->idle_given)
		row->idle_ms = g->persist_idle_ms;
	return 0;
}

int session_storage_check(const struct core *c, const struct session_spec *spec,
			  struct store_session *row, struct err *e)
{
	if (spec->persist && spec->storage_given && spec->storage == SESSION_MEMORY)
		return err_set(e, ERR_INVALID,
			       "persist: needs storage disk: files in memory end with the cell");
	row->storage = spec->persist ? SESSION_DISK : spec->storage;
	row->read_only = spec->read_only;
	if (check_keep(c->o.config, spec, row, e) < 0)
		return -1;
	if (row->storage == SESSION_DISK)
		return check_image(c, &spec->limits, &row->limits, e);
	return check_memory(c->o.config, &spec->limits, &row->limits, e);
}

uint32_t session_storage_flags(const struct store_session *row)
{
	return (row->read_only ? (uint32_t)CELL_READ_ONLY : 0) |
	       (row->storage == SESSION_DISK ? (uint32_t)CELL_DISK_IMAGE : 0);
}
