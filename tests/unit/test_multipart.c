/* Goal: a form is taken apart the same however it is cut into pieces and however slowly its content
 * is taken; what is malformed is refused, and nothing of the framing is ever content. */
#include "front/e2b/envd/multipart.h"

#include "support.h"

#define TYPE "multipart/form-data; boundary=XYZ"
#define OUT_MAX 4096

struct taken {
	enum multipart_result result;
	char out[OUT_MAX]; /* "<name|filename>content" of each part */
	size_t n;
};

static void say(struct taken *t, const char *text, size_t n)
{
	CHECK(t->n + n < OUT_MAX);
	memcpy(t->out + t->n, text, n);
	t->n += n;
	t->out[t->n] = '\0';
}

static void begin(struct taken *t, const struct part_head *h)
{
	say(t, "<", 1);
	say(t, h->name, strlen(h->name));
	if (h->has_filename)
		say(t, "|", 1);
	say(t, h->filename, strlen(h->filename));
	say(t, ">", 1);
}

/* Feeds pieces of `step` bytes, taking at most `take` bytes of content at once. */
static void run(const char *type, const char *text, size_t len, size_t step, size_t take,
		struct taken *t)
{
	static struct multipart m;
	size_t at = 0;
	struct err e;

	*t = (struct taken){ .result = MULTIPART_MORE };
	CHECK(multipart_init(&m, (struct http1_span){ type, strlen(type) }, &e) == 0);
	for (;;) {
		size_t piece = len - at < step ? len - at : step, used, n;
		char *bytes = exact_copy(text + at, piece);
		struct http1_span data;

		t->result = multipart_read(&m, bytes, piece, &used, &data);
		CHECK(used <= piece);
		at += used;
		if (t->result == MULTIPART_PART)
			begin(t, &m.part);
		if (t->result == MULTIPART_DATA) {
			CHECK(data.n > 0);
			n = data.n < take ? data.n : take;
			say(t, data.p, n);
			at += multipart_took(&m, n);
		}
		if (t->result == MULTIPART_PART_END)
			say(t, ";", 1);
		free(bytes);
		if (t->result == MULTIPART_BAD)
			CHECK(m.why != NULL);
		if (t->result == MULTIPART_BAD || t->result == MULTIPART_END ||
		    (t->result == MULTIPART_MORE && at == len))
			break;
	}
	CHECK(multipart_ended(&m) == (t->result == MULTIPART_END));
}

#define FILE_HEAD(name) "Content-Disposition: form-data; name=\"file\"; filename=\"" name "\"\r\n"

