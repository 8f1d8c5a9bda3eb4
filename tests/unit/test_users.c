/* Goal: the cell's own passwd and group files name its users, and nothing in them can do more. */
#include "cell/init/base/users.h"

#include "support.h"

static const char passwd[] = "root:x:0:0:root:/root:/bin/bash\n"
			     "user:x:1000:1000:A User,,,:/home/user:/bin/sh\n"
			     "nohome:x:5:6:::\n"
			     "twice:x:7:7::/first:/bin/sh\n"
			     "twice:x:8:8::/second:/bin/sh\n"
			     "same:x:7:9::/third:/bin/sh\n"
			     "1234:x:50:50::/digits:/bin/sh\n"
			     "last:x:99:99::/last:/bin/last";

/* In an exact copy: a file has no NUL at its end. */
static bool find(const char *text, size_t len, const char *who, struct users_entry *ret)
{
	char *exact = exact_copy(text, len);
	bool found = users_find(exact, len, who, ret);

	free(exact);
	return found;
}

static const struct {
	const char *who;
	int uid, gid; /* -1: nobody */
	const char *name, *home, *shell;
} finds[] = {
	{ "root", 0, 0, "root", "/root", "/bin/bash" },
	{ "0", 0, 0, "root", "/root", "/bin/bash" },
	{ "00", 0, 0, "root", "/root", "/bin/bash" },
	{ "user", 1000, 1000, "user", "/home/user", "/bin/sh" },
	{ "1000", 1000, 1000, "user", "/home/user", "/bin/sh" },
	{ "0000001000", 1000, 1000, "user", "/home/user", "/bin/sh" },
	{ "nohome", 5, 6, "nohome", "", "" },
	{ "twice", 7, 7, "twice", "/first", "/bin/sh" },
	{ "7", 7, 7, "twice", "/first", "/bin/sh" },
	{ "same", 7, 9, "same", "/third", "/bin/sh" },
	{ "last", 99, 99, "last", "/last", "/bin/last" },
	{ "99", 99, 99, "last", "/last", "/bin/last" },
	{ "50", 50, 50, "1234", "/digits", "/bin/sh" },
	{ "1234", -1, -1, NULL, NULL, NULL }, /* digits are a number, not a name */
	{ "Root", -1, -1, NULL, NULL, NULL },
	{ "roo", -1, -1, NULL, NULL, NULL },
	{ "roott", -1, -1, NULL, NULL, NULL },
	{ "", -1, -1, NULL, NULL, NULL },
	{ "x", -1, -1, NULL, NULL, NULL },
	{ "root:x", -1, -1, NULL, NULL, NULL },
	{ "root\n", -1, -1, NULL, NULL, NULL },
	{ "+0", -1, -1, NULL, NULL, NULL },
	{ "-1", -1, -1, NULL, NULL, NULL },
	{ " 0", -1, -1, NULL, NULL, NULL },
	{ "0x0", -1, -1, NULL, NULL, NULL },
	{ "00000000000", -1, -1, NULL, NULL, NULL }, /* eleven digits are no id */
	{ "4294968296", -1, -1, NULL, NULL, NULL },  /* 2^32 + 1000 */
	{ "/root", -1, -1, NULL, NULL, NULL },
};

static void finds_by_name_and_number(void)
{
	for (size_t i = 0; i < COUNT(finds); i++) {
		struct users_entry u = { .uid = 77 };
		bool found = find(passwd, sizeof(passwd) - 1, finds[i].who, &u);

		CHECK_CASE(finds[i].who, found == (finds[i].uid >= 0));
		CHECK_CASE(finds[i].who, found || u.uid == 77);
		if (!found)
			continue;
		CHECK_CASE(finds[i].who,
			   u.uid == (uint32_t)finds[i].uid && u.gid == (uint32_t)finds[i].gid);
		CHECK_STR(u.name, finds[i].name);
		CHECK_STR(u.home, finds[i].home);
		CHECK_STR(u.shell, finds[i].shell);
	}
}

