/* Goal: of all that can be sent to cordon-storage, exactly the well-formed requests get in.
 *
 * Each rule is broken alone in a request that is good otherwise, and must be named as the reason.
 */
#include "lib/wire/storage_msg.h"

#include "support.h"

static union storage_request good(enum storage_op op)
{
	union storage_request r;

	memset(&r, 0, sizeof(r));
	r.head = (struct storage_head){ .op = op, .deadline_ms = 1000, .job = 7 };
	if (op == STORAGE_UNPACK) {
		r.unpack.bytes_max = 1 << 20;
		r.unpack.entries_max = 100;
		memcpy(r.unpack.layer, "lay_0abc", 9);
		r.unpack.nlower = STORAGE_STACK_MAX;
		for (int i = 0; i < STORAGE_STACK_MAX; i++)
			memcpy(r.unpack.lower[i], "lay-1", 6);
	} else if (op == STORAGE_REMOVE) {
		memcpy(r.remove.layer, "l", 2);
	} else if (op == STORAGE_FOLD) {
		r.fold.nfrom = 2;
		r.fold.flags = STORAGE_FOLD_BOTTOM;
		memcpy(r.fold.layer, "lay_c", 6);
		memcpy(r.fold.from[0], "lay_a", 6);
		memcpy(r.fold.from[1], "lay_b", 6);
	}
	return r;
}

static size_t size_of(enum storage_op op)
{
	return op == STORAGE_UNPACK   ? sizeof(struct storage_unpack)
	       : op == STORAGE_REMOVE ? sizeof(struct storage_remove)
	       : op == STORAGE_LIST   ? sizeof(struct storage_list)
				      : sizeof(struct storage_fold);
}

static size_t nfds_of(enum storage_op op)
{
	return op == STORAGE_UNPACK || op == STORAGE_LIST;
}

/* want: NULL if the request is good, else what the message must contain. */
static void check(const char *name, const union storage_request *r, size_t len, size_t nfds,
		  const char *want)
{
	struct err e = { 0 };
	void *exact = exact_copy(r, len);
	int got = storage_msg_check(exact, len, nfds, &e);

	free(exact);
	CHECK_CASE(name, got == (want == NULL ? 0 : -1));
	if (want != NULL) {
		CHECK_CASE(name, e.code == ERR_INVALID);
		CHECK_HAS(name, e.msg, want);
	}
}

static void test_shapes(void)
{
	for (enum storage_op op = STORAGE_UNPACK; op <= STORAGE_FOLD; op++) {
		union storage_request r = good(op);
		size_t n = size_of(op), fds = nfds_of(op);

		check("good", &r, n, fds, NULL);
		check("short", &r, n - 1, fds, "bytes");
		check("another count of descriptors", &r, n, fds + 1, "descriptors");
		r.head.job = 0;
		check("no job", &r, n, fds, "no job");
		r = good(op);
		r.head.deadline_ms = 0;
		check("no deadline", &r, n, fds, "no deadline");
		r.head.deadline_ms = UINT32_MAX;
		check("deadline too far", &r, n, fds, "no deadline");
	}
}

static void test_operations(void)
{
	union storage_request r = good(STORAGE_LIST);

	r.head.op = STORAGE_HELLO;
	check("hello is no request", &r, sizeof(r.list), 0, "unknown operation");
	r.head.op = STORAGE_OPS;
	check("unknown", &r, sizeof(r.list), 0, "unknown operation");
	check("empty", &r, 0, 0, "0 bytes");
}

static void test_spool(void)
{
	union storage_request r = { .spool = { .head = { STORAGE_SPOOL, 1000, 1 },
					       .bytes_max = 1 } };
	size_t n = sizeof(r.spool);

	check("spool", &r, n, 1, NULL);
	check("spool without a pipe", &r, n, 0, "descriptors");
	r.spool.reserve_percent = 101;
	check("reserve", &r, n, 1, "limit");
	r.spool.reserve_percent = 100;
	r.spool.bytes_max = 0;
	check("no bytes", &r, n, 1, "limit");
	r.spool.bytes_max = 1;
	r.spool.flags = STORAGE_SPOOL_FILE;
	check("spool to a file", &r, n, 2, NULL);
	check("spool without the file", &r, n, 1, "descriptors");
	r.spool.flags = STORAGE_SPOOL_FLAGS + 1;
	check("spool with a flag", &r, n, 1, "flag");
	CHECK(storage_msg_is_stream(&r));
	r = good(STORAGE_UNPACK);
	CHECK(!storage_msg_is_stream(&r));
	r.unpack.flags = STORAGE_FROM_REGISTRY;
	CHECK(storage_msg_is_stream(&r));
}

