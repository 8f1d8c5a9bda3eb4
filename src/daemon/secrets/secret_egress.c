/* secret_egress.c - the secrets of a session in the configuration for cordon-egress, which puts
 * them into requests and masks them in the answers. */
#include "daemon/secrets/secret_egress.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/node/core.h"
#include "daemon/secrets/seal.h"
#include "daemon/secrets/secret_execution.h"
#include "daemon/secrets/secret_values.h"
#include "daemon/secrets/secret_state.h"
#include "daemon/session/session.h"
#include "daemon/tenant/tenant.h"

#define REFERENCE "${secret."
#define REFERENCES_MAX 32 /* names that rules refer to. Egress takes 64 in all */
#define NAMES_BYTES_MAX ((size_t)(REFERENCES_MAX + SECRET_LINES_MAX) * STORE_NAME_MAX)

/* Lines become an array of texts. */
static void secret_egress_write_lines(struct json *j, const char *name, const char *lines)
{
	json_open(j, name, '[');
	while (*lines != '\0') {
		size_t n = strcspn(lines, "\n");

		json_bytes(j, NULL, lines, n);
		lines += n + (lines[n] == '\n');
	}
	json_close(j, ']');
}

/* Write a secret that may be put into requests. Placeholder "": by rules only. A missing or
 * unusable secret is left out, and egress refuses requests that need it. */
static bool secret_egress_write_one(struct session *s, struct json *j, const char *name,
				    const char *placeholder)
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
		secret_egress_write_lines(j, "hosts", row.hosts);
		secret_egress_write_lines(j, "methods", row.methods);
		secret_egress_write_lines(j, "paths", row.paths);
		secret_egress_write_lines(j, "in",
					  row.places[0] == '\0' ? "header\nbasic" : row.places);
		json_uint(j, "expires_ms", row.expires_ms);
		json_close(j, '}');
		seal_wipe(value, len);
		written = true;
	}
	store_secret_release(&row);
	return written;
}

/* Append the names that rules refer to, as lines. False: there are more than are found. */
static bool secret_egress_find_references(const char *text, struct buf *names)
{
	const char *at = text == NULL ? NULL : strstr(text, REFERENCE);

	for (unsigned n = 0; at != NULL; at = strstr(at, REFERENCE)) {
		char name[STORE_NAME_MAX];
		size_t len;

		at += strlen(REFERENCE);
		len = strcspn(at, "}\"\\");
		if (at[len] != '}' || len >= sizeof(name))
			continue;
		memcpy(name, at, len);
		name[len] = '\0';
		if (!secret_spec_is_name(name) ||
		    secret_values_has_line(buf_text(names), name, len))
			continue;
		if (n == REFERENCES_MAX)
			return false;
		buf_printf(names, "%s\n", name);
		n++;
	}
	return true;
}

/* Called before a policy is accepted: secret_egress_write() relies on it. */
int secret_egress_check(const char *policy, struct err *e)
{
	struct buf names = BUF_INIT(2 * NAMES_BYTES_MAX);
	bool all = secret_egress_find_references(policy, &names);

	buf_release(&names);
	return all ? 0
		   : err_set(e, ERR_LIMIT, "the rules of a session name %d secrets at most",
			     REFERENCES_MAX);
}

