#include "front/e2b/control/sandbox_spec.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/session/session.h"
#include "front/web/json_members.h"
#include "lib/base/units.h"

/* ---- storage
 *
 * Choices of a sandbox's file system. E2B's contract has no members for them,
 * so its clients make them with keys of the metadata:
 *
 *   cordon.storage   memory or disk
 *   cordon.disk      size of the disk, such as 20G
 *   cordon.root      writable or read-only
 *   cordon.persist   true or false
 *   cordon.keep      time without use after which a persistent sandbox is deleted, such as 7d
 *
 * Called by sandbox_spec.c. Pure. */

#define BYTES_MAX ((uint64_t)1 << 50)
#define KEEP_MAX_MS ((uint64_t)3650 * 86400000)

/* One of two words. Absent: ret is left unchanged. */
static int sandbox_storage_choice(const json_t *metadata, const char *key, const char *no,
				  const char *yes, bool *ret, bool *ret_given, struct err *e)
{
	const char *text = json_string_value(json_object_get(metadata, key));

	*ret_given = text != NULL;
	if (text == NULL)
		return 0;
	*ret = strcmp(text, yes) == 0;
	if (!*ret && strcmp(text, no) != 0)
		return err_set(e, ERR_INVALID, "metadata %s: must be %s or %s", key, no, yes);
	return 0;
}

/* metadata: an object of strings only. ERR_INVALID names the key. */
static int sandbox_storage_read(const json_t *metadata, struct session_spec *ret, struct err *e)
{
	const char *disk = json_string_value(json_object_get(metadata, "cordon.disk"));
	const char *keep = json_string_value(json_object_get(metadata, "cordon.keep"));
	bool on_disk = false, given;

	if (sandbox_storage_choice(metadata, "cordon.storage", "memory", "disk", &on_disk,
				   &ret->storage_given, e) < 0 ||
	    sandbox_storage_choice(metadata, "cordon.root", "writable", "read-only",
				   &ret->read_only, &given, e) < 0 ||
	    sandbox_storage_choice(metadata, "cordon.persist", "false", "true", &ret->persist,
				   &given, e) < 0)
		return -1;
	ret->level = json_string_value(json_object_get(metadata, "cordon.level"));
	ret->storage = on_disk ? SESSION_DISK : SESSION_MEMORY;
	if (disk != NULL && units_bytes(disk, 1, BYTES_MAX, &ret->limits.disk_bytes, e) < 0)
		return err_wrap(e, "metadata cordon.disk");
	if (keep != NULL && units_time_ms(keep, 1000, KEEP_MAX_MS, &ret->keep_ms, e) < 0)
		return err_wrap(e, "metadata cordon.keep");
	return 0;
}

#define ENV_BYTES_MAX (256U << 10)
#define TEMPLATE_TEXT_MAX 256
#define TIMEOUT_V1_S 15
#define VOLUMES_MAX 64
#define TIMEOUT_V2_S 300

/* Fail with E2B's words. */
static void sandbox_spec_refuse(struct json_members *m, enum err_code code, const char *why)
{
	if (m->failed)
		return;
	m->failed = true;
	(void)err_set(m->e, code, "%s", why);
}

/* True: *ret is set. Any sign is accepted here, as each route has its own bounds. */
static bool read_seconds(struct json_members *m, const char *name, int64_t *ret)
{
	json_t *value = json_members_take(m, name);

	if (value == NULL)
		return false;
	if (!json_is_integer(value) || json_integer_value(value) > INT32_MAX ||
	    json_integer_value(value) < INT32_MIN) {
		(void)json_members_fail(m, name, "must be a whole number of seconds");
		return false;
	}
	*ret = json_integer_value(value);
	return true;
}

/* Sorted keys make the row's text the same for the same metadata. sandbox_filter.c compares that
 * text. */
static void read_metadata(struct json_members *m, struct sandbox_spec *s)
{
	json_t *object = json_members_object(m, "metadata", SANDBOX_SPEC_METADATA_MAX), *value;
	const char *key;

	if (object == NULL)
		return;
	json_object_foreach(object, key, value)
	{
		if (!json_is_string(value)) {
			(void)json_members_fail(m, "metadata", "must have strings only");
			return;
		}
	}
	s->metadata = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
	if (s->metadata == NULL || strlen(s->metadata) > SANDBOX_SPEC_METADATA_TEXT_MAX)
		json_members_too_large(m, "metadata", SANDBOX_SPEC_METADATA_TEXT_MAX);
	s->spec.metadata = s->metadata;
	if (!m->failed && sandbox_storage_read(object, &s->spec, m->e) < 0)
		m->failed = true;
}

