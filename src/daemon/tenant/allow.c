/* allow.c - see allow.h. */
#include "daemon/tenant/allow.h"

#include <string.h>

#include "daemon/node/core_private.h"
#include "daemon/store/store_key.h"
#include "daemon/template/templates.h"
#include "daemon/tenant/quota.h"
#include "daemon/tenant/tenant.h"
#include "lib/wire/cell_level.h"

/* Is the name of n bytes in a list? An empty list has every name. */
static bool is_listed(const char *list, const char *name, size_t n)
{
	for (const char *at = list; *at != '\0';) {
		size_t len = strcspn(at, ",");

		if (len == n && memcmp(at, name, n) == 0)
			return true;
		at += len + (at[len] == ',');
	}
	return list[0] == '\0';
}

static int check_name(const char *list, const char *what, const char *name, const char *whose,
		      struct err *e)
{
	if (is_listed(list, name, strlen(name)))
		return 0;
	return err_set(e, ERR_DENIED, "%s %.60s: the %s is allowed only %.100s", what, name, whose,
		       list);
}

/* "none" and "deny" give nothing, so every list allows them. */
static int check_network(const struct store_allow *a, const char *network, const char *whose,
			 struct err *e)
{
	if (strcmp(network, "none") == 0)
		return 0;
	for (const char *at = network; *at != '\0';) {
		size_t n = strcspn(at, "+");

		if (!(n == 4 && memcmp(at, "deny", 4) == 0) && !is_listed(a->networks, at, n))
			return err_set(e, ERR_DENIED,
				       "network %.60s: the %s is allowed only %.100s", network,
				       whose, a->networks);
		at += n + (at[n] == '+');
	}
	return 0;
}

/* asked 0: the client did not say. A value of 0 is "not limited", above any maximum. */
static int allow_narrow(const char *name, uint64_t max, uint64_t asked, uint64_t *value,
			const char *whose, struct err *e)
{
	if (max == 0 || (*value > 0 && *value <= max))
		return 0;
	if (asked > 0)
		return err_set(e, ERR_INVALID, "%s: %s is above the maximum of the %s, %s", name,
			       limit_text(name, asked).s, whose, limit_text(name, max).s);
	*value = max;
	return 0;
}

static int allow_check(const struct store_allow *a, const struct session_spec *spec,
		       struct store_session *row, const char *whose, struct err *e)
{
	const struct cell_limits *l = &spec->limits;

	if (check_name(a->levels, "level", cell_level_of(row->level)->name, whose, e) < 0 ||
	    allow_narrow("memory", a->memory_bytes, l->memory_bytes, &row->limits.memory_bytes,
			 whose, e) < 0 ||
	    allow_narrow("cpus", a->cpu_millis, l->cpu_millis, &row->limits.cpu_millis, whose, e) <
		    0 ||
	    allow_narrow("pids", a->pids, l->pids, &row->limits.pids, whose, e) < 0 ||
	    allow_narrow("disk", a->disk_bytes, l->disk_bytes, &row->limits.disk_bytes, whose, e) <
		    0)
		return -1;
	return allow_narrow("timeout", a->timeout_ms, spec->timeout_given ? spec->timeout_ms : 0,
			    &row->timeout_ms, whose, e);
}

/* A name in a list means the operator's template and, in a key's list, the tenant's own: a tenant
 * cannot widen its rights by a template of the same name, its own or a public one. */
static int check_template(const struct core *c, const struct tenant *t, const struct store_allow *a,
			  const struct store_session *row, bool own_counts, const char *whose,
			  struct err *e)
{
	const struct template_version *v = templates_by_id(c, row->template_id);
	const char *owner = v == NULL ? "" : template_row(v)->tenant;

	if (a->templates[0] == '\0')
		return 0;
	if (owner[0] != '\0' && !(own_counts && strcmp(owner, t->row.id) == 0))
		return err_set(
			e, ERR_DENIED,
			"template %.60s of %.40s: the %s is allowed only %.80s of the operator",
			row->template, owner, whose, a->templates);
	return check_name(a->templates, "template", row->template, whose, e);
}

/* A deleted key has no bounds of its own. Its requests are refused elsewhere. */
int allow_of_key(struct core *c, const char *key_id, struct store_allow *ret, struct err *e)
{
	struct store_key row;

	memset(ret, 0, sizeof(*ret));
	if (key_id[0] == '\0' || tenant_key_at_hand(key_id, ret))
		return 0;
	if (store_key_get(c->store, key_id, &row, e) < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	*ret = row.allow;
	return 0;
}

bool allow_is_narrow(const struct store_allow *a)
{
	return a->templates[0] != '\0' || a->levels[0] != '\0' || a->networks[0] != '\0' ||
	       a->memory_bytes + a->cpu_millis + a->pids + a->disk_bytes + a->timeout_ms +
			       a->sessions + a->creates_per_minute >
		       0;
}

/* Both lists count: that of the tenant and that of the key. row's limits may be lowered. */
int allow_session(struct core *c, const struct tenant *t, const struct session_spec *spec,
		  struct store_session *row, struct store_allow *ret_key, struct err *e)
{
	if (allow_of_key(c, spec->actor == NULL ? "" : spec->actor->key_id, ret_key, e) < 0 ||
	    check_template(c, t, &t->row.allow, row, false, "tenant", e) < 0 ||
	    check_template(c, t, ret_key, row, true, "key", e) < 0 ||
	    allow_check(&t->row.allow, spec, row, "tenant", e) < 0)
		return -1;
	return allow_check(ret_key, spec, row, "key", e);
}

int allow_network(struct core *c, const struct tenant *t, const struct store_actor *who,
		  const char *network, struct err *e)
{
	struct store_allow key;

	if (allow_of_key(c, who == NULL ? "" : who->key_id, &key, e) < 0 ||
	    check_network(&t->row.allow, network, "tenant", e) < 0)
		return -1;
	return check_network(&key, network, "key", e);
}

static uint64_t allow_lower(uint64_t a, uint64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

int allow_timeout_max(struct core *c, const struct tenant *t, const struct store_actor *who,
		      uint64_t *ret_ms, struct err *e)
{
	struct store_allow key;

	if (allow_of_key(c, who == NULL ? "" : who->key_id, &key, e) < 0)
		return -1;
	*ret_ms = allow_lower(c->o.config->session_timeout_max_ms,
			      allow_lower(t->row.allow.timeout_ms, key.timeout_ms));
	return 0;
}
