/* Any text as the name of a template, and as passwd and group of an image: a name that is taken has
 * parts of harmless characters and is taken again; texts of users keep what was there and get each
 * line once. */
#include "fuzz.h"

#include <stdio.h>

#include "daemon/template/template_name.h"
#include "storage/user_text.h"

unsigned long fuzz_accepted;

#define TEXT_MAX (1U << 20)

static void check_name(const char *text)
{
	char again[TEMPLATE_NAME_TEXT + 2];
	struct template_name n, back;
	struct err e = { 0 };

	if (template_name_read(text, &n, &e) < 0) {
		assert(e.code == ERR_INVALID);
		return;
	}
	fuzz_accepted++;
	assert(n.name[0] != '\0' && n.name[0] != '.' && strpbrk(n.name, "/: \n") == NULL);
	assert(strcmp(n.tag, "default") != 0);
	assert(n.tag[0] == '\0' || template_name_is_tag(n.tag));
	(void)snprintf(again, sizeof(again), "%s%s%s%s%s", n.space, n.space[0] == '\0' ? "" : "/",
		       n.name, n.tag[0] == '\0' ? "" : ":", n.tag);
	assert(template_name_read(again, &back, &e) == 0 && memcmp(&n, &back, sizeof(n)) == 0);
}

static void check_users(const char *text, size_t n)
{
	struct user_text u = { .shell = "/bin/sh", .home = "/home/user" };
	struct buf one = BUF_INIT(TEXT_MAX), two = BUF_INIT(TEXT_MAX), group = BUF_INIT(TEXT_MAX);

	user_text_choose(text, n, text, n, &u);
	user_text_passwd(text, n, &u, &one);
	assert(!one.full && one.len >= n && (n == 0 || memcmp(one.data, text, n) == 0));
	assert(user_text_has(buf_text(&one), one.len, "root"));
	assert(user_text_has(buf_text(&one), one.len, "user"));
	user_text_passwd(buf_text(&one), one.len, &u, &two);
	assert(two.len == one.len);
	user_text_group(text, n, &u, &group);
	assert(user_text_has(buf_text(&group), group.len, "user"));
	buf_clear(&two);
	user_text_group(buf_text(&group), group.len, &u, &two);
	assert(two.len == group.len);
	buf_release(&one);
	buf_release(&two);
	buf_release(&group);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	char *exact = fuzz_copy(data, size);

	if (size < 10000) {
		check_name(text);
		check_users(exact, size);
	}
	free(exact);
	free(text);
	return 0;
}