size_t secret_egress_referenced(struct core *c, const struct tenant *t, const char *text)
{
	struct buf names = BUF_INIT(2 * NAMES_BYTES_MAX);
	size_t bytes = 0;

	(void)secret_egress_find_references(text, &names); /* secret_egress_check() refuses more */
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
static bool secret_egress_is_brokered(struct session *s, const char *name)
{
	struct secret_walk all = { .session = s };
	struct secret_spec l;

	while (secret_walk_next(&all, &l))
		if (l.way == SECRET_BROKER && strcmp(l.name, name) == 0)
			return true;
	return false;
}

/* The members "secrets" and "mask" of one configuration while they are written. */
struct masking {
	struct json *j;
	struct buf written; /* lines: names whose values are in "secrets" */
};

/* A value in "secrets" is masked for being there: a configuration has each value once. */
static void secret_egress_mask_one(const struct secret_values_one *v, void *arg)
{
	struct masking *m = arg;

	if (!v->past && secret_values_has_line(buf_text(&m->written), v->name, strlen(v->name)))
		return;
	json_open(m->j, NULL, '{');
	json_bytes(m->j, "value", v->value, v->len);
	json_text(m->j, "name", v->name);
	secret_egress_write_lines(m->j, "hosts", v->hosts);
	json_close(m->j, '}');
}

/* Names of earlier configurations stay: a server may send back the values put in for them. */
static void secret_egress_add_sent_names(const struct session *s, struct buf *names)
{
	const struct secret_state *st = secret_state_of(s);
	const char *names_before = st == NULL ? NULL : st->sent_names;

	while (names_before != NULL && *names_before != '\0' && names->len < NAMES_BYTES_MAX) {
		size_t n = strcspn(names_before, "\n");

		if (!secret_values_has_line(buf_text(names), names_before, n))
			buf_printf(names, "%.*s\n", (int)n, names_before);
		names_before += n + 1;
	}
}

/* The policy stays as it is: so do the names that its rules refer to. */
static void secret_egress_add_references(const struct session *s, struct buf *names)
{
	const struct secret_state *st = secret_state_of(s);

	if (st != NULL && st->references != NULL)
		buf_printf(names, "%s", st->references);
}

/* Add names that come with a placeholder to names. */
static void secret_egress_write_secrets(struct session *s, struct masking *m, struct buf *names)
{
	struct secret_walk all = { .session = s };
	struct secret_spec l;

	json_open(m->j, "secrets", '[');
	for (const char *name = buf_text(names); *name != '\0';) {
		char one[STORE_NAME_MAX];
		size_t n = strcspn(name, "\n");

		(void)snprintf(one, sizeof(one), "%.*s", (int)n, name);
		if (!secret_egress_is_brokered(s, one) && secret_egress_write_one(s, m->j, one, ""))
			buf_printf(&m->written, "%s\n", one);
		name += n + 1;
	}
	while (secret_walk_next(&all, &l))
		if (l.way == SECRET_BROKER) {
			if (secret_egress_write_one(s, m->j, l.name, l.placeholder))
				buf_printf(&m->written, "%s\n", l.name);
			buf_printf(names, "%s\n", l.name);
		}
	json_close(m->j, ']');
}

/* A new name changes the session's mask: its value is masked in outputs, too. */
static void secret_egress_remember_sent_names(struct session *s, struct buf *names,
					      char **references)
{
	struct secret_state *st = secret_state(s);
	bool news = st->sent_names == NULL || strcmp(st->sent_names, buf_text(names)) != 0;

	free(st->references);
	st->references = *references;
	*references = NULL;
	free(st->sent_names);
	st->sent_names = strdup(buf_text(names));
	assert(st->sent_names != NULL);
	if (news)
		secret_mask(s);
}

/* The mask comes last, since it leaves out the values in "secrets". */
int secret_egress_write(struct session *s, const char *policy, struct json *j, struct err *e)
{
	struct buf names = BUF_INIT(2 * NAMES_BYTES_MAX);
	struct masking m = { .j = j, .written = BUF_INIT(2 * NAMES_BYTES_MAX) };
	OWN_MEM char *references = NULL;

	secret_mask_now(s);
	json_keep_secret(j);
	if (policy != NULL)
		(void)secret_egress_find_references(policy, &names); /* checked before */
	else
		secret_egress_add_references(s, &names);
	references = strdup(buf_text(&names));
	assert(references != NULL);
	secret_egress_write_secrets(s, &m, &names);
	secret_egress_add_sent_names(s, &names);
	json_open(j, "mask", '[');
	secret_values_each(s, secret_egress_mask_one, &m);
	json_close(j, ']');
	if (names.len > 0 || secret_state_of(s) != NULL)
		secret_egress_remember_sent_names(s, &names, &references);
	buf_release(&names);
	buf_release(&m.written);
	if (!json_ok(j))
		return err_set(e, ERR_LIMIT, "policy and secrets are too large together");
	return 0;
}
