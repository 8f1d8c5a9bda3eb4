/* audit_batch.c - see audit_batch.h. */
#include "daemon/audit/audit_batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/base/hex.h"
#include "lib/base/own.h"

#define BATCH_LEAF_MAX (4U << 20) /* of one row. A message of cordon-egress is shorter */
#define BATCH_LOST_MAX (1ULL << 53)

static void batch_add_time(struct json *j, uint64_t ms)
{
	static time_t known = -1; /* strftime() once a second */
	static char day[32];
	time_t t = (time_t)(ms / 1000);
	char text[48];
	struct tm tm;

	if (ms == 0 ||
	    (t != known && (gmtime_r(&t, &tm) == NULL ||
			    strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm) == 0))) {
		known = ms == 0 ? known : -1;
		json_none(j, "time");
		return;
	}
	known = t;
	(void)snprintf(text, sizeof(text), "%s.%03uZ", day, (unsigned)(ms % 1000));
	json_text(j, "time", text);
}

void audit_batch_show(struct json *j, const char *name, const struct store_net *row)
{
	size_t len = strlen(row->data);
	OWN_MEM char *text = NULL;
	char head[256];
	struct json h;

	json_init(&h, head, sizeof(head));
	json_open(&h, NULL, '{');
	json_uint(&h, "seq", row->seq);
	batch_add_time(&h, row->time_ms);
	json_text(&h, "session_id", row->session);
	json_text(&h, "execution_id", row->execution[0] == '\0' ? NULL : row->execution);
	text = malloc(h.len + len + 2);
	if (text == NULL || len < 2) { /* the data begins with '{' and has a member */
		j->full = true;
		return;
	}
	(void)snprintf(text, h.len + len + 2, "%s,%s", h.text, row->data + 1);
	json_raw(j, name, text);
}

/* cordon-egress says how many records it dropped before this one. In texts of the record a quote
 * has a backslash in front, so this is a member's name wherever it stands. */
static uint64_t batch_lost(const char *data)
{
	static const char member[] = ",\"lost_before\":";
	const char *at = strstr(data, member);
	uint64_t n = at == NULL ? 0 : strtoull(at + strlen(member), NULL, 10);

	return n > BATCH_LOST_MAX ? 0 : n;
}

int audit_batch_add(struct audit_batch *b, const struct store_net *row, struct err *e)
{
	struct tlog_hash hash;
	struct json j;
	bool good;

	json_init_heap(&j, BATCH_LEAF_MAX);
	audit_batch_show(&j, NULL, row);
	good = json_ok(&j);
	if (good)
		tlog_leaf(j.text, j.len, &hash);
	json_release(&j);
	if (!good || !tlog_range_add(&b->tree, 0, &hash))
		return err_set(e, ERR_SYSTEM, "network record %llu: cannot be hashed",
			       (unsigned long long)row->seq);
	b->first = b->first == 0 ? row->seq : b->first;
	b->last = row->seq;
	b->lost += batch_lost(row->data);
	return 0;
}

void audit_batch_root(const struct audit_batch *b, char ret[2 * TLOG_HASH + 1])
{
	struct tlog_hash root;

	tlog_range_root(&b->tree, &root);
	hex_encode(root.bytes, sizeof(root.bytes), ret);
}
