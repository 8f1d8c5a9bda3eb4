/* The work of reading a lockfile is proportional to its size, whatever it has in it: cordond reads
 * lockfiles in its loop. Each hostile text has 4 MiB, and is read in some multiple of the CPU time
 * that a plain loop over its bytes takes, so that neither the machine nor its load counts. A reader
 * that looks at the rest of the text for each byte takes a million times as long. */
#include "test.h"

#include <time.h>

#include "lib/packages/lock.h"

#define SIZE (4U << 20)
#define TIMES_MAX 100 /* of the plain loop; the slowest one takes about a fourth of it */
#define TRIES 5
#define BLANKS 60000U /* less than a line may have */

#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define SHA1 "sha1-AAAAAAAAAAAAAAAAAAAAAAAAAAA="

/* start, then body (\\1: a number that grows, of 64 digits; \\2: blanks) again and again, then end.
 * The closing brackets of a nested one are as many as it has bodies, at most `most`. */
struct row {
	const char *name, *start, *body, *end, *close;
	size_t most; /* bodies; 0: as many as there is room for */
};

static const struct row rows[] = {
	{ "yarn.lock", "", "\":\n", "", "", 0 },
	{ "yarn.lock", "\"", "a@1, ", ":\n", "", 0 },
	{ "yarn.lock", "", "a@1:\n  version \"1\"\n  integrity " SHA1 "\n", "", "", 0 },
	{ "yarn.lock", "__metadata:\n\na:\n", "  resolution: \"a@npm:1\"\n", "", "", 0 },
	{ "yarn.lock", "a@1:\n", "  resolved \"http#\"\n", "", "", 0 },
	{ "pnpm-lock.yaml", "lockfileVersion: 9\npackages:\n  a@1:\n    resolution: {", " ", "}\n",
	  "", 0 },
	{ "pnpm-lock.yaml", "lockfileVersion: 9\npackages:\n  a@1:\n    resolution: {", ",", "}\n",
	  "", 0 },
	{ "pnpm-lock.yaml", "lockfileVersion: 9\npackages:\n  a@1:\n", "    resolution: {\2, , }\n",
	  "", "", 0 },
	{ "pnpm-lock.yaml", "lockfileVersion: 9\npackages:\n  a@1:\n    resolution:\n",
	  "      integrity: " SHA1 "\n", "", "", 0 },
	{ "pnpm-lock.yaml", "lockfileVersion: 9\npackages:\n", "  a@a@(((@@@:\n", "", "", 0 },
	{ "pnpm-lock.yaml", "", "lockfileVersion\n", "", "", 0 },
	{ "requirements.txt", "a==1 ", "--hash=sha256:" A64 " \\\n", "", "", 0 },
	{ "requirements.txt", "a==1 ", "--hash=sha256:\1 \\\n", "", "", LOCK_DIGESTS_MAX },
	{ "requirements.txt", "a==1 ", "--hash\\\n", "", "", 0 },
	{ "requirements.txt", "a==1 ", "; \\\n", "", "", 0 },
	{ "requirements.txt", "", "a[[[[[[[[[[[[[[[[[[[[]==1 ;;;;;;;;;;\n", "", "", 0 },
	{ "requirements.txt", "a", "[", "", "", 0 },
	{ "requirements.txt", "a==1 \\\n", "\2; \\\n", "", "", 0 },
	{ "go.sum", "", "h.x/y v1.0.0 h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n", "", "",
	  0 },
	{ "go.sum", "h.x/y ", " ", "\n", "", 0 },
	{ "Gemfile.lock", "GEM\n\nCHECKSUMS\n  a (1.0)", " ", "\n", "", 0 },
	{ "Gemfile.lock", "GEM\n\nCHECKSUMS\n", "  a (1.0)\2,,,,,,\n", "", "", 0 },
	{ "Gemfile.lock", "GEM\n\nCHECKSUMS\n", "  a (1.0) sha256=" A64 ",sha256=" A64 "\n", "", "",
	  0 },
	{ "Gemfile.lock", "GEM\n", "\nCHECKSUMS \n", "", "", 0 },
	{ "package-lock.json", "{\"lockfileVersion\": 1, \"dependencies\": {",
	  "\"a\": {\"dependencies\": {", "\"b\": {\"version\": \"1\"}", "}}", 60 },
	{ "package-lock.json", "{\"lockfileVersion\": 3, \"packages\": {\"\": {}", ",\"x/\1\":{}",
	  "", "", 0 },
	{ "package-lock.json",
	  "{\"lockfileVersion\": 3, \"packages\": {\"node_modules/a\": {\"x\": 1",
	  ", \"version\":\"1\"", "}", "", 0 },
	{ "package-lock.json", "{\"lockfileVersion\": 3, \"packages\": {\"", "node_modules",
	  "\": {}", "", 0 },
	{ "package-lock.json", "{\"lockfileVersion\": 3, \"packages\": {\"", "\\\\\\\"", "\": {}",
	  "", 0 },
	{ "poetry.lock", "[[package]]\nname='a'\nversion='1'\nfiles=[", "{hash='sha256:" A64 "'},",
	  "]\n", "", 0 },
	{ "poetry.lock", "[metadata.files]\na=[", "{file='a-1.tar.gz',hash='sha256:" A64 "'},",
	  "]\n", "", 0 },
	{ "poetry.lock", "a=[", "[[[[[[[[]]]]]]]],", "]\n", "", 0 },
	{ "poetry.lock", "a=\"\"\"", "\\\"\"", "\"\"\"\n", "", 0 },
	{ "uv.lock", "[[package]]\nname='a'\nversion='1'\nwheels=[", "{hash='sha256:\1'},", "]\n",
	  "", LOCK_DIGESTS_MAX },
	{ "uv.lock", "", "a.b.c.d.e.f.g.h=1\n", "", "", 0 },
	{ "uv.lock", "a=", " ", "1\n", "", 0 },
	{ "pylock.toml", "", "[[packages]]\n", "", "", 0 },
	{ "pylock.toml", "[[packages]]\n", "a.hashes.b.hashes.c='1'\n", "", "", 0 },
	{ "Cargo.lock", "[[package]]\n", "name='a'\nsource='registry+'\n", "", "", 0 },
	{ "Cargo.lock", "[metadata]\n", "'checksum a 1 (x)'='" A64 "'\n", "", "", 0 },
};

