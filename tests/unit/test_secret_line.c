/* Lines of the column `secrets`: what can be said, and what is read back. */
#include "daemon/secrets/secret_spec.h"

#include <string.h>

#include "support.h"

static struct secret_spec line(const char *name, unsigned way, const char *where)
{
	struct secret_spec l = { .way = way };

	(void)snprintf(l.name, sizeof(l.name), "%s", name);
	(void)snprintf(l.where, sizeof(l.where), "%s", where);
	return l;
}

static void names(void)
{
	static const char *const good[] = { "a", "_", "0", "A.b-c_9" };
	static const char *const bad[] = { "",	  ".a",	      "-a", "a b", "a/b",
					   "a\n", "\xc3\xbc", "..", "." };
	char most[STORE_NAME_MAX + 1];

	for (size_t i = 0; i < COUNT(good); i++)
		CHECK(secret_spec_is_name(good[i]));
	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK(!secret_spec_is_name(bad[i]));
	memset(most, 'x', sizeof(most));
	most[STORE_NAME_MAX - 1] = '\0';
	CHECK(secret_spec_is_name(most));
	most[STORE_NAME_MAX - 1] = 'x';
	most[STORE_NAME_MAX] = '\0';
	CHECK(!secret_spec_is_name(most));
}

static void checks(void)
{
	static const struct {
		unsigned way;
		const char *where;
		bool good;
	} cases[] = {
		{ SECRET_ENV, "A", true },
		{ SECRET_ENV, "_a9", true },
		{ SECRET_ENV, "", false },
		{ SECRET_ENV, "9A", false },
		{ SECRET_ENV, "A=B", false },
		{ SECRET_BROKER, "A", true },
		{ SECRET_BROKER, "A B", false },
		{ SECRET_FILE, "", true },
		{ SECRET_FILE, "x.pem", true },
		{ SECRET_FILE, "/run/secrets/x", true },
		{ SECRET_FILE, "/run/secrets/", true },
		{ SECRET_FILE, "/run/secrets/../x", false },
		{ SECRET_FILE, "/etc/x", false },
		{ SECRET_FILE, "a/b", false },
		{ SECRET_FILE, ".socket", false },
		{ SECRET_SOCKET, "/usr/bin/x", true },
		{ SECRET_SOCKET, "x", false },
		{ SECRET_SOCKET, "", false },
		{ SECRET_SOCKET, "/a\tb", false },
		{ SECRET_SOCKET, "/a\nb", false },
		{ 0, "A", false },
		{ SECRET_ENV | SECRET_FILE, "A", false },
	};
	struct err e;

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct secret_spec l = line("n", cases[i].way, cases[i].where);

		CHECK((secret_spec_check(&l, &e) == 0) == cases[i].good);
		if (cases[i].good && l.way == SECRET_FILE) {
			CHECK(strchr(l.where, '/') == NULL && l.where[0] != '\0');
			CHECK(l.mode == 0400);
			CHECK_STR(l.owner, "user");
		}
	}
}

static void round_trip(void)
{
	struct secret_spec in[] = { line("a", SECRET_BROKER, "A"), line("b.c", SECRET_FILE, "f"),
				    line("d", SECRET_SOCKET, "/usr/bin/a b") },
			   got;
	struct buf b = BUF_INIT(8192);
	const char *at;

	(void)snprintf(in[0].placeholder, sizeof(in[0].placeholder), "cordon_x");
	(void)snprintf(in[1].owner, sizeof(in[1].owner), "root");
	in[1].mode = 0640;
	for (size_t i = 0; i < COUNT(in); i++)
		secret_spec_write(&in[i], &b);
	at = buf_text(&b);
	for (size_t i = 0; i < COUNT(in); i++) {
		CHECK(secret_spec_next(&at, &got));
		CHECK_STR(got.name, in[i].name);
		CHECK_STR(got.where, in[i].where);
		CHECK_STR(got.owner, in[i].owner);
		CHECK_STR(got.placeholder, in[i].placeholder);
		CHECK(got.way == in[i].way && got.mode == in[i].mode);
	}
	CHECK(!secret_spec_next(&at, &got));
	buf_release(&b);
}

/* A row that was changed by hand, cut anywhere. */
static void nonsense(void)
{
	static const char *const bad[] = {
		"a",  "a\tenv\tA\t\t0\t",     "a\tmail\tA\t\t0\t\n", "a\tenv\tA\n",
		"\n", "a\tenv\tA\t\t0\t\tx\n"
	};
	static const char good[] = "a\tenv\tA\t\t0\t\n";
	struct secret_spec got;

	for (size_t i = 0; i < COUNT(bad); i++) {
		const char *at = bad[i];

		CHECK(!secret_spec_next(&at, &got));
	}
	for (size_t n = 0; n < sizeof(good) - 1; n++) {
		char text[sizeof(good)];
		const char *at = text;

		memcpy(text, good, n);
		text[n] = '\0';
		CHECK(!secret_spec_next(&at, &got));
	}
}

TEST_MAIN({ "names", names }, { "checks", checks }, { "round trip", round_trip },
	  { "nonsense", nonsense })