/* Each stands before a good line for the same user, which must be the one found. */
static const struct {
	const char *name, *line;
	size_t len;
} malformed[] = {
	{ "empty line", "\n", 1 },
	{ "only colons", "::::::\n", 7 },
	{ "too few fields", "u:x:1:1::/bad\n", 14 },
	{ "one field", "u\n", 2 },
	{ "no uid", "u:x::1::/bad:/s\n", 16 },
	{ "no gid", "u:x:1:::/bad:/s\n", 16 },
	{ "uid not a number", "u:x:one:1::/bad:/s\n", 19 },
	{ "uid negative", "u:x:-1:1::/bad:/s\n", 18 },
	{ "uid with space", "u:x: 1:1::/bad:/s\n", 18 },
	{ "uid with sign", "u:x:+1:1::/bad:/s\n", 18 },
	{ "uid hexadecimal", "u:x:0x1:1::/bad:/s\n", 19 },
	{ "uid that leaves alone", "u:x:4294967295:1::/bad:/s\n", 26 },
	{ "uid over 32 bits", "u:x:4294967296:1::/bad:/s\n", 26 },
	{ "uid over 64 bits", "u:x:18446744073709551617:1::/bad:/s\n", 36 },
	{ "gid that leaves alone", "u:x:1:4294967295::/bad:/s\n", 26 },
	{ "NUL in the home", "u:x:1:1::/b\0d:/s\n", 17 },
	{ "NUL in the shell", "u:x:1:1::/bad:/\0s\n", 18 },
	{ "NUL in the name", "u\0:x:1:1::/bad:/s\n", 18 },
	{ "NUL in the uid", "u:x:\0:1::/bad:/s\n", 17 },
	{ "comment", "#u:x:1:1::/bad:/s\n", 18 },
	{ "space before", " u:x:1:1::/bad:/s\n", 18 },
	{ "NIS", "+u:x:1:1::/bad:/s\n", 18 },
};

static void malformed_lines_do_not_count(void)
{
	static const char good[] = "u:x:1:2::/good:/s";

	for (size_t i = 0; i < COUNT(malformed); i++) {
		char text[128];
		struct users_entry u;

		memcpy(text, malformed[i].line, malformed[i].len);
		memcpy(text + malformed[i].len, good, sizeof(good) - 1);
		CHECK_CASE(malformed[i].name,
			   find(text, malformed[i].len + sizeof(good) - 1, "u", &u));
		CHECK_STR(u.home, "/good");
		CHECK_CASE(malformed[i].name, !find(malformed[i].line, malformed[i].len, "u", &u));
	}
}

/* Names, homes and shells as long as they may be are taken, one longer are not. */
static void fields_are_bounded(void)
{
	static const struct {
		size_t name, home, shell;
		bool ok;
	} cases[] = { { 63, 255, 255, true },  { 64, 255, 255, false }, { 63, 256, 255, false },
		      { 63, 255, 256, false }, { 60000, 1, 1, false },	{ 1, 60000, 1, false },
		      { 1, 1, 60000, false } };
	static char text[70000], who[70000];

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct users_entry *u = malloc(sizeof(*u));
		size_t n = 0;

		CHECK(u != NULL);
		memset(who, 'n', cases[i].name);
		who[cases[i].name] = '\0';
		memset(text, 'n', cases[i].name);
		n += cases[i].name;
		memcpy(text + n, ":x:1:1::", 8);
		n += 8;
		memset(text + n, 'h', cases[i].home);
		n += cases[i].home;
		text[n++] = ':';
		memset(text + n, 's', cases[i].shell);
		n += cases[i].shell;
		CHECK(find(text, n, who, u) == cases[i].ok);
		CHECK(!cases[i].ok ||
		      (strlen(u->name) == cases[i].name && strlen(u->home) == cases[i].home &&
		       strlen(u->shell) == cases[i].shell));
		free(u);
	}
}

static void finds_at_every_cut(void)
{
	for (size_t len = 0; len < sizeof(passwd); len++) {
		struct users_entry u;
		bool found = find(passwd, len, "root", &u);

		/* The last field needs only its colon. */
		CHECK(found == (len >= sizeof("root:x:0:0:root:/root:") - 1));
		CHECK(!found || u.uid == 0);
	}
	CHECK(!users_find(NULL, 0, "root", &(struct users_entry){ 0 }));
}