static double cpu(void)
{
	struct timespec t;

	CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static size_t put(char *text, size_t n, const char *piece, size_t number)
{
	for (; *piece != '\0'; piece++) {
		if (*piece == '\1') {
			n += (size_t)snprintf(text + n, 65, "%064zu", number);
		} else if (*piece == '\2') {
			memset(text + n, ' ', BLANKS);
			n += BLANKS;
		} else {
			text[n++] = *piece;
		}
	}
	return n;
}

/* A text with few bodies is filled up: the last lines come again and again, as a file's would. */
static size_t make(const struct row *row, char *text)
{
	size_t n = put(text, 0, row->start, 0), many = 0;

	for (; n < SIZE && (row->most == 0 || many < row->most); many++)
		n = put(text, n, row->body, many);
	while (row->most > 100 && n < SIZE) /* the last digest, which is compared with all others */
		n = put(text, n, row->body, many - 1);
	n = put(text, n, row->end, 0);
	if (row->close[0] != '\0') {
		for (size_t i = 0; n < SIZE; i++)
			n = put(text, n, ", \"b\1\": {\"version\": \"1\"}", i);
		for (; many > 0; many--)
			n = put(text, n, row->close, 0);
	}
	return strncmp(row->name, "package-", 8) == 0 ? put(text, n, "}}", 0) : n;
}

static double plain_loop(const char *text, size_t n)
{
	double from = cpu();
	volatile size_t found = 0;

	for (size_t i = 0; i < n; i++)
		found += text[i] == '\0';
	CHECK(found == 0);
	return cpu() - from;
}

static int on_pin(void *arg, const struct lock_pin *pin, struct err *e)
{
	return 0;
}

static double reading(const struct row *row, const char *text, size_t n, struct err *e)
{
	double from = cpu();

	if (lock_read(row->name, text, n, on_pin, NULL, e) == 0)
		e->msg[0] = '\0';
	return cpu() - from;
}

static void in_time(void)
{
	char *text = malloc(SIZE + 4 * BLANKS);

	CHECK(text != NULL);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct err e = { 0 };
		size_t n = make(&rows[i], text);
		double times = TIMES_MAX;

		CHECK(n >= SIZE);
		for (int try = 0; try < TRIES && times >= TIMES_MAX; try++)
			times = reading(&rows[i], text, n, &e) / plain_loop(text, n);
		printf("# %s, row %zu: %.1f (%s)\n", rows[i].name, i, times, e.msg);
		CHECK(times < TIMES_MAX);
	}
	free(text);
}

TEST_MAIN({ "hostile texts are read in time that grows with their size only", in_time })
