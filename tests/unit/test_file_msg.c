/* Goal: what a built-in says arrives as it was said, and of what a cell that took one over says,
 * only what has the exact layout and sane values gets through. */
#include "lib/wire/file_msg.h"

#include "support.h"

static char long_path[FILE_MSG_PATH_MAX], long_name[FILE_MSG_NAME_MAX];

static struct file_msg entry(void)
{
	return (struct file_msg){ .kind = FILE_MSG_ENTRY,
				  .entry = { .type = FILE_MSG_SYMLINK,
					     .flags = FILE_MSG_EXISTED,
					     .mode = 07777,
					     .uid = 1000,
					     .gid = UINT32_MAX,
					     .size = INT64_MAX,
					     .mtime_ns = -5,
					     .owner = "user",
					     .group = "",
					     .path = "/a/b\n\xff",
					     .target = "../x",
					     .resolved = "/real/x",
					     .target_type = FILE_MSG_DIR,
					     .target_mode = 0755,
					     .abs = "/a/link/b" } };
}

static struct file_msg process(void)
{
	return (struct file_msg){ .kind = FILE_MSG_PROCESS,
				  .process = { .pid = 7,
					       .ppid = 0,
					       .uid = 0,
					       .state = 'S',
					       .start_ms = 1234567890123,
					       .rss_bytes = 1,
					       .cpu_us = 2,
					       .mark = UINT64_MAX,
					       .name = "a) (b",
					       .command = "sleep 1" } };
}

static struct file_msg event(void)
{
	return (struct file_msg){
		.kind = FILE_MSG_EVENT,
		.event = { .what = FILE_MSG_RENAME, .is_dir = 1, .path = "a", .to = "b" }
	};
}

/* Writes and reads a message from a buffer of exactly its size, which *ret_bytes keeps alive. */
static struct file_msg through(const struct file_msg *m, uint8_t **ret_bytes)
{
	uint8_t bytes[FILE_MSG_MAX];
	size_t n = file_msg_write(m, bytes);
	struct file_msg r = { .kind = 0 };
	struct err e = { 0 };

	CHECK(n >= FILE_MSG_HEAD && n <= sizeof(bytes));
	*ret_bytes = exact_copy(bytes, n);
	CHECK(file_msg_next(*ret_bytes, n, &r, &e) == (int)n && r.kind == m->kind);
	for (size_t less = 0; less < n; less++) {
		uint8_t *part = exact_copy(bytes, less);
		struct file_msg untouched = { .kind = FILE_MSG_KINDS };

		CHECK(file_msg_next(part, less, &untouched, &e) == 0);
		CHECK(untouched.kind == FILE_MSG_KINDS);
		free(part);
	}
	return r;
}

static void entries(void)
{
	struct file_msg m = entry(), r;
	uint8_t *bytes;

	r = through(&m, &bytes);
	CHECK(r.entry.type == m.entry.type && r.entry.flags == m.entry.flags &&
	      r.entry.mode == m.entry.mode && r.entry.uid == m.entry.uid &&
	      r.entry.gid == m.entry.gid && r.entry.size == m.entry.size &&
	      r.entry.mtime_ns == m.entry.mtime_ns);
	CHECK_STR(r.entry.owner, m.entry.owner);
	CHECK_STR(r.entry.group, m.entry.group);
	CHECK_STR(r.entry.path, m.entry.path);
	CHECK_STR(r.entry.target, m.entry.target);
	CHECK_STR(r.entry.resolved, m.entry.resolved);
	CHECK_STR(r.entry.abs, m.entry.abs);
	CHECK(r.entry.target_type == FILE_MSG_DIR && r.entry.target_mode == 0755 &&
	      r.entry.meta.len == 0);
	free(bytes);
}

static void metadata(void)
{
	struct file_msg m = entry(), r;
	uint8_t packed[FILE_META_PACKED_MAX], *bytes;
	const char *key, *value;
	size_t len = 0, at = 0;

	CHECK(file_meta_add(packed, &len, "author", "me") && file_meta_add(packed, &len, "k", ""));
	m.entry.meta = (struct file_meta){ packed, len };
	r = through(&m, &bytes);
	CHECK(file_meta_next(&r.entry.meta, &at, &key, &value));
	CHECK_STR(key, "author");
	CHECK_STR(value, "me");
	CHECK(file_meta_next(&r.entry.meta, &at, &key, &value));
	CHECK_STR(key, "k");
	CHECK_STR(value, "");
	CHECK(!file_meta_next(&r.entry.meta, &at, &key, &value));
	free(bytes);
}

