/* Goal: the name a client asks for is read as a server would read it, whatever way the records are
 * cut, and what two readers could read differently is refused. */
#include "egress/flow/tls_hello.h"

#include "support.h"

/* A message in the making. */
struct made {
	uint8_t b[TLS_HELLO_MAX + 4096];
	size_t n;
};

static void add(struct made *m, const void *bytes, size_t n)
{
	CHECK(m->n + n <= sizeof(m->b));
	memcpy(m->b + m->n, bytes, n);
	m->n += n;
}

static void add_number(struct made *m, size_t value, int bytes)
{
	while (bytes-- > 0)
		add(m, &(uint8_t){ (uint8_t)(value >> (8 * bytes)) }, 1);
}

static void add_extension(struct made *m, size_t type, const void *body, size_t n)
{
	add_number(m, type, 2);
	add_number(m, n, 2);
	add(m, body, n);
}

static void add_names(struct made *m, const char *first, const char *second)
{
	struct made list = { .n = 0 }, body = { .n = 0 };

	for (int i = 0; i < (second ? 2 : 1); i++) {
		const char *name = i == 0 ? first : second;

		add_number(&list, 0, 1);
		add_number(&list, strlen(name), 2);
		add(&list, name, strlen(name));
	}
	add_number(&body, list.n, 2);
	add(&body, list.b, list.n);
	add_extension(m, 0, body.b, body.n);
}

static void add_alpn(struct made *m, const char *list)
{
	struct made body = { .n = 0 };

	add_number(&body, strlen(list), 2);
	add(&body, list, strlen(list));
	add_extension(m, 16, body.b, body.n);
}

/* The whole message, without records. exts NULL: the field is not there at all. */
static void message(const struct made *exts, struct made *ret)
{
	struct made body = { .n = 0 };

	add_number(&body, 0x0303, 2);
	for (int i = 0; i < 4; i++)
		add(&body, "12345678", 8);
	add_number(&body, 0, 1);
	add(&body, "\0\2\x13\1\1\0", 6);
	if (exts) {
		add_number(&body, exts->n, 2);
		add(&body, exts->b, exts->n);
	}
	ret->n = 0;
	add_number(ret, 1, 1);
	add_number(ret, body.n, 3);
	add(ret, body.b, body.n);
}

static void records(const struct made *msg, size_t each, struct made *ret)
{
	ret->n = 0;
	for (size_t at = 0; at < msg->n; at += each) {
		size_t n = msg->n - at < each ? msg->n - at : each;

		add(ret, "\x16\3\1", 3);
		add_number(ret, n, 2);
		add(ret, msg->b + at, n);
	}
}

static int read_exts(const struct made *exts, struct tls_hello *ret)
{
	static struct made msg, all;
	OWN_MEM uint8_t *exact = NULL;

	message(exts, &msg);
	records(&msg, 16384, &all);
	exact = malloc(all.n);
	CHECK(exact != NULL);
	memcpy(exact, all.b, all.n);
	return tls_hello_read(exact, all.n, ret);
}

static void reads_what_is_asked_for(void)
{
	struct made x = { .n = 0 };
	struct tls_hello h;

	add_names(&x, "API.Example.COM", NULL);
	add_alpn(&x, "\x02h2\x08http/1.1");
	CHECK(read_exts(&x, &h) == 1);
	CHECK_STR(h.sni, "api.example.com");
	CHECK(h.alpn && h.h2 && h.http1 && !h.ech);

	x.n = 0;
	add_alpn(&x, "\x02h2");
	add_extension(&x, 0xfe0d, "abcd", 4);
	CHECK(read_exts(&x, &h) == 1);
	CHECK_STR(h.sni, "");
	CHECK(h.alpn && h.h2 && !h.http1 && h.ech);

	CHECK(read_exts(NULL, &h) == 1);
	CHECK(!h.alpn && h.sni[0] == '\0');
}

static void any_cut_is_the_same(void)
{
	static struct made x, msg, all;
	struct tls_hello h;

	add_names(&x, "a.example", NULL);
	message(&x, &msg);
	for (size_t each = 1; each <= msg.n; each++) {
		records(&msg, each, &all);
		for (size_t n = 0; n < all.n; n++) {
			CHECK(tls_hello_read(all.b, n, &h) == 0);
			CHECK(h.sni[0] == '\0');
		}
		CHECK(tls_hello_read(all.b, all.n, &h) == 1);
		CHECK_STR(h.sni, "a.example");
		add(&all, "\x14\3\3\0\1\1", 6); /* early data and the like */
		CHECK(tls_hello_read(all.b, all.n, &h) == 1);
	}
}

