/* Goal: data cannot end its event, and begin none. */
#include "lib/http/sse.h"

#include "support.h"

static const struct {
	const char *event, *id, *data, *want; /* NULL want: refused */
} cases[] = {
	{ NULL, NULL, "a", "data: a\n\n" },
	{ "x", "7", "a", "event: x\nid: 7\ndata: a\n\n" },
	{ NULL, NULL, "", "data: \n\n" },
	{ NULL, NULL, "a\nb", "data: a\ndata: b\n\n" },
	{ NULL, NULL, "a\r\nb\rc\n", "data: a\ndata: b\ndata: c\ndata: \n\n" },
	{ NULL, NULL, "a\n\nevent: x", "data: a\ndata: \ndata: event: x\n\n" },
	{ NULL, NULL, "a\r\r\n\n\r", "data: a\ndata: \ndata: \ndata: \ndata: \n\n" },
	{ "", "", " a", "event: \nid: \ndata:  a\n\n" },
	{ "a\nb", NULL, "a", NULL },
	{ NULL, "a\rb", "a", NULL },
};

static void formats_events(void)
{
	char text[128];

	for (size_t i = 0; i < COUNT(cases); i++) {
		const char *data = cases[i].data;
		char *exact = exact_copy(data, strlen(data));
		int n = sse_event(text, sizeof(text), cases[i].event, cases[i].id, exact,
				  strlen(data));

		free(exact);
		CHECK_CASE(data, n == (cases[i].want == NULL ? -1 : (int)strlen(cases[i].want)));
		if (n >= 0)
			CHECK_STR(text, cases[i].want);
	}
}

static void writes_no_more_than_fits(void)
{
	static const char want[] = "event: x\ndata: a\ndata: b\n\n";

	for (size_t cap = 0; cap < sizeof(want) + 2; cap++) {
		char *text = malloc(cap + (cap == 0));

		CHECK(text != NULL);
		CHECK(sse_event(text, cap, "x", NULL, "a\nb", 3) ==
		      (cap < sizeof(want) ? -1 : (int)sizeof(want) - 1));
		free(text);
	}
}

TEST_MAIN({ "formats events", formats_events },
	  { "writes no more than fits", writes_no_more_than_fits })
