/* secret_admit.c - see secret_admit.h. */
#include "secret_admit.h"

#include <assert.h>
#include <string.h>

#include "core.h"
#include "rand.h"
#include "secret_change.h"
#include "secret_delivery.h"
#include "secret_quota.h"
#include "secret_state.h"

#define PLACEHOLDER "cordon_"
#define PLACEHOLDER_CHARS 32

static void make_placeholder(char ret[SECRET_PLACEHOLDER_MAX])
{
	static const char chars[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	size_t n = strlen(PLACEHOLDER);

	memcpy(ret, PLACEHOLDER, n);
	for (size_t i = 0; i < PLACEHOLDER_CHARS; i++)
		ret[n + i] = chars[rand_below(sizeof(chars) - 1)];
	ret[n + PLACEHOLDER_CHARS] = '\0';
}

int secret_admit_one(struct session *s, struct secret_spec *l, size_t *bytes, struct err *e)
{
	struct store_secret row;
	int may;

	if (secret_spec_check(l, e) < 0)
		return -1;
	if (store_secret_get_by_name(core_store(session_core(s)), session_row(s)->tenant, l->name,
				     &row, e) < 0)
		return e->code == ERR_NOT_FOUND
			       ? err_set(e, ERR_INVALID, "secret %s: not found", l->name)
			       : -1;
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
		make_placeholder(l->placeholder);
	*bytes += row.box_len;
	store_secret_release(&row);
	return may;
}

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

int secret_admit(struct session *s, struct err *e)
{
	const char *at = session_row(s)->secrets;
	struct buf lines = BUF_INIT(SECRET_LINES_MAX * (SECRET_WHERE_MAX + (size_t)256));
	struct secret_spec l;
	size_t bytes = secret_change_inherit(s);
	unsigned n = 0;
	int settled = 0;

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
