/* keeper_msg.c - checks requests to the keeper. Linked into the privileged program: all requests
 * are untrusted and pass keeper_msg_check() first. */
#include "lib/wire/keeper_msg.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

static bool keeper_has_end(const char *s, size_t cap)
{
	return memchr(s, '\0', cap) != NULL;
}

/* Letters, digits, '-' and '.': no characters special in a path, a shell or a log. */
static bool keeper_is_name(const char *s, size_t cap)
{
	if (!keeper_has_end(s, cap) || s[0] == '\0' || s[0] == '-' || s[0] == '.')
		return false;
	for (; *s != '\0'; s++)
		if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ||
		      (*s >= '0' && *s <= '9') || *s == '-' || *s == '.'))
			return false;
	return true;
}

/* Ids of cordon run are hexadecimal. Its cells may be in the same cgroup as a server's. A server's
 * keeper refuses such ids, so a compromised server cannot name those cells. */
static bool keeper_is_cell_of(bool serve, const char *id, size_t cap)
{
	return keeper_is_name(id, cap) && !(serve && id[strspn(id, "0123456789abcdef")] == '\0');
}

bool cell_is_place(const char *s, size_t cap)
{
	if (!keeper_has_end(s, cap) || s[0] != '/')
		return false;
	if (s[1] == '\0')
		return true;
	while (*s == '/') {
		size_t n = strcspn(++s, "/");

		if (n == 0 || n > 255 || (n == 1 && s[0] == '.') ||
		    (n == 2 && s[0] == '.' && s[1] == '.'))
			return false;
		s += n;
	}
	return true;
}

static int keeper_check_limits(const struct cell_limits *l, struct err *e)
{
	if (l->disk_bytes == 0 || l->inodes == 0 || l->nofile == 0)
		return err_set(e, ERR_INVALID, "create: disk, inodes and nofile must be limited");
	if (l->disk_bytes > UINT64_MAX / 2 || l->memory_bytes > UINT64_MAX / 2 ||
	    l->cpu_millis > 1000000 || l->pids > 4194304 || l->inodes > UINT32_MAX ||
	    l->nofile > 1048576)
		return err_set(e, ERR_INVALID, "create: a limit is out of range");
	return 0;
}

/* Read-only layers. Those at "/" come first. */
static int keeper_check_layers(uint32_t n, const char at[][CELL_PLACE_MAX],
			       const struct cell_source *from, struct err *e)
{
	bool in_root = true;

	if (n < 1 || n > CELL_LAYERS_MAX)
		return err_set(e, ERR_INVALID, "%u layers, must be 1 to %d", n, CELL_LAYERS_MAX);
	for (uint32_t i = 0; i < n; i++) {
		bool is_root = at[i][0] == '/' && at[i][1] == '\0';

		if (!cell_is_place(at[i], CELL_PLACE_MAX) || (is_root && !in_root) ||
		    (!is_root && i == 0) || !keeper_has_end(from[i].path, sizeof(from[i].path)))
			return err_set(e, ERR_INVALID, "layer %u: invalid path in the cell", i);
		in_root = is_root;
	}
	return 0;
}

static int keeper_check_create(const struct keeper_create *c, size_t nfds, bool serve,
			       struct err *e)
{
	uint32_t watch;

