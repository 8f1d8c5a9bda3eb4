/* secret_egress.c - secrets of a session outside of its cell: for cordon-egress, which puts them
 * into requests, and for masks of output; and which sessions a change concerns. */
#include "secret_egress.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core.h"
#include "session_parts.h"
#include "tenant.h"
#include "log.h"
#include "rand.h"
#include "seal.h"
#include "secret_delivery.h"
#include "secret_execution.h"
#include "secret_mask.h"
#include "secret_quota.h"
#include "secret_state.h"
#include "session_parts.h"

#define REFERENCE "${secret."
#define PLACEHOLDER "cordon_"
#define PLACEHOLDER_CHARS 32
#define PAST_MAX 64	       /* old values that are remembered */
#define SYNTHETIC_NAMES_MAX 32 /* that rules refer to; egress takes 64 in all */
#define TOLD_MAX ((size_t)(SYNTHETIC_NAMES_MAX + SECRET_LINES_MAX) * STORE_NAME_MAX)

/* ---- at create */

static void make_placeholder(char ret[SECRET_PLACEHOLDER_MAX])
{
	static const char chars[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	size_t n = strlen(PLACEHOLDER);

	memcpy(ret, PLACEHOLDER, n);
	for (size_t i = 0; i < PLACEHOLDER_CHARS; i++)
		ret[n + i] = chars[rand_below(sizeof(chars) - 1)];
	ret[n + PLACEHOLDER_CHARS] = '\0';
}

int secret_check_one(struct session *s, struct secret_spec *l, size_t *bytes, struct err *e)
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
			      "secret %s: is bound to no host, so a placeholder would be worth "
			      "nothing",
			      l->name);
	if (l->way == SECRET_BROKER)
		make_placeholder(l->placeholder);
	*bytes += row.box_len;
	store_secret_release(&row);
	return may;
}

bool secret_is_twice(const char *lines, const struct secret_spec *l)
{
	struct secret_spec other;

	while (secret_spec_next(&lines, &other))
		if (strcmp(other.where, l->where) == 0 &&
		    ((other.way | l->way) & SECRET_SOCKET) == 0 &&
		    (other.way == SECRET_FILE) == (l->way == SECRET_FILE))
			return true;
	return false;
}

int secret_check_session(struct session *s, struct err *e)
{
	const char *at = session_row(s)->secrets;
	struct buf lines = BUF_INIT(SECRET_LINES_MAX * (SECRET_WHERE_MAX + (size_t)256));
	struct secret_spec l;
	size_t bytes = 0;
	unsigned n = 0;
	int settled = 0;

	if (at == NULL || *at == '\0')
		return 0;
	while (settled == 0 && secret_spec_next(&at, &l)) {
		if (++n > SECRET_LINES_MAX)
			settled = err_set(e, ERR_LIMIT, "secrets: at most %d", SECRET_LINES_MAX);
		else
			settled = secret_check_one(s, &l, &bytes, e);
		if (settled == 0 && secret_is_twice(buf_text(&lines), &l))
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
		st->delivering = secret_needs_delivery(s);
	}
	buf_release(&lines);
	return settled;
}

/* ---- for egress */

static void write_lines(struct json *j, const char *name, const char *lines)
{
	json_open(j, name, '[');
	while (*lines != '\0') {
		size_t n = strcspn(lines, "\n");

		json_bytes(j, NULL, lines, n);
		lines += n + (lines[n] == '\n');
	}
	json_close(j, ']');
}

/* One that may be put into requests; placeholder "": by rules only. Not there, or not usable: then
 * it is left out, and what needs it is refused by egress. */
static bool write_one(struct session *s, struct json *j, const char *name, const char *placeholder)
{
	bool written = false;
	struct store_secret row;
	char *value = NULL;
	size_t len = 0;
	struct err e;

	if (store_secret_get_by_name(core_store(session_core(s)), session_row(s)->tenant, name,
				     &row, &e) < 0)
		return false;
	if ((row.ways & SECRET_BROKER) != 0 && !secret_is_expired(&row) &&
	    secret_open(session_core(s), &row, &value, &len, &e) == 0) {
		json_open(j, NULL, '{');
		json_text(j, "name", row.name);
		json_bytes(j, "value", value, len);
		if (*placeholder != '\0')
			json_text(j, "placeholder", placeholder);
		write_lines(j, "hosts", row.hosts);
		write_lines(j, "methods", row.methods);
		write_lines(j, "paths", row.paths);
		write_lines(j, "in", row.places[0] == '\0' ? "header\nbasic" : row.places);
		json_uint(j, "expires_ms", row.expires_ms);
		json_close(j, '}');
		seal_wipe(value, len);
		written = true;
	}
	store_secret_release(&row);
	return written;
}

static bool has_line(const char *lines, const char *name, size_t n)
{
	while (lines != NULL && *lines != '\0') {
		size_t len = strcspn(lines, "\n");

		if (len == n && memcmp(lines, name, n) == 0)
			return true;
		lines += len + (lines[len] == '\n');
	}
	return false;
}