static const struct {
	const char *text, *out;
	enum multipart_result result;
} cases[] = {
	{ "--XYZ\r\n" FILE_HEAD("a") "\r\nhello\r\n--XYZ--\r\n", "<file|a>hello;", MULTIPART_END },
	{ "--XYZ\r\n" FILE_HEAD("a") "\r\nhello\r\n--XYZ--", "<file|a>hello;", MULTIPART_END },
	{ "\r\n--XYZ\r\n" FILE_HEAD("a") "\r\n\r\n--XYZ--\r\nwhatever", "<file|a>;",
	  MULTIPART_END },
	{ "pre\r\namble\r\n--XYZ\r\n" FILE_HEAD("a") "\r\nx\r\n--XYZ--\r\n", "<file|a>x;",
	  MULTIPART_END },
	{ "--XYZ\r\n" FILE_HEAD(
		  "/home/user/x y.txt") "Content-Type: text/plain\r\n\r\nA\r\n--XYZ\r\n"
					"content-disposition: form-data; "
					"name=other\r\n\r\nB\r\n--XYZ--\r\n",
	  "<file|/home/user/x y.txt>A;<other>B;", MULTIPART_END },
	/* almost boundaries are content */
	{ "--XYZ\r\n" FILE_HEAD("a") "\r\n\r\n--XY\r\n-XYZ\r\r\n--XYY\r\n\r\n--XYZ--",
	  "<file|a>\r\n--XY\r\n-XYZ\r\r\n--XYY\r\n;", MULTIPART_END },
	{ "--XYZ\r\n" FILE_HEAD("a") "\r\n--XYZ\r\n--XYZ--", "<file|a>--XYZ;", MULTIPART_END },
	{ "--XYZ\r\n" FILE_HEAD("a") "\r\n\r\r\n--XYZ--", "<file|a>\r;", MULTIPART_END },
	/* escapes of forms, and those of quoted strings */
	{ "--XYZ\r\n" FILE_HEAD("a%22b%0D%0ac%41%2") "\r\n\r\n--XYZ--", "<file|a\"b\r\nc%41%2>;",
	  MULTIPART_END },
	{ "--XYZ\r\n" FILE_HEAD("a\\\"b\\\\c\\d") "\r\n\r\n--XYZ--", "<file|a\"b\\c\\d>;",
	  MULTIPART_END },
	{ "--XYZ\r\nContent-Disposition: form-data; name=file; filename=\"x\"; "
	  "filename*=UTF-8''%e2%82%ac%20x\r\n\r\n\r\n--XYZ--",
	  "<file|\xe2\x82\xac x>;", MULTIPART_END },
	{ "--XYZ\r\n" FILE_HEAD("") "\r\n\r\n--XYZ--", "<file|>;", MULTIPART_END },
	/* no end yet */
	{ "", "", MULTIPART_MORE },
	{ "--XYZ", "", MULTIPART_MORE },
	{ "--XYZ\r\n" FILE_HEAD("a") "\r\nhello", "<file|a>hello", MULTIPART_MORE },
	{ "--XYZ\r\n" FILE_HEAD("a") "\r\nhello\r\n--XYZ", "<file|a>hello;", MULTIPART_MORE },
	{ "--XYZ\r\n" FILE_HEAD("a") "\r\nhello\r\n--XY", "<file|a>hello", MULTIPART_MORE },
	/* malformed */
	{ "--XYZ\n" FILE_HEAD("a") "\r\nhello", "", MULTIPART_BAD },
	{ "--XYZ \r\n" FILE_HEAD("a") "\r\nhello", "", MULTIPART_BAD },
	{ "--XYZ-\r\n", "", MULTIPART_BAD },
	{ "--XYZ\r\n\r\nhello\r\n--XYZ--", "", MULTIPART_BAD },
	{ "--XYZ\r\nContent-Type: a\r\n\r\nhello\r\n--XYZ--", "", MULTIPART_BAD },
	{ "--XYZ\r\nContent-Disposition: attachment; name=file\r\n\r\n", "", MULTIPART_BAD },
	{ "--XYZ\r\nContent-Disposition: form-data\r\n\r\n", "", MULTIPART_BAD },
	{ "--XYZ\r\nContent-Disposition: form-data; name=\"file\r\n\r\n", "", MULTIPART_BAD },
	{ "--XYZ\r\nContent-Disposition: form-data; name=a; name=b\r\n\r\n", "", MULTIPART_BAD },
	{ "--XYZ\r\n" FILE_HEAD("a") FILE_HEAD("b") "\r\n", "", MULTIPART_BAD },
	{ "--XYZ\r\n" FILE_HEAD("a") " folded\r\n\r\n", "", MULTIPART_BAD },
	{ "--XYZ\r\nContent-Disposition : form-data; name=a\r\n\r\n", "", MULTIPART_BAD },
	{ "--XYZ\r\nContent-Disposition: form-data; name=a; filename*=UTF-8''%00\r\n\r\n", "",
	  MULTIPART_BAD },
	{ "--XYZ\r\nContent-Disposition: form-data; name=a; filename*=latin1''x\r\n\r\n", "",
	  MULTIPART_BAD },
};

static void table(void)
{
	static const size_t steps[] = { 1, 2, 3, 5, 7, 16, OUT_MAX };

	for (size_t i = 0; i < COUNT(cases); i++)
		for (size_t s = 0; s < COUNT(steps); s++)
			for (size_t t = 0; t < COUNT(steps); t++) {
				static struct taken got;

				run(TYPE, cases[i].text, strlen(cases[i].text), steps[s], steps[t],
				    &got);
				CHECK_CASE(cases[i].text, got.result == cases[i].result);
				CHECK_CASE(cases[i].text, strcmp(got.out, cases[i].out) == 0);
			}
}

