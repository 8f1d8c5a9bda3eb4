/* Who is asked for (up to the first NUL), then a file that is read as passwd and as group: what is
 * found is bounded, ended, fits the question, and has no field separator in it. */
#include "fuzz.h"

#include <stdio.h>

#include "cell/init/base/users.h"

unsigned long fuzz_accepted;

static int is_id(const char *who, uint32_t id)
{
	char text[16];

	while (who[0] == '0' && who[1] != '\0')
		who++;
	(void)snprintf(text, sizeof(text), "%u", id);
	return strcmp(who, text) == 0;
}

static int all_digits(const char *s)
{
	return *s != '\0' && s[strspn(s, "0123456789")] == '\0';
}

static void check_field(const char *s, size_t cap)
{
	assert(memchr(s, '\0', cap) != NULL && strpbrk(s, ":\n") == NULL);
}

static void check_entry(const struct users_entry *u, const char *who)
{
	assert(u->uid != UINT32_MAX && u->gid != UINT32_MAX); /* which would mean: leave alone */
	check_field(u->name, sizeof(u->name));
	check_field(u->home, sizeof(u->home));
	check_field(u->shell, sizeof(u->shell));
	assert(is_id(who, u->uid) || (strcmp(u->name, who) == 0));
}

static void check_groups(const char *text, size_t len, const char *who, size_t cap)
{
	uint32_t *gids = malloc(cap * sizeof(*gids) + (cap == 0));
	size_t n;

	assert(gids != NULL);
	n = users_groups(text, len, who, gids, cap);
	assert(n <= cap);
	for (size_t i = 0; i < n; i++)
		assert(gids[i] != UINT32_MAX);
	fuzz_accepted += n > 0;
	free(gids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = size > 0 ? memchr(data, '\0', size) : NULL;
	size_t split = nul == NULL ? size : (size_t)(nul - data);
	size_t begin = nul == NULL ? size : split + 1, len = size - begin;
	char *who = fuzz_text(data, split), *text = fuzz_copy(data + begin, len);
	struct users_entry u;

	if (users_find(text, len, who, &u)) {
		check_entry(&u, who);
		fuzz_accepted++;
	}
	if (users_bare(who, &u)) {
		assert(all_digits(who) && is_id(who, u.uid) && u.gid == u.uid);
		check_entry(&u, who);
	}
	check_groups(text, len, who, USERS_GROUPS_MAX);
	check_groups(text, len, who, 1);
	check_groups(text, len, who, 0);
	free(who);
	free(text);
	return 0;
}
