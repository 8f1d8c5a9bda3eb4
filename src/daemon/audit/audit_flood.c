/* audit_flood.c - see audit_flood.h. */
#include "daemon/audit/audit_flood.h"

#include <string.h>

#include "daemon/audit/audit_private.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/str.h"

#define FLOOD_RECORD 700 /* bytes of a record without its sealed values, about */
#define FLOOD_EVERY_MS 60000

/* What the record takes in the database, about: control characters become six bytes. */
static uint64_t flood_cost(const struct audit_record *r)
{
	uint64_t cost = FLOOD_RECORD;

	for (size_t i = 0; i < AUDIT_SEALED_MAX; i++)
		for (const char *at = r->sealed[i].value; at != NULL && *at != '\0'; at++)
			cost += (unsigned char)*at < ' ' || *at == 0x7f ? 6 : 1;
	return cost;
}

static bool flood_takes(struct audit_flood *f, uint64_t cost, bool failed)
{
	uint64_t now = clock_now_ns(), left = failed ? AUDIT_FLOOD_MAX / 2 : 0;
	uint64_t more = (now - f->at_ns) / 1000000 * AUDIT_FLOOD_RATE / 1000;

	if (f->at_ns == 0 || more >= AUDIT_FLOOD_MAX - f->room)
		f->room = AUDIT_FLOOD_MAX;
	else
		f->room += more;
	if (f->at_ns == 0 || more > 0)
		f->at_ns = now;
	if (f->room < left + cost)
		return false;
	f->room -= cost;
	return true;
}

static int flood_write(struct audit *a, struct audit_log *l, struct err *e)
{
	const struct audit_flood *f = &l->flood;
	const struct audit_record record = { .tenant = l->tenant, .type = "file.counted" };
	char keys[AUDIT_FLOOD_KEYS * (STORE_ID_MAX + 1)] = "";
	size_t n = 0;

	for (unsigned i = 0; i < f->nkeys; i++) {
		if (i > 0)
			keys[n++] = ' ';
		str_copy_to(keys + n, sizeof(keys) - n, f->keys[i]);
		n += strlen(keys + n);
	}
	return audit_append(a, &record, e,
			    "operations\t%llu\nfailed\t%llu\nbytes\t%llu\n?keys\t%s\n",
			    (unsigned long long)f->held, (unsigned long long)f->failed,
			    (unsigned long long)f->moved, keys);
}

static void flood_name(struct audit_flood *f, const struct store_actor *who)
{
	if (who == NULL || who->key_id[0] == '\0' || f->nkeys == AUDIT_FLOOD_KEYS)
		return;
	for (unsigned i = 0; i < f->nkeys; i++)
		if (strcmp(f->keys[i], who->key_id) == 0)
			return;
	str_copy(f->keys[f->nkeys++], who->key_id);
}

/* The first record of a flood has no counts yet: it says that they begin. */
static int flood_count(struct audit *a, struct audit_log *l, const struct audit_record *r,
		       bool failed, uint64_t moved, struct err *e)
{
	if (l->flood.held == 0 && flood_write(a, l, e) < 0)
		return -1;
	if (!a->flooded)
		loop_timer_set(a->loop, &a->flood_timer,
			       clock_now_ns() + FLOOD_EVERY_MS * CLOCK_MS);
	a->flooded = true;
	l->flood.held++;
	l->flood.failed += failed;
	l->flood.moved += moved;
	flood_name(&l->flood, r->actor);
	return 0;
}

int audit_flood_append(struct audit *a, const struct audit_record *r, const char *facts,
		       bool failed, uint64_t moved, struct err *e)
{
	struct audit_log *l;
	bool own;
	int done;

	if (store_join(a->store, &own, e) < 0)
		return -1;
	l = audit_find(a, r->tenant, e);
	if (l == NULL) {
		store_rollback(a->store);
		return -1;
	}
	done = flood_takes(&l->flood, flood_cost(r), failed)
		       ? audit_append_facts(a, r, facts, e)
		       : flood_count(a, l, r, failed, moved, e);
	return done < 0 ? -1 : store_leave(a->store, own, e);
}

void audit_flood_flush(struct audit *a)
{
	struct err e;

	a->flooded = false;
	for (size_t i = 0; i < AUDIT_BUCKETS; i++) {
		for (struct audit_log *l = a->logs[i]; l != NULL; l = l->next_log) {
			struct audit_flood *f = &l->flood;

			if (f->held == 0)
				continue;
			if (flood_write(a, l, &e) < 0)
				log_error("a record of the audit log could not be written",
					  "tenant=%s type=file.counted operations=%llu error=%s",
					  l->tenant, (unsigned long long)f->held, e.msg);
			f->held = f->failed = f->moved = f->nkeys = 0;
		}
	}
}

void audit_flood_on_timer(struct loop_timer *t)
{
	audit_flood_flush(t->arg);
}
