/* image_charge.c - see image_charge.h. The list has one element for each fork and resumed session
 * that lives. */
#include "daemon/tenant/image_charge.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/node/core_private.h"
#include "lib/base/hex.h"
#include "lib/base/list.h"
#include "lib/base/rand.h"
#include "lib/base/str.h"

void image_charge_name(char ret[STORE_ID_MAX])
{
	uint8_t random[12];
	char hex[2 * sizeof(random) + 1];

	rand_bytes(random, sizeof(random));
	hex_encode(random, sizeof(random), hex);
	(void)snprintf(ret, STORE_ID_MAX, "mem_%s", hex);
}

static struct image_charge *image_charge_find(const struct core *c, const char *id)
{
	struct image_charge *h = c->image_charges;

	while (h != NULL && strcmp(h->id, id) != 0)
		h = h->next;
	return h;
}

void image_charge_use(struct core *c, struct tenant *t, const char *id, uint64_t bytes)
{
	struct image_charge *h;

	if (id[0] == '\0')
		return;
	h = image_charge_find(c, id);
	if (h == NULL) {
		h = calloc(1, sizeof(*h));
		assert(h != NULL);
		*h = (struct image_charge){ .tenant = t, .bytes = bytes };
		str_copy(h->id, id);
		LIST_PUSH(&c->image_charges, h);
		c->memory_bytes += bytes;
		t->memory_bytes += bytes;
	}
	h->users++;
}

void image_charge_unuse(struct core *c, const char *id)
{
	struct image_charge *h = id[0] == '\0' ? NULL : image_charge_find(c, id);

	if (h == NULL || --h->users > 0)
		return;
	c->memory_bytes -= h->bytes;
	h->tenant->memory_bytes -= h->bytes;
	LIST_REMOVE(h);
	free(h);
}

uint64_t image_charge_adds(const struct core *c, const char *id, uint64_t bytes)
{
	return id[0] == '\0' || image_charge_find(c, id) != NULL ? 0 : bytes;
}

/* The session's former image loses a user. */
void image_charge_of_session(struct session *s, uint64_t bytes)
{
	image_charge_unuse(s->core, s->row.image);
	image_charge_name(s->row.image);
	s->row.image_bytes = bytes;
	image_charge_use(s->core, s->tenant, s->row.image, bytes);
}

void image_charge_free_all(struct core *c)
{
	struct image_charge *h;

	while ((h = c->image_charges) != NULL) {
		LIST_REMOVE(h);
		free(h);
	}
}
