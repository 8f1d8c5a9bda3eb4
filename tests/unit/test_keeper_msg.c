/* Goal: of all that can be sent to the keeper, exactly the well-formed requests get in.
 *
 * Each rule is broken alone in a request that is good otherwise, and must be named as the reason.
 */
#include "lib/wire/keeper_msg.h"

#include "support.h"

#define ANY SIZE_MAX

static bool serve; /* as whose keeper */

static struct keeper_create good(void)
{
	struct keeper_create c;

	memset(&c, 0, sizeof(c));
	c.op = KEEPER_CREATE;
	c.uid = c.gid = 1000;
	c.nlayers = 2;
	c.nmounts = 2;
	c.limits = (struct cell_limits){ 1 << 30, 1500, 100, 1 << 20, 1000, 1024 };
	memcpy(c.id, "i0123456789abcdef", 18);
	memcpy(c.hostname, "cordon", 7);
	memcpy(c.machine_id, "0123456789abcdef0123456789abcdef", 33);
	memcpy(c.layer_at[0], "/", 2);
	memcpy(c.layer_at[1], "/usr", 5);
	memcpy(c.mounts[0].at, "/data", 6);
	memcpy(c.mounts[1].at, "/srv/a.b", 9);
	c.mounts[1].flags = CELL_MOUNT_WRITABLE;
	return c;
}

static struct keeper_diff good_diff(void)
{
	struct keeper_diff d = { .named = { .op = KEEPER_DIFF, .id = "cell" }, .nlayers = 2 };

	memcpy(d.layer_at[0], "/", 2);
	memcpy(d.layer_at[1], "/usr", 5);
	return d;
}

/* want: NULL if the request is good, else what the message must contain. */
static void check(const char *name, const void *bytes, size_t len, size_t nfds, const char *want)
{
	struct err e = { 0 };
	void *exact = exact_copy(bytes, len);
	int got = keeper_msg_check(exact, len, nfds, serve, &e);

	free(exact);
	if (want == NULL) {
		CHECK_CASE(name, got == 0);
		return;
	}
	CHECK_CASE(name, got == -1);
	CHECK_CASE(name, e.code == ERR_INVALID);
	CHECK_HAS(name, e.msg, want);
}

static void check_create(const char *name, const struct keeper_create *c, const char *want)
{
	check(name, c, sizeof(*c), 1 + (serve ? 0 : (size_t)c->nlayers + c->nmounts), want);
}

static void takes_a_good_create(void)
{
	struct keeper_create c = good();

	check_create("as it is", &c, NULL);
	c.nlayers = 1;
	c.nmounts = 0;
	check_create("the least", &c, NULL);
	c = good();
	c.nlayers = CELL_LAYERS_MAX;
	c.nmounts = CELL_MOUNTS_MAX;
	for (unsigned i = 1; i < CELL_LAYERS_MAX; i++)
		(void)snprintf(c.layer_at[i], sizeof(c.layer_at[i]), "/layer%u", i);
	for (unsigned i = 0; i < CELL_MOUNTS_MAX; i++)
		(void)snprintf(c.mounts[i].at, sizeof(c.mounts[i].at), "/mount%u", i);
	check_create("the most", &c, NULL);
}

#define FIELD(f) offsetof(struct keeper_create, f), sizeof(((struct keeper_create *)NULL)->f)
#define REASON_KIND "unknown profile, flag or engine"
#define REASON_ENGINE "the engine needs another profile"
#define REASON_IDS "uid and gid"
#define REASON_RANGE "out of range"
#define REASON_NEEDED "must be limited"