static void types(void)
{
	static const struct {
		const char *type;
		bool ok;
	} t[] = {
		{ TYPE, true },
		{ "Multipart/Form-Data;boundary=\"a b\"", true },
		{ "multipart/form-data; charset=utf-8; boundary=----WebKitFormBoundaryA1", true },
		{ "multipart/form-data", false },
		{ "multipart/form-data; boundary=", false },
		{ "multipart/form-data; boundary=\"\"", false },
		{ "multipart/form-data; boundary=\"a\r\nb\"", false },
		{ "multipart/form-data; boundary=\"a \"", false },
		{ "multipart/form-data; boundary=\"a", false },
		{ "multipart/form-data; boundary=a b", false },
		{ "multipart/mixed; boundary=a", false },
		{ "multipart/form-datas; boundary=a", false },
		{ "multipart/form-data; boundary="
		  "0123456789012345678901234567890123456789012345678901234567890123456789",
		  true },
		{ "multipart/form-data; boundary="
		  "01234567890123456789012345678901234567890123456789012345678901234567890",
		  false },
		{ "", false },
	};
	static struct multipart m;
	struct err e;

	for (size_t i = 0; i < COUNT(t); i++)
		CHECK_CASE(t[i].type,
			   (multipart_init(&m, (struct http1_span){ t[i].type, strlen(t[i].type) },
					   &e) == 0) == t[i].ok);
}

/* Heads and what stands before the first part are bounded. */
static void bounds(void)
{
	static char text[MULTIPART_HEAD_MAX + 200];
	static struct taken t;
	size_t n;

	memset(text, 'x', sizeof(text));
	run(TYPE, text, 1000, SIZE_MAX, SIZE_MAX, &t);
	CHECK(t.result == MULTIPART_MORE);
	run(TYPE, text, 2000, SIZE_MAX, SIZE_MAX, &t);
	CHECK(t.result == MULTIPART_BAD);
	n = (size_t)snprintf(text, sizeof(text), "--XYZ\r\nA: ");
	text[n] = 'x';
	run(TYPE, text, sizeof(text), 100, SIZE_MAX, &t);
	CHECK(t.result == MULTIPART_BAD);
}

/* A name of any length that a path may have; one more is refused. */
static void long_names(void)
{
	static char text[3 * PART_HEAD_FILENAME_MAX];
	static struct multipart m;
	static const char head[] =
		"--XYZ\r\nContent-Disposition: form-data; name=file; filename=\"";
	struct http1_span data;
	size_t used;
	struct err e;

	for (size_t n = PART_HEAD_FILENAME_MAX - 1; n <= PART_HEAD_FILENAME_MAX; n++) {
		size_t at = sizeof(head) - 1;

		memcpy(text, head, at);
		memset(text + at, 'n', n);
		at += n;
		at += (size_t)snprintf(text + at, sizeof(text) - at, "\"\r\n\r\n");
		CHECK(multipart_init(&m, (struct http1_span){ TYPE, strlen(TYPE) }, &e) == 0);
		CHECK(multipart_read(&m, text, at, &used, &data) ==
		      (n < PART_HEAD_FILENAME_MAX ? MULTIPART_PART : MULTIPART_BAD));
	}
}

/* Content of CRs, and of boundaries' beginnings, in pieces of all sizes: nothing is lost. */
static void hard_content(void)
{
	static char content[1500], text[2000];
	static struct taken t;

	for (size_t i = 0; i < sizeof(content); i++)
		content[i] = "\r\n--XYQ\r\r\n-"[(i * 7 + i / 11) % 11];
	for (size_t step = 1; step < 40; step++) {
		size_t at = (size_t)snprintf(text, sizeof(text), "--XYZ\r\n" FILE_HEAD("a") "\r\n");

		memcpy(text + at, content, sizeof(content));
		at += sizeof(content);
		at += (size_t)snprintf(text + at, sizeof(text) - at, "\r\n--XYZ--");
		run(TYPE, text, at, step, 3, &t);
		CHECK(t.result == MULTIPART_END && t.n == 8 + sizeof(content) + 1);
		CHECK(memcmp(t.out + 8, content, sizeof(content)) == 0);
	}
}

TEST_MAIN({ "forms", table }, { "types", types }, { "bounds", bounds },
	  { "long names", long_names }, { "hard content", hard_content })