bool secret_is_line(const char *lines, const char *name)
{
	return has_line(lines, name, strlen(name));
}

/* Names that the order's rules refer to, as lines. */
static void find_references(const char *text, struct buf *names)
{
	const char *at = text == NULL ? NULL : strstr(text, REFERENCE);

	for (unsigned n = 0; at != NULL && n < SYNTHETIC_NAMES_MAX; at = strstr(at, REFERENCE)) {
		char name[STORE_NAME_MAX];
		size_t len;

		at += strlen(REFERENCE);
		len = strcspn(at, "}\"\\");
		if (at[len] != '}' || len >= sizeof(name))
			continue;
		memcpy(name, at, len);
		name[len] = '\0';
		if (!secret_spec_is_name(name) || has_line(buf_text(names), name, len))
			continue;
		buf_printf(names, "%s\n", name);
		n++;
	}
}

size_t secret_referenced(struct core *c, const struct tenant *t, const char *text)
{
	struct buf names = BUF_INIT(2 * TOLD_MAX);
	size_t bytes = 0;

	find_references(text, &names);
	for (const char *at = buf_text(&names); *at != '\0';) {
		char name[STORE_NAME_MAX];
		struct store_secret row;
		size_t n = strcspn(at, "\n");
		struct err e;

		(void)snprintf(name, sizeof(name), "%.*s", (int)n, at);
		if (store_secret_get_by_name(core_store(c), tenant_row(t)->id, name, &row, &e) ==
		    0) {
			bytes += row.box_len;
			store_secret_release(&row);
		}
		at += n + 1;
	}
	buf_release(&names);
	return bytes;
}

/* Does it come with a placeholder? */
static bool is_brokered(struct session *s, const char *name)
{
	struct secret_walk all = { .session = s };
	struct secret_spec l;

	while (secret_walk_next(&all, &l))
		if (l.way == SECRET_BROKER && strcmp(l.name, name) == 0)
			return true;
	return false;
}

struct masking {
	struct json *j;
	struct buf written; /* lines: names whose values are in "secrets" */
};

/* Those that are in "secrets" are masked by that: an order has each value once. */
static void mask_one(const struct secret_value *v, void *arg)
{
	struct masking *m = arg;

	if (!v->past && has_line(buf_text(&m->written), v->name, strlen(v->name)))
		return;
	json_open(m->j, NULL, '{');
	json_bytes(m->j, "value", v->value, v->len);
	json_text(m->j, "name", v->name);
	write_lines(m->j, "hosts", v->hosts);
	json_close(m->j, '}');
}

/* Names of earlier orders stay: what was put in for them may come back. */
static void keep_told(const struct session *s, struct buf *names)
{
	const struct secret_state *st = secret_state_of(s);
	const char *told = st == NULL ? NULL : st->told;

	while (told != NULL && *told != '\0' && names->len < TOLD_MAX) {
		size_t n = strcspn(told, "\n");

		if (!has_line(buf_text(names), told, n))
			buf_printf(names, "%.*s\n", (int)n, told);
		told += n + 1;
	}
}

/* Adds what comes with a placeholder to names. */
static void write_secrets(struct session *s, struct masking *m, struct buf *names)
{
	struct secret_walk all = { .session = s };
	struct secret_spec l;

	json_open(m->j, "secrets", '[');
	for (const char *name = buf_text(names); *name != '\0';) {
		char one[STORE_NAME_MAX];
		size_t n = strcspn(name, "\n");

		(void)snprintf(one, sizeof(one), "%.*s", (int)n, name);
		if (!is_brokered(s, one) && write_one(s, m->j, one, ""))
			buf_printf(&m->written, "%s\n", one);
		name += n + 1;
	}
	while (secret_walk_next(&all, &l))
		if (l.way == SECRET_BROKER) {
			if (write_one(s, m->j, l.name, l.placeholder))
				buf_printf(&m->written, "%s\n", l.name);
			buf_printf(names, "%s\n", l.name);
		}
	json_close(m->j, ']');
}

static void remember_told(struct session *s, struct buf *names)
{
	struct secret_state *st = secret_state(s);
	bool news = st->told == NULL || strcmp(st->told, buf_text(names)) != 0;

	free(st->told);
	st->told = strdup(buf_text(names));
	assert(st->told != NULL);
	if (news)
		secret_mask(s);
}

int secret_write_order(struct session *s, struct json *j, struct err *e)
{
	struct buf names = BUF_INIT(2 * TOLD_MAX);
	struct masking m = { .j = j, .written = BUF_INIT(2 * TOLD_MAX) };

	secret_mask_now(s);
	json_keep_secret(j);
	find_references(j->text, &names);
	write_secrets(s, &m, &names);
	keep_told(s, &names);
	json_open(j, "mask", '[');
	secret_each_value(s, mask_one, &m);
	json_close(j, ']');
	if (names.len > 0 || secret_state_of(s) != NULL)
		remember_told(s, &names);
	buf_release(&names);
	buf_release(&m.written);
	if (!json_ok(j))
		return err_set(e, ERR_LIMIT, "policy and secrets are too large together");
	return 0;
}

