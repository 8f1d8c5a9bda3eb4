/* record_quota.c - records stay for `retention` after the end of their session, so the records of a
 * tenant are bounded by bytes, not only by the number of its sessions. The sum of a tenant is in
 * the store (store_records.h); the sums of a session are counted once and then kept in memory. */
#include "record_quota.h"

#include <string.h>

#include "core_private.h"
#include "store_records.h"

void record_quota_cut(char *text)
{
	static const char end[] = "...";
	size_t at = RECORD_TEXT_MAX - strlen(end);

	if (strlen(text) <= RECORD_TEXT_MAX)
		return;
	while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80)
		at--;
	memcpy(text + at, end, sizeof(end));
}

int record_quota_session(struct core *c, const struct tenant *t, uint64_t *ret_max, struct err *e)
{
	uint64_t rows, bytes, max = c->o.config->tenant_max_records;

	*ret_max = max;
	if (max == 0)
		return 0;
	if (store_records_get(c->store, t->row.id, &rows, &bytes, e) < 0)
		return -1;
	return bytes >= max;
}

static int count(struct session *s, struct err *e)
{
	uint64_t rows, bytes;

	if (s->records > 0 || !s->restored)
		return 0;
	if (store_execution_count(s->core->store, s->row.id, &rows, &bytes, e) < 0)
		return -1;
	s->records = rows;
	s->text_bytes = bytes > rows * STORE_RECORD_BASE ? bytes - rows * STORE_RECORD_BASE : 0;
	return 0;
}

int record_quota_check(struct session *s, struct err *e)
{
	uint64_t max = s->core->o.config->execution_records_max;
	int full;

	if (count(s, e) < 0)
		return -1;
	if (s->records >= max)
		return err_set_reason(e, REASON_QUOTA_RECORDS,
				      "a session has at most %llu executions",
				      (unsigned long long)max);
	full = record_quota_session(s->core, s->tenant, &max, e);
	if (full > 0)
		return err_set_reason(e, REASON_QUOTA_RECORDS,
				      "the tenant's bytes of records are %llu; those of "
				      "ended sessions go with their retention",
				      (unsigned long long)max);
	return full;
}

void record_quota_text(struct session *s, char *text)
{
	size_t len = strlen(text);

	if (s->text_bytes + len > s->core->o.config->session_output_max)
		text[0] = '\0';
	else
		s->text_bytes += len;
}
