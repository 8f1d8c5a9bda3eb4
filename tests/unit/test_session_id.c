#include "lib/base/session_id.h"

#include <string.h>

#include "support.h"

static void ids_are_valid_and_differ(void)
{
	static const char *const nodes[] = { "", "a", "fra1", "0123456789abcdefghijkl" };
	char id[SESSION_ID_MAX], before[SESSION_ID_MAX] = "";

	for (size_t i = 0; i < COUNT(nodes); i++)
		for (int k = 0; k < 100; k++) {
			session_id_make(nodes[i], id);
			CHECK_CASE(id, session_id_is_valid(id, strlen(id)));
			CHECK_CASE(id, strncmp(id + 1, nodes[i], strlen(nodes[i])) == 0);
			CHECK_CASE(id, strcmp(id, before) != 0);
			/* a server's keeper refuses hexadecimal ids */
			CHECK_CASE(id, id[strspn(id, "0123456789abcdef")] != '\0');
			memcpy(before, id, sizeof(id));
		}
}

static void any_length_and_first_letter_are_good(void)
{
	static const char *const good[] = { "a", "0", "i0123456789abcdef", "zfra1x",
					    "012345678901234567890123456789012345678" };
	static const char *const bad[] = {
		"",    "A",   "a-b",
		"a_b", "a.b", "a/b",
		"a b", "ä",   "0123456789012345678901234567890123456789"
	};
	char id[SESSION_ID_MAX];

	for (size_t i = 0; i < COUNT(good); i++) {
		CHECK_CASE(good[i], session_id_read(good[i], strlen(good[i]), id));
		CHECK_STR(id, good[i]);
	}
	for (size_t i = 0; i < COUNT(bad); i++) {
		CHECK_CASE(bad[i], !session_id_read(bad[i], strlen(bad[i]), id));
		CHECK_STR(id, "");
	}
	CHECK(!session_id_is_valid("a\0b", 3));
	CHECK(session_id_is_valid("ab-c", 2));
}

static void names_of_nodes(void)
{
	CHECK(session_id_is_node("") && session_id_is_node("fra1"));
	CHECK(session_id_is_node("0123456789abcdefghijkl"));
	CHECK(!session_id_is_node("0123456789abcdefghijklm"));
	CHECK(!session_id_is_node("a-b") && !session_id_is_node("Fra"));
}

TEST_MAIN({ "ids are valid and differ", ids_are_valid_and_differ },
	  { "any length and first letter are good", any_length_and_first_letter_are_good },
	  { "names of nodes", names_of_nodes })
