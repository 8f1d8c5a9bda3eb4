/* compose.c - see compose.h. The first part has a function for each kind of member, the last one
 * walks over a table of options and picks the function by the kind of the option. The server
 * checks meanings. Only forms that it could not get at all are errors here. */
#include "cmd/client/compose.h"

#include <ctype.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/units.h"

/* ---- members. Each function fails with a message that names the option as the user typed it.
 * After a failure the body may be half filled, and the caller drops it. */

static int compose_put(json_t *body, const char *member, json_t *value, struct err *e)
{
	if (value == NULL || json_object_set_new(body, member, value) < 0)
		return err_set(e, ERR_SYSTEM, "out of memory");
	return 0;
}

/* jansson refuses text other than UTF-8. */
static json_t *text_of(const char *option, const char *text, size_t n, struct err *e)
{
	json_t *j = json_stringn(text, n);

	if (j == NULL)
		(void)err_set(e, ERR_INVALID, "%s: '%.60s' is not UTF-8 text", option, text);
	return j;
}

/* The text is checked for UTF-8 here, because jansson's own error would not name the option. */
int compose_text(json_t *body, const char *member, const char *option, const char *text,
		 struct err *e)
{
	json_t *j;

	if (text == NULL)
		return 0;
	j = text_of(option, text, strlen(text), e);
	return j == NULL ? -1 : compose_put(body, member, j, e);
}

/* The server takes times as text with a unit, so no unit can be mistaken. */
int compose_time(json_t *body, const char *member, uint64_t ms, struct err *e)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%llums", (unsigned long long)ms);
	return ms == 0 ? 0 : compose_put(body, member, json_string(text), e);
}

/* Ten years are more than any setting allows. The server has the real bound. */
int compose_time_text(json_t *body, const char *member, const char *option, const char *text,
		      struct err *e)
{
	uint64_t ms = 0;

	if (text == NULL)
		return 0;
	if (units_time_ms(text, 0, 3660ULL * 86400000, &ms, e) < 0)
		return err_wrap(e, "%s", option);
	return ms == 0 ? compose_put(body, member, json_integer(0), e)
		       : compose_time(body, member, ms, e);
}

int compose_number(json_t *body, const char *member, uint64_t value, struct err *e)
{
	return value == 0 ? 0 : compose_put(body, member, json_integer((json_int_t)value), e);
}

/* The list of an option as an object. json_object_set_new() replaces an earlier value, so the
 * last one counts. The name is copied, because the words of argv stay as they are. */
int compose_pairs(json_t *body, const char *member, const char *option,
		  const struct option_list *list, struct err *e)
{
	json_t *pairs = json_object();

	if (list->n == 0) {
		json_decref(pairs);
		return 0;
	}
	if (compose_put(body, member, pairs, e) < 0)
		return -1;
	for (size_t i = 0; i < list->n; i++) {
		const char *text = list->items[i], *equal = strchr(text, '=');
		char name[1024];
		json_t *value;

		if (equal == NULL || equal == text || (size_t)(equal - text) >= sizeof(name))
			return err_set(e, ERR_INVALID, "%s: '%.60s' is not NAME=VALUE", option,
				       text);
		memcpy(name, text, (size_t)(equal - text));
		name[equal - text] = '\0';
		value = text_of(option, equal + 1, strlen(equal + 1), e);
		if (value == NULL)
			return -1;
		if (json_object_set_new(pairs, name, value) < 0)
			return err_set(e, ERR_INVALID, "%s: '%.60s' is not UTF-8 text", option,
				       text);
	}
	return 0;
}

/* An empty list is a member too: for a command without words the server has the error. */
int compose_list(json_t *body, const char *member, const char *option, const char *const *texts,
		 size_t n, struct err *e)
{
	json_t *list = json_array();

	if (compose_put(body, member, list, e) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		json_t *j = text_of(option, texts[i], strlen(texts[i]), e);

		if (j == NULL)
			return -1;
		if (json_array_append_new(list, j) < 0)
			return err_set(e, ERR_SYSTEM, "out of memory");
	}
	return 0;
}

