/* Goal: what E2B's clients are told of files, to the letter: entries, modes as Go writes them,
 * headers of answers; and what they may say in the head of a request. */
#include "front/e2b/base/condition.h"
#include "front/e2b/envd/entry_info.h"
#include "front/e2b/envd/files_head.h"

#include "support.h"

/* ---- entries */

static const struct file_msg_entry plain = { .type = FILE_MSG_FILE,
					     .mode = 0644,
					     .uid = 1000,
					     .gid = 1000,
					     .size = 5,
					     .mtime_ns = 1700000000123456789,
					     .owner = "user",
					     .group = "user",
					     .path = "/home/user/a",
					     .target = "",
					     .resolved = "",
					     .abs = "/home/user/a" };

static void permissions(void)
{
	static const struct {
		uint8_t type;
		uint32_t mode;
		const char *want;
	} t[] = {
		{ FILE_MSG_FILE, 0644, "-rw-r--r--" },	  { FILE_MSG_FILE, 0, "----------" },
		{ FILE_MSG_FILE, 0777, "-rwxrwxrwx" },	  { FILE_MSG_FILE, 04755, "urwxr-xr-x" },
		{ FILE_MSG_FILE, 06755, "ugrwxr-xr-x" },  { FILE_MSG_DIR, 0755, "drwxr-xr-x" },
		{ FILE_MSG_DIR, 01777, "dtrwxrwxrwx" },	  { FILE_MSG_DIR, 02775, "dgrwxrwxr-x" },
		{ FILE_MSG_SYMLINK, 0777, "Lrwxrwxrwx" }, { FILE_MSG_FIFO, 0600, "prw-------" },
		{ FILE_MSG_SOCKET, 0755, "Srwxr-xr-x" },  { FILE_MSG_CHAR, 0666, "Dcrw-rw-rw-" },
		{ FILE_MSG_BLOCK, 0660, "Drw-rw----" },	  { FILE_MSG_DIR, 07777, "dugtrwxrwxrwx" },
	};
	char text[ENTRY_INFO_PERMISSIONS_MAX];

	for (size_t i = 0; i < COUNT(t); i++) {
		struct file_msg_entry m = plain;

		m.type = t[i].type;
		m.mode = t[i].mode;
		entry_info_permissions(&m, text);
		CHECK_STR(text, t[i].want);
	}
}

static void check_shape(const struct file_msg_entry *m, const char *path, const char *want)
{
	char text[4096];
	struct json j;

	json_init(&j, text, sizeof(text));
	entry_info_shape(&j, NULL, m, path);
	CHECK(json_ok(&j));
	CHECK_STR(text, want);
}

static void entries(void)
{
	struct file_msg_entry m = plain;

	check_shape(&m, "/home/user/a",
		    "{\"name\":\"a\",\"type\":\"FILE_TYPE_FILE\",\"path\":\"/home/user/a\","
		    "\"size\":\"5\",\"mode\":420,\"permissions\":\"-rw-r--r--\",\"owner\":\"user\","
		    "\"group\":\"user\",\"modifiedTime\":\"2023-11-14T22:13:20.123456789Z\"}");
	m = plain; /* before 1970, an owner without a name, a root */
	m.type = FILE_MSG_DIR;
	m.mode = 01777;
	m.mtime_ns = -1;
	m.owner = m.group = "";
	m.uid = 7;
	check_shape(
		&m, "/",
		"{\"name\":\"/\",\"type\":\"FILE_TYPE_DIRECTORY\",\"path\":\"/\",\"size\":\"5\","
		"\"mode\":511,\"permissions\":\"dtrwxrwxrwx\",\"owner\":\"7\",\"group\":\"1000\","
		"\"modifiedTime\":\"1969-12-31T23:59:59.999999999Z\"}");
	m = plain;
	m.type = FILE_MSG_CHAR;
	m.mode = 0666;
	check_shape(
		&m, "/dev/null",
		"{\"name\":\"null\",\"type\":\"FILE_TYPE_UNSPECIFIED\",\"path\":\"/dev/null\","
		"\"size\":\"5\",\"mode\":438,\"permissions\":\"Dcrw-rw-rw-\",\"owner\":\"user\","
		"\"group\":\"user\",\"modifiedTime\":\"2023-11-14T22:13:20.123456789Z\"}");
}

static void links(void)
{
	struct file_msg_entry m = plain;

	m.type = FILE_MSG_SYMLINK;
	m.mode = 0777;
	m.target = "../b";
	check_shape(&m, "/x/l",
		    "{\"name\":\"l\",\"type\":\"FILE_TYPE_UNSPECIFIED\",\"path\":\"/x/l\","
		    "\"size\":\"5\",\"mode\":511,\"permissions\":\"Lrwxrwxrwx\",\"owner\":\"user\","
		    "\"group\":\"user\",\"modifiedTime\":\"2023-11-14T22:13:20.123456789Z\","
		    "\"symlinkTarget\":\"../b\"}");
	m.resolved = "/b";
	m.target_type = FILE_MSG_DIR;
	m.target_mode = 0750;
	check_shape(&m, "/x/l",
		    "{\"name\":\"l\",\"type\":\"FILE_TYPE_DIRECTORY\",\"path\":\"/x/l\","
		    "\"size\":\"5\",\"mode\":488,\"permissions\":\"Lrwxrwxrwx\",\"owner\":\"user\","
		    "\"group\":\"user\",\"modifiedTime\":\"2023-11-14T22:13:20.123456789Z\","
		    "\"symlinkTarget\":\"/b\"}");
}