/* ---- masks */

static void see_row(struct session *s, const char *name,
		    void (*see)(const struct secret_value *v, void *arg), void *arg)
{
	struct store_secret row;
	char *value = NULL;
	size_t len = 0;
	struct err e;

	if (store_secret_get_by_name(core_store(session_core(s)), session_row(s)->tenant, name,
				     &row, &e) < 0)
		return;
	if (secret_open(session_core(s), &row, &value, &len, &e) == 0) {
		see(&(struct secret_value){ value, len, row.name, row.hosts, false }, arg);
		seal_wipe(value, len);
	}
	store_secret_release(&row);
}

/* Is it one that was asked for at create? */
static bool is_own(const struct session *s, const char *name)
{
	const char *at = session_row(s)->secrets;
	struct secret_spec l;

	while (secret_spec_next(&at, &l))
		if (strcmp(l.name, name) == 0)
			return true;
	return false;
}

/* Those of these lines that are neither the session's own nor in `seen`. */
static void see_names(struct session *s, const char *lines, const char *seen,
		      void (*see)(const struct secret_value *v, void *arg), void *arg)
{
	while (lines != NULL && *lines != '\0') {
		char name[STORE_NAME_MAX];
		size_t n = strcspn(lines, "\n");

		(void)snprintf(name, sizeof(name), "%.*s", (int)n, lines);
		if (!is_own(s, name) && !secret_is_line(seen, name))
			see_row(s, name, see, arg);
		lines += n + 1;
	}
}

void secret_each_value(struct session *s, void (*see)(const struct secret_value *v, void *arg),
		       void *arg)
{
	const struct secret_state *st = secret_state_of(s);
	const char *at = session_row(s)->secrets;
	struct secret_spec l;
	struct err e;

	while (secret_spec_next(&at, &l))
		see_row(s, l.name, see, arg);
	if (st != NULL) {
		see_names(s, st->told, NULL, see, arg);
		see_names(s, st->had, st->told, see, arg);
	}
	for (struct secret_past *p = st == NULL ? NULL : st->past; p != NULL; p = p->next) {
		char *value = NULL;
		size_t len = 0;

		if (seal_open(core_options(session_core(s))->seal, p->about, p->box, p->len, &value,
			      &len, &e) == 0) {
			see(&(struct secret_value){ value, len, p->name, p->hosts, true }, arg);
			seal_wipe(value, len);
		}
	}
}

/* ---- changes */

bool secret_is_had(const struct session *s, const char *name)
{
	const struct secret_state *st = secret_state_of(s);

	return is_own(s, name) ||
	       (st != NULL && (secret_is_line(st->told, name) || secret_is_line(st->had, name)));
}

static void keep_one(struct session *s, void *arg)
{
	const struct store_secret *row = arg;
	struct secret_state *st;
	struct secret_past *p;
	size_t hosts_len;

	if (!secret_is_had(s, row->name) || session_row(s)->state >= SESSION_STOPPING)
		return;
	hosts_len = strlen(row->hosts);
	p = malloc(sizeof(*p) + row->box_len + hosts_len + 1);
	assert(p != NULL);
	secret_about(row, p->about);
	(void)snprintf(p->name, sizeof(p->name), "%s", row->name);
	p->hosts = memcpy(p->box + row->box_len, row->hosts, hosts_len + 1);
	p->len = row->box_len;
	memcpy(p->box, row->box, row->box_len);
	st = secret_state(s);
	p->next = st->past;
	st->past = p;
	st->bytes += row->box_len; /* until the mask is made */
	for (unsigned n = 1; p != NULL; p = p->next, n++)
		if (n == PAST_MAX && p->next != NULL) {
			free(p->next); /* the oldest, of which there is one more than there may be
					*/
			p->next = NULL;
		}
}

void secret_keep_masked(struct core *c, const struct tenant *t, const struct store_secret *row)
{
	struct store_secret copy = *row;

	session_each(c, t, keep_one, &copy);
}

struct diff_record {
	const char *name;
};

static void tell_one(struct session *s, void *arg)
{
	const struct diff_record *change = arg;

	if (!secret_is_had(s, change->name) || session_row(s)->state >= SESSION_STOPPING)
		return;
	secret_state(s)->unmasked = true;
	secret_state(s)->changed = true;
	session_changed(s);
}

void secret_apply_change(struct session *s)
{
	struct secret_state *st = secret_state_of(s);

	secret_mask_now(s);
	if (st == NULL || !st->changed)
		return;
	st->changed = false;
	secret_deliver(s);
}

void secret_changed(struct core *c, const struct tenant *t, const char *name)
{
	struct diff_record change = { .name = name };

	session_each(c, t, tell_one, &change);
}
