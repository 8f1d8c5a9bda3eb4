/* held_memory.c - see held_memory.h. There are as many as forks and resumed sessions that live, so
 * a list does. */
#include "held_memory.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core_private.h"
#include "hex.h"
#include "list.h"
#include "rand.h"

void held_memory_name(char ret[STORE_ID_MAX])
{
	uint8_t random[12];
	char hex[2 * sizeof(random) + 1];

	rand_bytes(random, sizeof(random));
	hex_encode(random, sizeof(random), hex);
	(void)snprintf(ret, STORE_ID_MAX, "mem_%s", hex);
}

static struct held_memory *find(const struct core *c, const char *id)
{
	struct held_memory *h = c->held_memory;

	while (h != NULL && strcmp(h->id, id) != 0)
		h = h->next;
	return h;
}

void held_memory_use(struct core *c, struct tenant *t, const char *id, uint64_t bytes)
{
	struct held_memory *h;

	if (id[0] == '\0')
		return;
	h = find(c, id);
	if (h == NULL) {
		h = calloc(1, sizeof(*h));
		assert(h != NULL);
		*h = (struct held_memory){ .tenant = t, .bytes = bytes };
		(void)snprintf(h->id, sizeof(h->id), "%s", id);
		LIST_PUSH(&c->held_memory, h);
		c->memory_bytes += bytes;
		t->memory_bytes += bytes;
	}
	h->users++;
}

void held_memory_unuse(struct core *c, const char *id)
{
	struct held_memory *h = id[0] == '\0' ? NULL : find(c, id);

	if (h == NULL || --h->users > 0)
		return;
	c->memory_bytes -= h->bytes;
	h->tenant->memory_bytes -= h->bytes;
	LIST_REMOVE(h);
	free(h);
}

uint64_t held_memory_adds(const struct core *c, const char *id, uint64_t bytes)
{
	return id[0] == '\0' || find(c, id) != NULL ? 0 : bytes;
}

void held_memory_of_session(struct session *s, uint64_t bytes)
{
	held_memory_unuse(s->core, s->row.image);
	held_memory_name(s->row.image);
	s->row.image_bytes = bytes;
	held_memory_use(s->core, s->tenant, s->row.image, bytes);
}

void held_memory_free_all(struct core *c)
{
	struct held_memory *h;

	while ((h = c->held_memory) != NULL) {
		LIST_REMOVE(h);
		free(h);
	}
}
