#include "egress/secrets/secrets_sent.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/str.h"

bool secrets_sent_has(const struct secrets_sent *s, const char *host, const char *name)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->all[i].name, name) == 0 && strcmp(s->all[i].host, host) == 0)
			return true;
	return false;
}

/* Without memory the process ends: a forgotten pair could show the value to the cell. */
static void add_one(struct secrets_sent *s, const char *host, const char *name)
{
	struct secrets_sent_pair *one;

	if (secrets_sent_has(s, host, name))
		return;
	if (s->n < SECRETS_SENT_MAX) {
		s->all = reallocarray(s->all, s->n + 1, sizeof(s->all[0]));
		assert(s->all != NULL);
		one = &s->all[s->n++];
	} else {
		one = &s->all[s->next++ % SECRETS_SENT_MAX];
	}
	str_copy(one->host, host);
	str_copy(one->name, name);
}

/* A name that is too long is no secret's name. */
void secrets_sent_add(struct secrets_sent *s, const char *host, const char *names)
{
	while (*names != '\0') {
		size_t n = strcspn(names, ",");
		char name[SECRETS_SENT_NAME_MAX];

		if (n < sizeof(name)) {
			memcpy(name, names, n);
			name[n] = '\0';
			add_one(s, host, name);
		}
		names += n + (names[n] == ',');
	}
}

void secrets_sent_release(struct secrets_sent *s)
{
	free(s->all);
	*s = (struct secrets_sent){ 0 };
}
