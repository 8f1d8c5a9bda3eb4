#include "front/web/spec_session.h"

#include <stdio.h>
#include <string.h>

#include "daemon/session/redact.h"
#include "daemon/session/session_watch.h"
#include "daemon/template/template_name.h"
#include "front/web/json_members.h"
#include "front/web/spec_alarms.h"
#include "front/web/spec_secret.h"
#include "lib/http/traceparent.h"
#include "lib/policy/lockfiles_fold.h"
#include "lib/policy/policy_select.h"

/* ---- volumes
 *
 * The member `volumes` of a session: [{name, path, mode}]. It is read without a look at the store,
 * as the rest of the specification (spec_session.h). The names are looked up when the tenant is
 * known. */

/* i: its place in the list, for errors. Unknown members are refused first: a missing path is most
 * likely there under another name. */
static int read_one(struct json_members *outer, json_t *object, size_t i, struct spec_session *s)
{
	static const char *const modes[] = { "rw", "ro" };
	const char *name = "", *path = "";
	unsigned mode = 0, n = s->spec.nmounts;
	struct json_members m;
	char where[32];

	if (!json_is_object(object))
		return json_members_fail(outer, "volumes", "must be an array of objects");
	if (n == CELL_MOUNTS_MAX)
		return json_members_fail(outer, "volumes",
					 "a session can have at most 8 mounts and volumes");
	(void)snprintf(where, sizeof(where), "volumes[%zu]", i);
	json_members_begin(&m, object, where, outer->e);
	json_members_text(&m, "name", VOLUME_NAME_MAX, &name);
	json_members_text(&m, "path", CELL_PATH_MAX - 1, &path);
	json_members_choice(&m, "mode", modes, COUNT(modes), &mode);
	if (json_members_end(&m) == 0 && !volume_line_is_name(name))
		(void)json_members_fail(&m, "name", "must be the name of a volume");
	if (!spec_session_is_place(path) || path[1] == '\0')
		(void)json_members_fail(&m, "path", "must be a plain absolute path, and not /");
	if (m.failed) {
		outer->failed = true;
		return -1;
	}
	s->spec.mounts[n].source = name;
	s->spec.mounts[n].target = path;
	s->spec.mounts[n].writable = mode == 0;
	s->spec.nmounts++;
	return 0;
}

void spec_volumes_read(struct json_members *m, struct spec_session *s)
{
	json_t *list = json_members_array(m, "volumes", CELL_MOUNTS_MAX);

	s->first_volume = s->spec.nmounts;
	for (size_t i = 0; list != NULL && i < json_array_size(list); i++)
		if (read_one(m, json_array_get(list, i), i, s) < 0)
			return;
}

#define ENV_BYTES_MAX (256U << 10)
#define RULES_BYTES_MAX 4096
#define PATH_TEXT_MAX 4095

/* Absolute, and nothing in it that separates records or fields of a row. */
static bool is_path(const char *s, const char *also_not)
{
	if (s[0] != '/' || strlen(s) > PATH_TEXT_MAX)
		return false;
	for (; *s != '\0'; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f || strchr(also_not, *s) != NULL)
			return false;
	return true;
}

bool spec_session_is_place(const char *path)
{
	return is_path(path, "") && cell_is_place(path, CELL_PATH_MAX);
}

/* An absent member stays 0. */
static void read_limits(struct json_members *outer, struct cell_limits *ret)
{
	json_t *object = json_members_object(outer, "limits", JSON_MEMBERS_MAX);
	struct json_members m;

	if (object == NULL)
		return;
	json_members_begin(&m, object, "limits", outer->e);
	json_members_bytes(&m, "memory", "memory_bytes", &ret->memory_bytes, NULL);
	json_members_millis(&m, "cpus", "cpu_millis", &ret->cpu_millis);
	json_members_count(&m, "pids", 0, UINT32_MAX, &ret->pids);
	json_members_bytes(&m, "disk", "disk_bytes", &ret->disk_bytes, NULL);
	json_members_count(&m, "inodes", 0, UINT32_MAX, &ret->inodes);
	json_members_count(&m, "nofile", 0, UINT32_MAX, &ret->nofile);
	json_members_bytes(&m, "disk_read_bps", NULL, &ret->read_bps, NULL);
	json_members_bytes(&m, "disk_write_bps", NULL, &ret->write_bps, NULL);
	if (json_members_end(&m) < 0)
		outer->failed = true;
}