	if (c->profile >= CELL_PROFILES || (c->flags & ~(uint32_t)CELL_FLAGS_ALL) != 0 ||
	    c->engine >= CELL_ENGINES)
		return err_set(e, ERR_INVALID, "create: unknown profile, flag or engine");
	if (c->engine != CELL_ENGINE_NONE &&
	    (c->profile == CELL_LOCKED) != (c->engine == CELL_ENGINE_MICROVM))
		return err_set(e, ERR_INVALID, "create: the engine needs another profile");
	if ((c->flags & CELL_KVM) != 0 && c->engine != CELL_ENGINE_MICROVM)
		return err_set(e, ERR_INVALID, "create: KVM is for virtual machines");
	if (c->uid >= CELL_IDS || c->gid >= CELL_IDS)
		return err_set(e, ERR_INVALID, "create: uid and gid must be below %u", CELL_IDS);
	if (!keeper_is_cell_of(serve, c->id, sizeof(c->id)) ||
	    !keeper_is_name(c->hostname, sizeof(c->hostname)) ||
	    !keeper_is_name(c->machine_id, sizeof(c->machine_id)))
		return err_set(e, ERR_INVALID, "create: id, host name or machine id is malformed");
	if (keeper_check_layers(c->nlayers, c->layer_at, c->layer_from, e) < 0)
		return err_wrap(e, "create");
	if (c->nmounts > CELL_MOUNTS_MAX)
		return err_set(e, ERR_INVALID, "create: too many mounts");
	watch = (c->flags & CELL_WATCH_ANY) / CELL_WATCH;
	if (watch != 0 && (!serve || c->engine != CELL_ENGINE_NONE || (watch & (watch + 1)) != 0))
		return err_set(e, ERR_INVALID, "create: only a server watches, and no engine");
	if (nfds != 1 + (serve ? (c->flags & CELL_WATCH) != 0 : (size_t)c->nlayers + c->nmounts))
		return err_set(e, ERR_INVALID,
			       "create: %zu descriptors for %u layers and %u mounts", nfds,
			       c->nlayers, c->nmounts);
	for (uint32_t i = 0; i < c->nmounts; i++)
		if (!cell_is_place(c->mounts[i].at, sizeof(c->mounts[i].at)) ||
		    c->mounts[i].at[1] == '\0' ||
		    (c->mounts[i].flags & ~(uint32_t)CELL_MOUNT_WRITABLE) != 0 ||
		    !keeper_has_end(c->mounts[i].from.path, sizeof(c->mounts[i].from.path)))
			return err_set(e, ERR_INVALID, "create: mount %u: invalid path or flag", i);
	return keeper_check_limits(&c->limits, e);
}

static int keeper_check_named(const struct keeper_named *n, bool serve, struct err *e)
{
	if (!keeper_is_cell_of(serve, n->id, sizeof(n->id)))
		return err_set(e, ERR_INVALID, "operation %u: malformed id", n->op);
	if (n->pid > INT32_MAX || n->on > (n->op == KEEPER_FREEZE))
		return err_set(e, ERR_INVALID, "operation %u: number out of range", n->op);
	return 0;
}

int keeper_msg_check(const void *bytes, size_t len, size_t nfds, bool serve, struct err *e)
{
	static const struct {
		size_t size, nfds;
	} shapes[] = {
		[KEEPER_CREATE] = { sizeof(struct keeper_create), 0 },
		[KEEPER_DIFF] = { sizeof(struct keeper_diff), 1 },
		[KEEPER_DESTROY] = { sizeof(struct keeper_named), 0 },
		[KEEPER_FREEZE] = { sizeof(struct keeper_named), 0 },
		[KEEPER_CAPTURE] = { sizeof(struct keeper_diff), 1 },
		[KEEPER_VOLUME] = { sizeof(struct keeper_volume), 0 },
	};
	union keeper_request r;
	const struct keeper_diff *d = &r.diff;

	static_assert(COUNT(shapes) == KEEPER_OPS, "a shape for every operation");
	if (len < sizeof(r.op) || len > sizeof(r))
		return err_set(e, ERR_INVALID, "request of %zu bytes", len);
	memcpy(&r, bytes, len);
	if (r.op >= KEEPER_OPS || shapes[r.op].size == 0)
		return err_set(e, ERR_INVALID, "unknown operation %u", r.op);
	if (len != shapes[r.op].size)
		return err_set(e, ERR_INVALID, "operation %u: %zu bytes, want %zu", r.op, len,
			       shapes[r.op].size);
	if (r.op == KEEPER_CREATE)
		return keeper_check_create(&r.create, nfds, serve, e);
	if (nfds != shapes[r.op].nfds)
		return err_set(e, ERR_INVALID, "operation %u: %zu descriptors", r.op, nfds);
	if (r.op == KEEPER_VOLUME)
		return keeper_has_end(r.volume.from.path, sizeof(r.volume.from.path))
			       ? 0
			       : err_set(e, ERR_INVALID, "volume: malformed path");
	if (keeper_check_named(&r.named, serve, e) < 0)
		return -1;
	if ((r.op != KEEPER_DIFF && r.op != KEEPER_CAPTURE) || (!serve && d->nlayers == 0))
		return 0;
	return keeper_check_layers(d->nlayers, d->layer_at, d->layer_from, e);
}