/* DST begins at the first ":/" so that a source may contain colons. */
static json_t *mount_of(const char *text, struct err *e)
{
	const char *colon = strstr(text, ":/"), *mode = NULL;
	json_t *source, *target;
	size_t n;

	if (colon == NULL || colon == text) {
		(void)err_set(e, ERR_INVALID,
			      "--mount: '%.80s' is not SRC:DST[:ro|rw] with DST absolute", text);
		return NULL;
	}
	n = strlen(colon + 1);
	mode = strrchr(colon + 1, ':');
	if (mode != NULL && (strcmp(mode, ":ro") == 0 || strcmp(mode, ":rw") == 0))
		n = (size_t)(mode - colon) - 1;
	else
		mode = ":ro";
	source = text_of("--mount", text, (size_t)(colon - text), e);
	target = source == NULL ? NULL : text_of("--mount", colon + 1, n, e);
	if (target == NULL) {
		json_decref(source);
		return NULL;
	}
	return json_pack("{s:o, s:o, s:s}", "source", source, "target", target, "mode", mode + 1);
}

/* The first text that is wrong decides the error. e is cleared before each, so that memory
 * running out can be told from a wrong text. */
int compose_mounts(json_t *body, const char *member, const struct option_list *list, struct err *e)
{
	json_t *mounts = json_array();

	if (list->n == 0) {
		json_decref(mounts);
		return 0;
	}
	if (compose_put(body, member, mounts, e) < 0)
		return -1;
	for (size_t i = 0; i < list->n; i++) {
		json_t *m;

		*e = (struct err){ 0 };
		m = mount_of(list->items[i], e);
		if (m == NULL || json_array_append_new(mounts, m) < 0)
			return e->code != ERR_NONE ? -1 : err_set(e, ERR_SYSTEM, "out of memory");
	}
	return 0;
}

/* NAME:/path, and a mode behind the last colon. Unlike a mount a volume is writable unless ro is
 * given, because it belongs to the tenant. */
static json_t *volume_of(const char *text, struct err *e)
{
	const char *colon = strstr(text, ":/"), *mode = NULL;
	json_t *name, *path;
	size_t n;

	if (colon == NULL || colon == text) {
		(void)err_set(e, ERR_INVALID, "--volume: '%.80s' is not NAME:/path[:ro]", text);
		return NULL;
	}
	n = strlen(colon + 1);
	mode = strrchr(colon + 1, ':');
	if (mode != NULL && strcmp(mode, ":ro") != 0 && strcmp(mode, ":rw") != 0) {
		(void)err_set(e, ERR_INVALID, "--volume: '%.80s': the mode '%.20s' is not ro or rw",
			      text, mode + 1);
		return NULL;
	}
	if (mode != NULL)
		n = (size_t)(mode - colon) - 1;
	else
		mode = ":rw";
	name = text_of("--volume", text, (size_t)(colon - text), e);
	path = name == NULL ? NULL : text_of("--volume", colon + 1, n, e);
	if (path == NULL) {
		json_decref(name);
		return NULL;
	}
	return json_pack("{s:o, s:o, s:s}", "name", name, "path", path, "mode", mode + 1);
}

int compose_volumes(json_t *body, const char *member, const struct option_list *list, struct err *e)
{
	json_t *volumes = list->n == 0 ? NULL : json_array();

	if (list->n == 0)
		return 0;
	if (compose_put(body, member, volumes, e) < 0)
		return -1;
	for (size_t i = 0; i < list->n; i++) {
		json_t *v;

		*e = (struct err){ 0 };
		v = volume_of(list->items[i], e);
		if (v == NULL || json_array_append_new(volumes, v) < 0)
			return e->code != ERR_NONE ? -1 : err_set(e, ERR_SYSTEM, "out of memory");
	}
	return 0;
}

/* A word with a slash or a dot is a file. Names of presets have neither. */
static bool is_file(const char *word)
{
	return strpbrk(word, "/.") != NULL;
}

