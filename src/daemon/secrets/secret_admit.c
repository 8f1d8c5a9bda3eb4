/* secret_admit.c - see secret_admit.h. */
#include "daemon/secrets/secret_admit.h"

#include <assert.h>
#include <string.h>

#include "daemon/node/core.h"
#include "daemon/secrets/secret.h"
#include "daemon/secrets/secret_delivery.h"
#include "daemon/secrets/secret_state.h"
#include "daemon/secrets/secret_values.h"
#include "daemon/session/session.h"
#include "lib/base/err_missing.h"
#include "lib/base/rand.h"

/* ---- see secret_admit.h. A mask looks for a value in many encodings and takes many
 * times its size, for each session, here and in egress. */

#define ROOM (4U << 20)
#define SESSION_ROOM (512U << 10) /* of one session: its configuration for egress has them all */
#define SMALL 512 /* always accepted, so that a value can be replaced at the bound */

/* A sum over the sessions of a tenant, with a planned change of one secret. */
struct secret_admit_sum {
	const char *name; /* that changes. NULL: none */
	size_t len, all;
	size_t most; /* of one session with the secret */
};

static void secret_admit_add(struct session *s, void *arg)
{
	struct secret_admit_sum *sum = arg;
	const struct secret_state *st = secret_state_of(s);
	size_t own = st == NULL ? 0 : st->bytes;

	sum->all += own;
	if (sum->name == NULL || !secret_values_has(s, sum->name))
		return;
	sum->all += sum->len;
	if (own + sum->len > sum->most)
		sum->most = own + sum->len;
}

/* Both bounds: for the largest session, and for all sessions together. */
static int secret_admit_check(struct core *c, const struct tenant *t, struct secret_admit_sum *sum,
			      struct err *e)
{
	session_each(c, t, secret_admit_add, sum);
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
	struct secret_admit_sum sum = { .all = more, .most = more };

	return secret_admit_check(c, t, &sum, e);
}

int secret_quota_session(struct session *s, size_t more, struct err *e)
{
	const struct secret_state *st = secret_state_of(s);
	struct secret_admit_sum sum = { .all = more, .most = (st == NULL ? 0 : st->bytes) + more };

	return more == 0 ? 0 : secret_admit_check(session_core(s), session_tenant(s), &sum, e);
}

static void secret_admit_add_resent(struct session *s, void *arg)
{
	struct secret_admit_sum *sum = arg;
	const struct secret_state *st = secret_state_of(s);

	if (st != NULL && secret_values_has(s, sum->name))
		sum->all += st->bytes;
}

size_t secret_quota_resent(struct core *c, const struct tenant *t, const char *name)
{
	struct secret_admit_sum sum = { .name = name };

	session_each(c, t, secret_admit_add_resent, &sum);
	return sum.all;
}

int secret_quota_change(struct core *c, const struct tenant *t, const char *name, size_t len,
			struct err *e)
{
	struct secret_admit_sum sum = { .name = name, .len = len };

	return len <= SMALL ? 0 : secret_admit_check(c, t, &sum, e);
}

#define PLACEHOLDER "cordon_"
#define PLACEHOLDER_CHARS 32

/* Random, so a program that did not get it cannot name the secret. */
static void secret_admit_make_placeholder(char ret[SECRET_PLACEHOLDER_MAX])
{
	static const char chars[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	size_t n = strlen(PLACEHOLDER);

	memcpy(ret, PLACEHOLDER, n);
	for (size_t i = 0; i < PLACEHOLDER_CHARS; i++)
		ret[n + i] = chars[rand_below(sizeof(chars) - 1)];
	ret[n + PLACEHOLDER_CHARS] = '\0';
}

/* A session that continues another one's memory keeps its placeholders: programs have them already.
 */
int secret_admit_one(struct session *s, struct secret_spec *l, size_t *bytes, struct err *e)
{
	struct store_secret row;
	int may;

	if (secret_spec_check(l, e) < 0)
		return -1;
	if (store_secret_get_by_name(core_store(session_core(s)), session_row(s)->tenant, l->name,
				     &row, e) < 0)
		return e->code == ERR_NOT_FOUND ? err_missing(e, "secret", l->name) : -1;
	may = secret_usable(session_core(s), &row, e);
	if (may == 0 && (row.ways & l->way) == 0)
		may = err_set(e, ERR_DENIED, "secret %s: may not be used as %s", l->name,
			      secret_spec_way(l->way));
	if (may == 0 && l->way == SECRET_BROKER && row.hosts[0] == '\0')
		may = err_set(e, ERR_INVALID,
			      "secret %s: is bound to no host, so its placeholder would never be "
			      "replaced",
			      l->name);
	if (l->way == SECRET_BROKER && !(session_goes_on(s) && l->placeholder[0] != '\0'))
		secret_admit_make_placeholder(l->placeholder);
	*bytes += row.box_len;
	store_secret_release(&row);
	return may;
}

/* Sockets do not exclude each other: several programs may ask. */
bool secret_admit_is_twice(const char *lines, const struct secret_spec *l)
{
	struct secret_spec other;

	while (secret_spec_next(&lines, &other))
		if (strcmp(other.where, l->where) == 0 &&
		    ((other.way | l->way) & SECRET_SOCKET) == 0 &&
		    (other.way == SECRET_FILE) == (l->way == SECRET_FILE))
			return true;
	return false;
}

/* The row's lines are replaced by checked ones with placeholders. The session's state owns that
 * text. */
int secret_admit(struct session *s, struct err *e)
{
	const char *at = session_row(s)->secrets;
	struct buf lines = BUF_INIT(SECRET_LINES_MAX * (SECRET_WHERE_MAX + (size_t)256));
	struct secret_spec l;
	size_t bytes = secret_change_inherit(s);
	unsigned n = 0;
	int settled = secret_kept_check(s, &bytes, e);

	if (settled < 0)
		return -1;
	if (at == NULL || *at == '\0')
		return bytes == 0 ? 0
				  : secret_quota_more(session_core(s), session_tenant(s), bytes, e);
	while (settled == 0 && secret_spec_next(&at, &l)) {
		if (++n > SECRET_LINES_MAX)
			settled = err_set(e, ERR_LIMIT, "secrets: at most %d", SECRET_LINES_MAX);
		else
			settled = secret_admit_one(s, &l, &bytes, e);
		if (settled == 0 && secret_admit_is_twice(buf_text(&lines), &l))
			settled =
				err_set(e, ERR_INVALID,
					"secret %s: another one is already in that place", l.name);
		if (settled == 0)
			secret_spec_write(&l, &lines);
	}
	if (settled == 0)
		settled = buf_check(&lines, e);
	if (settled == 0)
		settled = secret_quota_more(session_core(s), session_tenant(s), bytes, e);
	if (settled == 0) {
		struct secret_state *st = secret_state(s);

		st->lines = strdup(buf_text(&lines));
		assert(st->lines != NULL);
		session_set_secrets(s, st->lines);
		st->delivering = secret_delivery_is_needed(s);
	}
	buf_release(&lines);
	return settled;
}