static const struct {
	const char *name;
	size_t offset, size;
	uint64_t value;
	const char *want;
} numbers[] = {
	{ "profile standard", FIELD(profile), CELL_STANDARD, NULL },
	{ "profile locked", FIELD(profile), CELL_LOCKED, NULL },
	{ "profile beyond", FIELD(profile), CELL_PROFILES, REASON_KIND },
	{ "profile far beyond", FIELD(profile), UINT32_MAX, REASON_KIND },
	{ "all flags of containers", FIELD(flags), CELL_FLAGS_ALL & ~(CELL_KVM | CELL_WATCH_ANY),
	  NULL },
	{ "KVM without a virtual machine", FIELD(flags), CELL_KVM, "KVM is for virtual machines" },
	{ "next flag", FIELD(flags), CELL_FLAGS_ALL + 1, REASON_KIND },
	{ "last flag", FIELD(flags), 1U << 31, REASON_KIND },
	{ "engine gvisor", FIELD(engine), CELL_ENGINE_GVISOR, NULL },
	{ "engine microvm, profile standard", FIELD(engine), CELL_ENGINE_MICROVM, REASON_ENGINE },
	{ "engine beyond", FIELD(engine), CELL_ENGINES, REASON_KIND },
	{ "engine far beyond", FIELD(engine), UINT32_MAX, REASON_KIND },
	{ "uid root", FIELD(uid), 0, NULL },
	{ "uid last", FIELD(uid), CELL_IDS - 1, NULL },
	{ "uid beyond", FIELD(uid), CELL_IDS, REASON_IDS },
	{ "uid -1", FIELD(uid), UINT32_MAX, REASON_IDS },
	{ "gid last", FIELD(gid), CELL_IDS - 1, NULL },
	{ "gid beyond", FIELD(gid), CELL_IDS, REASON_IDS },
	{ "gid -1", FIELD(gid), UINT32_MAX, REASON_IDS },
	{ "no memory limit", FIELD(limits.memory_bytes), 0, NULL },
	{ "most memory", FIELD(limits.memory_bytes), UINT64_MAX / 2, NULL },
	{ "memory beyond", FIELD(limits.memory_bytes), UINT64_MAX / 2 + 1, REASON_RANGE },
	{ "no cpu limit", FIELD(limits.cpu_millis), 0, NULL },
	{ "most cpus", FIELD(limits.cpu_millis), 1000000, NULL },
	{ "cpus beyond", FIELD(limits.cpu_millis), 1000001, REASON_RANGE },
	{ "no pids limit", FIELD(limits.pids), 0, NULL },
	{ "most pids", FIELD(limits.pids), 4194304, NULL },
	{ "pids beyond", FIELD(limits.pids), 4194305, REASON_RANGE },
	{ "no disk limit", FIELD(limits.disk_bytes), 0, REASON_NEEDED },
	{ "least disk", FIELD(limits.disk_bytes), 1, NULL },
	{ "most disk", FIELD(limits.disk_bytes), UINT64_MAX / 2, NULL },
	{ "disk beyond", FIELD(limits.disk_bytes), UINT64_MAX / 2 + 1, REASON_RANGE },
	{ "disk far beyond", FIELD(limits.disk_bytes), UINT64_MAX, REASON_RANGE },
	{ "no inodes limit", FIELD(limits.inodes), 0, REASON_NEEDED },
	{ "least inodes", FIELD(limits.inodes), 1, NULL },
	{ "most inodes", FIELD(limits.inodes), UINT32_MAX, NULL },
	{ "inodes beyond", FIELD(limits.inodes), (uint64_t)UINT32_MAX + 1, REASON_RANGE },
	{ "no nofile limit", FIELD(limits.nofile), 0, REASON_NEEDED },
	{ "most nofile", FIELD(limits.nofile), 1048576, NULL },
	{ "nofile beyond", FIELD(limits.nofile), 1048577, REASON_RANGE },
	{ "mount read-only", FIELD(mounts[0].flags), 0, NULL },
	{ "mount writable", FIELD(mounts[0].flags), CELL_MOUNT_WRITABLE, NULL },
	{ "mount flag unknown", FIELD(mounts[0].flags), 2, "mount 0: invalid path or flag" },
	{ "flag of the second mount", FIELD(mounts[1].flags), 1U << 31,
	  "mount 1: invalid path or flag" },
	{ "a mount nobody counts", FIELD(mounts[2].flags), UINT32_MAX, NULL },
};