/* Without a line the file could not be read, and the text has its name. */
void compose_json_fault(struct err *e, const char *option, const char *path,
			const json_error_t *why)
{
	if (why->line < 1)
		(void)err_set(e, ERR_INVALID, "%s: %.200s", option, why->text);
	else
		(void)err_set(e, ERR_INVALID, "%s: %.100s: line %d: %.100s", option, path,
			      why->line, why->text);
}

/* JSON with a member given twice is refused: which of both counts would be a guess. "-" is
 * standard input. The caller owns the result. */
static json_t *read_object(const char *option, const char *path, struct err *e)
{
	bool is_stdin = strcmp(path, "-") == 0;
	json_error_t why;
	json_t *object = is_stdin ? json_loadf(stdin, JSON_REJECT_DUPLICATES, &why)
				  : json_load_file(path, JSON_REJECT_DUPLICATES, &why);

	if (object == NULL)
		compose_json_fault(e, option, path, &why);
	else if (!json_is_object(object))
		(void)err_set(e, ERR_INVALID, "%s: %.100s: not a JSON object", option, path);
	if (json_is_object(object))
		return object;
	json_decref(object);
	return NULL;
}

/* The list of that name in a policy, made if missing. */
static json_t *list_in(json_t *policy, const char *name)
{
	json_t *list = json_object_get(policy, name);

	if (list == NULL && json_object_set_new(policy, name, json_array()) == 0)
		list = json_object_get(policy, name);
	return json_is_array(list) ? list : NULL;
}

/* Add one text to a list inside a policy. The policy may come from a file, so the member may
 * have any type. */
static int compose_append(json_t *policy, const char *name, const char *option, const char *text,
			  size_t n, struct err *e)
{
	json_t *list = list_in(policy, name), *j = text_of(option, text, n, e);

	if (j == NULL)
		return -1;
	if (list == NULL) {
		json_decref(j);
		return err_set(e, ERR_INVALID, "%s: %s of the policy is not a list", option, name);
	}
	return json_array_append_new(list, j) < 0 ? err_set(e, ERR_SYSTEM, "out of memory") : 0;
}

/* One, or several with commas between them. */
static int append_presets(json_t *policy, const char *words, struct err *e)
{
	for (;;) {
		size_t n = strcspn(words, ",");

		if (compose_append(policy, "extends", "--policy", words, n, e) < 0)
			return -1;
		if (words[n] == '\0')
			return 0;
		words += n + 1;
	}
}

/* A file is the base of the policy, presets extend it, and hosts are appended to its rules.
 * Without a file the base is an empty document of version 1. The server merges and checks. */
int compose_network(json_t *body, const char *member, const struct option_list *policy,
		    const struct option_list *allow, struct err *e)
{
	json_t *p = NULL;

	if (policy->n == 0 && allow->n == 0)
		return 0;
	for (size_t i = 0; i < policy->n; i++) {
		if (!is_file(policy->items[i]))
			continue;
		if (p != NULL) {
			json_decref(p);
			return err_set(e, ERR_INVALID, "--policy: only one of them can be a file");
		}
		p = read_object("--policy", policy->items[i], e);
		if (p == NULL)
			return -1;
	}
	if (compose_put(body, member, p == NULL ? json_pack("{s:i}", "version", 1) : p, e) < 0)
		return -1;
	p = json_object_get(body, member);
	for (size_t i = 0; i < policy->n; i++)
		if (!is_file(policy->items[i]) && append_presets(p, policy->items[i], e) < 0)
			return -1;
	for (size_t i = 0; i < allow->n; i++)
		if (compose_append(p, "rules", "--allow", allow->items[i], strlen(allow->items[i]),
				   e) < 0)
			return -1;
	return 0;
}

/* Only the name was given: a placeholder, in a variable of that name. */
static json_t *compose_brokered(const char *name)
{
	char variable[128];
	size_t n = 0;

	for (; n < sizeof(variable) - 1 && name[n] != '\0'; n++)
		variable[n] = isalnum((unsigned char)name[n]) ? (char)toupper(name[n]) : '_';
	variable[n] = '\0';
	return json_pack("{s:s, s:s, s:s}", "name", name, "as", "broker", "env", variable);
}