static void ambiguity_is_refused(void)
{
	struct made x = { .n = 0 };
	struct tls_hello h;

	add_names(&x, "a.example", "b.example");
	CHECK(read_exts(&x, &h) == -1);
	x.n = 0;
	add_names(&x, "a.example", NULL);
	add_names(&x, "a.example", NULL);
	CHECK(read_exts(&x, &h) == -1);
	x.n = 0;
	add_alpn(&x, "\x02h2");
	add_alpn(&x, "\x08http/1.1");
	CHECK(read_exts(&x, &h) == -1);
	x.n = 0;
	add_extension(&x, 0, "", 0); /* as a server answers; no client */
	CHECK(read_exts(&x, &h) == -1);
	x.n = 0;
	add_extension(&x, 0, "\0\4\1\0\1a", 6); /* a name of another type */
	CHECK(read_exts(&x, &h) == -1);
	x.n = 0;
	add_extension(&x, 0, "\0\4\0\0\1a!", 7); /* something behind the list */
	CHECK(read_exts(&x, &h) == -1);
	CHECK(h.sni[0] == '\0');
	x.n = 0;
	add_alpn(&x, "\x09http/1.1");
	CHECK(read_exts(&x, &h) == -1);
}

static void names_that_are_none(void)
{
	static const char *const bad[] = { "",	  "127.0.0.1", "::1",
					   "a b", "a..b",      "b\xc3\xbc.example",
					   "a/b", "0x7f.1",    "example.com:443" };
	struct tls_hello h;

	for (size_t i = 0; i < COUNT(bad); i++) {
		struct made x = { .n = 0 };

		add_names(&x, bad[i], NULL);
		CHECK_CASE(bad[i], read_exts(&x, &h) == -1);
	}
}

static void framing_is_strict(void)
{
	static struct made x, msg, all;
	struct tls_hello h;

	add_names(&x, "a.example", NULL);
	message(&x, &msg);
	records(&msg, 16384, &all);
	CHECK(!tls_hello_is_tls((const uint8_t *)"GET / HTTP/1.1", 14) &&
	      !tls_hello_is_tls(NULL, 0));
	CHECK(tls_hello_is_tls(all.b, 1) && tls_hello_is_tls(all.b, all.n));
	CHECK(tls_hello_read((const uint8_t *)"GET / HTTP/1.1", 14, &h) == -1);
	for (size_t at = 0; at < 6; at++) { /* type, version, length (too long), message type */
		uint8_t was = all.b[at];

		all.b[at] = 0xff;
		if (at != 2 && at != 4)
			CHECK(tls_hello_read(all.b, all.n, &h) == -1);
		all.b[at] = was;
	}
	CHECK(tls_hello_read((const uint8_t *)"\x16\3\1\0\0", 5, &h) == -1); /* empty */
	add(&msg, "more", 4); /* in the same record */
	records(&msg, 16384, &all);
	CHECK(tls_hello_read(all.b, all.n, &h) == -1);
	CHECK(tls_hello_read((const uint8_t *)"\x16\3\1\x40\0\1\0\xff\xff", 9, &h) ==
	      -1); /* too long */
}

static void length_is_bounded(void)
{
	static uint8_t padding[TLS_HELLO_MAX], endless[TLS_HELLO_MAX + 100];
	static struct made x;
	struct tls_hello h;

	add_names(&x, "a.example", NULL);
	add_extension(&x, 21, padding, 15000);
	CHECK(read_exts(&x, &h) == 1);
	CHECK_STR(h.sni, "a.example");
	add_extension(&x, 21, padding, 2000);
	CHECK(read_exts(&x, &h) == -1);
	/* Records of one byte: it never ends within the bound. */
	for (size_t at = 0; at + 6 <= sizeof(endless); at += 6)
		memcpy(endless + at, "\x16\3\1\0\1\0", 6);
	endless[5] = 1;
	endless[17] = 0x30; /* of 12288 bytes */
	CHECK(tls_hello_read(endless, TLS_HELLO_MAX - 1, &h) == 0);
	CHECK(tls_hello_read(endless, TLS_HELLO_MAX, &h) == -1);
	CHECK(tls_hello_read(endless, sizeof(endless), &h) == -1);
}

/* What a record says of its length, before its bytes are there. */
static void records_are_bounded(void)
{
	struct tls_hello h;

	CHECK(tls_hello_read((const uint8_t *)"\x16\3\1\x40\0\1", 6, &h) == 0);
	CHECK(tls_hello_read((const uint8_t *)"\x16\3\1\x40\1\1", 6, &h) == -1);
}

static void alerts_are_records(void)
{
	uint8_t alert[TLS_HELLO_ALERT_LEN];

	tls_hello_alert(alert, TLS_ALERT_ACCESS_DENIED);
	CHECK(memcmp(alert, "\x15\3\3\0\2\2\x31", sizeof(alert)) == 0);
}

TEST_MAIN({ "records_are_bounded", records_are_bounded },
	  { "reads_what_is_asked_for", reads_what_is_asked_for },
	  { "any_cut_is_the_same", any_cut_is_the_same },
	  { "ambiguity_is_refused", ambiguity_is_refused },
	  { "names_that_are_none", names_that_are_none },
	  { "framing_is_strict", framing_is_strict }, { "length_is_bounded", length_is_bounded },
	  { "alerts_are_records", alerts_are_records })