/* The action at the end of the timeout, and if traffic wakes the sandbox. */
static void read_lifecycle(struct json_members *m, struct sandbox_spec *s)
{
	json_t *resume = json_members_object(m, "autoResume", JSON_MEMBERS_MAX);
	bool pause = false, memory = true;
	struct json_members in;

	json_members_bool(m, "autoPause", &pause);
	json_members_bool(m, "autoPauseMemory", &memory);
	if (resume != NULL && !m->failed) {
		json_members_begin(&in, resume, "autoResume", m->e);
		json_members_bool(&in, "enabled", &s->auto_resume);
		if (json_members_end_lenient(&in) < 0)
			m->failed = true;
	}
	if (!memory && !pause)
		sandbox_spec_refuse(m, ERR_INVALID, "autoPauseMemory: false needs autoPause");
	if (!memory && s->auto_resume)
		sandbox_spec_refuse(m, ERR_INVALID,
				    "autoPauseMemory: false cannot be combined with autoResume");
	s->spec.on_timeout = !pause ? SESSION_KILL : memory ? SESSION_PAUSE : SESSION_PAUSE_FILES;
}

/* sandbox_spec_read() sets secure before. */
static void read_network(struct json_members *m, struct sandbox_spec *s)
{
	json_t *network = json_members_object(m, "network", JSON_MEMBERS_MAX);
	enum network_internet internet = NETWORK_UNSET;
	bool allowed = true;

	json_members_bool(m, "allow_internet_access", &allowed);
	if (m->failed)
		return;
	if (json_is_boolean(json_object_get(m->object, "allow_internet_access")))
		internet = allowed ? NETWORK_YES : NETWORK_NO;
	if (network_read(network, internet, &s->network, m->e) < 0) {
		m->failed = true;
		return;
	}
	if (!s->network.public_traffic && !s->secure)
		sandbox_spec_refuse(m, ERR_INVALID,
				    "network.allowPublicTraffic: false needs a secure sandbox");
	s->spec.network = s->network.text;
}

/* Refuse unsupported members of the contract. */
static void refuse_missing(struct json_members *m)
{
	json_t *iam = json_members_object(m, "iam", SIZE_MAX);

	if (json_object_size(json_object_get(iam, "tokens")) > 0)
		sandbox_spec_refuse(m, ERR_INVALID, "iam.tokens: not supported here");
	/* Clients start the gateway themselves, if the template contains it. */
	(void)json_members_object(m, "mcp", SIZE_MAX);
}

/* Members of the contract that do not matter here are left unread: the end is lenient. */
int sandbox_spec_read(const void *body, size_t len, enum sandbox_spec_version version,
		      struct sandbox_spec *ret, struct err *e)
{
	int64_t seconds = version == SANDBOX_SPEC_V1 ? TIMEOUT_V1_S : TIMEOUT_V2_S;
	struct json_members m;

	memset(ret, 0, sizeof(*ret));
	ret->spec.profile = -1;
	ret->secure = version == SANDBOX_SPEC_V2;
	buf_init(&ret->env, ENV_BYTES_MAX);
	ret->root = json_members_parse(body, len, e);
	if (ret->root == NULL)
		return -1;
	json_members_begin(&m, ret->root, "", e);
	json_members_text(&m, "templateID", TEMPLATE_TEXT_MAX, &ret->template);
	if (ret->template == NULL || ret->template[0] == '\0')
		(void)json_members_fail(&m, "templateID", "is missing");
	(void)read_seconds(&m, "timeout", &seconds);
	if (seconds <= 0)
		sandbox_spec_refuse(&m, ERR_INVALID, "Timeout must be greater than 0");
	ret->spec.timeout_ms = seconds <= 0 ? 0 : (uint64_t)seconds * 1000;
	ret->spec.timeout_given = true;
	if (version == SANDBOX_SPEC_V1)
		json_members_bool(&m, "secure", &ret->secure);
	IGNORED(spec_env_read(&m, "envVars", SANDBOX_SPEC_ENV_MAX, &ret->env),
		"json_members_end_lenient() fails");
	ret->spec.env = (const char *)ret->env.data;
	ret->spec.env_len = ret->env.len;
	read_metadata(&m, ret);
	read_lifecycle(&m, ret);
	read_network(&m, ret);
	ret->volumes = json_members_array(&m, "volumeMounts", VOLUMES_MAX);
	refuse_missing(&m);
	return json_members_end_lenient(&m);
}

void sandbox_spec_release(struct sandbox_spec *s)
{
	json_decref(s->root);
	free(s->metadata);
	buf_release(&s->env);
	network_release(&s->network);
}

int sandbox_spec_timeout(const void *body, size_t len, const char *name,
			 struct sandbox_spec_timeout *ret, struct err *e)
{
	json_t *root = json_members_parse(body, len, e);
	struct json_members m;
	int read;

	*ret = (struct sandbox_spec_timeout){ .memory = true };
	if (root == NULL)
		return -1;
	json_members_begin(&m, root, "", e);
	ret->given = read_seconds(&m, name, &ret->timeout_s);
	json_members_bool(&m, "memory", &ret->memory);
	read = json_members_end_lenient(&m);
	json_decref(root);
	return read;
}
