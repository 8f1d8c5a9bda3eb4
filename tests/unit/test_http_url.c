/* Goal: what a client names in a path or a query is what we see, byte by byte, or it is refused. */
#include "lib/http/url.h"

#include "support.h"

/* In an exact copy, until the next call. */
static struct http1_span span(const char *text)
{
	static char *held;

	free(held);
	held = exact_copy(text, strlen(text));
	return (struct http1_span){ held, strlen(text) };
}

static const struct {
	const char *raw, *plain, *form; /* NULL: refused */
} decodes[] = {
	{ "", "", "" },
	{ "abc", "abc", "abc" },
	{ "a+b", "a+b", "a b" },
	{ "a%20b%2Bc", "a b+c", "a b+c" },
	{ "a%2fb%2F", "a/b/", "a/b/" },
	{ "%25%41%c3%A4", "%A\xc3\xa4", "%A\xc3\xa4" },
	{ "%2525", "%25", "%25" },
	{ "%0a%01", "\n\x01", "\n\x01" },
	{ "%00", NULL, NULL },
	{ "a%00b", NULL, NULL },
	{ "%", NULL, NULL },
	{ "a%2", NULL, NULL },
	{ "%%20", NULL, NULL },
	{ "%2g", NULL, NULL },
	{ "%g2", NULL, NULL },
	{ "%u0041", NULL, NULL },
	{ "%+1", NULL, NULL },
	{ "% 1", NULL, NULL },
};

static void check_text(const char *name, int n, const char *got, const char *want)
{
	CHECK_CASE(name, n == (want == NULL ? -1 : (int)strlen(want)));
	CHECK_CASE(name, want == NULL || strcmp(got, want) == 0);
}

static void decodes_escapes(void)
{
	char text[64];

	for (size_t i = 0; i < COUNT(decodes); i++) {
		const char *raw = decodes[i].raw;

		check_text(raw, url_decode(span(raw), text, sizeof(text)), text, decodes[i].plain);
		check_text(raw, url_decode_form(span(raw), text, sizeof(text)), text,
			   decodes[i].form);
	}
	CHECK(url_decode((struct http1_span){ "a\0b", 3 }, text, sizeof(text)) == -1);
	CHECK(url_decode((struct http1_span){ NULL, 0 }, text, 1) == 0);
}

static void writes_no_more_than_fits(void)
{
	for (size_t cap = 0; cap < 8; cap++) {
		char *text = malloc(cap + (cap == 0));

		CHECK(text != NULL);
		CHECK(url_decode(span("ab%20"), text, cap) == (cap < 4 ? -1 : 3));
		CHECK(url_encode("a b", 3, text, cap) == (cap < 6 ? -1 : 5));
		CHECK(url_encode("", 0, text, cap) == (cap < 1 ? -1 : 0));
		free(text);
	}
}