static void keeps_numbers_in_range(void)
{
	for (size_t i = 0; i < COUNT(numbers); i++) {
		struct keeper_create c = good();
		uint32_t small = (uint32_t)numbers[i].value;

		if (numbers[i].size == sizeof(small))
			memcpy((char *)&c + numbers[i].offset, &small, sizeof(small));
		else
			memcpy((char *)&c + numbers[i].offset, &numbers[i].value, sizeof(uint64_t));
		check_create(numbers[i].name, &c, numbers[i].want);
	}
}

static void counts_layers_and_mounts(void)
{
	static const struct {
		const char *name;
		uint32_t nlayers, nmounts;
		size_t nfds;
		const char *want;
	} cases[] = {
		{ "no layer", 0, 2, 3, "create: 0 layers, must be 1 to" },
		{ "too many layers", CELL_LAYERS_MAX + 1, 2, CELL_LAYERS_MAX + 4,
		  "layers, must be 1 to" },
		{ "far too many layers", UINT32_MAX, 2, 2, "layers, must be 1 to" },
		{ "too many mounts", 2, CELL_MOUNTS_MAX + 1, CELL_MOUNTS_MAX + 4,
		  "too many mounts" },
		{ "counts that wrap to two", 2, UINT32_MAX, 2, "too many mounts" },
		{ "a descriptor too few", 2, 2, 4, "4 descriptors for 2 layers and 2 mounts" },
		{ "a descriptor too many", 2, 2, 6, "6 descriptors for 2 layers and 2 mounts" },
		{ "no descriptor", 2, 2, 0, "0 descriptors" },
		{ "the right number", 2, 2, 5, NULL },
		{ "fewer of each", 1, 1, 3, NULL },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct keeper_create c = good();

		c.nlayers = cases[i].nlayers;
		c.nmounts = cases[i].nmounts;
		check(cases[i].name, &c, sizeof(c), cases[i].nfds, cases[i].want);
	}
}

/* Text with its NUL, unless size says that it has none. */
struct text_case {
	const char *name, *text;
	size_t size;
	bool ok;
};

static const struct text_case names[] = {
	{ "one letter", "a", ANY, true },
	{ "all kinds", "aZ09-x.y", ANY, true },
	{ "ends with a dash", "a-", ANY, true },
	{ "as long as allowed", "abcdefghijklmnopqrstuvwxyz0123456789-.A", CELL_ID_MAX, true },
	{ "without an end", "abcdefghijklmnopqrstuvwxyz0123456789-.AB", CELL_ID_MAX, false },
	{ "empty", "", ANY, false },
	{ "begins with a dash", "-a", ANY, false },
	{ "slash", "a/b", ANY, false },
	{ "up", "../x", ANY, false },
	{ "space", "a b", ANY, false },
	{ "newline", "a\n", ANY, false },
	{ "underscore", "a_b", ANY, false },
	{ "colon", "a:b", ANY, false },
	{ "escape", "a\x1b", ANY, false },
	{ "not ASCII", "\xc3\xa9", ANY, false },
	{ "before 0", "a/", ANY, false },
	{ "after 9", "a:", ANY, false },
	{ "before A", "a@", ANY, false },
	{ "after Z", "a[", ANY, false },
	{ "before a", "a`", ANY, false },
	{ "after z", "a{", ANY, false },
	{ "percent", "%n", ANY, false },
	{ "dollar", "$x", ANY, false },
	{ "what follows the end does not count", "ok\0/../", 8, true },
};

static void put_text(char *field, size_t cap, const struct text_case *t)
{
	size_t n = t->size == ANY ? strlen(t->text) + 1 : t->size;

	CHECK_CASE(t->name, n <= cap);
	memset(field, 0, cap);
	memcpy(field, t->text, n);
}