/* A cell that was made before an upgrade says entries of version 1. */
static void entries_of_version_1(void)
{
	static const uint8_t old[] = "\x36\0\0\0\x02"
				     "\x01\x02\x01\0\xa4\x01\0\0\xe8\x03\0\0\xe9\x03\0\0"
				     "\x05\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0"
				     "\x04\0user\0\x00\0\0\x03\0/ab\0\x03\0abc";
	uint8_t *copy = exact_copy(old, sizeof(old));
	struct file_msg r;
	struct err e = { 0 };

	CHECK(sizeof(old) == FILE_MSG_HEAD + 0x36);
	CHECK(file_msg_next(copy, sizeof(old), &r, &e) == (int)sizeof(old));
	CHECK(r.kind == FILE_MSG_ENTRY && r.entry.type == FILE_MSG_SYMLINK &&
	      r.entry.flags == FILE_MSG_EXISTED && r.entry.mode == 0644 && r.entry.uid == 1000 &&
	      r.entry.gid == 1001 && r.entry.size == 5 && r.entry.mtime_ns == 7);
	CHECK_STR(r.entry.owner, "user");
	CHECK_STR(r.entry.path, "/ab");
	CHECK_STR(r.entry.target, "abc");
	CHECK_STR(r.entry.resolved, "");
	CHECK_STR(r.entry.abs, "");
	CHECK(r.entry.meta.len == 0 && r.entry.target_type == 0 && r.entry.target_mode == 0);
	/* And with what only version 2 has behind it: no. */
	copy[FILE_MSG_HEAD] = 2;
	CHECK(file_msg_next(copy, sizeof(old), &r, &e) == -1);
	free(copy);
}

static void other_kinds(void)
{
	struct file_msg m = event(), r;
	uint8_t *bytes;

	r = through(&m, &bytes);
	CHECK(r.event.what == FILE_MSG_RENAME && r.event.is_dir == 1);
	CHECK_STR(r.event.path, "a");
	CHECK_STR(r.event.to, "b");
	CHECK(r.event.has_entry == 0);
	free(bytes);
	m.event = (struct file_msg_event){ .what = FILE_MSG_WRITE, .has_entry = 1, .path = "a" };
	r = through(&m, &bytes);
	CHECK(r.event.is_dir == 0 && r.event.has_entry == 1);
	CHECK_STR(r.event.to, "");
	free(bytes);
	m = process();
	r = through(&m, &bytes);
	CHECK(r.process.pid == 7 && r.process.ppid == 0 && r.process.uid == 0 &&
	      r.process.state == 'S' && r.process.start_ms == 1234567890123 &&
	      r.process.rss_bytes == 1 && r.process.cpu_us == 2 && r.process.mark == UINT64_MAX);
	CHECK_STR(r.process.name, "a) (b");
	CHECK_STR(r.process.command, "sleep 1");
	free(bytes);
	m = (struct file_msg){ .kind = FILE_MSG_DATA, .data = { 1ULL << 40 } };
	r = through(&m, &bytes);
	CHECK(r.data.len == 1ULL << 40);
	free(bytes);
	m = (struct file_msg){ .kind = FILE_MSG_END, .end = { FILE_MSG_TRUNCATED, 1, 2, 3 } };
	r = through(&m, &bytes);
	CHECK(r.end.flags == FILE_MSG_TRUNCATED && r.end.count == 1 && r.end.bytes == 2 &&
	      r.end.skipped == 3);
	free(bytes);
	m = (struct file_msg){ .kind = FILE_MSG_READY };
	(void)through(&m, &bytes);
	free(bytes);
}

static void errors_are_safe_to_print(void)
{
	struct file_msg m = { .kind = FILE_MSG_ERROR, .error = { ERR_DENIED, 13, "no\x1b[2J\n" } };
	struct file_msg r;
	uint8_t *bytes;

	r = through(&m, &bytes);
	CHECK(r.error.code == ERR_DENIED && r.error.sys == 13);
	CHECK(strchr(r.error.msg, 0x1b) == NULL && strchr(r.error.msg, '\n') == NULL);
	CHECK(strncmp(r.error.msg, "no", 2) == 0);
	free(bytes);
}

