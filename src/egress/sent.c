#include "sent.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool sent_has(const struct sent *s, const char *host, const char *name)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->all[i].name, name) == 0 && strcmp(s->all[i].host, host) == 0)
			return true;
	return false;
}

static void add_one(struct sent *s, const char *host, const char *name)
{
	struct sent_one *one;

	if (sent_has(s, host, name))
		return;
	if (s->n < SENT_MAX) {
		s->all = reallocarray(s->all, s->n + 1, sizeof(s->all[0]));
		assert(s->all != NULL);
		one = &s->all[s->n++];
	} else {
		one = &s->all[s->next++ % SENT_MAX];
	}
	(void)snprintf(one->host, sizeof(one->host), "%s", host);
	(void)snprintf(one->name, sizeof(one->name), "%s", name);
}

void sent_add(struct sent *s, const char *host, const char *names)
{
	while (*names != '\0') {
		size_t n = strcspn(names, ",");
		char name[SENT_NAME_MAX];

		if (n < sizeof(name)) {
			memcpy(name, names, n);
			name[n] = '\0';
			add_one(s, host, name);
		}
		names += n + (names[n] == ',');
	}
}

void sent_release(struct sent *s)
{
	free(s->all);
	*s = (struct sent){ 0 };
}