static void ids_are_names(void)
{
	static const uint32_t ops[] = { KEEPER_DIFF, KEEPER_DESTROY, KEEPER_FREEZE };

	for (size_t i = 0; i < COUNT(names); i++) {
		struct keeper_create c = good();

		put_text(c.id, sizeof(c.id), &names[i]);
		check_create(names[i].name, &c, names[i].ok ? NULL : "id, host name");
		for (size_t k = 0; k < COUNT(ops); k++) {
			struct keeper_diff d = { .named.op = ops[k] };

			put_text(d.named.id, sizeof(d.named.id), &names[i]);
			check(names[i].name, &d,
			      ops[k] == KEEPER_DIFF ? sizeof(d) : sizeof(d.named),
			      ops[k] == KEEPER_DIFF, names[i].ok ? NULL : "malformed id");
		}
	}
}

/* An id becomes the name of a directory: "nothing that means anything to a path". */
static void an_id_is_never_a_path(void)
{
	static const char *const bad[] = { ".", ".." };

	for (size_t i = 0; i < COUNT(bad); i++) {
		struct keeper_create c = good();
		struct keeper_named n = { .op = KEEPER_DESTROY };

		(void)snprintf(c.id, sizeof(c.id), "%s", bad[i]);
		(void)snprintf(n.id, sizeof(n.id), "%s", bad[i]);
		check_create(bad[i], &c, "id");
		check(bad[i], &n, sizeof(n), 0, "id");
	}
}

/* Cells of cordon run, which have hexadecimal ids, are not a server's to name. */
static void a_server_cannot_name_cells_of_others(void)
{
	static const char *const ids[] = { "0123456789abcdef", "869d21f01c27ac07", "a", "0" };

	for (size_t i = 0; i < 2 * COUNT(ids); i++) {
		const char *id = ids[i / 2];
		struct keeper_create c = good();
		struct keeper_diff d = good_diff();

		serve = i % 2 == 1;
		(void)snprintf(c.id, sizeof(c.id), "%s", id);
		(void)snprintf(d.named.id, sizeof(d.named.id), "%s", id);
		check_create(id, &c, serve ? "id, host name" : NULL);
		check(id, &d, sizeof(d), 1, serve ? "malformed id" : NULL);
		for (uint32_t op = KEEPER_DESTROY; op <= KEEPER_FREEZE; op++) {
			d.named.op = op;
			if (op != KEEPER_DIFF)
				check(id, &d, sizeof(d.named), 0, serve ? "malformed id" : NULL);
		}
	}
	serve = false;
}

static void host_names_are_names(void)
{
	for (size_t i = 0; i < COUNT(names); i++) {
		struct keeper_create c = good();

		put_text(c.hostname, sizeof(c.hostname), &names[i]);
		if (names[i].size != CELL_ID_MAX) /* the host name has more room */
			check_create(names[i].name, &c, names[i].ok ? NULL : "id, host name");
	}
	struct keeper_create c = good();

	memset(c.hostname, 'h', sizeof(c.hostname));
	check_create("without an end", &c, "id, host name");
	c.hostname[63] = '\0';
	check_create("63 letters", &c, NULL);
}

static const struct text_case places[] = {
	{ "one part", "/a", ANY, true },
	{ "parts", "/a/b.c/d", ANY, true },
	{ "hidden", "/.a", ANY, true },
	{ "dots that mean nothing", "/...", ANY, true },
	{ "begins with two dots", "/..a", ANY, true },
	{ "ends with two dots", "/a..", ANY, true },
	{ "not ASCII", "/\xc3\xa9", ANY, true },
	{ "empty", "", ANY, false },
	{ "relative", "a", ANY, false },
	{ "relative, up", "../a", ANY, false },
	{ "slash at the end", "/a/", ANY, false },
	{ "two slashes first", "//a", ANY, false },
	{ "two slashes later", "/a//b", ANY, false },
	{ "only slashes", "//", ANY, false },
	{ "here", "/.", ANY, false },
	{ "here first", "/./a", ANY, false },
	{ "here later", "/a/.", ANY, false },
	{ "up", "/..", ANY, false },
	{ "up first", "/../a", ANY, false },
	{ "up in the middle", "/a/../b", ANY, false },
	{ "up last", "/a/..", ANY, false },
	{ "what follows the end does not count", "/a\0/..", 7, true },
};

