/* secret_values.c - see secret_values.h. */
#include "secret_values.h"

#include <stdio.h>
#include <string.h>

#include "mask.h"
#include "seal.h"
#include "secret_state.h"
#include "session.h"

bool secret_values_has_line(const char *lines, const char *name, size_t n)
{
	while (lines != NULL && *lines != '\0') {
		size_t len = strcspn(lines, "\n");

		if (len == n && memcmp(lines, name, n) == 0)
			return true;
		lines += len + (lines[len] == '\n');
	}
	return false;
}

static void visit_row(struct session *s, const char *name,
		      void (*on_value)(const struct secret_values_one *v, void *arg), void *arg)
{
	struct store_secret row;
	char *value = NULL;
	size_t len = 0;
	struct err e;

	if (store_secret_get_by_name(core_store(session_core(s)), session_row(s)->tenant, name,
				     &row, &e) < 0)
		return;
	if (secret_open(session_core(s), &row, &value, &len, &e) == 0) {
		on_value(&(struct secret_values_one){ value, len, row.name, row.hosts, false },
			 arg);
		seal_wipe(value, len);
	}
	store_secret_release(&row);
}

/* Was the secret asked for when the session was created? */
static bool is_own(const struct session *s, const char *name)
{
	const char *at = session_row(s)->secrets;
	struct secret_spec l;

	while (secret_spec_next(&at, &l))
		if (strcmp(l.name, name) == 0)
			return true;
	return false;
}

/* Calls on_value for the names in lines that are neither the session's own nor in `seen`. */
static void visit_names(struct session *s, const char *lines, const char *seen,
			void (*on_value)(const struct secret_values_one *v, void *arg), void *arg)
{
	while (lines != NULL && *lines != '\0') {
		char name[STORE_NAME_MAX];
		size_t n = strcspn(lines, "\n");

		(void)snprintf(name, sizeof(name), "%.*s", (int)n, lines);
		if (!is_own(s, name) && !secret_values_has_line(seen, name, n))
			visit_row(s, name, on_value, arg);
		lines += n + 1;
	}
}

void secret_values_each(struct session *s,
			void (*on_value)(const struct secret_values_one *v, void *arg), void *arg)
{
	const struct secret_state *st = secret_state_of(s);
	const char *at = session_row(s)->secrets;
	struct secret_spec l;
	struct err e;

	while (secret_spec_next(&at, &l))
		visit_row(s, l.name, on_value, arg);
	if (st != NULL) {
		visit_names(s, st->sent_names, NULL, on_value, arg);
		visit_names(s, st->had, st->sent_names, on_value, arg);
	}
	for (struct secret_past *p = st == NULL ? NULL : st->past; p != NULL; p = p->next) {
		char *value = NULL;
		size_t len = 0;

		if (seal_open(core_options(session_core(s))->seal, p->about, p->box, p->len, &value,
			      &len, &e) == 0) {
			on_value(&(struct secret_values_one){ value, len, p->name, p->hosts, true },
				 arg);
			seal_wipe(value, len);
		}
	}
}

struct adding {
	struct session *session;
	struct buf *to;
	bool same;
};

/* Sessions that will have the same secrets mask them; not those that were replaced, and not what
 * only an execution had. Values that masks do not look for are too short to be told from other
 * text. */
static void add_value(const struct secret_values_one *v, void *arg)
{
	struct adding *a = arg;
	uint32_t n = (uint32_t)v->len;

	if (v->len < MASK_VALUE_MIN || (a->same && !v->past && is_own(a->session, v->name)))
		return;
	buf_put(a->to, &n, sizeof(n));
	buf_put(a->to, v->value, v->len);
}

int secret_values_add(struct session *s, bool same, struct buf *to, struct err *e)
{
	struct adding a = { s, to, same };

	secret_values_each(s, add_value, &a);
	return buf_check(to, e);
}

bool secret_values_has(const struct session *s, const char *name)
{
	const struct secret_state *st = secret_state_of(s);
	size_t n = strlen(name);

	return is_own(s, name) || (st != NULL && (secret_values_has_line(st->sent_names, name, n) ||
						  secret_values_has_line(st->had, name, n)));
}