static void largest_ids_are_ids(void)
{
	static const char text[] = "big:x:4294967294:4294967294::/:/s\n";
	struct users_entry u;

	CHECK(find(text, sizeof(text) - 1, "big", &u) && u.uid == 4294967294 &&
	      u.gid == 4294967294);
	CHECK(find(text, sizeof(text) - 1, "4294967294", &u));
	CHECK(!find(text, sizeof(text) - 1, "4294967295", &u));
}

static const char group[] = "root:x:0:\n"
			    "tty:x:5:user\n"
			    "sudo:x:27:admin,user\n"
			    "mid:x:30:a,user,b\n"
			    "prefix:x:31:users,use,auser\n"
			    "broken:x:-1:user\n"
			    "short:x:32\n"
			    "spaces:x:33: user\n"
			    "commas:x:34:,,user,,\n"
			    "leave:x:4294967295:user\n"
			    "last:x:35:user";

static void collects_groups(void)
{
	static const uint32_t want[] = { 5, 27, 30, 34, 35 };
	uint32_t gids[USERS_GROUPS_MAX];
	char *exact = exact_copy(group, sizeof(group) - 1);

	CHECK(users_groups(exact, sizeof(group) - 1, "user", gids, USERS_GROUPS_MAX) ==
	      COUNT(want));
	CHECK(memcmp(gids, want, sizeof(want)) == 0);
	CHECK(users_groups(exact, sizeof(group) - 1, "admin", gids, USERS_GROUPS_MAX) == 1 &&
	      gids[0] == 27);
	CHECK(users_groups(exact, sizeof(group) - 1, "nobody", gids, USERS_GROUPS_MAX) == 0);
	CHECK(users_groups(exact, sizeof(group) - 1, "a,user", gids, USERS_GROUPS_MAX) == 0);
	CHECK(users_groups(NULL, 0, "user", gids, USERS_GROUPS_MAX) == 0);
	free(exact);
}

static void groups_are_bounded(void)
{
	static char text[100000];
	size_t len = 0;

	for (unsigned i = 0; i < 1000; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "g:x:%u:u\n", i);
	for (size_t cap = 0; cap <= USERS_GROUPS_MAX; cap++) {
		uint32_t *gids = calloc(cap + (cap == 0), sizeof(*gids));

		CHECK(gids != NULL);
		CHECK(users_groups(text, len, "u", gids, cap) == cap);
		CHECK(cap == 0 || gids[cap - 1] == cap - 1);
		free(gids);
	}
}

static void numbers_need_no_file(void)
{
	static const struct {
		const char *who;
		bool ok;
		uint32_t uid;
	} cases[] = { { "0", true, 0 },
		      { "1000", true, 1000 },
		      { "4294967294", true, 4294967294 },
		      { "4294967295", false, 0 },
		      { "4294967296", false, 0 },
		      { "", false, 0 },
		      { "user", false, 0 },
		      { "-1", false, 0 },
		      { "1 ", false, 0 },
		      { "1.0", false, 0 },
		      { "99999999999", false, 0 } };

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct users_entry u = { .uid = 77 };

		CHECK_CASE(cases[i].who, users_bare(cases[i].who, &u) == cases[i].ok);
		if (!cases[i].ok) {
			CHECK_CASE(cases[i].who, u.uid == 77);
			continue;
		}
		CHECK_CASE(cases[i].who, u.uid == cases[i].uid && u.gid == cases[i].uid);
		CHECK_STR(u.name, cases[i].who);
		CHECK_STR(u.home, "/");
		CHECK_STR(u.shell, "/bin/sh");
	}
}

TEST_MAIN({ "finds by name and number", finds_by_name_and_number },
	  { "malformed lines do not count", malformed_lines_do_not_count },
	  { "fields are bounded", fields_are_bounded },
	  { "finds at every cut", finds_at_every_cut },
	  { "the largest ids are ids", largest_ids_are_ids },
	  { "collects groups", collects_groups }, { "groups are bounded", groups_are_bounded },
	  { "numbers need no file", numbers_need_no_file })