static void encodes_what_it_decodes(void)
{
	char all[256], coded[1024], again[256];
	int n;

	for (int i = 1; i < 256; i++)
		all[i - 1] = (char)i;
	n = url_encode(all, 255, coded, sizeof(coded));
	CHECK(n > 255 && strspn(coded, "%0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				       "abcdefghijklmnopqrstuvwxyz-._~") == (size_t)n);
	CHECK(url_decode(span(coded), again, sizeof(again)) == 255);
	CHECK(memcmp(all, again, 255) == 0);
	CHECK(url_encode("a/b?c&d=e", 9, coded, sizeof(coded)) == 17);
	CHECK_STR(coded, "a%2Fb%3Fc%26d%3De");
}

static void walks_over_a_query(void)
{
	static const char *const want[] = { "a=1", "b", "c=", "=d", "e=f=g", "h%3D=i+j" };
	struct http1_span rest = span("&a=1&&b&c=&=d&e=f=g&h%3D=i+j&"), name, value;
	size_t n = 0;

	for (; url_query_next(&rest, &name, &value); n++) {
		char text[64];

		CHECK(n < COUNT(want));
		(void)snprintf(text, sizeof(text), "%.*s%s%.*s", (int)name.n, name.p,
			       value.p == NULL ? "" : "=", (int)value.n, value.n ? value.p : "");
		CHECK_STR(text, want[n]);
	}
	CHECK(n == COUNT(want));
	rest = (struct http1_span){ NULL, 0 };
	CHECK(!url_query_next(&rest, &name, &value));
}

static const struct {
	const char *query, *name;
	int result;
	const char *value;
} gets[] = {
	{ "wait=5", "wait", 1, "5" },
	{ "a=b&wait=5&c", "wait", 1, "5" },
	{ "wait", "wait", 1, "" },
	{ "wait=", "wait", 1, "" },
	{ "%77ait=a%20b+c", "wait", 1, "a b c" },
	{ "a+b=1", "a b", 1, "1" },
	{ "wait=a=b", "wait", 1, "a=b" },
	{ "", "wait", 0, "" },
	{ "waits=5&wai=5&Wait=5", "wait", 0, "" },
	{ "=5", "wait", 0, "" },
	{ "wait=5&wait=5", "wait", -1, NULL },
	{ "wait=5&%77ait", "wait", -1, NULL },
	{ "wait=%00", "wait", -1, NULL },
	{ "wait=%zz", "wait", -1, NULL },
	{ "wait=5&x%=1", "wait", -1, NULL },
	{ "wait=01234567", "wait", -1, NULL }, /* no room for its NUL */
	{ "wait=0123456", "wait", 1, "0123456" },
};

static void finds_in_a_query(void)
{
	for (size_t i = 0; i < COUNT(gets); i++) {
		char text[8] = "?";

		CHECK_CASE(gets[i].query, url_query_get(span(gets[i].query), gets[i].name, text,
							sizeof(text)) == gets[i].result);
		if (gets[i].value != NULL)
			CHECK_STR(text, gets[i].value);
	}
}

static const struct {
	const char *pattern, *path;
	int n; /* -1: no match */
	const char *params[2];
} matches[] = {
	{ "/", "/", 0, { NULL } },
	{ "/v1/a", "/v1/a", 0, { NULL } },
	{ "/v1/{id}", "/v1/abc", 1, { "abc" } },
	{ "/v1/{id}/files", "/v1/a%2Fb/files", 1, { "a%2Fb" } },
	{ "/v1/{a}/x/{b}", "/v1/1/x/2", 2, { "1", "2" } },
	{ "/v1/{id}", "/v1/...", 1, { "..." } },
	{ "/v1/{id}", "/v1/.a", 1, { ".a" } },
	{ "/v1/{id}", "/v1/%2e%2", 1, { "%2e%2" } }, /* decoding it will say no */
	{ "/v1/{id}/{*}", "/v1/a/b/../c/", 2, { "a", "b/../c/" } },
	{ "/v1/{id}/{*}", "/v1/a/", 2, { "a", "" } },
	{ "/v1/{id}/{*}", "/v1/a", -1, { NULL } },
	{ "/v1/{*}/x", "/v1/a/x", 1, { "a" } }, /* not at the end: a name as any other */
	{ "/", "", -1, { NULL } },
	{ "/", "/a", -1, { NULL } },
	{ "/a", "/", -1, { NULL } },
	{ "/v1/a", "/v1/a/", -1, { NULL } },
	{ "/v1/a/", "/v1/a", -1, { NULL } },
	{ "/v1/a", "/v1", -1, { NULL } },
	{ "/v1/a", "/V1/a", -1, { NULL } },
	{ "/v1/a", "/v1/ab", -1, { NULL } },
	{ "/v1/a", "/v1/%61", -1, { NULL } },
	{ "/v1/a", "//v1/a", -1, { NULL } },
	{ "/v1/a", "v1/a", -1, { NULL } },
	{ "/v1/{id}", "/v1/", -1, { NULL } },
	{ "/v1/{id}", "/v1/.", -1, { NULL } },
	{ "/v1/{id}", "/v1/..", -1, { NULL } },
	{ "/v1/{id}", "/v1/%2e.", -1, { NULL } },
	{ "/v1/{id}", "/v1/%2E%2e", -1, { NULL } },
	{ "/v1/{id}", "/v1/a/b", -1, { NULL } },
	{ "/v1/{id}/files", "/v1/a", -1, { NULL } },
};

static void matches_patterns(void)
{
	for (size_t i = 0; i < COUNT(matches); i++) {
		struct url_params params;
		bool found = url_match(matches[i].pattern, span(matches[i].path), &params);

		CHECK_CASE(matches[i].path, found == (matches[i].n >= 0));
		CHECK_CASE(matches[i].path, !found || params.n == (size_t)matches[i].n);
		for (int p = 0; p < matches[i].n; p++)
			CHECK_CASE(matches[i].path,
				   http1_span_is(params.raw[p], matches[i].params[p]));
	}
}

TEST_MAIN({ "decodes escapes", decodes_escapes },
	  { "writes no more than fits", writes_no_more_than_fits },
	  { "encodes what it decodes", encodes_what_it_decodes },
	  { "walks over a query", walks_over_a_query }, { "finds in a query", finds_in_a_query },
	  { "matches patterns", matches_patterns })