static void layers_have_proper_places(void)
{
	for (size_t i = 0; i < COUNT(places); i++) {
		struct keeper_create c = good();

		put_text(c.layer_at[1], sizeof(c.layer_at[1]), &places[i]);
		check_create(places[i].name, &c,
			     places[i].ok ? NULL : "layer 1: invalid path in the cell");
	}
	struct keeper_create c = good();

	memcpy(c.layer_at[1], "/", 2);
	check_create("a stack at the root", &c, NULL);
	c.nlayers = 4;
	memcpy(c.layer_at[2], "/usr", 5);
	memcpy(c.layer_at[3], "/usr", 5);
	check_create("two stacks", &c, NULL);
	memcpy(c.layer_at[3], "/", 2);
	check_create("a second root", &c, "layer 3: invalid path in the cell");
	c = good();
	memcpy(c.layer_at[0], "/usr", 5);
	check_create("the first not the root", &c, "layer 0: invalid path in the cell");
	c = good();
	memset(c.layer_at[1], 'l', sizeof(c.layer_at[1]));
	c.layer_at[1][0] = '/';
	check_create("without an end", &c, "layer 1: invalid path in the cell");
	c.layer_at[1][CELL_PLACE_MAX - 1] = '\0';
	check_create("as long as allowed", &c, NULL);
	c = good();
	memset(c.layer_at[2], 'x', sizeof(c.layer_at[2]));
	check_create("a layer nobody counts", &c, NULL);
}

static void mounts_have_proper_places(void)
{
	for (unsigned which = 0; which < 2; which++) {
		char want[64];
		struct keeper_create c;

		(void)snprintf(want, sizeof(want), "mount %u: invalid path or flag", which);
		for (size_t i = 0; i < COUNT(places); i++) {
			c = good();
			put_text(c.mounts[which].at, sizeof(c.mounts[which].at), &places[i]);
			check_create(places[i].name, &c, places[i].ok ? NULL : want);
		}
		c = good();
		memcpy(c.mounts[which].at, "/", 2);
		check_create("over the root", &c, want);
		memset(c.mounts[which].at, 'm', sizeof(c.mounts[which].at));
		c.mounts[which].at[0] = '/';
		check_create("without an end", &c, want);
		c.mounts[which].at[CELL_PATH_MAX - 1] = '\0';
		check_create("as long as allowed", &c, NULL);
	}
}

static void takes_the_exact_size_only(void)
{
	static const struct {
		uint32_t op;
		size_t size, nfds;
	} ops[] = {
		{ KEEPER_CREATE, sizeof(struct keeper_create), 5 },
		{ KEEPER_DIFF, sizeof(struct keeper_diff), 1 },
		{ KEEPER_DESTROY, sizeof(struct keeper_named), 0 },
		{ KEEPER_FREEZE, sizeof(struct keeper_named), 0 },
	};
	char bytes[sizeof(union keeper_request) + 8];

	for (size_t i = 0; i < COUNT(ops); i++) {
		struct keeper_create c = good();
		const struct keeper_named n = { .op = ops[i].op, .id = "cell" };

		memset(bytes, 0, sizeof(bytes));
		if (ops[i].op == KEEPER_CREATE)
			memcpy(bytes, &c, sizeof(c));
		else
			memcpy(bytes, &n, sizeof(n));
		for (size_t len = 0; len <= sizeof(bytes); len++) {
			bool sized = len >= sizeof(uint32_t) && len <= sizeof(union keeper_request);

			check("size", bytes, len, ops[i].nfds,
			      len == ops[i].size ? NULL
			      : sized		 ? "want"
						 : "request of");
		}
	}
}