static void test_unpack(void)
{
	union storage_request r = good(STORAGE_UNPACK);
	size_t n = sizeof(r.unpack);

	r.unpack.format = STORAGE_FORMATS;
	check("format", &r, n, 1, "format");
	r = good(STORAGE_UNPACK);
	r.unpack.flags = STORAGE_UNPACK_FLAGS + 1;
	check("flag", &r, n, 1, "flag");
	r = good(STORAGE_UNPACK);
	r.unpack.bytes_max = 0;
	check("no bytes", &r, n, 1, "limit");
	r.unpack.bytes_max = UINT64_MAX;
	check("too many bytes", &r, n, 1, "limit");
	r = good(STORAGE_UNPACK);
	r.unpack.entries_max = 0;
	check("no entries", &r, n, 1, "limit");
	r = good(STORAGE_UNPACK);
	r.unpack.silence_ms = UINT32_MAX;
	check("a long silence", &r, n, 1, "limit");
	r = good(STORAGE_UNPACK);
	r.unpack.flags = STORAGE_NAME;
	check("names, and no search", &r, n, 2, "no search");
	r.unpack.flags = STORAGE_NAME | STORAGE_SEARCH;
	check("nowhere to write names", &r, n, 2, "descriptors");
	check("names", &r, n, 3, NULL);
	r = good(STORAGE_UNPACK);
	memcpy(r.unpack.at[1], "usr/x", 6);
	check("a place with a slash", &r, n, 1, "place");
	r = good(STORAGE_UNPACK);
	memcpy(r.unpack.at[0], "usr", 4);
	check("a name of the first place", &r, n, 1, "place");
	r = good(STORAGE_UNPACK);
	r.unpack.nlower = STORAGE_STACK_MAX + 1;
	check("too many below", &r, n, 1, "layers");
	r = good(STORAGE_UNPACK);
	r.unpack.lower[STORAGE_STACK_MAX - 1][0] = '\0';
	check("an empty id below", &r, n, 1, "malformed id");
}

static void test_fold(void)
{
	union storage_request r = good(STORAGE_FOLD);

	r.fold.nfrom = 0;
	check("of nothing", &r, sizeof(r.fold), 0, "no layers");
	r.fold.nfrom = UINT32_MAX;
	check("of too many", &r, sizeof(r.fold), 0, "layers");
	r = good(STORAGE_FOLD);
	r.fold.nbelow = 1;
	check("above one that stays", &r, sizeof(r.fold), 0, NULL);
	r.fold.nbelow = 2;
	check("all of them stay", &r, sizeof(r.fold), 0, "that stay");
	r = good(STORAGE_FOLD);
	r.fold.flags = 0;
	check("no flag", &r, sizeof(r.fold), 0, "flag");
	r.fold.flags = STORAGE_FOLD_BOTTOM | STORAGE_FOLD_HOST;
	check("two flags", &r, sizeof(r.fold), 0, "flag");
	r.fold.flags = STORAGE_FOLD_HOST;
	check("above no root directory", &r, sizeof(r.fold), 0, "base");
	memcpy(r.fold.base, "host-1", 7);
	check("above the host template", &r, sizeof(r.fold), 0, NULL);
	memcpy(r.fold.base, "../host", 8);
	check("above a path", &r, sizeof(r.fold), 0, "base");
	memset(r.fold.base, 0, sizeof(r.fold.base));
	r.fold.flags = STORAGE_FOLD_DIR;
	check("above nothing", &r, sizeof(r.fold), 0, "base");
	memcpy(r.fold.base, "debian", 7);
	check("above a template", &r, sizeof(r.fold), 0, NULL);
	memcpy(r.fold.base, "..", 3);
	check("above the templates", &r, sizeof(r.fold), 0, "base");
	memcpy(r.fold.base, "a/b", 4);
	check("above a path", &r, sizeof(r.fold), 0, "base");
	memset(r.fold.base, 'b', sizeof(r.fold.base));
	check("a base without an end", &r, sizeof(r.fold), 0, "base");
	r = good(STORAGE_FOLD);
	memcpy(r.fold.base, "debian", 7);
	check("a base that nobody needs", &r, sizeof(r.fold), 0, "base");
	r = good(STORAGE_FOLD);
	memcpy(r.fold.from[1], "../x", 5);
	check("a path", &r, sizeof(r.fold), 0, "malformed id");
}

