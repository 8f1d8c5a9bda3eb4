/* Goal: each text of a message between the programs is taken at its bound, and refused one beyond,
 * by the program that reads it: the writer may be one that was taken over. */
#include "test.h"

#include "cache_msg.h"
#include "egress_msg.h"
#include "pull_msg.h"

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
	struct codec_writer w = { .p = ret, .n = cap };

	for (size_t i = 0; i < n; i++) {
		if (fields[i].width > 0) {
			codec_put(&w, fields[i].width, fields[i].number);
			continue;
		}
		memset(text, 't', sizeof(text));
		CHECK(fields[i].bound < sizeof(text));
		text[fields[i].bound - 1 + (i == longer)] = '\0';
		codec_put_string(&w, sizeof(text) + 1, text);
	}
	CHECK(!w.bad);
	return (size_t)(w.p - ret);
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
	struct codec_writer w = { .p = bytes, .n = sizeof(bytes) };
	struct cache_msg m;

	codec_put(&w, 2, CACHE_LISTED);
	codec_put(&w, 4, 1);
	codec_put(&w, 4, 0);
	CHECK(cache_msg_read(bytes, CACHE_PACKET_MAX, &m, &e) == 0 &&
	      m.entries_len == CACHE_PACKET_MAX - 10);
	CHECK(cache_msg_read(bytes, CACHE_PACKET_MAX + 1, &m, &e) < 0);
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

TEST_MAIN({ "texts of cordon-egress", texts_of_egress },
	  { "texts of the cache", texts_of_the_cache },
	  { "packets of the cache", packets_of_the_cache }, { "texts of pulls", texts_of_pulls },
	  { "documents of pulls", documents_of_pulls })
