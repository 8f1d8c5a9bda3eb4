/* audit_read.c - see audit_read.h. */
#include "daemon/audit/audit_read.h"

#include <string.h>

#include "daemon/audit/audit_private.h"
#include "lib/base/clock.h"
#include "lib/base/str.h"

#define SAME_NS (60ULL * 1000 * CLOCK_MS)

/* The place of this reader, or the one whose last reading is the oldest. */
static struct audit_reader *find_reader(struct audit *a, const char *key, const char *tenant)
{
	struct audit_reader *oldest = &a->readers[0];

	for (size_t i = 0; i < AUDIT_READERS; i++) {
		struct audit_reader *one = &a->readers[i];

		if (strcmp(one->key, key) == 0 && strcmp(one->tenant, tenant) == 0)
			return one;
		if (one->at_ns < oldest->at_ns)
			oldest = one;
	}
	return oldest;
}

/* Is it the next page of the reader's last reading? */
static bool audit_read_continues(const struct audit_reader *r, const struct audit_reading *what)
{
	return what->continues && what->after >= r->next && r->epoch == what->epoch &&
	       strcmp(r->how, what->how) == 0 && strcmp(r->session, what->session) == 0 &&
	       strcmp(r->type, what->type) == 0 && clock_now_ns() - r->at_ns < SAME_NS;
}

int audit_note_read(struct audit *a, const struct store_actor *who, const char *tenant,
		    const struct audit_reading *what, struct err *e)
{
	const struct audit_record record = { .tenant = tenant, .type = "audit.read", .actor = who };
	struct audit_reader *reader = find_reader(a, who->key_id, tenant);
	bool same = strcmp(reader->key, who->key_id) == 0 && strcmp(reader->tenant, tenant) == 0 &&
		    audit_read_continues(reader, what);

	if (!same && audit_append(a, &record, e, "how\t%s\n?session\t%s\n?type\t%s\n", what->how,
				  what->session, what->type) < 0)
		return -1;
	str_copy(reader->key, who->key_id);
	str_copy(reader->tenant, tenant);
	str_copy(reader->how, what->how);
	str_copy(reader->session, what->session);
	str_copy(reader->type, what->type);
	reader->epoch = what->epoch;
	reader->next = what->continues ? what->after + 1 : 0;
	reader->at_ns = clock_now_ns();
	return 0;
}
