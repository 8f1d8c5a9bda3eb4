/* Goal: each text of a message between the programs is taken at its bound, and refused one beyond,
 * by the program that reads it: the writer may be one that was taken over. */
#include "test.h"

#include <stdbool.h>
#include <stdint.h>

#include "lib/wire/boot_msg.h"
#include "lib/wire/cache_msg.h"
#include "lib/wire/egress_msg.h"
#include "lib/wire/mux.h"
#include "lib/wire/notary_msg.h"
#include "lib/wire/pull_msg.h"
#include "lib/wire/storage_msg.h"
#include "lib/wire/tar_head.h"

static struct err e;

/* In memory of just that size: a sanitizer sees each byte that is read behind it. */
static uint8_t *exact(const uint8_t *bytes, size_t n)
{
	uint8_t *p = malloc(n);

	CHECK(p != NULL);
	memcpy(p, bytes, n);
	return p;
}

static void texts_of_egress(void)
{
	static const struct {
		enum egress_type type;
		size_t bound;
	} rows[] = { { EGRESS_ATTACH, EGRESS_TEXT_MAX },
		     { EGRESS_ATTACH_OWNERS, EGRESS_TEXT_MAX },
		     { EGRESS_CHANGE, EGRESS_TEXT_MAX },
		     { EGRESS_SECRETS, EGRESS_TEXT_MAX },
		     { EGRESS_RECORD, EGRESS_PROMPT_MAX },
		     { EGRESS_TAKEN, EGRESS_RECORD_MAX },
		     { EGRESS_COUNTS, EGRESS_RECORD_MAX },
		     { EGRESS_TURNS, EGRESS_RECORD_MAX },
		     { EGRESS_DETACH, 0 },
		     { EGRESS_PING, 0 } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (size_t more = 0; more < 2; more++) {
			size_t len = EGRESS_ID_MAX + rows[i].bound + more;
			uint8_t *body = calloc(1, len);
			struct frame f = { .type = (uint16_t)rows[i].type,
					   .len = (uint32_t)len,
					   .body = body };
			struct egress_msg m;

			CHECK(body != NULL);
			body[0] = rows[i].type == EGRESS_PING || rows[i].type == EGRESS_TURNS ? 0
											      : 'a';
			memset(body + EGRESS_ID_MAX, 't', rows[i].bound + more);
			CHECK((egress_msg_read(&f, &m, &e) < 0) == (more > 0));
			CHECK(more > 0 || m.len == rows[i].bound);
			free(body);
		}
}

/* Fields of a message in their order: a number of some bytes, or a text of a bound. */
struct field {
	size_t width;
	uint64_t number;
	size_t bound;
};

/* The message with its texts as long as allowed, the text `longer` with one byte more. SIZE_MAX: no
 * text has more. */
static size_t write_fields(const struct field *fields, size_t n, size_t longer, uint8_t *ret,
			   size_t cap)
{
	static char text[PULL_PASSWORD_MAX + 1];
	struct codec c = codec_writer(ret, cap);
	const char *filled = text;

	for (size_t i = 0; i < n; i++) {
		if (fields[i].width > 0) {
			(void)codec_number(&c, fields[i].width, fields[i].number);
			continue;
		}
		memset(text, 't', sizeof(text));
		CHECK(fields[i].bound < sizeof(text));
		text[fields[i].bound - 1 + (i == longer)] = '\0';
		codec_string(&c, sizeof(text) + 1, &filled);
	}
	CHECK(!c.bad);
	return (size_t)(c.to - ret);
}

#define NUMBER(width, n)    \
	{                   \
		width, n, 0 \
	}
#define TEXT(bound)         \
	{                   \
		0, 0, bound \
	}

static bool cache_takes(const struct field *fields, size_t n, size_t longer)
{
	static uint8_t bytes[2 * CACHE_PACKET_MAX];
	size_t len = write_fields(fields, n, longer, bytes, sizeof(bytes));
	uint8_t *packet = exact(bytes, len);
	struct cache_msg m;
	int done = cache_msg_read(packet, len, &m, &e);

	free(packet);
	return done == 0;
}

static void try_cache(const struct field *fields, size_t n)
{
	CHECK(cache_takes(fields, n, SIZE_MAX));
	for (size_t i = 0; i < n; i++)
		if (fields[i].width == 0)
			CHECK(!cache_takes(fields, n, i));
}

static void texts_of_the_cache(void)
{
	static const struct field
		find[] = { NUMBER(2, CACHE_FIND), NUMBER(4, 1), TEXT(CACHE_SCOPE_MAX),
			   TEXT(CACHE_REGISTRY_MAX), TEXT(CACHE_PATH_MAX) },
		touch[] = { NUMBER(2, CACHE_TOUCH),   NUMBER(4, 1),	    TEXT(CACHE_SCOPE_MAX),
			    TEXT(CACHE_REGISTRY_MAX), TEXT(CACHE_PATH_MAX), TEXT(CACHE_ETAG_MAX),
			    TEXT(CACHE_DATE_MAX),     TEXT(CACHE_TYPE_MAX) },
		seen[] = { NUMBER(2, CACHE_SEEN),    NUMBER(4, 1), TEXT(CACHE_SCOPE_MAX),
			   TEXT(CACHE_REGISTRY_MAX), TEXT(1),	   TEXT(CACHE_NAME_MAX) },
		failed[] = { NUMBER(2, CACHE_FAILED), NUMBER(4, 1), NUMBER(1, ERR_LIMIT),
			     TEXT(CACHE_TEXT_MAX) };

	try_cache(find, sizeof(find) / sizeof(find[0]));
	try_cache(touch, sizeof(touch) / sizeof(touch[0]));
	try_cache(seen, sizeof(seen) / sizeof(seen[0]));
	try_cache(failed, sizeof(failed) / sizeof(failed[0]));
}

/* The entries of a list fill what is left of a packet. */
static void packets_of_the_cache(void)
{
	static uint8_t bytes[CACHE_PACKET_MAX + 1];
	struct codec c = codec_writer(bytes, sizeof(bytes));
	struct cache_msg m;

	(void)codec_number(&c, 2, CACHE_LISTED);
	(void)codec_number(&c, 4, 1);
	(void)codec_number(&c, 4, 0);
	CHECK(cache_msg_read(bytes, CACHE_PACKET_MAX, &m, &e) == 0 &&
	      m.entries_len == CACHE_PACKET_MAX - 10);
	CHECK(cache_msg_read(bytes, CACHE_PACKET_MAX + 1, &m, &e) < 0);
}

static bool notary_takes(uint16_t type, const struct field *fields, size_t n, size_t longer,
			 size_t more)
{
	static uint8_t bytes[4096];
	size_t len = write_fields(fields, n, longer, bytes, sizeof(bytes));
	uint8_t *body = exact(bytes, len + more);
	const struct frame f = { .type = type, .len = (uint32_t)(len + more), .body = body };
	struct notary_msg m;
	int done = notary_msg_read(&f, &m, &e);

	free(body);
	return done == 0;
}

/* A message that ends with so many bytes of no field. */
static void try_notary(uint16_t type, const struct field *fields, size_t n, size_t more)
{
	CHECK(notary_takes(type, fields, n, SIZE_MAX, more));
	CHECK(!notary_takes(type, fields, n, SIZE_MAX, more + 1));
	CHECK(!notary_takes(type, fields, n, SIZE_MAX, more - 1));
	for (size_t i = 0; i < n; i++)
		if (fields[i].width == 0)
			CHECK(!notary_takes(type, fields, n, i, more));
}

static void texts_of_the_notary(void)
{
	static const struct field signed_[] = { NUMBER(4, 1), TEXT(NOTARY_LINES_MAX) },
				  key[] = { NUMBER(4, 1), TEXT(NOTARY_NAME_MAX),
					    TEXT(NOTARY_VKEY_MAX), TEXT(NOTARY_VKEY_MAX),
					    TEXT(NOTARY_VKEY_MAX) },
				  refused[] = { NUMBER(4, 1), NUMBER(1, NOTARY_FORK), NUMBER(8, 0),
						NUMBER(8, 0), NUMBER(8, 0),	      NUMBER(8, 0),
						NUMBER(8, 0), TEXT(NOTARY_TEXT_MAX) };
	static const struct field none[] = { NUMBER(4, 1), NUMBER(1, NOTARY_REASONS) };

	try_notary(NOTARY_KEY_IS, key, sizeof(key) / sizeof(key[0]), 4 + NOTARY_SIG);
	CHECK(notary_takes(NOTARY_SIGNED, signed_, 2, SIZE_MAX, 0) &&
	      !notary_takes(NOTARY_SIGNED, signed_, 2, 1, 0));
	CHECK(notary_takes(NOTARY_REFUSED, refused, 8, SIZE_MAX, 0) &&
	      !notary_takes(NOTARY_REFUSED, refused, 8, 7, 0));
	CHECK(!notary_takes(NOTARY_REFUSED, none, 2, SIZE_MAX, 43));
}

static void proofs_of_the_notary(void)
{
	struct field f[] = { NUMBER(4, 1), TEXT(NOTARY_ORIGIN_MAX),
			     NUMBER(8, 1), NUMBER(8, 2),
			     NUMBER(8, 0), NUMBER(8, 0),
			     NUMBER(8, 0), NUMBER(8, 0),
			     NUMBER(1, 0) };
	size_t n = sizeof(f) / sizeof(f[0]);

	for (unsigned hashes = 1; hashes <= NOTARY_PROOF_MAX; hashes++) {
		f[n - 1].number = hashes;
		try_notary(NOTARY_SIGN, f, n, (size_t)hashes * NOTARY_HASH);
	}
	f[n - 1].number = NOTARY_PROOF_MAX + 1;
	CHECK(!notary_takes(NOTARY_SIGN, f, n, SIZE_MAX, (NOTARY_PROOF_MAX + 1) * NOTARY_HASH));
}

static void bodies_of_the_notary(void)
{
	static uint8_t bytes[FRAME_HEAD + NOTARY_FRAME_MAX], again[sizeof(bytes)];
	struct codec c = codec_writer(bytes, sizeof(bytes));
	struct frame f = { .type = NOTARY_ATTEST, .len = 5 + NOTARY_BODY_MAX, .body = bytes };
	struct notary_msg m;

	(void)codec_number(&c, 4, 1);
	(void)codec_number(&c, 1, NOTARY_PAYLOAD_BUNDLE);
	CHECK(notary_msg_read(&f, &m, &e) == 0 && m.body_len == NOTARY_BODY_MAX);
	CHECK(notary_msg_write(&m, again, sizeof(again)) == FRAME_HEAD + 5 + NOTARY_BODY_MAX);
	f.len++;
	CHECK(notary_msg_read(&f, &m, &e) < 0);
	m.body_len = NOTARY_BODY_MAX + 1;
	CHECK(notary_msg_write(&m, again, sizeof(again)) < 0);
	bytes[4] = NOTARY_PAYLOADS;
	f.len = 9;
	CHECK(notary_msg_read(&f, &m, &e) < 0);
}

static bool pull_takes(enum pull_type type, const struct field *fields, size_t n, size_t longer)
{
	static uint8_t bytes[2 * PULL_REQUEST_MAX];
	size_t len = write_fields(fields, n, longer, bytes, sizeof(bytes));
	uint8_t *body = exact(bytes, len);
	struct frame f = { .type = (uint16_t)type, .len = (uint32_t)len, .body = body };
	struct pull_msg m;
	int done = pull_msg_read(&f, &m, &e);

	free(body);
	CHECK(longer != SIZE_MAX || len <= PULL_REQUEST_MAX);
	return done == 0;
}

static void try_pull(enum pull_type type, const struct field *fields, size_t n)
{
	CHECK(pull_takes(type, fields, n, SIZE_MAX));
	for (size_t i = 0; i < n; i++)
		if (fields[i].width == 0)
			CHECK(!pull_takes(type, fields, n, i));
}

static void texts_of_pulls(void)
{
	static const struct field start[] = { NUMBER(4, 1),
					      NUMBER(4, 0),
					      TEXT(PULL_HOST_MAX),
					      TEXT(PULL_PATH_MAX),
					      TEXT(PULL_REFERENCE_MAX),
					      TEXT(PULL_USER_MAX),
					      TEXT(PULL_PASSWORD_MAX),
					      TEXT(PULL_URL_MAX),
					      TEXT(PULL_HOSTS_MAX),
					      NUMBER(8, UINT32_MAX),
					      NUMBER(8, UINT32_MAX),
					      NUMBER(1, 1) },
				  failed[] = { NUMBER(4, 1), NUMBER(4, 0), NUMBER(1, ERR_LIMIT),
					       TEXT(PULL_WORD_MAX), TEXT(PULL_TEXT_MAX) };

	try_pull(PULL_START, start, sizeof(start) / sizeof(start[0]));
	try_pull(PULL_FAILED, failed, sizeof(failed) / sizeof(failed[0]));
}

static void documents_of_pulls(void)
{
	for (size_t more = 0; more < 2; more++) {
		size_t len = 9 + PULL_DOCUMENT_MAX + more;
		uint8_t *body = calloc(1, len);
		struct frame f = { .type = PULL_DOCUMENT, .len = (uint32_t)len, .body = body };
		struct pull_msg m;

		CHECK(body != NULL && len <= PULL_BODY_MAX);
		body[0] = 1;
		CHECK((pull_msg_read(&f, &m, &e) < 0) == (more > 0));
		CHECK(more > 0 || m.len == PULL_DOCUMENT_MAX);
		free(body);
	}
}

/* ---- requests of a size: a text is an array of them, whose last byte is NUL */

static bool storage_takes(const void *r, size_t len)
{
	uint8_t *bytes = exact(r, len);
	bool taken = storage_msg_check(bytes, len, 0, &e) == 0;

	free(bytes);
	return taken;
}

static void texts_of_storage(void)
{
	struct storage_fold fold = { .head = { STORAGE_FOLD, 1000, 1 },
				     .flags = STORAGE_FOLD_DIR,
				     .nfrom = 1,
				     .layer = "lay_c",
				     .from = { "lay_a" } };

	memset(fold.base, 'b', sizeof(fold.base));
	CHECK(!storage_takes(&fold, sizeof(fold)) && strstr(e.msg, "malformed base") != NULL);
	fold.base[STORAGE_BASE_MAX - 1] = '\0';
	CHECK(storage_takes(&fold, sizeof(fold)));
}

/* What an operation on a volume needs but ids and path. */
static struct storage_content content(void)
{
	struct storage_content c = { .head = { STORAGE_CONTENT, 1000, 1 },
				     .volume = "01234567-89ab-cdef-0123-456789abcdef",
				     .what = 1,
				     .uid = STORAGE_CONTENT_UNSET,
				     .gid = STORAGE_CONTENT_UNSET,
				     .mode = STORAGE_CONTENT_UNSET,
				     .depth = 1,
				     .path = "/" };

	return c;
}

static bool content_is_taken(const struct storage_content *c)
{
	uint8_t *bytes = exact((const uint8_t *)c, sizeof(*c));
	bool taken = false;

	for (size_t nfds = 0; nfds <= STORAGE_FDS_MAX && !taken; nfds++)
		taken = storage_msg_check(bytes, sizeof(*c), nfds, &e) == 0;
	free(bytes);
	return taken;
}

static void operations_on_volumes(void)
{
	struct storage_content c = content();

	CHECK(content_is_taken(&c));
	c.uid = c.gid = STORAGE_CONTENT_ID_MAX;
	CHECK(content_is_taken(&c));
	c.uid = STORAGE_CONTENT_ID_MAX + 1;
	CHECK(!content_is_taken(&c));
	c.uid = 0;
	c.gid = STORAGE_CONTENT_ID_MAX + 1;
	CHECK(!content_is_taken(&c));
	c = content();
	memset(c.path, 'p', sizeof(c.path));
	c.path[0] = '/';
	CHECK(!content_is_taken(&c));
	c.path[STORAGE_PATH_MAX - 1] = '\0';
	CHECK(content_is_taken(&c));
	c.depth = 64;
	CHECK(content_is_taken(&c));
	c.depth = 65;
	CHECK(!content_is_taken(&c));
}

/* ---- streams */

static ssize_t fill_nothing(void *arg, uint16_t number, void *stream_arg, uint8_t *to, size_t n)
{
	return 0;
}

/* Credit beyond what a stream has: with what it began with. */
static void credit_of_streams(void)
{
	for (uint32_t more = 0; more < 2; more++) {
		uint32_t n = MUX_CREDIT_MAX - MUX_WINDOW + more;
		uint8_t frame[] = { 4,
				    0,
				    0,
				    0,
				    0xc2,
				    0,
				    1,
				    0,
				    (uint8_t)n,
				    (uint8_t)(n >> 8),
				    (uint8_t)(n >> 16),
				    (uint8_t)(n >> 24) };
		uint8_t *bytes = exact(frame, sizeof(frame));
		struct mux_event v;
		struct mux m;

		mux_init(&m, MUX_SHIM, 1024, fill_nothing, NULL);
		CHECK(mux_accept(&m, 1, MUX_OUT, NULL, &e) == 0);
		CHECK((mux_read(&m, bytes, sizeof(frame), &v, &e) < 0) == (more > 0));
		free(bytes);
	}
}

/* ---- archives */

/* A larger number of a user is that of nobody. */
static void users_of_archives(void)
{
	for (uint32_t more = 0; more < 2; more++) {
		struct tar_head h = { .type = TAR_HEAD_FILE,
				      .path = "f",
				      .uid = 07777777 + more,
				      .gid = 07777777 + more };
		uint8_t block[TAR_HEAD_BLOCK];
		struct tar_head got;

		CHECK(tar_head_write(&h, block));
		CHECK(tar_head_read(block, &got, &e) == 0);
		CHECK(got.uid == (more == 0 ? 07777777U : 65534U) && got.gid == got.uid);
	}
}

TEST_MAIN({ "texts of storage", texts_of_storage },
	  { "operations on volumes", operations_on_volumes },
	  { "credit of streams", credit_of_streams }, { "users of archives", users_of_archives },
	  { "texts of cordon-egress", texts_of_egress },
	  { "texts of the cache", texts_of_the_cache },
	  { "packets of the cache", packets_of_the_cache },
	  { "texts of the notary", texts_of_the_notary },
	  { "proofs of the notary", proofs_of_the_notary },
	  { "bodies of the notary", bodies_of_the_notary }, { "texts of pulls", texts_of_pulls },
	  { "documents of pulls", documents_of_pulls })