/* -1: the mistake is in outer. */
static int read_mount(struct json_members *outer, json_t *object, struct session_spec *spec)
{
	static const char *const modes[] = { "ro", "rw" };
	const char *source = "", *target = "";
	unsigned mode = 0;
	struct json_members m;

	if (!json_is_object(object))
		return json_members_fail(outer, "mounts", "must be an array of objects");
	json_members_begin(&m, object, "mounts", outer->e);
	json_members_text(&m, "source", CELL_PATH_MAX - 1, &source);
	json_members_text(&m, "target", CELL_PATH_MAX - 1, &target);
	json_members_choice(&m, "mode", modes, COUNT(modes), &mode);
	if (!is_path(source, ""))
		(void)json_members_fail(&m, "source", "must be an absolute path");
	if (!spec_session_is_place(target))
		(void)json_members_fail(&m, "target", "must be a plain absolute path");
	if (json_members_end(&m) < 0) {
		outer->failed = true;
		return -1;
	}
	spec->mounts[spec->nmounts].source = source;
	spec->mounts[spec->nmounts].target = target;
	spec->mounts[spec->nmounts].writable = mode == 1;
	spec->nmounts++;
	return 0;
}

void spec_session_mounts(struct json_members *m, struct session_spec *spec)
{
	json_t *list = json_members_array(m, "mounts", CELL_MOUNTS_MAX);

	for (size_t i = 0; list != NULL && i < json_array_size(list); i++)
		if (read_mount(m, json_array_get(list, i), spec) < 0)
			return;
}

/* NULL: absent, or failed. */
static const char *read_prefixes(struct json_members *m, const char *name, struct buf *to)
{
	json_t *list = json_members_array(m, name, SESSION_RULES_MAX);
	struct err e;

	for (size_t i = 0; list != NULL && i < json_array_size(list); i++) {
		const char *path = json_string_value(json_array_get(list, i));

		if (path == NULL || !is_path(path, ":")) {
			(void)json_members_fail(m, name,
						"must be absolute paths of at most 4095 bytes "
						"without a colon");
			return NULL;
		}
		buf_printf(to, "%s%s", i == 0 ? "" : ":", path);
	}
	if (list != NULL && json_array_size(list) == 0)
		(void)json_members_fail(m, name,
					"must not be empty: leave it out to allow everything");
	if (buf_check(to, &e) < 0)
		json_members_too_large(m, name, to->cap);
	return list == NULL ? NULL : buf_text(to);
}

static void read_rules(struct json_members *outer, struct spec_session *s)
{
	json_t *object = json_members_object(outer, "rules", JSON_MEMBERS_MAX);
	struct json_members m;

	if (object == NULL)
		return;
	json_members_begin(&m, object, "rules", outer->e);
	s->spec.writable = read_prefixes(&m, "writable", &s->writable);
	s->spec.exportable = read_prefixes(&m, "exportable", &s->exportable);
	if (json_members_end(&m) < 0)
		outer->failed = true;
}

/* A name of a policy or a document. *s owns the text. */
static void read_network(struct json_members *m, struct spec_session *s)
{
	json_t *value = json_members_take(m, "network");

	if (value == NULL || m->failed)
		return;
	if (policy_select_value(value, POLICY_SESSION, &s->policy, m->e) < 0) {
		m->failed = true;
		IGNORED(err_wrap(m->e, "network"), "it fails anyway");
	}
	s->spec.policy = s->policy;
}

