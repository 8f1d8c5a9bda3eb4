#include "test.h"

#include <string.h>

#include "lib/wire/egress_msg.h"

static uint8_t bytes[EGRESS_HEAD + 4096];

/* A frame as it would arrive. */
static int read_back(enum egress_type type, const char *id, const char *text, size_t len,
		     struct egress_msg *ret)
{
	struct frame f;
	struct err e;

	egress_msg_head(bytes, type, id, len);
	memcpy(bytes + EGRESS_HEAD, text, len);
	CHECK(frame_read(bytes, EGRESS_HEAD + len, 4096, &f, &e) == (int)(EGRESS_HEAD + len));
	return egress_msg_read(&f, ret, &e);
}

static void comes_back_as_it_was(void)
{
	struct egress_msg m;

	CHECK(read_back(EGRESS_ATTACH, "i0123456789abcdef", "{}", 2, &m) == 0);
	CHECK(m.type == EGRESS_ATTACH && strcmp(m.id, "i0123456789abcdef") == 0);
	CHECK(m.len == 2 && memcmp(m.text, "{}", 2) == 0 && egress_msg_fds(m.type) == 2);
	CHECK(read_back(EGRESS_ATTACH_OWNERS, "a", "{}", 2, &m) == 0 &&
	      egress_msg_fds(m.type) == 3);
	CHECK(read_back(EGRESS_SYNCED, "", "", 0, &m) == 0 && m.id[0] == '\0');
	CHECK(read_back(EGRESS_RECORD, "a", "{\"x\":1}", 7, &m) == 0 &&
	      egress_msg_fds(m.type) == 0);
}

static void refuses_what_it_does_not_know(void)
{
	struct egress_msg m;
	struct frame f = { .type = EGRESS_DETACH, .len = EGRESS_ID_MAX, .body = bytes };
	struct err e;

	memset(bytes, 0, sizeof(bytes));
	CHECK(egress_msg_read(&f, &m, &e) < 0); /* no session */
	bytes[0] = 'a';
	CHECK(egress_msg_read(&f, &m, &e) == 0);
	bytes[5] = 'b'; /* something behind the NUL */
	CHECK(egress_msg_read(&f, &m, &e) < 0);
	bytes[5] = 0;
	bytes[0] = '/';
	CHECK(egress_msg_read(&f, &m, &e) < 0);
	memset(bytes, 'a', EGRESS_ID_MAX);
	CHECK(egress_msg_read(&f, &m, &e) < 0); /* no NUL */
	bytes[1] = 0;
	memset(bytes + 1, 0, EGRESS_ID_MAX);
	f.len = EGRESS_ID_MAX - 1;
	CHECK(egress_msg_read(&f, &m, &e) < 0);
	f.len = EGRESS_ID_MAX + 1;
	CHECK(egress_msg_read(&f, &m, &e) < 0); /* a text where there is none */
	f.type = EGRESS_CHANGE;
	bytes[EGRESS_ID_MAX] = 0;
	CHECK(egress_msg_read(&f, &m, &e) < 0); /* a NUL in the text */
	bytes[EGRESS_ID_MAX] = 'x';
	CHECK(egress_msg_read(&f, &m, &e) == 0);
	f.type = 0;
	CHECK(egress_msg_read(&f, &m, &e) < 0);
	f.type = EGRESS_REQUESTS_END;
	CHECK(egress_msg_read(&f, &m, &e) < 0);
	f.type = EGRESS_EVENTS_END;
	CHECK(egress_msg_read(&f, &m, &e) < 0);
}

TEST_MAIN({ "comes back as it was", comes_back_as_it_was },
	  { "refuses what it does not know", refuses_what_it_does_not_know })