/* NAME=WAY:WHERE. The table has the ways and the member in which the server expects the place.
 * Without a place the server chooses one. */
static json_t *one_secret(const char *text, struct err *e)
{
	static const struct {
		const char *way, *member;
	} ways[] = {
		{ "broker", "env" }, { "env", "env" }, { "file", "path" }, { "socket", "program" }
	};
	size_t name = strcspn(text, "="), way;
	const char *rest = text + name + 1;

	if (text[name] == '\0')
		return compose_brokered(text);
	way = strcspn(rest, ":");
	for (size_t i = 0; i < COUNT(ways); i++)
		if (strlen(ways[i].way) == way && strncmp(ways[i].way, rest, way) == 0) {
			const char *where = rest[way] == '\0' ? NULL : rest + way + 1;

			return json_pack("{s:s%, s:s, s:s*}", "name", text, name, "as", ways[i].way,
					 ways[i].member, where);
		}
	(void)err_set(e, ERR_INVALID,
		      "--secret %.60s: is not NAME, or NAME=broker:VAR, env:VAR, file:NAME or "
		      "socket:PROGRAM",
		      text);
	return NULL;
}

/* Port 0 has no meaning for a session. */
int compose_port(const char *text, json_int_t *ret, struct err *e)
{
	uint64_t port;

	if (units_count(text, 1, UINT16_MAX, &port, e) < 0)
		return err_set(e, ERR_INVALID, "'%.20s' is not a port from 1 to %d", text,
			       UINT16_MAX);
	*ret = (json_int_t)port;
	return 0;
}

/* The member is set even for an empty list, so the caller asks only if there is a port. */
int compose_ports(json_t *body, const char *member, const struct option_list *list, struct err *e)
{
	json_t *ports = json_array();
	json_int_t port;

	if (compose_put(body, member, ports, e) < 0)
		return -1;
	for (size_t i = 0; i < list->n; i++) {
		if (compose_port(list->items[i], &port, e) < 0)
			return err_wrap(e, "--port");
		if (json_array_append_new(ports, json_integer(port)) < 0)
			return err_set(e, ERR_SYSTEM, "out of memory");
	}
	return 0;
}

/* KIND=ACTION. The words go to the server as they are, because it knows the kinds. */
int compose_alarms(json_t *body, const char *member, const struct option_list *list, struct err *e)
{
	json_t *rules = json_object();
	char kind[64];

	if (list->n == 0) {
		json_decref(rules);
		return 0;
	}
	if (compose_put(body, member, rules, e) < 0)
		return -1;
	for (size_t i = 0; i < list->n; i++) {
		const char *text = list->items[i], *equal = strchr(text, '=');

		if (equal == NULL || (size_t)(equal - text) >= sizeof(kind))
			return err_set(e, ERR_INVALID,
				       "--alarm %.80s: must be KIND=ACTION, such as "
				       "escape_attempt=end",
				       text);
		memcpy(kind, text, (size_t)(equal - text));
		kind[equal - text] = '\0';
		if (json_object_set_new(rules, kind, json_pack("{ss}", "action", equal + 1)) < 0)
			return err_set(e, ERR_SYSTEM, "out of memory");
	}
	return 0;
}

/* A text that is not UTF-8 makes json_pack() fail without an error of its own. */
int compose_secrets(json_t *body, const char *member, const struct option_list *list, struct err *e)
{
	json_t *all;

	if (list->n == 0)
		return 0;
	all = json_array();
	if (all == NULL || json_object_set_new(body, member, all) < 0)
		return err_set(e, ERR_SYSTEM, "out of memory");
	for (size_t i = 0; i < list->n; i++) {
		*e = (struct err){ 0 };
		if (json_array_append_new(all, one_secret(list->items[i], e)) < 0)
			return e->code != ERR_NONE ? -1
						   : err_set(e, ERR_INVALID, "--secret: not UTF-8");
	}
	return 0;
}