/* Each port once. */
static void read_ports(struct json_members *m, struct session_spec *spec)
{
	json_t *list = json_members_array(m, "ports", SESSION_PORTS_MAX);

	for (size_t i = 0; list != NULL && i < json_array_size(list); i++) {
		json_int_t port = json_integer_value(json_array_get(list, i)); /* 0: no number */

		if (port < 1 || port > UINT16_MAX) {
			(void)json_members_fail(m, "ports", "must be numbers from 1 to 65535");
			return;
		}
		for (unsigned k = 0; k < spec->nports; k++)
			if (spec->ports[k] == port) {
				(void)json_members_fail(m, "ports", "has a port twice");
				return;
			}
		spec->ports[spec->nports++] = (uint16_t)port;
	}
}

static void read_storage(struct json_members *m, struct session_spec *spec)
{
	static const char *const storages[SESSION_STORAGES] = { "memory", "disk" };
	static const char *const roots[] = { "writable", "read-only" };
	unsigned storage = SESSION_STORAGES, root = 0;
	bool given;

	json_members_choice(m, "storage", storages, SESSION_STORAGES, &storage);
	spec->storage_given = storage < SESSION_STORAGES;
	if (spec->storage_given)
		spec->storage = (enum session_storage)storage;
	json_members_choice(m, "root", roots, COUNT(roots), &root);
	spec->read_only = root == 1;
	json_members_bool(m, "persist", &spec->persist);
	json_members_time(m, "keep", "keep_ms", &spec->keep_ms, &given);
}

/* Entries as lines. */
void spec_session_redact(struct json_members *m, struct buf *ret)
{
	json_t *list = json_members_array(m, "redact", REDACT_MAX);
	struct err e;

	for (size_t i = 0; list != NULL && i < json_array_size(list) && !m->failed; i++) {
		const char *entry = json_string_value(json_array_get(list, i));

		if (entry == NULL)
			(void)json_members_fail(m, "redact", "must be an array of texts");
		else if (redact_check(entry, &e) < 0)
			(void)json_members_fail(m, "redact", e.msg);
		else
			buf_printf(ret, "%s%s", i == 0 ? "" : "\n", entry);
	}
}

static void read_watch_reads(struct json_members *m, struct spec_session *s)
{
	json_t *list = json_members_array(m, "watch_reads", SESSION_WATCH_MAX);
	struct err e;

	for (size_t i = 0; list != NULL && i < json_array_size(list) && !m->failed; i++) {
		const char *entry = json_string_value(json_array_get(list, i));

		if (entry == NULL)
			(void)json_members_fail(m, "watch_reads", "must be an array of texts");
		else if (session_watch_check(entry, &e) < 0)
			(void)json_members_fail(m, "watch_reads", e.msg);
		else
			buf_printf(&s->watch_reads, "%s%s", i == 0 ? "" : "\n", entry);
	}
	s->spec.watch_reads = buf_text(&s->watch_reads);
}

/* Unlike a header, a malformed member is refused. */
static void read_trace(struct json_members *m, struct spec_session *s)
{
	const char *text = NULL;

	json_members_text(m, "traceparent", 255, &text);
	if (text != NULL && !traceparent_read(text, strlen(text), s->traceparent))
		(void)json_members_fail(m, "traceparent",
					"must be a traceparent of W3C Trace Context: "
					"00-32 hexadecimal digits-16-2");
	s->spec.traceparent = s->traceparent;
}

/* Lockfiles are taken out of the body before it is parsed: they are most of it. */
static json_t *spec_session_parse(const void *body, size_t len, struct err *e)
{
	char *folded = NULL;
	size_t n = 0;
	json_t *root = NULL;

	if (lockfiles_fold(body, len, "network", &folded, &n, e) == 0)
		root = json_members_parse(folded == NULL ? body : folded, folded == NULL ? len : n,
					  e);
	lockfiles_fold_free(&folded);
	return root;
}