static void bounds_of_strings(void)
{
	static char long_value[FILE_META_VALUE_MAX];
	uint8_t bytes[FILE_MSG_MAX], packed[FILE_META_PACKED_MAX];
	struct file_msg m = entry(), r;
	uint8_t *copy;
	size_t len = 0;

	memset(long_path, 'p', sizeof(long_path) - 1);
	memset(long_name, 'n', sizeof(long_name) - 1);
	memset(long_value, 'v', FILE_META_TOTAL_MAX - 2 * (FILE_META_PAIRS_MAX - 1) - 2);
	for (unsigned i = 0; i < FILE_META_PAIRS_MAX; i++) {
		const char key[] = { (char)('A' + i / 16), (char)('a' + i % 16), '\0' };

		CHECK(file_meta_add(packed, &len, key, i == 0 ? long_value : ""));
	}
	m.entry.path = m.entry.target = long_path;
	m.entry.owner = m.entry.group = long_name;
	long_path[0] = '/';
	m.entry.abs = m.entry.resolved = long_path;
	m.entry.meta = (struct file_meta){ packed, len };
	CHECK(len == FILE_META_PACKED_MAX);
	r = through(&m, &copy); /* the largest there is */
	CHECK_STR(r.entry.target, long_path);
	CHECK_STR(r.entry.abs, long_path);
	CHECK(r.entry.meta.len == len && memcmp(r.entry.meta.bytes, packed, len) == 0);
	free(copy);
	m.entry.owner = long_path;
	CHECK(file_msg_write(&m, bytes) == 0);
	m.entry.owner = "";
	m.entry.path = "";
	CHECK(file_msg_write(&m, bytes) > 0); /* and refused by who reads it: see below */
}

/* The message with one byte of its body changed is refused. */
static void refuse(const char *name, const struct file_msg *m, size_t at, uint8_t value)
{
	uint8_t bytes[FILE_MSG_MAX];
	size_t n = file_msg_write(m, bytes);
	struct file_msg r = { .kind = FILE_MSG_KINDS };
	struct err e = { 0 };

	CHECK_CASE(name, n > FILE_MSG_HEAD + at && bytes[FILE_MSG_HEAD + at] != value);
	bytes[FILE_MSG_HEAD + at] = value;
	uint8_t *copy = exact_copy(bytes, n);
	CHECK_CASE(name, file_msg_next(copy, n, &r, &e) == -1);
	CHECK_CASE(name, e.code == ERR_INVALID && r.kind == FILE_MSG_KINDS);
	free(copy);
}

/* What version 2 added: type and mode of the target, resolved, abs, metadata. */
static void refuse_more(void)
{
	struct file_msg m = entry();
	uint8_t packed[FILE_META_PACKED_MAX];
	size_t len = 0, at;

	m.entry.owner = m.entry.group = "";
	m.entry.path = "p";
	m.entry.target = "t";
	at = 32 + 3 + 3 + 4 + 4;
	CHECK(file_meta_add(packed, &len, "k", "v") && file_meta_add(packed, &len, "l", "v"));
	m.entry.meta = (struct file_meta){ packed, len };
	refuse("type of the target", &m, at, FILE_MSG_TYPES);
	refuse("mode of the target", &m, at + 2, 0x10);
	refuse("resolved is relative", &m, at + 7, 'x');
	at += 5 + 2 + sizeof("/real/x");
	refuse("abs is relative", &m, at + 2, 'x');
	at += 2 + sizeof("/a/link/b");
	refuse("length of metadata", &m, at, (uint8_t)(len - 1));
	refuse("length of metadata, more", &m, at, (uint8_t)(len + 1));
	refuse("length of metadata, far more", &m, at + 1, 0xff);
	refuse("empty key", &m, at + 2, 0);
	refuse("key twice", &m, at + 2 + len / 2 + 2, 'k');
	refuse("NUL in a value", &m, at + 2 + 6, 0);
	m.entry.type = FILE_MSG_FILE;
	m.entry.target = "";
	refuse("resolved without being a link", &m, 0, 3);
	m.entry.type = FILE_MSG_SYMLINK;
	m.entry.resolved = "";
	m.entry.target_mode = 0;
	m.entry.target_type = 0;
	refuse("what it leads to, but not where", &m, 32 + 3 + 3 + 4 + 3, FILE_MSG_DIR);
}

