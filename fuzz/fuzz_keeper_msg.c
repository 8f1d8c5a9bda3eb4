/* Any request with any number of descriptors (the first byte, whose top bit says that it is a
 * server's keeper): what it takes is, by other means, seen to be bounded, ended and without a way
 * out of its place. */
#include "fuzz.h"

#include <stdio.h>

#include "lib/wire/keeper_msg.h"

unsigned long fuzz_accepted;

static void check_name(const char *s, size_t cap)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.";

	assert(memchr(s, '\0', cap) != NULL);
	assert(s[0] != '\0' && s[0] != '-' && s[0] != '.' && s[strspn(s, allowed)] == '\0');
}

static void check_place(const char *s, size_t cap, int root)
{
	char path[CELL_PATH_MAX + 2];

	assert(memchr(s, '\0', cap) != NULL && s[0] == '/');
	assert((strcmp(s, "/") == 0) == root);
	if (root)
		return;
	(void)snprintf(path, sizeof(path), "%s/", s);
	assert(strstr(path, "//") == NULL && strstr(path, "/./") == NULL &&
	       strstr(path, "/../") == NULL);
}

static void check_layers(uint32_t n, const char at[][CELL_PLACE_MAX],
			 const struct cell_source *from)
{
	assert(n >= 1 && n <= CELL_LAYERS_MAX);
	for (uint32_t i = 0; i < n; i++) {
		/* Those at "/" come first. */
		check_place(at[i], CELL_PLACE_MAX,
			    i == 0 || (strncmp(at[i], "/", CELL_PLACE_MAX) == 0 &&
				       strncmp(at[i - 1], "/", CELL_PLACE_MAX) == 0));
		assert(memchr(from[i].path, '\0', sizeof(from[i].path)) != NULL);
	}
}

static void check_create(const uint8_t *bytes, size_t nfds, bool serve)
{
	struct keeper_create c;
	const struct keeper_create *p = &c;

	memcpy(&c, bytes, sizeof(c));
	check_layers(p->nlayers, p->layer_at, p->layer_from);
	assert(c.profile < CELL_PROFILES && c.flags <= CELL_FLAGS_ALL && c.engine < CELL_ENGINES);
	assert(c.uid < CELL_IDS && c.gid < CELL_IDS);
	assert(c.nmounts <= CELL_MOUNTS_MAX);
	assert(nfds == (serve ? 1 : 1 + c.nlayers + c.nmounts));
	check_name(c.id, sizeof(c.id));
	check_name(c.hostname, sizeof(c.hostname));
	for (uint32_t i = 0; i < c.nmounts; i++) {
		check_place(c.mounts[i].at, sizeof(c.mounts[i].at), 0);
		assert(c.mounts[i].flags <= CELL_MOUNT_WRITABLE);
		assert(memchr(c.mounts[i].from.path, '\0', CELL_PATH_MAX) != NULL);
	}
	assert(c.limits.disk_bytes > 0 && c.limits.inodes > 0 && c.limits.nofile > 0);
	assert(c.limits.disk_bytes <= INT64_MAX && c.limits.memory_bytes <= INT64_MAX);
}

static void check_named(const uint8_t *bytes, size_t len, bool serve)
{
	struct keeper_diff d = { .nlayers = 0 };
	const struct keeper_diff *p = &d;
	bool reads;

	memcpy(&d, bytes, len);
	assert(d.named.op > KEEPER_CREATE && d.named.op < KEEPER_OPS);
	reads = d.named.op == KEEPER_DIFF || d.named.op == KEEPER_CAPTURE;
	assert(len == (reads ? sizeof(d) : sizeof(d.named)));
	assert(d.named.pid <= INT32_MAX && d.named.on <= (d.named.op == KEEPER_FREEZE));
	check_name(d.named.id, sizeof(d.named.id));
	if (reads && (serve || d.nlayers > 0))
		check_layers(p->nlayers, p->layer_at, p->layer_from);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t nfds = size > 0 ? data[0] & 127 : 0, len = size > 0 ? size - 1 : 0;
	bool serve = size > 0 && data[0] > 127;
	uint8_t *exact = fuzz_copy(size > 0 ? data + 1 : data, len);
	struct err e = { 0 };
	uint32_t op;

	if (keeper_msg_check(exact, len, nfds, serve, &e) < 0) {
		assert(e.code == ERR_INVALID && e.msg[0] != '\0');
		free(exact);
		return 0;
	}
	fuzz_accepted++;
	memcpy(&op, exact, sizeof(op));
	if (op == KEEPER_CREATE) {
		assert(len == sizeof(struct keeper_create));
		check_create(exact, nfds, serve);
	} else {
		check_named(exact, len, serve);
	}
	free(exact);
	return 0;
}