/* Every member is read, also after a mistake: the first one is reported. */
int spec_session_read(const void *body, size_t len, struct spec_session *ret, struct err *e)
{
	static const char *const actions[SESSION_ACTIONS] = { "kill", "pause", "pause_files" };
	struct session_spec *spec = &ret->spec;
	static const char *const session_trace_words[SESSION_TRACES] = { "none", "programs",
									 "calls", "files" };
	unsigned profile = CELL_PROFILES, on_timeout = 0, on_idle = 0, trace = 0;
	struct json_members m;

	memset(ret, 0, sizeof(*ret));
	buf_init(&ret->env, ENV_BYTES_MAX);
	buf_init(&ret->writable, RULES_BYTES_MAX);
	buf_init(&ret->exportable, RULES_BYTES_MAX);
	buf_init(&ret->secrets, SPEC_SECRET_LINES_BYTES);
	buf_init(&ret->redact, REDACT_TEXT_MAX);
	buf_init(&ret->watch_reads, SESSION_WATCH_TEXT);
	ret->root = spec_session_parse(body, len, e);
	if (ret->root == NULL)
		return -1;
	json_members_begin(&m, ret->root, "", e);
	json_members_text(&m, "template", TEMPLATE_NAME_TEXT - 1, &spec->template);
	json_members_text(&m, "level", STORE_NAME_MAX - 1, &spec->level);
	json_members_choice(&m, "profile", cell_profile_names, CELL_PROFILES, &profile);
	spec->profile = profile == CELL_PROFILES ? -1 : (int)profile;
	read_limits(&m, &spec->limits);
	IGNORED(spec_env_read(&m, "env", SPEC_ENV_MAX, &ret->env), "json_members_end() fails");
	spec->env = (const char *)ret->env.data;
	spec->env_len = ret->env.len;
	spec_session_mounts(&m, spec);
	spec_volumes_read(&m, ret);
	json_members_string_map(&m, "metadata", SPEC_METADATA_MAX, SPEC_METADATA_TEXT_MAX,
				&ret->metadata);
	ret->spec.metadata = ret->metadata;
	json_members_time(&m, "timeout", "timeout_ms", &spec->timeout_ms, &spec->timeout_given);
	json_members_time(&m, "idle_timeout", "idle_timeout_ms", &spec->idle_ms, &spec->idle_given);
	json_members_choice(&m, "on_timeout", actions, COUNT(actions), &on_timeout);
	json_members_choice(&m, "on_idle", actions, COUNT(actions), &on_idle);
	spec->on_timeout = (enum session_action)on_timeout;
	spec->on_idle = (enum session_action)on_idle;
	read_rules(&m, ret);
	read_network(&m, ret);
	spec_secret_list(&m, "secrets", &ret->secrets);
	spec->secrets = buf_text(&ret->secrets);
	read_ports(&m, spec);
	json_members_bool(&m, "keep_diff", &spec->keep_diff);
	read_trace(&m, ret);
	spec_session_redact(&m, &ret->redact);
	ret->spec.redact = buf_text(&ret->redact);
	read_watch_reads(&m, ret);
	read_storage(&m, spec);
	json_members_choice(&m, "trace", session_trace_words, SESSION_TRACES, &trace);
	spec->trace = (enum session_trace)trace;
	spec_alarms_read(&m, ret->alarms);
	spec->alarms = ret->alarms;
	ret->mcp = json_members_object(&m, "mcp", JSON_MEMBERS_MAX);
	return json_members_end(&m);
}

void spec_session_release(struct spec_session *s)
{
	json_decref(s->root);
	free(s->metadata);
	free(s->policy);
	buf_release(&s->env);
	buf_release(&s->writable);
	buf_release(&s->exportable);
	buf_release(&s->secrets);
	buf_release(&s->redact);
	buf_release(&s->watch_reads);
}