static void written(void)
{
	uint8_t bytes[FILE_META_PACKED_MAX];
	struct file_msg_entry m = plain;
	size_t len = 0;
	char text[512];
	struct json j;

	json_init(&j, text, sizeof(text));
	entry_info_shape_written(&j, NULL, &m);
	CHECK_STR(text, "{\"path\":\"/home/user/a\",\"name\":\"a\",\"type\":\"file\"}");
	CHECK(file_meta_add(bytes, &len, "k", "v\"") && file_meta_add(bytes, &len, "l", ""));
	m.meta = (struct file_meta){ bytes, len };
	json_init(&j, text, sizeof(text));
	entry_info_shape_written(&j, NULL, &m);
	CHECK_STR(text, "{\"path\":\"/home/user/a\",\"name\":\"a\",\"type\":\"file\","
			"\"metadata\":{\"k\":\"v\\\"\",\"l\":\"\"}}");
}

/* ---- headers */

static struct http1_span span(const char *text)
{
	return (struct http1_span){ text, strlen(text) };
}

static void add(struct http1_request *q, const char *name, const char *value)
{
	q->headers[q->headers_n++] = (struct http1_header){ span(name), span(value) };
}

#define CHANGED 784111777 /* Sun, 06 Nov 1994 08:49:37 GMT */
#define AT "Sun, 06 Nov 1994 08:49:37 GMT"
#define BEFORE "Sun, 06 Nov 1994 08:49:36 GMT"
#define AFTER "Sun, 06 Nov 1994 08:49:38 GMT"

static void dates(void)
{
	static const char *const bad[] = { "",
					   "Sunday, 06-Nov-94 08:49:37 GMT",
					   "Mon, 06 Nov 1994 08:49:37 GMT",
					   "Sun, 6 Nov 1994 08:49:37 GMT",
					   "Sun, 06 Nov 1994 08:49:37 GMT ",
					   "Sun, 32 Nov 1994 08:49:37 GMT",
					   "Sun, 06 Nov 1994 08:49:37" };
	char text[CONDITION_DATE_MAX];
	int64_t s;

	CHECK(condition_write_date(CHANGED, text));
	CHECK_STR(text, AT);
	CHECK(condition_read_date(span(AT), &s) && s == CHANGED);
	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK_CASE(bad[i], !condition_read_date(span(bad[i]), &s));
}

static void conditions(void)
{
	static const struct {
		const char *name, *value, *name2, *value2;
		enum condition want;
		bool whole;
	} t[] = {
		{ "If-Modified-Since", AT, NULL, NULL, CONDITION_UNCHANGED, false },
		{ "If-Modified-Since", AFTER, NULL, NULL, CONDITION_UNCHANGED, false },
		{ "If-Modified-Since", BEFORE, NULL, NULL, CONDITION_SEND, false },
		{ "If-Modified-Since", "nonsense", NULL, NULL, CONDITION_SEND, false },
		{ "If-Unmodified-Since", AT, NULL, NULL, CONDITION_SEND, false },
		{ "If-Unmodified-Since", BEFORE, NULL, NULL, CONDITION_FAILED, false },
		{ "If-None-Match", "*", NULL, NULL, CONDITION_UNCHANGED, false },
		{ "If-None-Match", "\"x\"", "If-Modified-Since", AT, CONDITION_SEND, false },
		{ "If-Match", "*", "If-Unmodified-Since", BEFORE, CONDITION_SEND, false },
		{ "If-Match", "\"x\"", NULL, NULL, CONDITION_FAILED, false },
		{ "If-Range", AT, NULL, NULL, CONDITION_SEND, false },
		{ "If-Range", AFTER, NULL, NULL, CONDITION_SEND, true },
		{ "If-Range", "\"x\"", NULL, NULL, CONDITION_SEND, true },
		{ "Range", "bytes=0-1", NULL, NULL, CONDITION_SEND, false },
	};

	for (size_t i = 0; i < COUNT(t); i++) {
		static struct http1_request q;
		bool whole;

		q.headers_n = 0;
		add(&q, t[i].name, t[i].value);
		if (t[i].name2 != NULL)
			add(&q, t[i].name2, t[i].value2);
		CHECK_CASE(t[i].value, condition_given(&q) == (t[i].name[0] == 'I'));
		CHECK_CASE(t[i].value, condition_check(&q, CHANGED, &whole) == t[i].want);
		CHECK_CASE(t[i].value, whole == t[i].whole);
	}
}