static void test_root(void)
{
	union storage_request r = { .root = { .head = { STORAGE_ROOT_MAKE, 1000, 1 },
					      .flags = STORAGE_FOLD_HOST,
					      .bytes_max = 1,
					      .layer = "lay_r",
					      .base = "host-1",
					      .at = { "", "usr" } } };
	size_t n = sizeof(r.root);

	check("a root image of the host template", &r, n, 0, NULL);
	memcpy(r.root.at[1], "a/b", 4);
	check("a path as a place", &r, n, 0, "place");
	memcpy(r.root.at[1], "..", 3);
	check("above as a place", &r, n, 0, "place");
	memset(r.root.at[1], 'x', sizeof(r.root.at[1]));
	check("a place without an end", &r, n, 0, "place");
	memset(r.root.at[1], 0, sizeof(r.root.at[1]));
	r.root.at[0][0] = 'u';
	check("no root directory", &r, n, 0, "place");
	r.root.at[0][0] = '\0';
	r.root.bytes_max = 0;
	check("a root image of no bytes", &r, n, 0, "limit");
	r.root.bytes_max = 1;
	r.root.flags = STORAGE_FOLD_BOTTOM;
	memset(r.root.base, 0, sizeof(r.root.base));
	check("a root image of nothing", &r, n, 0, "no layers");
	r.root.nfrom = 1;
	check("without an id", &r, n, 0, "malformed id");
	memcpy(r.root.from[0], "lay_a", 6);
	check("a root image of a layer", &r, n, 0, NULL);
	r.root.reserve_percent = 101;
	check("a reserve beyond the disk", &r, n, 0, "limit");
}

static void test_memory(void)
{
	union storage_request r = { .memory = { .head = { STORAGE_MEMORY_SAVE, 1000, 1 },
						.bytes_max = 1,
						.layer = "lay_m" } };
	size_t n = sizeof(r.memory);

	check("memory", &r, n, 2, NULL);
	check("memory without devices", &r, n, 1, "descriptors");
	r.memory.bytes_max = 0;
	check("memory of no bytes", &r, n, 2, "limit");
	r.head.op = STORAGE_MEMORY_LOAD;
	check("load", &r, n, 2, NULL);
	memcpy(r.memory.layer, "../x", 5);
	check("load a path", &r, n, 2, "malformed id");
	r.head.op = STORAGE_MEMORY_COPY;
	r.memory.bytes_max = 1;
	check("copy as a layer", &r, n, 4, "no layer");
	memset(r.memory.layer, 0, sizeof(r.memory.layer));
	check("copy", &r, n, 4, NULL);
	check("copy into nothing", &r, n, 2, "descriptors");
	r.memory.bytes_max = 0;
	check("copy of no bytes", &r, n, 4, "limit");
}

static void test_ids(void)
{
	static const struct {
		const char *id;
		bool good;
	} table[] = {
		{ "a", true },	  { "lay_00-Z", true }, { "", false },	    { ".", false },
		{ "..", false },  { ".new-1", false },	{ "0a", false },    { "a/b", false },
		{ "a.b", false }, { "a b", false },	{ "a\xff", false }, { "_a", false },
		{ "-a", false },  { "a\n", false },	{ "@", false },	    { "[", false },
	};
	char longest[STORAGE_ID_MAX + 1];

	for (size_t i = 0; i < COUNT(table); i++) {
		char id[STORAGE_ID_MAX] = { 0 };

		memcpy(id, table[i].id, strlen(table[i].id));
		CHECK_CASE(table[i].id, storage_msg_is_id(id, sizeof(id)) == table[i].good);
	}
	memset(longest, 'a', sizeof(longest));
	CHECK(!storage_msg_is_id(longest, STORAGE_ID_MAX)); /* has no end */
	longest[STORAGE_ID_MAX - 1] = '\0';
	CHECK(storage_msg_is_id(longest, STORAGE_ID_MAX));
}

static void test_replies(void)
{
	struct storage_reply r = { .op = STORAGE_LIST, .version = STORAGE_VERSION };
	struct err e = { 0 };

	CHECK(storage_msg_check_reply(&r, sizeof(r), &e) == 0);
	CHECK(storage_msg_check_reply(&r, sizeof(r) - 1, &e) < 0);
	r.err.code = (enum err_code)99;
	memset(r.err.msg, '\x01', sizeof(r.err.msg));
	CHECK(storage_msg_check_reply(&r, sizeof(r), &e) == 0);
	CHECK(r.err.code == ERR_SYSTEM && r.err.msg[0] == '?' &&
	      r.err.msg[sizeof(r.err.msg) - 1] == '\0');
	r.version++;
	CHECK(storage_msg_check_reply(&r, sizeof(r), &e) < 0);
}

TEST_MAIN({ "each request has its size and descriptors", test_shapes },
	  { "knows no other operation", test_operations }, { "an unpack has bounds", test_unpack },
	  { "an upload has bounds", test_spool }, { "a fold has layers", test_fold },
	  { "a root image has bounds", test_root }, { "a memory image has two parts", test_memory },
	  { "an id is never a path", test_ids }, { "answers are made safe", test_replies })
