/* Goal: each bound of a lockfile and of a report of malicious packages is taken at its value, and
 * refused one beyond with an error that names it. */
#include "test.h"

#include "lib/packages/lock.h"
#include "lib/packages/osv.h"

#define ROOM (LOCK_TEXT_MAX + 4096)

static char *text;
static size_t len, found;
static struct err e;

static void begin(const char *start)
{
	if (text == NULL)
		text = malloc(ROOM);
	CHECK(text != NULL);
	len = (size_t)snprintf(text, ROOM, "%s", start);
}

static void put(const char *more)
{
	size_t n = strlen(more);

	CHECK(len + n < ROOM);
	memcpy(text + len, more, n + 1);
	len += n;
}

static void put_bytes(char byte, size_t n)
{
	CHECK(len + n < ROOM);
	memset(text + len, byte, n);
	text[len += n] = '\0';
}

static void put_many(const char *item, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		put(item);
}

static int on_pin(void *arg, const struct lock_pin *pin, struct err *why)
{
	found++;
	return 0;
}

/* more: 0 at the bound, 1 beyond. */
static void expect(const char *name, unsigned more, const char *words)
{
	int done;

	e = (struct err){ 0 };
	found = 0;
	done = lock_read(name, text, len, on_pin, NULL, &e);
	if ((done < 0) != (more > 0) || (more > 0 && strstr(e.msg, words) == NULL))
		printf("# %s: %u beyond: '%s'\n", name, more, e.msg);
	CHECK((done < 0) == (more > 0));
	CHECK(more == 0 || strstr(e.msg, words) != NULL);
}

static void bytes_of_a_file(void)
{
	for (unsigned more = 0; more < 2; more++) {
		begin("{\"lockfileVersion\": 3}");
		put_bytes(' ', LOCK_TEXT_MAX + more - len);
		expect("package-lock.json", more, "more than 16777216 bytes");
	}
}

static void bytes_of_a_line(void)
{
	static const char *const names[] = { "requirements.txt", "yarn.lock", "Gemfile.lock" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		for (unsigned more = 0; more < 2; more++) {
			begin("");
			put_bytes('#', LOCK_LINE_MAX + more);
			put("\n");
			expect(names[i], more, "line 1: a line of more than 65536 bytes");
		}
}

static void pins_of_a_file(void)
{
	for (unsigned more = 0; more < 2; more++) {
		begin("");
		put_many("a==1\n", LOCK_PINS_MAX + more);
		expect("requirements.txt", more, "more than 20000 packages");
		CHECK(found == LOCK_PINS_MAX);
	}
}

static void digests(void)
{
	for (unsigned more = 0; more < 2; more++) {
		begin("a==1 \\\n");
		for (unsigned i = 0; i < LOCK_DIGESTS_MAX + more; i++) {
			char one[128];

			(void)snprintf(one, sizeof(one), " --hash=sha256:%064u \\\n", i);
			put(one);
		}
		expect("requirements.txt", more, "a version has at most 1024 files");
	}
	for (unsigned more = 0; more < 2; more++) {
		char one[128];

		(void)snprintf(one, sizeof(one), " --hash=sha256:%064u \\\n", 1U);
		begin("a==1 \\\n");
		put_many(one, LOCK_ALL_DIGESTS_MAX + more);
		expect("requirements.txt", more, "more than 65536 digests");
	}
}

/* Lists in lists. */
static void depths(void)
{
	for (unsigned more = 0; more < 2; more++) {
		begin("a=");
		put_many("[", 16 + more);
		put_many("]", 16 + more);
		expect("uv.lock", more, "line 1: nested too deeply");
		begin("{\"lockfileVersion\": 3, \"x\": ");
		put_many("[", 127 + more);
		put_many("]", 127 + more);
		put("}");
		expect("package-lock.json", more, "package-lock.json");
		/* The entries of version 1 are read by a recursion. */
		begin("{\"lockfileVersion\": 1, \"dependencies\": ");
		put_many("{\"a\": {\"dependencies\": ", 63);
		put(more ? "{\"b\": {}}" : "{}");
		put_many("}}", 63);
		put("}");
		expect("package-lock.json", more, "package-lock.json");
	}
}

/* With its dots and NUL; of a table and of a key in it, at once. */
static void keys_of_toml(void)
{
	for (unsigned more = 0; more < 2; more++) {
		begin("[[package]]\nname='a'\nversion='1'\n[package.");
		put_bytes('t', 291);
		put("]\n");
		put_bytes('k', 298 + more);
		put("=1\n");
		expect("uv.lock", more, "line 5: a key is too long");
		begin("[package.");
		put_bytes('t', 291 + more);
		put("]\nk='v'\n");
		expect("uv.lock", more, "line 1: a key is too long");
	}
}

static int on_entry(void *arg, const struct osv_entry *entry, struct err *why)
{
	found++;
	return 0;
}

static void expect_report(unsigned more)
{
	size_t skipped = 0;
	int done;

	e = (struct err){ 0 };
	done = osv_read(text, len, on_entry, NULL, &skipped, &e);
	if ((done < 0) != (more > 0))
		printf("# %u beyond: '%s'\n", more, e.msg);
	CHECK((done < 0) == (more > 0) && (more == 0 || e.msg[0] != '\0'));
}

static void reports(void)
{
	for (unsigned more = 0; more < 2; more++) {
		begin("{\"id\":\"MAL-1\"}");
		put_bytes(' ', OSV_TEXT_MAX + more - len);
		expect_report(more);
		begin("{\"id\":\"MAL-");
		put_bytes('1', OSV_ID_MAX - 5 + more);
		put("\"}");
		expect_report(more);
		begin("{\"id\":\"MAL-1\",\"x\":");
		put_many("[", 31 + more);
		put_many("]", 31 + more);
		put("}");
		expect_report(more);
	}
}

TEST_MAIN({ "bytes of a file", bytes_of_a_file }, { "bytes of a line", bytes_of_a_line },
	  { "pins of a file", pins_of_a_file }, { "digests", digests }, { "depths", depths },
	  { "keys of TOML", keys_of_toml }, { "reports", reports })