static void encodings(void)
{
	static const struct {
		const char *value;
		bool takes;
	} t[] = {
		{ "gzip, deflate", true },
		{ "", true },
		{ "*", true },
		{ "*;q=0", false },
		{ "gzip, *;q=0", false },
		{ "gzip;q=1.0, identity; q=0.5, *;q=0", true },
		{ "gzip, identity;q=0", false },
		{ "identity;q=0.000", false },
		{ "identity;q=0.001", true },
		{ "Identity ; Q=0", false },
	};

	for (size_t i = 0; i < COUNT(t); i++) {
		static struct http1_request q;

		q.headers_n = 0;
		add(&q, "Accept-Encoding", t[i].value);
		CHECK_CASE(t[i].value, condition_takes_identity(&q) == t[i].takes);
	}
}

static void names(void)
{
	char text[DISPOSITION_MAX], path[400] = "/";

	disposition_write("/home/user/a b.txt", text);
	CHECK_STR(text, "inline; filename=\"a b.txt\"");
	disposition_write("q\"\\.txt", text);
	CHECK_STR(text, "inline; filename=\"q\\\"\\\\.txt\"");
	disposition_write("x/\xe2\x82\xac\n.txt", text);
	CHECK_STR(text, "inline; filename=\"____.txt\"; filename*=UTF-8''%E2%82%AC%0A.txt");
	disposition_write("dir/", text);
	CHECK_STR(text, "inline");
	memset(path + 1, 0xff, 255);
	disposition_write(path, text);
	CHECK(strlen(text) > 255 * 4 && strlen(text) < DISPOSITION_MAX - 1);
	CHECK(strcmp(text + strlen(text) - 3, "%FF") == 0);
	CHECK_STR(disposition_type("/a/b.HTML"), "text/html; charset=utf-8");
	CHECK_STR(disposition_type("/a.html/b"), "application/octet-stream");
	CHECK_STR(disposition_type("/a/b."), "application/octet-stream");
	CHECK(disposition_is_active(disposition_type("a.svg")));
	CHECK(!disposition_is_active(disposition_type("a.png")));
}

/* ---- the head of an upload */

static int read_head(const char *const *headers, struct post_head *ret, struct err *e)
{
	static struct http1_request q;

	q.headers_n = 0;
	for (; headers[0] != NULL; headers += 2)
		add(&q, headers[0], headers[1]);
	return post_head_read(&q, ret, e);
}

#define OCTETS "Content-Type", "application/octet-stream"
#define FORM "Content-Type", "multipart/form-data; boundary=x"

static void heads(void)
{
	static const char *const good[] = { OCTETS, "X-Metadata-Author", "me =x", "x-metadata-B",
					    "",	    "Content-Encoding",	 "GZIP",  NULL };
	static const char *const form[] = { FORM, "Content-Encoding", "identity", NULL };
	static struct post_head h;
	struct err e;

	CHECK(read_head(good, &h, &e) == 0);
	CHECK(!h.is_form && h.gzip);
	CHECK_STR(h.meta, "author=me =x\nb=\n");
	CHECK(read_head(form, &h, &e) == 0);
	CHECK(h.is_form && !h.gzip && h.meta[0] == '\0');
}

static void bad_heads(void)
{
	static const char *const bad[][8] = {
		{ NULL },
		{ "Content-Type", "text/plain", NULL },
		{ OCTETS, OCTETS, NULL },
		{ OCTETS, "Content-Encoding", "br", NULL },
		{ OCTETS, "Content-Encoding", "gzip, gzip", NULL },
		{ FORM, "Content-Encoding", "gzip", NULL },
		{ OCTETS, "X-Metadata-", "x", NULL },
		{ OCTETS, "X-Metadata-A", "x", "x-metadata-a", "y", NULL },
		{ OCTETS, "X-Metadata-A", "caf\xc3\xa9", NULL },
		{ OCTETS, "X-Metadata-A", "a\tb", NULL },
	};
	static char key[300], value[5000];
	const char *const long_key[] = { OCTETS, key, "v", NULL };
	const char *const long_value[] = { OCTETS, "X-Metadata-A", value, NULL };
	static struct post_head h;
	struct err e;

	for (size_t i = 0; i < COUNT(bad); i++) {
		CHECK(read_head(bad[i], &h, &e) < 0);
		CHECK(e.code == ERR_INVALID);
	}
	memcpy(key, "X-Metadata-", 11);
	memset(key + 11, 'k', 246);
	CHECK(read_head(long_key, &h, &e) == 0);
	key[11 + 246] = 'k';
	CHECK(read_head(long_key, &h, &e) < 0);
	memset(value, 'v', 4095);
	CHECK(read_head(long_value, &h, &e) == 0);
	value[4095] = 'v';
	CHECK(read_head(long_value, &h, &e) < 0);
}

TEST_MAIN({ "permissions", permissions }, { "entries", entries }, { "links", links },
	  { "written", written }, { "dates", dates }, { "conditions", conditions },
	  { "encodings", encodings }, { "names", names }, { "heads", heads },
	  { "bad heads", bad_heads })
