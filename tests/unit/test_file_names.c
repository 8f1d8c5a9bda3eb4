/* Goal: names and numbers of owners come out of well-formed lines only, and nothing in the cell's
 * files makes us read beyond them. */
#include "cell/init/files/file_names.h"

#include "support.h"

static const char text[] = "root:x:0:0:root:/root:/bin/sh\n"
			   "broken:x\n"
			   ":x:5:empty name\n"
			   "minus:x:-1:\n"
			   "all:x:4294967295:\n"
			   "big:x:4294967294:\n"
			   "user:x:1000:1000::/home/user:/bin/bash\n"
			   "second:x:1000:\n"
			   "averyveryverylongname:x:7:\n"
			   "group:x:8:user,root\n"
			   "noend:x:9:";

static const char *find(uint32_t id)
{
	static char name[16];
	char *copy = exact_copy(text, sizeof(text) - 1);
	bool found = file_names_find(copy, sizeof(text) - 1, id, name, sizeof(name));

	free(copy);
	return found ? name : "(none)";
}

static void finds_names(void)
{
	CHECK_STR(find(0), "root");
	CHECK_STR(find(1000), "user");
	CHECK_STR(find(8), "group");
	CHECK_STR(find(9), "noend");
	CHECK_STR(find(4294967294U), "big");
	CHECK_STR(find(4294967295U), "(none)");
	CHECK_STR(find(5), "(none)");
	CHECK_STR(find(7), "(none)"); /* does not fit */
	CHECK_STR(find(1), "(none)");
}

static void finds_numbers(void)
{
	uint32_t id = 77;

	CHECK(file_names_number(text, sizeof(text) - 1, "second", &id) && id == 1000);
	CHECK(file_names_number(text, sizeof(text) - 1, "root", &id) && id == 0);
	id = 77;
	CHECK(!file_names_number(text, sizeof(text) - 1, "", &id));
	CHECK(!file_names_number(text, sizeof(text) - 1, "roo", &id));
	CHECK(!file_names_number(text, sizeof(text) - 1, "broken", &id));
	CHECK(!file_names_number(text, sizeof(text) - 1, "minus", &id));
	CHECK(!file_names_number("", 0, "root", &id));
	CHECK(id == 77);
}

static void owners(void)
{
	uint32_t uid = 77, gid = 78;

	CHECK(file_names_owner("0", &uid, &gid) && uid == 0 && gid == 78);
	CHECK(file_names_owner("12:34", &uid, &gid) && uid == 12 && gid == 34);
	CHECK(file_names_owner(":56", &uid, &gid) && uid == 12 && gid == 56);
	CHECK(file_names_owner("root:0", &uid, &gid) && uid == 0 && gid == 0);
	CHECK(!file_names_owner("", &uid, &gid));
	CHECK(!file_names_owner("1:", &uid, &gid));
	CHECK(!file_names_owner("4294967295", &uid, &gid));
	CHECK(!file_names_owner("no-such-user-here", &uid, &gid));
	CHECK(!file_names_owner("1:no-such-group-here", &uid, &gid));
}

static void cell_files(void)
{
	CHECK_STR(file_names_user(0), "root");
	CHECK_STR(file_names_group(0), "root");
	CHECK_STR(file_names_user(3999999999U), "");
	CHECK_STR(file_names_user(0), "root"); /* from the cache */
}

TEST_MAIN({ "finds names", finds_names }, { "finds numbers", finds_numbers },
	  { "reads owners", owners }, { "reads /etc", cell_files })