static void knows_no_other_operation(void)
{
	static const uint32_t ops[] = { KEEPER_HELLO, KEEPER_OPS, KEEPER_OPS + 1,
					0x7fffffff,   UINT32_MAX, 0x01000000 };

	for (size_t i = 0; i < COUNT(ops); i++) {
		struct keeper_create c = good();
		struct keeper_named n = { .op = ops[i], .id = "cell" };

		c.op = ops[i];
		check("as create", &c, sizeof(c), 5, "unknown operation");
		check("as named", &n, sizeof(n), 0, "unknown operation");
		check("alone", &ops[i], sizeof(ops[i]), 0, "unknown operation");
	}
}

static void counts_descriptors_of_named_requests(void)
{
	static const struct {
		uint32_t op;
		size_t nfds;
	} ops[] = { { KEEPER_DIFF, 1 }, { KEEPER_DESTROY, 0 }, { KEEPER_FREEZE, 0 } };

	for (size_t i = 0; i < COUNT(ops); i++)
		for (size_t nfds = 0; nfds <= 32; nfds++) {
			struct keeper_diff d = { .named = { .op = ops[i].op, .id = "cell" } };

			check("named", &d, ops[i].op == KEEPER_DIFF ? sizeof(d) : sizeof(d.named),
			      nfds, nfds == ops[i].nfds ? NULL : "descriptors");
		}
}

/* A server names layers and mounts by place, and sends only channel B along. */
static void a_server_sends_places(void)
{
	struct keeper_create c = good();

	serve = true;
	takes_a_good_create();
	keeps_numbers_in_range();
	layers_have_proper_places();
	mounts_have_proper_places();
	check("no descriptor", &c, sizeof(c), 0, "0 descriptors");
	for (size_t nfds = 2; nfds <= 32; nfds++)
		check("layers by descriptor", &c, sizeof(c), nfds, "descriptors");
	/* Any place is well-formed; whether it is below its root, the kernel says. */
	c.layer_from[1].root = UINT32_MAX;
	memcpy(c.layer_from[1].path, "../a", 5);
	check_create("anywhere", &c, NULL);
	memset(c.layer_from[1].path, 'p', sizeof(c.layer_from[1].path));
	check_create("layer without an end", &c, "layer 1: invalid path in the cell");
	c = good();
	memset(c.mounts[1].from.path, 'p', sizeof(c.mounts[1].from.path));
	check_create("mount without an end", &c, "mount 1: invalid path or flag");
	c.mounts[1].from.path[CELL_PATH_MAX - 1] = '\0';
	check_create("as long as allowed", &c, NULL);
	memset(c.mounts[2].from.path, 'p', sizeof(c.mounts[2].from.path));
	check_create("a mount nobody counts", &c, NULL);
}

static void a_watched_cell_has_a_file(void)
{
	struct keeper_create c = good();

	c.flags = CELL_TRACE;
	check("traced and not watched", &c, sizeof(c), 5, "only a server watches");
	c.flags = CELL_WATCH;
	check("not of a server", &c, sizeof(c), 5, "only a server watches");
	check("not of a server, with a file", &c, sizeof(c), 6, "only a server watches");
	serve = true;
	for (size_t nfds = 0; nfds <= 32; nfds++)
		check("with a file", &c, sizeof(c), nfds, nfds == 2 ? NULL : "descriptors");
	c.flags = CELL_WATCH | CELL_TRACE;
	check("traced", &c, sizeof(c), 2, NULL);
	c.flags = CELL_WATCH_ANY;
	check("and its calls", &c, sizeof(c), 2, NULL);
	c.flags = CELL_WATCH | CELL_TRACE_CALLS;
	check("calls without programs", &c, sizeof(c), 2, "only a server watches");
	c.flags = CELL_TRACE;
	check("traced and not watched", &c, sizeof(c), 1, "only a server watches");
	c.flags = CELL_WATCH;
	c.engine = CELL_ENGINE_MICROVM;
	c.profile = CELL_LOCKED;
	check("of an engine", &c, sizeof(c), 2, "no engine");
	serve = false;
}