/* ---- the table of options
 *
 * Most options of a verb become one member of a request without code: the row of the option has
 * the member's name, perhaps with a dot ("limits.memory") or a value ("root=read-only").
 * compose_options() walks over the table. Options without a member are handled by their verb. */

/* The object for members like "limits.pids": "limits", made if it is not there. *member is moved to
 * the name inside it. */
static json_t *compose_parent(json_t *body, const char **member)
{
	const char *dot = strchr(*member, '.');
	char name[32];
	json_t *parent;

	if (dot == NULL)
		return body;
	(void)snprintf(name, sizeof(name), "%.*s", (int)(dot - *member), *member);
	*member = dot + 1;
	parent = json_object_get(body, name);
	if (parent == NULL && json_object_set_new(body, name, json_object()) == 0)
		parent = json_object_get(body, name);
	return parent;
}

/* Numbers of 0 count as absent. So an option of this kind cannot send 0. */
static bool is_given(const struct option *o, const void *field)
{
	switch (o->kind) {
	case OPTION_FLAG:
		return *(const bool *)field;
	case OPTION_TEXT:
	case OPTION_SPAN:
	case OPTION_JSON:
	case OPTION_WORD:
		return *(const char *const *)field != NULL;
	case OPTION_LIST:
	case OPTION_PAIRS:
		return ((const struct option_list *)field)->n > 0;
	case OPTION_COUNT:
	case OPTION_BYTES:
	case OPTION_TIME:
	case OPTION_MILLIS:
		break;
	}
	return *(const uint64_t *)field != 0;
}

/* A flag is true, or the text behind '=' in its member: "root=read-only" sets the member root. */
static int compose_flag(json_t *body, const char *member, struct err *e)
{
	const char *equal = strchr(member, '=');
	char name[32];

	if (equal == NULL)
		return compose_put(body, member, json_true(), e);
	(void)snprintf(name, sizeof(name), "%.*s", (int)(equal - member), member);
	return compose_put(body, name, json_string(equal + 1), e);
}

/* The kind decides the form in JSON. Numbers in thousandths become fractions: 1500 is 1.5. */
static int compose_option(json_t *body, const char *member, const struct option *o,
			  const void *field, struct err *e)
{
	const struct option_list *list = field;
	json_t *object;
	char name[64];

	(void)snprintf(name, sizeof(name), "--%s", o->name);
	switch (o->kind) {
	case OPTION_FLAG:
		return compose_flag(body, member, e);
	case OPTION_TEXT:
	case OPTION_WORD:
		return compose_text(body, member, name, *(const char *const *)field, e);
	case OPTION_JSON:
		object = read_object(name, *(const char *const *)field, e);
		return object == NULL ? -1 : compose_put(body, member, object, e);
	case OPTION_SPAN:
		return compose_time_text(body, member, name, *(const char *const *)field, e);
	case OPTION_LIST:
		return compose_list(body, member, name, list->items, list->n, e);
	case OPTION_PAIRS:
		return compose_pairs(body, member, name, list, e);
	case OPTION_COUNT:
	case OPTION_BYTES:
		return compose_number(body, member, *(const uint64_t *)field, e);
	case OPTION_TIME:
		return compose_time(body, member, *(const uint64_t *)field, e);
	case OPTION_MILLIS:
		break;
	}
	return compose_put(body, member, json_real((double)*(const uint64_t *)field / 1000), e);
}

/* The order of the table is the order of the members, which has no meaning for the server. */
int compose_options(json_t *body, const struct option *options, size_t n, const void *fields,
		    struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		const struct option *o = &options[i];
		const char *member = o->member;
		const void *field = (const char *)fields + o->offset;
		json_t *parent;

		if (member == NULL || !is_given(o, field))
			continue;
		parent = compose_parent(body, &member);
		if (parent == NULL)
			return err_set(e, ERR_SYSTEM, "out of memory");
		if (compose_option(parent, member, o, field, e) < 0)
			return -1;
	}
	return 0;
}
