/* Goal: whatever is put into a target comes out at the server as one part, and nothing is cut
 * silently. */
#include "cmd/client/target.h"

#include "support.h"

static struct target t;
static struct err e;

static void composes(void)
{
	target_init(&t, "/v1/sessions");
	CHECK_STR(target_text(&t, &e), "/v1/sessions");
	target_part(&t, "a/b?c");
	target_part(&t, "files");
	target_query(&t, "none", NULL);
	target_query(&t, "path", "/x y&z=\xc3\xa4\n");
	target_query_number(&t, "n", UINT64_MAX);
	target_query(&t, "metadata.k\"", "");
	CHECK_STR(
		target_text(&t, &e),
		"/v1/sessions/a%2Fb%3Fc/files?path=%2Fx%20y%26z%3D%C3%A4%0A&n=18446744073709551615"
		"&metadata.k%22=");
}

static void is_bounded(void)
{
	static char large[sizeof(t.text)];

	memset(large, '/', 4096); /* the longest path there can be, three bytes each */
	target_init(&t, "/v1");
	target_query(&t, "path", large);
	CHECK(target_text(&t, &e) != NULL && t.n == strlen("/v1?path=") + (size_t)3 * 4096);
	memset(large, 'a', sizeof(large) - 1);
	target_init(&t, "/v1");
	target_part(&t, large);
	target_part(&t, "b");
	CHECK(target_text(&t, &e) == NULL && e.code == ERR_LIMIT);
	target_init(&t, "/v1"); /* good again */
	CHECK_STR(target_text(&t, &e), "/v1");
}

TEST_MAIN({ "composes", composes }, { "is bounded", is_bounded })