static void a_servers_diff_has_layers(void)
{
	struct keeper_diff d = good_diff();

	check("not needed but proper", &d, sizeof(d), 1, NULL);
	serve = true;
	check("as it is", &d, sizeof(d), 1, NULL);
	d.nlayers = 0;
	check("none", &d, sizeof(d), 1, "0 layers, must be 1 to");
	d.nlayers = CELL_LAYERS_MAX + 1;
	check("too many", &d, sizeof(d), 1, "layers, must be");
	d.nlayers = UINT32_MAX;
	check("far too many", &d, sizeof(d), 1, "layers, must be");
	d = good_diff();
	memcpy(d.layer_at[1], "/..", 4);
	check("up", &d, sizeof(d), 1, "layer 1: invalid path in the cell");
	d = good_diff();
	memset(d.layer_from[0].path, 'p', sizeof(d.layer_from[0].path));
	check("without an end", &d, sizeof(d), 1, "layer 0: invalid path in the cell");
	serve = false;
	check("without an end, for nobody", &d, sizeof(d), 1, "layer 0: invalid path in the cell");
}

static void keeps_numbers_of_named_requests(void)
{
	static const struct {
		uint32_t op, pid, on;
		bool ok;
	} cases[] = {
		{ KEEPER_FREEZE, 1, 0, true },		 { KEEPER_FREEZE, 1, 1, true },
		{ KEEPER_FREEZE, 1, 2, false },		 { KEEPER_FREEZE, 1, UINT32_MAX, false },
		{ KEEPER_DESTROY, INT32_MAX, 0, true },	 { KEEPER_DESTROY, 1, 1, false },
		{ KEEPER_DESTROY, 1U << 31, 0, false },	 { KEEPER_DESTROY, UINT32_MAX, 0, false },
		{ KEEPER_FREEZE, UINT32_MAX, 1, false },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct keeper_named n = {
			.op = cases[i].op, .pid = cases[i].pid, .on = cases[i].on, .id = "cell"
		};

		check("number", &n, sizeof(n), 0, cases[i].ok ? NULL : "number out of range");
	}
	struct keeper_diff d = good_diff();

	d.named.on = 1;
	check("on of a diff", &d, sizeof(d), 1, "number out of range");
}

static void names_profiles(void)
{
	CHECK_STR(cell_profile_name(CELL_STANDARD), "standard");
	CHECK_STR(cell_profile_name(CELL_LOCKED), "locked");
	CHECK_STR(cell_profile_name(CELL_PROFILES), "unknown");
}

TEST_MAIN({ "takes a good create", takes_a_good_create },
	  { "keeps numbers in range", keeps_numbers_in_range },
	  { "counts layers and mounts", counts_layers_and_mounts },
	  { "ids are names", ids_are_names },
	  { "a server cannot name cells of others", a_server_cannot_name_cells_of_others },
	  { "an id is never a path", an_id_is_never_a_path },
	  { "host names are names", host_names_are_names },
	  { "layers have proper places", layers_have_proper_places },
	  { "mounts have proper places", mounts_have_proper_places },
	  { "takes the exact size only", takes_the_exact_size_only },
	  { "knows no other operation", knows_no_other_operation },
	  { "counts descriptors of named requests", counts_descriptors_of_named_requests },
	  { "a server sends places", a_server_sends_places },
	  { "a watched cell has a file", a_watched_cell_has_a_file },
	  { "a server's diff has layers", a_servers_diff_has_layers },
	  { "keeps numbers of named requests", keeps_numbers_of_named_requests },
	  { "names profiles", names_profiles })
