/* secret_quota.c - see secret_quota.h. A mask looks for a value in many encodings and takes many
 * times its size, for each session, here and in egress. */
#include "secret_quota.h"

#include <string.h>

#include "core.h"
#include "session.h"
#include "secret_state.h"
#include "secret_values.h"

#define ROOM (4U << 20)
#define SESSION_ROOM (512U << 10) /* of one session: its configuration for egress has them all */
#define SMALL 512 /* always accepted, so that a value can be replaced whatever the others have */

struct sum {
	const char *name; /* that changes; NULL: none */
	size_t len, all;
	size_t most; /* of one session that has the secret */
};

static void add(struct session *s, void *arg)
{
	struct sum *sum = arg;
	const struct secret_state *st = secret_state_of(s);
	size_t own = st == NULL ? 0 : st->bytes;

	sum->all += own;
	if (sum->name == NULL || !secret_values_has(s, sum->name))
		return;
	sum->all += sum->len;
	if (own + sum->len > sum->most)
		sum->most = own + sum->len;
}

static int check(struct core *c, const struct tenant *t, struct sum *sum, struct err *e)
{
	session_each(c, t, add, sum);
	if (sum->most > SESSION_ROOM)
		return err_set_reason(e, REASON_QUOTA_SECRET_BYTES,
				      "the secrets of a session may have at most "
				      "%u bytes together",
				      SESSION_ROOM);
	if (sum->all <= ROOM)
		return 0;
	return err_set_reason(e, REASON_QUOTA_SECRET_BYTES,
			      "the secrets of all sessions may have at most %u bytes together",
			      ROOM);
}

int secret_quota_more(struct core *c, const struct tenant *t, size_t more, struct err *e)
{
	struct sum sum = { .all = more, .most = more };

	return check(c, t, &sum, e);
}

int secret_quota_session(struct session *s, size_t more, struct err *e)
{
	const struct secret_state *st = secret_state_of(s);
	struct sum sum = { .all = more, .most = (st == NULL ? 0 : st->bytes) + more };

	return more == 0 ? 0 : check(session_core(s), session_tenant(s), &sum, e);
}

static void add_resent(struct session *s, void *arg)
{
	struct sum *sum = arg;
	const struct secret_state *st = secret_state_of(s);

	if (st != NULL && secret_values_has(s, sum->name))
		sum->all += st->bytes;
}

size_t secret_quota_resent(struct core *c, const struct tenant *t, const char *name)
{
	struct sum sum = { .name = name };

	session_each(c, t, add_resent, &sum);
	return sum.all;
}

int secret_quota_change(struct core *c, const struct tenant *t, const char *name, size_t len,
			struct err *e)
{
	struct sum sum = { .name = name, .len = len };

	return len <= SMALL ? 0 : check(c, t, &sum, e);
}