static void values_out_of_range(void)
{
	struct file_msg m = entry();

	refuse("version", &m, 0, 3);
	refuse("no version", &m, 0, 0);
	refuse("version 1 with more behind it", &m, 0, 1);
	refuse("type", &m, 1, FILE_MSG_TYPES);
	refuse("target of a file", &m, 1, FILE_MSG_FILE);
	refuse("flags", &m, 2, 0xff);
	refuse("mode", &m, 5, 0x10);
	refuse("size", &m, 23, 0x80);
	refuse("length of a string", &m, 32, 3);
	refuse("length of a string, more", &m, 32, 5);
	refuse("length of a string, far more", &m, 33, 0xff);
	refuse("NUL in a string", &m, 35, 0);
	refuse("no NUL", &m, 38, 'x');
	refuse_more();
	m.entry.path = "";
	m.entry.owner = "";
	refuse("no path", &m, 0, 3);
	m = event();
	refuse("what", &m, 0, FILE_MSG_WHATS);
	refuse("target of no rename", &m, 0, FILE_MSG_CREATE);
	refuse("flags of an event", &m, 1, 5);
	m.event.to = "";
	refuse("an entry of what left", &m, 1, 3);
	m.event.what = FILE_MSG_REMOVE;
	refuse("an entry of what was removed", &m, 1, 3);
	m = process();
	refuse("pid 0", &m, 0, 0);
	refuse("negative pid", &m, 3, 0x80);
	refuse("state", &m, 12, 0x1b);
	m = (struct file_msg){ .kind = FILE_MSG_END };
	refuse("end flags", &m, 0, 2);
	m = (struct file_msg){ .kind = FILE_MSG_DATA };
	refuse("negative length", &m, 7, 0x80);
	m = (struct file_msg){ .kind = FILE_MSG_ERROR, .error = { ERR_SYSTEM, 1, "x" } };
	refuse("no error", &m, 0, ERR_NONE);
	refuse("unknown code", &m, 0, ERR_CODES);
	refuse("errno", &m, 2, 0x10);
}

static void no_path_is_refused(void)
{
	struct file_msg m = entry(), r = { .kind = FILE_MSG_KINDS };
	uint8_t bytes[FILE_MSG_MAX];
	struct err e = { 0 };
	size_t n;

	m.entry.path = "";
	n = file_msg_write(&m, bytes);
	CHECK(n > 0 && file_msg_next(bytes, n, &r, &e) == -1 && e.code == ERR_INVALID);
}

static void heads(void)
{
	static const struct {
		const char *name;
		uint8_t head[FILE_MSG_HEAD];
	} bad[] = {
		{ "kind 0", { 0, 0, 0, 0, 0 } },
		{ "kind too large", { 0, 0, 0, 0, FILE_MSG_KINDS } },
		{ "body too large", { 1, 0x54, 0, 0, FILE_MSG_ENTRY } },
		{ "body far too large", { 0xff, 0xff, 0xff, 0xff, FILE_MSG_ENTRY } },
		{ "no body", { 0, 0, 0, 0, FILE_MSG_END } },
	};
	struct file_msg r;
	struct err e = { 0 };
	/* READY with a byte too many. */
	static const uint8_t more[] = { 1, 0, 0, 0, FILE_MSG_READY, 0 };

	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK_CASE(bad[i].name, file_msg_next(bad[i].head, FILE_MSG_HEAD, &r, &e) == -1 &&
						e.code == ERR_INVALID);
	CHECK(file_msg_next(more, sizeof(more), &r, &e) == -1);
}

static void chunk_heads(void)
{
	uint8_t head[FILE_MSG_CHUNK_HEAD];

	file_msg_chunk_write(head, 0x10203);
	CHECK(head[0] == 3 && head[1] == 2 && head[2] == 1 && head[3] == 0);
	CHECK(file_msg_chunk_read(head) == 0x10203);
	file_msg_chunk_write(head, 0);
	CHECK(file_msg_chunk_read(head) == 0);
	file_msg_chunk_write(head, FILE_MSG_CHUNK_MAX);
	CHECK(file_msg_chunk_read(head) == FILE_MSG_CHUNK_MAX);
	file_msg_chunk_write(head, FILE_MSG_CHUNK_MAX + 1);
	CHECK(file_msg_chunk_read(head) == -1);
	file_msg_chunk_write(head, UINT32_MAX);
	CHECK(file_msg_chunk_read(head) == -1);
}

static void words(void)
{
	for (int i = 0; i < FILE_MSG_TYPES; i++)
		CHECK(strcmp(file_msg_type_name((enum file_msg_type)i), "unknown") != 0);
	for (int i = 0; i < FILE_MSG_WHATS; i++)
		CHECK(strcmp(file_msg_what_name((enum file_msg_what)i), "unknown") != 0);
	CHECK_STR(file_msg_type_name(FILE_MSG_DIR), "directory");
	CHECK_STR(file_msg_what_name(FILE_MSG_GONE), "gone");
}

TEST_MAIN({ "entries arrive", entries }, { "metadata arrives", metadata },
	  { "entries of version 1 are read", entries_of_version_1 },
	  { "all other kinds arrive", other_kinds },
	  { "errors are safe to print", errors_are_safe_to_print },
	  { "strings have bounds", bounds_of_strings },
	  { "values out of range are refused", values_out_of_range },
	  { "an entry has a path", no_path_is_refused }, { "malformed heads are refused", heads },
	  { "heads of chunks", chunk_heads }, { "every value has a word", words })
